//! How many items of one workqueue may be active on one NUMA node, without a shared write per item.
//!
//! The node's limit is a store of credits. A pool workqueue takes some at a time and keeps them; an item that becomes
//! active uses one that is there, an item that ends leaves it for the next. Only when a pool workqueue has none left does it
//! go to the store; only when the store is empty too does an item wait, and then whoever holds unused credits gives them
//! back. So a queue below its limit writes nothing that pods share, item by item.
//!
//! Why no credit is missed: a pool workqueue that has to wait is counted in `waiting` *before* the unused credits of all the
//! others are collected, each under its pool's lock. Another one's completion either comes before that collection
//! (which finds its unused credit) or takes the lock after it, and then sees the count and gives back itself.
#![forbid(unsafe_code)]

use crate::sys::atomic::{AtomicI32, AtomicUsize, Ordering};
use crossbeam_utils::CachePadded;

/// The credits of one workqueue on one node.
pub(crate) struct NodeLimit {
    /// Credits that nobody holds; negative while a lowered limit is overdrawn.
    free: CachePadded<AtomicI32>,
    /// Pool workqueues of this node with items that wait for a credit.
    waiting: CachePadded<AtomicUsize>,
    /// How many credits one visit may take.
    portion: AtomicI32,
}

/// The largest portion: enough to make visits rare.
const MAX_PORTION: i32 = 32;

impl NodeLimit {
    /// `holders`: how many pool workqueues share the limit, so that they cannot hoard more than a quarter of it.
    pub(crate) fn new(limit: i32, holders: usize) -> Self {
        let node = NodeLimit {
            free: CachePadded::new(AtomicI32::new(limit)),
            waiting: CachePadded::new(AtomicUsize::new(0)),
            portion: AtomicI32::new(1),
        };
        node.set_portion(limit, holders);
        node
    }

    pub(crate) fn set_portion(&self, limit: i32, holders: usize) {
        let share = limit / (4 * holders.max(1) as i32);
        self.portion
            .store(share.clamp(1, MAX_PORTION), Ordering::Relaxed);
    }

    /// Takes up to a portion of credits, at least one; 0 when there is none. While somebody waits, only one.
    pub(crate) fn take_portion(&self) -> i32 {
        let portion = if self.someone_waits() {
            1
        } else {
            self.portion.load(Ordering::Relaxed)
        };
        self.take(portion)
    }

    /// Takes up to `most` credits.
    pub(crate) fn take(&self, most: i32) -> i32 {
        let mut free = self.free.load(Ordering::Relaxed);
        while free > 0 {
            let taken = free.min(most);
            // AcqRel: a credit carries with it what its last holder did.
            match self.free.compare_exchange_weak(
                free,
                free - taken,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return taken,
                Err(now) => free = now,
            }
        }
        0
    }

    /// Gives credits back; a changed limit gives its difference.
    pub(crate) fn give(&self, credits: i32) {
        self.free.fetch_add(credits, Ordering::AcqRel);
    }

    pub(crate) fn someone_waits(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Whether exactly one pool workqueue waits for a credit, and no lowered limit is overdrawn.
    pub(crate) fn only_one_waits(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 1 && self.free.load(Ordering::Relaxed) >= 0
    }

    /// Whether unused credits have to be given back: somebody waits, or a lowered limit is overdrawn.
    #[inline]
    pub(crate) fn is_tight(&self) -> bool {
        self.someone_waits() || self.free.load(Ordering::Relaxed) < 0
    }

    pub(crate) fn one_more_waits(&self) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn one_less_waits(&self) {
        self.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::NodeLimit;

    #[test]
    fn a_small_limit_is_handed_out_one_by_one() {
        let node = NodeLimit::new(3, 4);
        assert_eq!(
            [
                node.take_portion(),
                node.take_portion(),
                node.take_portion(),
                node.take_portion()
            ],
            [1, 1, 1, 0]
        );
        node.give(2);
        assert_eq!(node.take(8), 2);
    }

    #[test]
    fn portions_leave_three_quarters_to_the_others() {
        let node = NodeLimit::new(64, 4);
        assert_eq!(node.take_portion(), 4);
        node.one_more_waits();
        assert_eq!(node.take_portion(), 1, "while somebody waits nobody hoards");
    }

    #[test]
    fn a_lowered_limit_is_overdrawn_until_credits_come_back() {
        let node = NodeLimit::new(2, 1);
        assert_eq!(node.take(2), 2);
        node.give(-1);
        node.give(1);
        assert_eq!(node.take(1), 0);
        node.give(1);
        assert_eq!(node.take(1), 1);
    }
}
