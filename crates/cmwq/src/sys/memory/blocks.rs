//! Memory of small objects that one thread allocates and another one drops, over and over: spawned items.
//!
//! With a general allocator these would cost more than everything else that a spawn does: it
//! returns a block to where it came from, by writing a line that both threads write, and the next
//! allocation reads the block itself to find the next free one, a line that is still in the other
//! CPU's cache.
//!
//! Here a thread keeps the blocks that it frees in a *magazine*, an array of addresses, and
//! allocates from it. Full magazines go to a depot of the process, from which a thread with an
//! empty one takes them: one lock for [`ROUNDS`] blocks. A thread that finds the lock taken, or the
//! depot empty or full, uses the system's allocator instead of waiting. Since the addresses are
//! known beforehand, the lines of a block that will be needed soon are prefetched.
//!
//! All blocks come from the system's allocator one by one and go back there one by one, so it does
//! not matter which ones a magazine keeps.

use super::free_list::FreeList;
use super::prefetch;
use crate::sys::local::thread_local;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::{Mutex, TryLockError};

/// A block: a size of the fast lists of glibc's allocator, from which blocks that are not reused come.
const BLOCK: Layout = match Layout::from_size_align(120, 16) {
    Ok(layout) => layout,
    Err(_) => panic!("it is a layout"),
};
/// Blocks in a magazine.
const ROUNDS: usize = 64;
/// Full magazines that the process keeps at most, 30 MiB: a flood has hundreds of thousands of
/// items in flight.
const MOST: usize = 4096;
/// Full magazines that [`trim`] always keeps.
const KEPT: usize = 64;
/// Magazines whose blocks are freed at a time, in a millisecond or so.
const FREED_AT_ONCE: usize = 256;
/// How many allocations ahead the lines of a block are prefetched.
const AHEAD: usize = 8;

/// A free block.
struct Free(NonNull<u8>);

// SAFETY: it is the only reference to memory that belongs to no thread.
unsafe impl Send for Free {}

type Magazine = Vec<Free>;

/// Full magazines that no thread owns.
type Depot = FreeList<Magazine>;

static DEPOT: Mutex<Depot> = Mutex::new(Depot::new());

/// Frees some of the magazines that no thread has used since the last call.
pub(crate) fn trim() {
    depot(|depot| depot.unused(KEPT, FREED_AT_ONCE))
        .into_iter()
        .flatten()
        .for_each(free_all);
}

/// Returns all blocks of a magazine to the system.
fn free_all(magazine: Magazine) {
    for block in magazine {
        // SAFETY: the block is free, and all blocks came from the system with this layout.
        unsafe { dealloc(block.0.as_ptr(), BLOCK) };
    }
}

/// The magazines of one thread: it allocates from `loaded` and frees into it. With `other`, a
/// thread that does both in turn does not go to the depot each time.
struct OwnBlocks {
    loaded: Magazine,
    other: Magazine,
}

thread_local! {
    static OWN: UnsafeCell<OwnBlocks> = const {
        UnsafeCell::new(OwnBlocks {
            loaded: Vec::new(),
            other: Vec::new(),
        })
    };
}

/// Memory for a value of this layout.
#[inline]
pub(crate) fn take(layout: Layout) -> NonNull<u8> {
    if !fits(layout) {
        return from_system(layout);
    }
    own(OwnBlocks::take)
        .flatten()
        .unwrap_or_else(|| from_system(BLOCK))
}

/// Frees what [`take`] returned for this layout.
///
/// # Safety
/// No thread uses the memory any more.
#[inline]
pub(crate) unsafe fn give(memory: NonNull<u8>, layout: Layout) {
    let kept = fits(layout) && own(|own| own.give(Free(memory))).unwrap_or(false);
    if !kept {
        let layout = if fits(layout) { BLOCK } else { layout };
        // SAFETY: by the contract; `take` got it from the system with this layout, then or before.
        unsafe { dealloc(memory.as_ptr(), layout) };
    }
}

#[inline]
fn fits(layout: Layout) -> bool {
    layout.size() <= BLOCK.size() && layout.align() <= BLOCK.align() && !cfg!(cmwq_loom)
}

/// Calls `f` with the thread's magazines; `None` while the thread ends.
#[inline]
fn own<R>(f: impl FnOnce(&mut OwnBlocks) -> R) -> Option<R> {
    // SAFETY: no other thread sees them, and `f` is one of the functions below, which do not call `own`.
    OWN.try_with(|own| f(unsafe { &mut *own.get() })).ok()
}

