//! What a CPU has begun while earlier accesses wait.
//!
//! A processor begins instructions in order and ends them in order; between the two are as many as
//! its reorder buffer holds. So instructions that follow a read-modify-write take no time of their
//! own while it waits, and what they access is sent for at once. A load of another CPU's line ends
//! this: what follows depends on it.
#![forbid(unsafe_code)]

use crate::memory::Access;

/// Accesses that have not ended when a later instruction begins, at most.
const WAITING: usize = 32;

/// The window of one CPU. Instructions are counted in the time that they take alone.
#[derive(Clone)]
pub(crate) struct Window {
    /// Instructions begun so far.
    begun: u64,
    /// When the last one of them began.
    front: u64,
    /// When the last one ended, as the CPU's clock has it. If that says something else, the CPU did
    /// something else meanwhile.
    end: u64,
    /// The accesses that others waited for: after how many instructions, and when each ended. The
    /// oldest is at `first`.
    waiting: [(u64, u64); WAITING],
    first: usize,
    count: usize,
}

impl Window {
    pub(crate) const fn new() -> Self {
        Window {
            begun: 0,
            front: 0,
            end: 0,
            waiting: [(0, 0); WAITING],
            first: 0,
            count: 0,
        }
    }

    /// When the instruction begins that comes next, on a CPU whose clock says `now`.
    #[inline]
    pub(crate) fn front(&mut self, now: u64) -> u64 {
        if now != self.end {
            (self.front, self.end, self.count) = (now, now, 0);
        }
        self.front
    }

    /// Instructions of `ns`, of which the window holds `size`; returns when they have ended.
    #[inline]
    pub(crate) fn compute(&mut self, ns: u64, now: u64, size: u64) -> u64 {
        self.front(now);
        self.begun += ns;
        self.front += ns;
        while self.count > 0 && self.waiting[self.first].0 + size <= self.begun {
            self.leave();
        }
        self.end = self.end.max(self.front);
        self.end
    }

    /// The oldest access is not in the window any more: the next instruction begins after its end.
    #[inline]
    fn leave(&mut self) {
        self.front = self.front.max(self.waiting[self.first].1);
        self.first = (self.first + 1) % WAITING;
        self.count -= 1;
    }

    /// An access, after the instructions before it, ends `at`.
    #[inline]
    pub(crate) fn access(&mut self, access: Access, has_waited: bool, at: u64) {
        self.end = at;
        if access == Access::Read && has_waited {
            (self.front, self.count) = (at, 0);
        } else if at > self.front {
            if self.count == WAITING {
                self.leave();
            }
            self.waiting[(self.first + self.count) % WAITING] = (self.begun, at);
            self.count += 1;
        }
    }
}
