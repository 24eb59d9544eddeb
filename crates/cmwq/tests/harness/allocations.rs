//! An allocator that counts what each thread and what the process allocates, without allocating itself. A program has one allocator:
//! test programs name this file themselves.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static OF_PROCESS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    OF_PROCESS.fetch_add(1, Ordering::Relaxed);
    // Not there any more while a thread ends: no test asks then.
    let _ = OF_THREAD.try_with(|count| count.set(count.get() + 1));
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

/// Allocations of all threads.
pub(crate) fn everywhere() -> u64 {
    OF_PROCESS.load(Ordering::Relaxed)
}
