//! Freezing: bringing all freezable workqueues to rest, and letting them go on. In a fork's child, where the queues are the parent's, these calls do
//! nothing.

use super::core::Engine;
use crate::pool::Dump;

impl Engine {
    /// Freezable workqueues start nothing new from now on: items queued on them wait. Active items run to their end. Brings a program to rest before
    /// a checkpoint, a fork or a suspend. Does nothing when frozen already.
    pub fn freeze_workqueues_begin(&self) {
        self.freeze(true);
    }

    fn freeze(&self, freeze: bool) {
        if self.is_inherited() {
            return;
        }
        let mut frozen = self.0.frozen.lock();
        if *frozen != freeze {
            *frozen = freeze;
            for queue in self.queues() {
                queue.set_frozen(freeze);
            }
        }
    }

    /// Whether items of freezable workqueues are still active since [`freeze_workqueues_begin`](Self::freeze_workqueues_begin). The caller polls
    /// until none is.
    pub fn freeze_workqueues_busy(&self) -> bool {
        if self.is_inherited() {
            return false;
        }
        let _no_change = self.0.frozen.lock();
        self.queues().iter().any(|queue| queue.is_freezing())
    }

    /// As [`dump`](Self::dump), of freezable workqueues only: what an unfinished freeze waits for. Its [`Display`](std::fmt::Display) is laid out
    /// like the kernel's `show_freezable_workqueues`.
    pub fn dump_freezable(&self) -> Dump {
        self.dump().of_freezable()
    }

    /// Freezable workqueues go on, with the items that have waited first. Does nothing when not frozen.
    pub fn thaw_workqueues(&self) {
        self.freeze(false);
    }
}
