//! The monitor: samples saturated pools, and finds undeclared blocking, sleepers, hogs and victims.
//!
//! A pool is saturated when as many workers run as its pod has CPUs. New items then wait until one ends, and that is right as long as the items
//! compute. So every [`PERIOD_NS`] the monitor samples each saturated pool where items wait:
//!
//! - *Undeclared blocking.* A worker that runs the same item as at the last tick, has used (almost) no CPU time since, and is in state S or D, is
//!   blocked: it no longer counts as running, and the pool goes on with another. If the system does not tell the state (no free file descriptor, no
//!   `/proc`), the clock alone decides. The worker counts again as soon as a tick finds it awake with its CPU clock moving.
//! - *Sleepers.* How many of a pod's running workers sleep at any one time, each too briefly to be found: see [`sleepers`](super::sleepers).
//! - *Hogs.* An item that has computed for longer than `cpu_intensive_thresh_us` since it last slept is CPU intensive: others run beside it until it
//!   ends ([`hogs`](super::hogs)). The functions of per-CPU pools' hogs are counted and reported; so the monitor samples these pools even while
//!   nothing waits.
//! - *Stealing.* If what waits would take the pod longer than [`WORTH_STEALING_NS`], and neighbours have CPUs to spare, the monitor wakes thieves
//!   there. Where a lock holder knows how long the items take, it calls a thief by itself. The monitor finds what lock holders cannot know: a first
//!   burst, and an item that takes longer than those before it. So its first two ticks for a pool follow each other at once.
//!
//! It also closes caller slots that are not used. After [`FORGET_AFTER`] ticks in a row at which nothing waited, the monitor drops a pool without
//! caller slots. With no pool left the service thread sleeps: an idle process is not disturbed.

use super::sleepers::Sleepers;
use crate::item::{WorkFn, address_of};
use crate::pool::attrs::function_counts::worth_a_report;
use crate::pool::attrs::kind::PoolFor;
use crate::pool::lock::guard::PoolGuard;
use crate::pool::state::group::{LONG_ENOUGH_NS, WORTH_STEALING_NS};
use crate::pool::state::hogs::Computing;
use crate::pool::state::pool::{FrontEnd, Inner, Pool};
use crate::pool::state::worker::{Busy, WorkerHandle, WorkerState};
use crate::sys::atomic::Ordering;
use crate::sys::{symbol, thread};
use crate::trace::warn_with;
use std::sync::{Arc, Weak};

/// The time between two ticks: a blocked worker is found after at most two. Below a small CPU quota it is
/// [longer](crate::pool::attrs::cpu_budget::CpuBudget::slows_ticks).
const PERIOD_NS: u64 = 2_000_000;
/// Less CPU time than this in one period counts as none: going to sleep takes some.
const ASLEEP_BELOW_NS: u64 = PERIOD_NS / 10;
/// So many threads' states at most are read at a tick; each read takes some microseconds.
const MOST_STATES: usize = 16;
/// The time between the first two ticks for a pool: what waits there may be worth a steal.
const QUICK_NS: u64 = 20_000;
/// After so many calm ticks in a row the monitor drops a pool; the second is for a pool that was sampled for hogs only.
const FORGET_AFTER: u32 = 25;
const FORGET_QUIET_AFTER: u32 = 5;
/// After so many calm ticks in a row, waiters are woken at once again, and spin before they park.
const PROMPT_AFTER: u32 = 3;

#[derive(Default)]
pub(in crate::pool) struct Watch {
    pools: Vec<Watched>,
}

struct Watched {
    pool: Weak<Pool>,
    /// When the last tick was, and when the next one is due.
    ticked_ns: u64,
    next_tick_ns: u64,
    /// How long workers had paused below a CPU quota until the last tick.
    paused_ns: u64,
    ticks: u64,
    calm_ticks: u32,
    /// Items have waited at a tick.
    contended: bool,
    completed: u64,
    sleepers: Sleepers,
    /// Where the next round of reading states begins.
    turn: usize,
}

/// A worker that may be asleep; its thread is examined with the lock free.
struct Suspect {
    id: u32,
    handle: Arc<WorkerHandle>,
    runs: u64,
    seen_runs: u64,
    seen_cpu_ns: u64,
    seen_counted: bool,
    computing: Computing,
    busy: Busy,
    /// These two are read with the lock free.
    tid: i32,
    cpu_ns: u64,
}

impl Suspect {
    /// `None`: the thread is gone.
    fn read_clock(mut self) -> Option<Self> {
        self.tid = self.handle.tid();
        self.cpu_ns = thread::cpu_time_ns(self.tid)?;
        Some(self)
    }

    fn is_same_item(&self) -> bool {
        self.runs == self.seen_runs
    }

