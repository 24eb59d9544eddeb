//! What a thread remembers of the items that it deals to several pods: see
//! `workqueue/dealing.rs`.
#![forbid(unsafe_code)]

use crate::item::Pushed;
use std::cell::Cell;

/// After a thread has found that no other pod takes its items, whether full or not, it publishes so
/// many in its own pod before it looks again.
const RESTS: u32 = 32;

/// A pod that is not the thread's own, for items of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OtherPod {
    /// The serial number of the queue.
    pub(crate) queue: u64,
    /// A CPU of the pod.
    pub(crate) cpu: usize,
    /// How many items it gets.
    pub(crate) share: u32,
}

/// The part of a thread's producer state that is about dealing.
pub(crate) struct Dealing {
    /// How many items the thread has published, one by one, in the pod whose turn it is; in its own
    /// pod only those that the pod has not taken yet.
    given: Cell<u32>,
    /// The pod whose turn it is, if it is not the thread's own.
    turn: Cell<Option<OtherPod>>,
    /// How many more items the thread publishes in its own pod before it looks for another one.
    rests: Cell<u32>,
}

impl Dealing {
    pub(in crate::pool) const fn new() -> Self {
        Dealing {
            given: Cell::new(0),
            turn: Cell::new(None),
            rests: Cell::new(0),
        }
    }

    /// An item was published by itself.
    #[inline]
    pub(in crate::pool) fn note(&self, pushed: Pushed) {
        // Another pod has told how many it takes. The thread's own may have taken them in between.
        let more = pushed == Pushed::Quiet || self.turn.get().is_some();
        let given = if more { self.given.get() } else { 0 };
        self.given.set(given.wrapping_add(1));
    }

    /// The pod whose turn it is, for items of this queue. `None`: the thread's own.
    pub(crate) fn turn_of(&self, queue: u64) -> Option<OtherPod> {
        self.turn.get().filter(|turn| turn.queue == queue)
    }

    /// Whether the thread does not look for another pod.
    pub(in crate::pool) fn rests(&self) -> bool {
        self.rests.get() > 0
    }

    /// As [`rests`](Self::rests), for an item that is published now.
    pub(crate) fn goes_on_resting(&self) -> bool {
        let left = self.rests.get();
        self.rests.set(left.saturating_sub(1));
        left > 0
    }

    /// No other pod takes the thread's items, whether full or not: it looks again after some items.
    pub(crate) fn rest(&self) {
        self.rests.set(RESTS);
    }

    /// Whether the pod whose turn it is has so many items.
    pub(crate) fn has_got(&self, items: u32) -> bool {
        self.given.get() >= items
    }

    /// It is the turn of this pod, or of the thread's own.
    pub(crate) fn turn_to(&self, turn: Option<OtherPod>) {
        self.given.set(0);
        self.turn.set(turn);
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_the_own_pod_has_taken_does_not_count() {
        let (queue, cpu, share) = (7, 3, 2);
        let other = OtherPod { queue, cpu, share };
        for (turn, after) in [(None, 1), (Some(other), 4)] {
            let dealing = Dealing::new();
            dealing.turn_to(turn);
            dealing.note(Pushed::MustNotify);
            dealing.note(Pushed::Quiet);
            dealing.note(Pushed::Quiet);
            assert!(dealing.has_got(3) && !dealing.has_got(4));
            // All but this one are taken.
            dealing.note(Pushed::Alone);
            assert!(dealing.has_got(after) && !dealing.has_got(after + 1));
        }
    }

    #[test]
    fn the_turn_is_that_of_one_queue() {
        let dealing = Dealing::new();
        assert_eq!(dealing.turn_of(7), None);
        dealing.note(Pushed::Quiet);
        let (queue, cpu, share) = (7, 3, 2);
        let turn = Some(OtherPod { queue, cpu, share });
        dealing.turn_to(turn);
        assert!(!dealing.has_got(1));
        assert_eq!((dealing.turn_of(7), dealing.turn_of(8)), (turn, None));
        dealing.turn_to(None);
        assert_eq!(dealing.turn_of(7), None);
    }
}
