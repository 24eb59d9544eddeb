//! Numbers of batches. An item notes the batch of its last run, so that its next issuer can tell
//! whether that run may still go on.
#![forbid(unsafe_code)]

use crate::sys::atomic::{AtomicU32, Ordering};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// A number for the batch that is the `serial`-th of its pool, of the worker `id`; never 0, and not
/// reused soon.
#[inline]
pub(crate) fn ticket(id: u32, serial: u32) -> usize {
    ((u64::from(serial) << 32) | u64::from(id) << 1 | 1) as usize
}

/// Whether the batch of this ticket was opened before the one with this number. `false` if that is unknown.
#[inline]
fn comes_before(ticket: usize, serial: u32) -> bool {
    // On 32 bits there is no room for the number.
    let its_own = (ticket as u64 >> 32) as u32;
    usize::BITS == 64 && (its_own.wrapping_sub(serial) as i32) < 0
}

/// The oldest batch of a pool that may be open: all earlier ones are closed.
#[derive(Clone)]
pub(crate) struct OldestBatch(Arc<CachePadded<AtomicU32>>);

impl OldestBatch {
    pub(crate) fn new() -> Self {
        OldestBatch(Arc::new(CachePadded::new(AtomicU32::new(0))))
    }

    /// Written under the pool's lock.
    #[inline]
    pub(crate) fn set(&self, serial: u32) {
        // Release: what the items of the closed batch did, and that the one which still runs is in
        // the busy table, happened before what an issuer does that finds it closed.
        self.0.store(serial, Ordering::Release);
    }

    /// Whether the batch that an item of this pool has noted is closed, or is none. The caller owns
    /// the item.
    #[inline]
    pub(crate) fn is_after(&self, noted: usize) -> bool {
        noted == 0 || self.read().is_after(noted)
    }

    /// Reads the number once, for use with many items.
    #[inline]
    pub(crate) fn read(&self) -> ReadOldest {
        // Acquire: see `set`.
        ReadOldest(self.0.load(Ordering::Acquire))
    }
}

/// The oldest batch that may have been open when this was read: later ones may be closed since.
#[derive(Clone, Copy)]
pub(crate) struct ReadOldest(u32);

impl ReadOldest {
    /// As [`OldestBatch::is_after`].
    #[inline]
    pub(crate) fn is_after(self, noted: usize) -> bool {
        noted == 0 || comes_before(noted, self.0)
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn batches_come_before_later_ones_though_their_numbers_wrap_around() {
        let oldest = OldestBatch::new();
        assert!(oldest.is_after(0), "it is none");
        assert!(!oldest.is_after(ticket(3, 0)), "it is the oldest");
        oldest.set(7);
        assert!(oldest.is_after(ticket(3, 6)));
        assert!(!oldest.is_after(ticket(3, 7)));
        assert!(!oldest.is_after(ticket(3, 8)));
        oldest.set(2);
        assert!(oldest.is_after(ticket(u32::MAX >> 1, u32::MAX)));
        assert_ne!(ticket(0, 0), 0, "it is a batch");
    }

    #[test]
    fn what_was_read_of_it_before_takes_no_open_batch_for_a_closed_one() {
        let oldest = OldestBatch::new();
        oldest.set(7);
        let read = oldest.read();
        oldest.set(9);
        assert!(read.is_after(0) && read.is_after(ticket(3, 6)));
        assert!(!read.is_after(ticket(3, 8)), "it was open then");
        assert!(!read.is_after(ticket(3, 9)));
        assert!(oldest.read().is_after(ticket(3, 8)));
    }
}
