//! An allocator that counts what each thread and what all that run items allocate, without
//! allocating itself. A program has one allocator: test programs name this file themselves.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static OF_ITEMS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    if !is_service() {
        OF_ITEMS.fetch_add(1, Ordering::Relaxed);
    }
    // Not there any more while a thread ends: no test asks then.
    let _ = OF_THREAD.try_with(|count| count.set(count.get() + 1));
}

/// Whether the calling thread is the one that ticks for an engine.
fn is_service() -> bool {
    let mut name = [0; 16];
    // SAFETY: a buffer of the 16 bytes that the system writes at most.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name.starts_with(b"cmwq-service\0")
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: by this function's own contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: by this function's own contract.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: by this function's own contract.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of the calling thread.
pub(crate) fn here() -> u64 {
    OF_THREAD.get()
}

/// Allocations of all threads but those that tick for an engine: theirs come with time, not with items.
pub(crate) fn of_items() -> u64 {
    OF_ITEMS.load(Ordering::Relaxed)
}
