//! Places lent: a waiter that runs its item itself is one of those that use the pod's CPUs.
//!
//! A thread that joins what it has queued while its pool has a backlog runs the item itself, queues more, and runs the next one that it joins.
//! It uses a CPU all the time. If as many workers ran beside it as there are CPUs, one of them would share its CPU: woken
//! there it preempts the thread in the middle of an item, runs all others for a time slice, and then nothing is queued. So such a
//! thread takes the place of a worker, and keeps it between two of its items: workers do not go to sleep and wake up in between.
//!
//! Nobody can say when it has gone to do something else, or sleeps in its item. So a place is lent for a while only ([`STALE_NS`] after a
//! waiter has last begun or ended an item), and taken back by the next who lets go of the pool's lock: a worker that ends an item, or
//! the monitor, which looks at a pool where items wait and no worker may run. A place lent delays what waits by that
//! much at most.
#![forbid(unsafe_code)]

use super::Inner;
use crate::sys::clock;

/// So long a place is lent. Longer than the items that are worth counting, short beside a look of the monitor.
const STALE_NS: u64 = 100_000;

/// The places of waiters, which count as running.
#[derive(Default)]
pub(super) struct Lent {
    places: u32,
    /// Waiters that run an item now, with a place or without.
    waiters: u32,
    /// When one of them last began or ended.
    since_ns: u64,
}

impl Lent {
    pub(super) fn places(&self) -> u32 {
        self.places
    }

    fn is_stale(&self) -> bool {
        // The model checker has no time.
        cfg!(cmwq_loom) || clock::now_ns().saturating_sub(self.since_ns) > STALE_NS
    }
}

impl Inner {
    /// A thread that is no worker is about to run an item. It needs a place only while others wait for one.
    pub(super) fn lend(&mut self) {
        self.lent.waiters += 1;
        if !self.has_waiting() {
            return;
        }
        if self.lent.places < self.lent.waiters {
            self.lent.places += 1;
            self.running += 1;
        }
        self.lent.since_ns = clock::now_ns();
    }

    /// It has run it.
    pub(super) fn end_of_lending(&mut self) {
        self.lent.waiters -= 1;
        if self.lent.places == 0 {
            return;
        }
        if self.has_waiting() {
            self.lent.since_ns = clock::now_ns();
        } else {
            self.take_back();
        }
    }

    /// Takes back what was lent if that is long ago. `true`: so a worker may run.
    #[inline]
    pub(super) fn take_back_stale(&mut self) -> bool {
        self.lent.places > 0 && self.lent.is_stale() && {
            self.take_back();
            self.running < self.target
        }
    }

    fn take_back(&mut self) {
        self.running -= std::mem::take(&mut self.lent.places);
    }
}