    fn stood_still(&self) -> bool {
        self.cpu_ns.saturating_sub(self.seen_cpu_ns) < ASLEEP_BELOW_NS
    }

    /// Whether the worker counts as running and has not run since the last tick.
    fn may_sleep(&self) -> bool {
        self.busy == Busy::Running && self.is_same_item() && self.stood_still()
    }
}

impl Watch {
    pub(in crate::pool) fn add(&mut self, pool: Weak<Pool>) {
        self.pools.push(Watched {
            pool,
            ticked_ns: 0,
            next_tick_ns: 0,
            paused_ns: 0,
            ticks: 0,
            calm_ticks: 0,
            contended: false,
            completed: 0,
            sleepers: Sleepers::default(),
            turn: 0,
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
            // While workers pause no item ends, and yet the pool is as saturated as before.
            let (paused_ns, left_ns) = pool.attrs.params.cpu_budget.paused(now);
            let paused_meanwhile_ns = paused_ns.saturating_sub(watched.paused_ns);
            let passed_ns = (now - watched.ticked_ns).saturating_sub(paused_meanwhile_ns);
            let period_ns = PERIOD_NS * pool.attrs.params.cpu_budget.slows_ticks();
            if paused_meanwhile_ns > 0 && watched.ticks > 2 && passed_ns < period_ns / 2 {
                // There would be nothing to do before, and each tick uses up a part of the quota.
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
    fn first_tick(self: &Arc<Self>, watched: &mut Watched) -> bool {
        watched.completed = self.lock_beside_batches().stats.completed;
        true
    }

    /// The second tick comes soon after the first: it only tells whether items wait.
    fn second_tick(self: &Arc<Self>, watched: &mut Watched, passed_ns: u64) -> bool {
        let mut guard = self.lock();
        let (waiting, done) = guard.progress_since(watched);
        let saturated = guard.running() >= guard.target();
        drop(guard);
        if saturated {
            self.consider_help(waiting, done, passed_ns);
        }
        true
    }

    /// Samples the pool after `passed_ns`, without pauses below a CPU quota. `false`: the monitor can drop it.
    fn tick(self: &Arc<Self>, watched: &mut Watched, passed_ns: u64, pauses: bool) -> bool {
        // Dropped after the guard: wakers must be called with the lock free.
        let _wake;
        let mut guard = self.lock();
        if guard.is_limited() {
            guard.stop_counting_lasting_helpers();
        }
        let caller_slots = guard.tend_caller_slots();
        let (waiting, done) = guard.progress_since(watched);
        guard.note_standstill();
        guard.lift_limit_of_crowding(done);
        // A pool with hogs may have more slots than its workers have taken yet.
        let saturated = pauses || guard.running() >= guard.target() || guard.hogs.workers > 0;
        let contended = saturated && (waiting > 0 || guard.others_want_slots());
        guard.thieves_called = false;
        if !contended {
            self.set_help_wanted(false);
            // If items block, a pod is calm at one tick and full at the next.
            _wake = match watched.calm_ticks < PROMPT_AFTER {
                true => self.pending_wakeups.all(),
                false => self.pending_wakeups.forbid(self.id),
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
                self.question_all(guard, watched);
            } else if is_used {
                // With a `max_active` as large as the allowance for sleepers nothing waits here because of it.
                drop(guard);
                self.count_sleepers(&mut watched.sleepers);
            }
            return true;
        }
        watched.calm_ticks = 0;
        watched.contended = true;
        if matches!(self.attrs.kind, PoolFor::Bh(_)) {
            // One item at a time, whatever it does.
            return true;
        }
        // A CPU that finds nothing before the woken threads have queued more would idle.
        let guests = guard.most_guests;
        guard.most_guests = guard.guests;
        let at_once = u64::from(guard.running() + guests);
        _wake =
            self.pending_wakeups
                .allow(self.id, waiting.saturating_sub(at_once), done, passed_ns);
        self.question_all(guard, watched);
        if self.attrs.kind == PoolFor::Unbound {
            self.count_sleepers(&mut watched.sleepers);
        }
        self.make_room_beside_hogs(done, passed_ns);
        self.consider_help(waiting, done, passed_ns);
        true
    }

    /// Examines every worker that runs an item, with the lock free.
    fn question_all(self: &Arc<Self>, guard: PoolGuard<'_>, watched: &mut Watched) {
        let suspects: Vec<Suspect> = guard
            .workers
            .iter()
            .filter_map(|(id, worker)| match worker.state {
                WorkerState::Busy(busy) => Some(Suspect {
                    id,
                    handle: worker.handle.clone(),
                    runs: worker.runs,
                    seen_runs: worker.seen_runs,
                    seen_cpu_ns: worker.seen_cpu_ns,
                    seen_counted: worker.seen_counted,
                    computing: worker.computing,
                    busy,
                    tid: 0,
                    cpu_ns: 0,
                }),
                _ => None,
            })
            .collect();
        drop(guard);
        let suspects: Vec<Suspect> = suspects
            .into_iter()
            .filter_map(Suspect::read_clock)
            .collect();
        // If many workers wait for a CPU, all their clocks stand still.
        let still = suspects
            .iter()
            .filter(|suspect| suspect.may_sleep())
            .count();
        let first = watched.turn % still.max(1);
        watched.turn = first + MOST_STATES;
        let mut asked = (0..still).map(|nth| (nth + still - first) % still < MOST_STATES);
        for suspect in suspects {
            let asleep = suspect.may_sleep()
                && asked.next() == Some(true)
                && suspect.handle.may_sleep_in_item();
            self.question(suspect, asleep);
        }
    }

    /// Compares a busy worker's CPU clock with its value at the last tick.
    fn question(self: &Arc<Self>, suspect: Suspect, asleep: bool) {
        let Suspect { tid, cpu_ns, .. } = suspect;
        let same_item = suspect.is_same_item();
        let counted = suspect.busy == Busy::Running;
        // What the host of a virtual machine takes counts as CPU time too: a sleeping worker is not back, whatever its clock says.
        let came_back = suspect.busy == Busy::Blocked
            && !suspect.seen_counted
            && same_item
            && !suspect.stood_still()
            && !suspect.handle.sleeps_in_item();
        let mut computing = suspect.computing;
        let hogs = if !same_item || asleep {
            computing = Computing::restart(cpu_ns);
            false
        } else {
            let threshold_ns = self.hog_threshold_ns().filter(|_| counted);
            let sleeps = || thread::voluntary_switches_of(tid);
            threshold_ns.is_some_and(|threshold| computing.exceeds(threshold, cpu_ns, sleeps))
        };
        let mut guard = self.lock();
        let Some(worker) = guard.workers.get_mut(suspect.id) else {
            return;
        };
        worker.seen_runs = suspect.runs;
        worker.seen_cpu_ns = cpu_ns;
        worker.seen_counted = counted;
        let waited_meanwhile = worker.computing != suspect.computing;
        if !waited_meanwhile {
            worker.computing = computing;
        }
        if worker.runs != suspect.runs || worker.state != WorkerState::Busy(suspect.busy) {
            return;
        }
        if asleep {
            guard.step_out(suspect.id, Busy::Blocked);
            guard.stats.blocked_seen += 1;
        } else if came_back {
            // It was not counted at the last tick, and its clock has moved since.
            let inner: &mut Inner = &mut guard;
            let worker = &mut inner.workers[suspect.id];
            inner.counts.transition_blocked_to_running(worker);
        } else if hogs && !waited_meanwhile {
            guard.step_out(suspect.id, Busy::CpuIntensive);
            let func = guard
                .busy
                .iter()
                .find(|run| run.by.tid == tid)
                .and_then(|run| run.func);
            let queue = guard.pwqs[guard.workers[suspect.id].pwq]
                .owner
                .front
                .clone();
            drop(guard);
            // On an unbound queue long computing is allowed.
            if self.counts_all_hogs() {
                self.report_hog(func, &*queue);
            }
        }
    }

    fn report_hog(&self, func: Option<WorkFn>, queue: &dyn FrontEnd) {
        let params = &self.attrs.params;
        let func = address_of(func);
        let Some(count) = params.hogs.one_more(func) else {
            return;
        };
        if worth_a_report(count, params.cpu_intensive_warnings.load(Ordering::Relaxed)) {
            let name = queue.name().to_owned();
            let us = params.cpu_intensive_ns.load(Ordering::Relaxed) / 1000;
            warn_with(move || {
                format!(
                    "workqueue {name}: {} used the CPU for more than {us} us {count} times; consider an unbound workqueue for it",
                    symbol::name_of(func),
                )
            });
        }
    }

    /// Calls thieves if `waiting` items are more than this pod will get to soon: `done` items have ended in `passed_ns`.
    fn consider_help(self: &Arc<Self>, waiting: u64, done: u64, passed_ns: u64) {
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
        self.set_help_wanted(wanted);
        if wanted {
            self.ask_neighbours(waiting.min(u64::from(u32::MAX)) as u32, done == 0);
        }
    }
}

impl PoolGuard<'_> {
    /// How many items wait, and how many have ended since the last tick.
    fn progress_since(&mut self, watched: &mut Watched) -> (u64, u64) {
        // A long inbox is reversed by a worker, which has it in its cache.
        if !self.has_waiting() {
            self.collect();
        }
        let before = std::mem::replace(&mut watched.completed, self.stats.completed);
        (self.waiting() as u64, self.stats.completed - before)
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
