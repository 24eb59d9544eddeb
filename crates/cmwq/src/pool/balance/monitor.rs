//! The monitor: samples saturated pools, and finds undeclared blocking, sleepers, hogs and victims.
//!
//! A pool is saturated when as many workers run as its pod has CPUs. New items then wait until one
//! ends, and that is right as long as the items compute. So every [`PERIOD_NS`] the monitor samples
//! each saturated pool where items wait:
//!
//! - *Undeclared blocking.* A worker that runs the same item as at the last tick, has used (almost)
//!   no CPU time since, and is in state S or D, is blocked: it no longer counts as running, and the
//!   pool goes on with another. If the system does not tell the state (no free file descriptor, no
//!   `/proc`), the clock alone decides. The worker counts again as soon as a tick finds it awake
//!   with its CPU clock moving.
//! - *Sleepers.* How many of a pod's running workers sleep at any one time, each too briefly to be
//!   found: see [`sleepers`](super::sleepers).
//! - *Hogs.* An item that has computed for longer than `cpu_intensive_thresh_us` since it last
//!   slept is CPU intensive: others run beside it until it ends ([`hogs`](super::hogs)). The
//!   functions of per-CPU pools' hogs are counted and reported; so the monitor samples these pools
//!   even while nothing waits.
//! - *Stealing.* If what waits would take the pod longer than [`WORTH_STEALING_NS`], and neighbours
//!   have CPUs to spare, the monitor wakes thieves there. Where a lock holder knows how long the
//!   items take, it calls a thief by itself. The monitor finds what lock holders cannot know: a
//!   first burst, and an item that takes longer than those before it. So its first two ticks for a
//!   pool follow each other at once.
//!
//! It also closes caller slots that are not used. After [`FORGET_AFTER`] ticks in a row at which
//! nothing waited, the monitor drops a pool without caller slots. With no pool left the service
//! thread sleeps: an idle process is not disturbed.

use super::sleepers::Sleepers;
use crate::pool::attrs::kind::PoolFor;
use crate::pool::lock::guard::PoolGuard;
use crate::pool::state::group::{LONG_ENOUGH_FAR_NS, LONG_ENOUGH_NS, WORTH_STEALING_NS};
use crate::pool::state::pool::Pool;
use crate::sys::atomic::Ordering;
use std::sync::{Arc, Weak};

/// The time between two ticks: a blocked worker is found after at most two. Below a small CPU quota it is
/// [longer](crate::pool::attrs::cpu_budget::CpuBudget::slows_ticks).
pub(super) const PERIOD_NS: u64 = 2_000_000;
/// The time between the first two ticks for a pool: what waits there may be worth a steal.
const QUICK_NS: u64 = 20_000;
/// After so many calm ticks in a row the monitor drops a pool. The second number is for a pool that
/// was sampled for hogs only.
const FORGET_AFTER: u32 = 25;
const FORGET_QUIET_AFTER: u32 = 5;
/// After so many calm ticks in a row, waiters are woken at once again, and spin before they park.
const PROMPT_AFTER: u32 = 3;

#[derive(Default)]
pub(in crate::pool) struct Monitor {
    pools: Vec<MonitoredPool>,
}

struct MonitoredPool {
    pool: Weak<Pool>,
    /// When the last tick was, and when the next one is due.
    ticked_ns: u64,
    next_tick_ns: u64,
    /// How long workers had paused below a CPU quota until the last tick.
    paused_ns: u64,
    ticks: u64,
    calm_ticks: u32,
    /// Whether items have waited at a tick.
    contended: bool,
    completed: u64,
    sleepers: Sleepers,
    /// Which suspect's state is read first at the next tick.
    next_suspect: usize,
}

impl Monitor {
    pub(in crate::pool) fn add(&mut self, pool: Weak<Pool>) {
        self.pools.push(MonitoredPool {
            pool,
            ticked_ns: 0,
            next_tick_ns: 0,
            paused_ns: 0,
            ticks: 0,
            calm_ticks: 0,
            contended: false,
            completed: 0,
            sleepers: Sleepers::default(),
            next_suspect: 0,
        });
    }

