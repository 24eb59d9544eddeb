//! Memory of what runs on a machine: the same run gets the same addresses, but for the page where
//! they begin. Which data share a cache line would otherwise depend on what the process has
//! allocated before.
//!
//! A program that wants that makes [`Arena`] its global allocator. Outside a machine it is the system's.

use crate::vm::is_inside;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// All arenas of a process together. Pages that are not touched take no memory; what does not fit
/// any more comes from the system.
const REGION: Layout = match Layout::from_size_align(4 << 30, PAGE) {
    Ok(layout) => layout,
    Err(_) => panic!("it is a layout"),
};
const PAGE: usize = 4096;
/// Where the region is, if that is free: what depends on addresses is the same in each process then.
const REGION_HINT: usize = 0x2c00_0000_0000;
/// What one machine takes of the region at a time.
const CHUNK: usize = 4 << 20;
/// Blocks are powers of two, from 16 bytes to a chunk, aligned to their size up to a page.
const CLASSES: usize = CHUNK.trailing_zeros() as usize + 1;

/// So much of a freed block is overwritten.
const SPOILT: usize = 512;

/// See the module.
pub struct Arena;

static REGION_AT: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static REGION_USED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The rest of this thread's chunk.
    static NEXT: Cell<usize> = const { Cell::new(0) };
    static END: Cell<usize> = const { Cell::new(0) };
    /// Bytes of this thread's blocks that are in use.
    static IN_USE: Cell<usize> = const { Cell::new(0) };
    /// Freed blocks of each size; each holds the address of the next.
    static FREE: [Cell<*mut u8>; CLASSES] = const { [const { Cell::new(null_mut()) }; CLASSES] };
}

/// A machine is switched on: its memory begins with a page, and does not depend on earlier machines.
pub(crate) fn begin() {
    NEXT.set(END.get());
    IN_USE.set(0);
    FREE.with(|lists| lists.iter().for_each(|list| list.set(null_mut())));
}

/// Bytes that the machine's program has allocated and not freed.
pub(crate) fn in_use() -> usize {
    IN_USE.get()
}

fn class(layout: Layout) -> usize {
    let size = layout.size().max(layout.align()).max(16);
    size.next_power_of_two().trailing_zeros() as usize
}

fn region() -> *mut u8 {
    let known = REGION_AT.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    // SAFETY: new pages, at an address that is no more than a hint.
    let made = unsafe {
        libc::mmap(
            REGION_HINT as *mut libc::c_void,
            REGION.size(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if made == libc::MAP_FAILED {
        return null_mut();
    }
    let made = made.cast::<u8>();
    match REGION_AT.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => made,
        Err(other) => {
            // SAFETY: it was made a moment ago, and nothing uses it.
            unsafe { libc::munmap(made.cast(), REGION.size()) };
            other
        }
    }
}

fn is_ours(block: *mut u8) -> bool {
    let region = REGION_AT.load(Ordering::Acquire);
    !region.is_null() && (block as usize).wrapping_sub(region as usize) < REGION.size()
}

/// A block of the class, if there is still memory; null otherwise.
fn take(class: usize) -> *mut u8 {
    let freed = FREE.with(|lists| lists[class].get());
    if !freed.is_null() {
        // SAFETY: a freed block holds the address of the next one.
        let next = unsafe { freed.cast::<*mut u8>().read() };
        FREE.with(|lists| lists[class].set(next));
        return freed;
    }
    let size = 1 << class;
    let at = NEXT.get().next_multiple_of(size.min(PAGE));
    if at != 0 && at + size <= END.get() {
        NEXT.set(at + size);
        return at as *mut u8;
    }
    let region = region();
    let offset = REGION_USED.fetch_add(CHUNK, Ordering::Relaxed);
    if region.is_null() || offset + CHUNK > REGION.size() {
        return null_mut();
    }
    // SAFETY: the chunk lies in the region.
    let chunk = unsafe { region.add(offset) };
    NEXT.set(chunk as usize + size);
    END.set(chunk as usize + CHUNK);
    chunk
}

// SAFETY: blocks of a class are as large and as aligned (up to a page, and larger alignments go to
// the system) as their layouts ask for, and none is given twice: a chunk belongs to one thread, and
// a block to its user until it is freed.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let class = class(layout);
        if is_inside() && class < CLASSES && layout.align() <= PAGE {
            let block = take(class);
            if !block.is_null() {
                IN_USE.set(IN_USE.get() + (1 << class));
                return block;
            }
        }
        // SAFETY: by the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        crate::weak::freed(block as usize, layout.size());
        if !is_ours(block) {
            // SAFETY: what is not ours came from the system.
            return unsafe { System.dealloc(block, layout) };
        }
        // Outside a machine nothing is reused: the next one begins anew.
        if is_inside() {
            IN_USE.set(IN_USE.get().saturating_sub(1 << class(layout)));
            FREE.with(|lists| {
                let list = &lists[class(layout)];
                // What still uses it finds no address and no sensible number.
                let spoilt = layout.size().min(SPOILT);
                // SAFETY: the block is free, and has so many bytes.
                unsafe { block.write_bytes(0xa5, spoilt) };
                // SAFETY: the block is free, of 16 bytes at least, and aligned to that.
                unsafe { block.cast::<*mut u8>().write(list.get()) };
                list.set(block);
            });
        }
    }
}
