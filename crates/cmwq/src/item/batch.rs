//! Items that one worker has claimed at once, to run them one after the other without the pool's
//! lock. See `pool/run/batch.rs` for when and why. Items of a chunk stay where they are; the batch
//! only counts them.
//!
//! One word counts the items that the worker has begun. The lock holder may close the batch; from
//! then on the worker begins no more of them. Every change of the word is one read-modify-write, so
//! either the worker's next step or the closing comes first, and the later one sees the earlier.
//! Each item is therefore either begun by the worker or given back by the closer, never both.

use super::raw::{Pending, RawWork, WorkFn};
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::cell::Guarded;
use crate::sys::prefetch;
use std::ptr::NonNull;

/// Items of a batch at most: the lock, taken once for this many, costs less than a nanosecond for each.
pub(crate) const MOST: usize = if cfg!(cmwq_loom) { 4 } else { 128 };

const CLOSED: u32 = 1 << 31;

pub(crate) struct Batch {
    begun: AtomicU32,
    /// Written under the pool's lock by the worker while the batch is closed; read by the worker,
    /// and under the lock by the closer.
    items: [Guarded<Option<BatchEntry>>; MOST],
}

/// An item and its function. The function is copied because the item's memory may be freed once the
/// item has begun.
#[derive(Clone, Copy)]
struct BatchEntry {
    item: NonNull<RawWork>,
    func: Option<WorkFn>,
}

// SAFETY: the entries pass from thread to thread by the rule above; what they point to is owned as
// `Pending`s, which are Send.
unsafe impl Sync for Batch {}
// SAFETY: as above.
unsafe impl Send for Batch {}

impl Batch {
    /// A closed batch.
    pub(crate) fn new() -> Self {
        Batch {
            begun: AtomicU32::new(CLOSED),
            items: std::array::from_fn(|_| Guarded::new(None)),
        }
    }

    /// Called by its worker under the lock, while the batch is closed: sets the item at `index`,
    /// from 0 on, and its function.
    #[inline]
    pub(crate) fn set(&self, index: usize, item: Pending, func: Option<WorkFn>) {
        let item = item.into_raw();
        // SAFETY: closed, so no other thread reads the entries.
        unsafe { self.items[index].set(Some(BatchEntry { item, func })) };
    }

    /// Called by its worker under the lock: opens the batch; the first item counts as begun.
    #[inline]
    pub(crate) fn open(&self) {
        // Relaxed: the closer takes the lock first.
        self.begun.store(1, Ordering::Relaxed);
    }

    /// Called by its worker, while items are left: begins the next one, at `index`. `false`: the
    /// batch was closed.
    #[inline]
    pub(crate) fn go_on(&self, index: usize) -> bool {
        // Release: the closer sees what the items before this one did. Nothing need be acquired: a
        // worker that finds it closed takes the lock.
        let begun = self.begun.fetch_add(1, Ordering::Release);
        debug_assert!(begun & CLOSED != 0 || begun as usize == index);
        begun & CLOSED == 0
    }

    /// Called by its worker, while the batch is open: prefetches the line of the item at `index`.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        prefetch::to_write(self.entry(index).item.addr().get());
    }

    /// Called under the lock: closes the batch. Returns how many items have begun; the caller takes
    /// the others.
    #[inline]
    pub(crate) fn close(&self) -> usize {
        // Acquire: the closer sees what the ended items did.
        let begun = self.begun.fetch_or(CLOSED, Ordering::Acquire);
        debug_assert_eq!(begun & CLOSED, 0, "it is closed once");
        begun as usize
    }

    /// The item at `index`, once: called by its worker after it has begun the item, or under the
    /// lock by the closer of the batch if it was not begun.
    #[inline]
    pub(crate) fn take(&self, index: usize) -> Pending {
        // SAFETY: `set` put it there, and the count gave this index to this caller alone.
        unsafe { Pending::from_raw(self.entry(index).item) }
    }

    /// Called under the lock: the address and the function of the item at `index`.
    pub(crate) fn name(&self, index: usize) -> (usize, Option<WorkFn>) {
        let entry = self.entry(index);
        (entry.item.addr().get(), entry.func)
    }

    #[inline]
    fn entry(&self, index: usize) -> BatchEntry {
        // SAFETY: entries are written while the batch is closed and its worker holds the lock;
        // every reader comes after that, in the worker's own order or the lock's.
        unsafe { self.items[index].get() }.expect("set before the batch was opened")
    }
}