    pub(in crate::pool) fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// Samples the pools whose tick is due. Returns the time of the next tick, if there is one.
    pub(in crate::pool) fn tick(&mut self, now: u64) -> Option<u64> {
        self.pools.retain_mut(|watched| {
            if now < watched.next_tick_ns {
                return true;
            }
            let Some(pool) = watched.pool.upgrade() else {
                return false;
            };
            // While workers pause for the quota no item ends, though the pool is as saturated as
            // before. So the time of pauses is left out.
            let (paused_ns, left_ns) = pool.attrs.params.cpu_budget.paused(now);
            let paused_meanwhile_ns = paused_ns.saturating_sub(watched.paused_ns);
            let passed_ns = (now - watched.ticked_ns).saturating_sub(paused_meanwhile_ns);
            let period_ns = PERIOD_NS * pool.attrs.params.cpu_budget.slows_ticks();
            if paused_meanwhile_ns > 0 && watched.ticks > 2 && passed_ns < period_ns / 2 {
                // There would be nothing to do before the pause ends, and each tick uses up a part
                // of the quota.
                watched.next_tick_ns = now + left_ns + period_ns;
                return true;
            }
            (watched.ticked_ns, watched.paused_ns) = (now, paused_ns);
            watched.ticks += 1;
            let (keep, next_ns) = match (watched.ticks, pool.steals()) {
                (1, false) => (pool.first_tick(watched), period_ns),
                (1, true) => (pool.first_tick(watched), QUICK_NS),
                (2, true) => (pool.second_tick(watched, passed_ns), period_ns - QUICK_NS),
                _ => (pool.tick(watched, passed_ns, left_ns > 0), period_ns),
            };
            watched.next_tick_ns = now + next_ns;
            keep
        });
        self.pools.iter().map(|watched| watched.next_tick_ns).min()
    }
}

impl Pool {
    /// The first tick only notes how many items have ended.
    fn first_tick(self: &Arc<Self>, watched: &mut MonitoredPool) -> bool {
        watched.completed = self.lock_beside_batches().stats.completed;
        true
    }

    /// The second tick comes soon after the first: it only tells whether items wait.
    fn second_tick(self: &Arc<Self>, watched: &mut MonitoredPool, passed_ns: u64) -> bool {
        let mut guard = self.lock();
        let (waiting, done) = guard.progress_since(watched);
        let busy = guard.running() >= guard.target() || guard.lets_items_wait();
        drop(guard);
        if busy {
            self.consider_stealing(waiting, done, passed_ns);
        }
        true
    }

    /// Samples the pool; `passed_ns` have passed since the last tick, without pauses below a CPU
    /// quota. Returns `false` if the monitor can drop the pool.
    fn tick(self: &Arc<Self>, watched: &mut MonitoredPool, passed_ns: u64, pauses: bool) -> bool {
        // Declared before the guard, so that it is dropped after it: wakers must be called with the
        // lock free.
        let _wake;
        let mut guard = self.lock();
        if guard.is_limited() {
            guard.stop_counting_lasting_thieves();
        }
        guard.counts.lapse_joiners();
        let caller_slots = guard.tend_caller_slots();
        let (waiting, done) = guard.progress_since(watched);
        guard.note_standstill();
        guard.lift_limit_of_crowding(done);
        // A pool with hogs may have more slots than its workers have taken yet.
        let saturated = pauses || guard.running() >= guard.target() || guard.hogs.workers > 0;
        let contended = saturated && (waiting > 0 || guard.others_want_slots());
        if !contended {
            let waits_anyway = guard.lets_items_wait();
            let keep = self.calm_tick(guard, watched, caller_slots);
            if waits_anyway {
                self.consider_stealing(waiting, done, passed_ns);
            }
            return keep;
        }
        watched.calm_ticks = 0;
        watched.contended = true;
        if self.attrs.is_bh() {
            // A BH pool runs one item at a time, whatever that item does.
            return true;
        }
        // So many items must be left to run until the woken threads have queued more; otherwise a
        // CPU would idle.
        let at_once = u64::from(guard.running() + guard.guests);
        _wake = self
            .pending_wakeups
            .allow(waiting.saturating_sub(at_once), done, passed_ns);
        self.sample_busy(guard, &mut watched.next_suspect);
        if self.attrs.kind == PoolFor::Unbound {
            self.count_sleepers(&mut watched.sleepers);
        }
        self.make_room_beside_hogs(done, passed_ns);
        self.consider_stealing(waiting, done, passed_ns);
        true
    }