#[cold]
#[inline(never)]
fn from_system(layout: Layout) -> NonNull<u8> {
    // SAFETY: no layout here has size 0: neither a task nor a block is empty.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

impl OwnBlocks {
    #[inline]
    fn take(&mut self) -> Option<NonNull<u8>> {
        if self.loaded.is_empty() {
            self.load();
        }
        let block = self.loaded.pop()?;
        if let Some(soon) = self.loaded.len().checked_sub(AHEAD) {
            let soon = self.loaded[soon].0.addr().get();
            (0..BLOCK.size())
                .step_by(prefetch::LINE)
                .for_each(|at| prefetch::to_write(soon + at));
        }
        Some(block.0)
    }

    /// Returns `false` if both magazines are full.
    #[inline]
    fn give(&mut self, block: Free) -> bool {
        if self.loaded.len() == self.loaded.capacity() {
            self.unload();
        }
        let room = self.loaded.len() < self.loaded.capacity();
        if room {
            self.loaded.push(block);
        }
        room
    }

    /// Loads a magazine that is not empty, if there is one.
    #[cold]
    fn load(&mut self) {
        if self.other.is_empty() {
            self.other = depot(Depot::take).flatten().unwrap_or_default();
            // The block that was freed first is taken first: then items that are queued one after
            // the other lie in memory like those that ended one after the other, and a thread that
            // walks along them finds each in its cache.
            self.other.reverse();
        }
        std::mem::swap(&mut self.loaded, &mut self.other);
    }

    /// Loads a magazine with room, if there is one.
    #[cold]
    fn unload(&mut self) {
        if self.other.len() == ROUNDS {
            let full = &mut self.other;
            depot(|depot| {
                if depot.len() < MOST {
                    depot.put(std::mem::take(full));
                }
            });
        }
        if self.other.capacity() == 0 {
            self.other = Vec::with_capacity(ROUNDS);
        }
        std::mem::swap(&mut self.loaded, &mut self.other);
    }
}

/// Calls `f` with the depot, if no other thread holds it. In a fork's child it may be locked for
/// ever: then blocks come from the system.
fn depot<R>(f: impl FnOnce(&mut Depot) -> R) -> Option<R> {
    let mut depot = match DEPOT.try_lock() {
        Ok(depot) => depot,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    // The virtual machine does not know the standard library's locks.
    #[cfg(cmwq_sim)]
    cmwq_vm::weak::meet(std::ptr::from_ref(&DEPOT).addr());
    Some(f(&mut depot))
}

impl Drop for OwnBlocks {
    fn drop(&mut self) {
        free_all(std::mem::take(&mut self.loaded));
        free_all(std::mem::take(&mut self.other));
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::thread;

    fn small() -> Layout {
        Layout::from_size_align(100, 8).unwrap()
    }

    /// Takes `number` blocks, all different, and overwrites them.
    fn take_some(number: usize) -> Vec<usize> {
        let blocks: HashSet<usize> = (0..number)
            .map(|_| {
                let block = take(small());
                // SAFETY: it is ours, and has this size.
                unsafe { block.write_bytes(0xa5, small().size()) };
                block.addr().get()
            })
            .collect();
        assert_eq!(blocks.len(), number, "a block was given out twice");
        blocks.into_iter().collect()
    }

    fn give_all(blocks: Vec<usize>) {
        for block in blocks {
            let block = std::ptr::with_exposed_provenance_mut(block);
            // SAFETY: from `take_some`, and not used any more.
            unsafe { give(NonNull::new(block).unwrap(), small()) };
        }
    }

    #[test]
    fn what_was_given_back_last_is_taken_first() {
        thread::spawn(|| {
            let first = take_some(1);
            let again = first.clone();
            give_all(first);
            let block = take_some(1);
            assert_eq!(block, again);
            give_all(block);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_only_takes_gets_what_another_one_has_given_back() {
        // Other tests of this process may use the depot meanwhile, so only this is sure: that some
        // blocks come back.
        let (to, from) = std::sync::mpsc::sync_channel::<Vec<usize>>(4);
        let giver = thread::spawn(move || from.into_iter().for_each(give_all));
        let mut before = HashSet::new();
        let mut reused = 0;
        for _ in 0..200 {
            let blocks = take_some(2 * ROUNDS);
            reused += blocks
                .iter()
                .filter(|&&block| !before.insert(block))
                .count();
            to.send(blocks).unwrap();
        }
        drop(to);
        giver.join().unwrap();
        assert!(reused > 0);
    }

    #[test]
    fn what_is_too_large_or_aligned_otherwise_is_the_systems() {
        for layout in [(121, 8), (64, 128), (4096, 4096)] {
            let layout = Layout::from_size_align(layout.0, layout.1).unwrap();
            let memory = take(layout);
            assert_eq!(memory.addr().get() % layout.align(), 0);
            // SAFETY: it is ours, and has this size.
            unsafe {
                memory.write_bytes(0xa5, layout.size());
                give(memory, layout);
            }
        }
    }
}
