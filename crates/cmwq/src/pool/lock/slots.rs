//! Running slots: how many workers of an engine may run and spin at once, over all its pools. See `SLOTS.md`.
#![forbid(unsafe_code)]

use super::guard::PoolGuard;
use crate::pool::attrs::params::Params;
use crate::pool::attrs::slots::{Borrowed, Borrower, RunningSlots, UNLIMITED};
use crate::pool::state::pool::{Holding, Pool};
use crate::sys::atomic::Ordering;
use crate::sys::clock;
use std::sync::Arc;

/// How long a pool keeps a slot that other pools wait for: much longer than a wake-up takes, and
/// shorter than a time slice.
const TURN_NS: u64 = 1_000_000;

/// How often the service thread checks the line while there is one.
const LINE_CHECK_NS: u64 = 10_000_000;

/// A pool that has been in line for this long gets a slot beyond the limit.
const LONGEST_WAIT_NS: u64 = 100_000_000;

impl Borrower for Pool {
    fn accept_slot(self: Arc<Self>) -> bool {
        let mut guard = self.lock_beside_batches();
        guard.hands_out_nothing = true;
        guard.holding.in_line = false;
        let needed = guard.is_limited() && !guard.dying && guard.slots < guard.cpus;
        let needed = needed && guard.something_waits();
        if needed {
            guard.add_slot();
        }
        needed
    }
}

impl Pool {
    fn running_slots(&self) -> &RunningSlots {
        &self.attrs.params.slots
    }

    /// Whether there is a limit over all pools, and pools are in line for slots that others hold. A hint.
    #[inline]
    pub(in crate::pool) fn slots_are_wanted(&self) -> bool {
        self.running_slots().others_want() > 0
    }

    /// Adapts the pool to a changed limit of its engine.
    pub(crate) fn follow_limit(self: &Arc<Self>) {
        let limit = self.running_slots().limit();
        let mut guard = self.lock();
        match limit {
            Some(_) if !guard.is_limited() => {
                let used = guard.in_use();
                self.running_slots().take(used);
                guard.slots = used;
                guard.holding = Holding::default();
            }
            None if guard.is_limited() => {
                self.running_slots().give_back(guard.slots);
                guard.slots = UNLIMITED;
                guard.holding = Holding::default();
            }
            _ => {}
        }
        guard.retarget();
    }

    /// The service thread's work on the line: holders of slots among `pools` are watched, and pools
    /// that have waited for long get a slot. Returns when to check again, if there is a line.
    pub(crate) fn tend_slots(params: &Params, pools: &[Arc<Pool>], now_ns: u64) -> Option<u64> {
        if !params.slots.must_be_tended() {
            return None;
        }
        for pool in pools {
            pool.watch_if_holding();
        }
        params
            .slots
            .hand_out(now_ns.saturating_sub(LONGEST_WAIT_NS));
        Some(now_ns + LINE_CHECK_NS)
    }

    /// Called when other pools wait for a slot: has the monitor watch this pool if it holds any,
    /// since workers that block must be found to free their slots.
    fn watch_if_holding(self: &Arc<Self>) {
        let mut guard = self.lock_beside_batches();
        if guard.is_limited() && guard.slots > 0 {
            guard.watch();
        }
    }
}

impl PoolGuard<'_> {
    pub(in crate::pool) fn something_waits(&self) -> bool {
        self.has_waiting() || !self.pool.inbox.is_empty()
    }

    /// Whether pools in line wait for a slot that this one holds.
    pub(in crate::pool) fn others_want_slots(&self) -> bool {
        self.is_limited() && self.pool.running_slots().others_want() > 0
    }

    /// The clock that measures turns. The model checker has no time; there a turn is over when an
    /// item has ended in it.
    fn turn_clock_ns(&self) -> u64 {
        match cfg!(cmwq_loom) {
            true => self.stats.completed * TURN_NS,
            false => clock::now_ns(),
        }
    }

    fn add_slot(&mut self) {
        if self.slots == 0 {
            self.holding.since_ns = self.turn_clock_ns();
        }
        self.slots += 1;
        self.retarget();
    }

    /// The first part of settling where there is a limit: gives back the slots that the pool owes
    /// and those that no worker uses.
    #[cold]
    pub(in crate::pool) fn settle_slots(&mut self) {
        if self.holding.in_line && !self.something_waits() {
            // What waited was run by a worker of another pool or by a waiting thread.
            self.holding.in_line = false;
            let pool = self.pool;
            pool.running_slots().leave_line(pool);
        }
        self.owe_when_the_turn_is_over();
        let unused = self.slots.saturating_sub(self.in_use());
        let back = match self.something_waits() {
            // Besides what it owes, the pool gives back what exceeds its CPUs, of which there may
            // be fewer than before.
            true => unused.min(self.holding.owed.max(self.slots.saturating_sub(self.cpus))),
            false => unused,
        };
        if back == 0 {
            return;
        }
        self.slots -= back;
        self.holding.owed = self.holding.owed.saturating_sub(back).min(self.slots);
        self.retarget();
        if self.pool.running_slots().give_back(back) {
            self.asks.hand_out_slots = !self.hands_out_nothing;
        }
    }

    fn owe_when_the_turn_is_over(&mut self) {
        let wanted = self.pool.running_slots().others_want();
        if wanted == 0 || self.holding.owed > 0 || self.slots == 0 {
            return;
        }
        // The turn of a pool begins with its first item. If it began with the slot, pools whose
        // workers take long to arrive (their CPUs are busy, or the control group is throttled)
        // would only pass slots to each other.
        if self.running() == 0 && self.searching() > 0 && self.something_waits() {
            self.holding.since_ns = self.turn_clock_ns();
            return;
        }
        let now_ns = self.turn_clock_ns();
        if now_ns.saturating_sub(self.holding.since_ns) < TURN_NS {
            return;
        }
        self.holding.since_ns = now_ns;
        // A pool gives up as many slots as others want, but at most half of its own: a pool that
        // holds many loses them faster than one that holds few.
        self.holding.owed = wanted.min(self.slots.div_ceil(2));
        self.retarget();
    }

    /// Called when items may wait and the pool uses all its slots. Returns `true` if it has got one
    /// more; otherwise the pool is in line for one.
    #[cold]
    pub(in crate::pool) fn borrow_slot(&mut self) -> bool {
        let pool = self.pool;
        // While the pool owes slots it would have to give a new one back at once.
        let full = self.slots >= self.cpus || self.holding.owed > 0;
        if full || self.holding.in_line || !self.something_waits() {
            return false;
        }
        match pool.running_slots().borrow(pool) {
            Borrowed::Slot => {
                self.add_slot();
                true
            }
            Borrowed::InLine { tended } => {
                self.holding.in_line = true;
                // A worker of a neighbour that is searching already may take the work without a
                // wake-up.
                if pool.steals() {
                    pool.only_near.store(false, Ordering::Relaxed);
                    pool.set_wants_thieves(true);
                }
                if !tended {
                    self.asks.slots = true;
                }
                false
            }
        }
    }

    /// For a worker that is about to steal from another pool: a slot if one is free.
    pub(in crate::pool) fn borrow_slot_to_steal(&mut self) -> bool {
        let free = self.is_limited()
            && self.slots < self.cpus
            && self.holding.owed == 0
            && self.pool.running_slots().borrow_free();
        if free {
            self.add_slot();
        }
        free
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