    /// A tick at which nothing waits for a CPU. `caller_slots`: some are used.
    fn calm_tick(
        self: &Arc<Self>,
        guard: PoolGuard<'_>,
        watched: &mut MonitoredPool,
        caller_slots: bool,
    ) -> bool {
        // Declared before the guard is moved here, so that it is dropped after it: wakers must be
        // called with the lock free.
        let _wake;
        let mut guard = guard;
        self.set_wants_thieves(false);
        // If items block, a pod is calm at one tick and full at the next.
        _wake = match watched.calm_ticks < PROMPT_AFTER {
            true => self.pending_wakeups.all(),
            false => self.pending_wakeups.forbid(),
        };
        let is_used = !guard.forget_sleepers();
        guard.hogs.moves_on();
        guard.no_room_beside_hogs();
        let counts_hogs = guard.running() > 0 && self.counts_all_hogs();
        watched.calm_ticks += 1;
        if caller_slots || counts_hogs {
            watched.calm_ticks = 0;
        }
        if is_used {
            watched.calm_ticks = watched.calm_ticks.min(PROMPT_AFTER);
        }
        let forget_after = match self.counts_all_hogs() && !watched.contended {
            true => FORGET_QUIET_AFTER,
            false => FORGET_AFTER,
        };
        if watched.calm_ticks >= forget_after {
            guard.watched = false;
            return false;
        }
        if counts_hogs {
            self.sample_busy(guard, &mut watched.next_suspect);
        } else if is_used {
            // If `max_active` is only as large as the allowance for sleepers, nothing waits here,
            // but only because of that limit.
            drop(guard);
            self.count_sleepers(&mut watched.sleepers);
        }
        true
    }

    /// Calls thieves if `waiting` items are more than this pod will get to soon: `done` items have
    /// ended in `passed_ns`.
    fn consider_stealing(self: &Arc<Self>, waiting: u64, done: u64, passed_ns: u64) {
        if self.attrs.strict {
            return;
        }
        let wait_ns = |waiting: u64| {
            waiting
                .saturating_mul(passed_ns)
                .checked_div(done)
                .unwrap_or(u64::MAX)
        };
        let at_once = u64::from(self.lock_beside_batches().running().max(1));
        let wanted = waiting > 0
            && wait_ns(at_once) >= LONG_ENOUGH_NS
            && wait_ns(waiting) > WORTH_STEALING_NS;
        self.only_near
            .store(wait_ns(at_once) < LONG_ENOUGH_FAR_NS, Ordering::Relaxed);
        self.set_wants_thieves(wanted);
        if wanted {
            self.ask_neighbours(waiting.min(u64::from(u32::MAX)) as u32);
        }
    }
}

impl PoolGuard<'_> {
    /// Whether a worker is on its way, or is being created, so that items wait though a CPU is free.
    fn lets_items_wait(&self) -> bool {
        self.searching() > 0 || self.creating
    }

    /// How many items wait, and how many have ended since the last tick.
    fn progress_since(&mut self, watched: &mut MonitoredPool) -> (u64, u64) {
        // Items that were published and not taken yet wait as well, and may be most of what waits.
        self.collect();
        let before = std::mem::replace(&mut watched.completed, self.stats.completed);
        (self.waiting() as u64, self.stats.completed - before)
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
