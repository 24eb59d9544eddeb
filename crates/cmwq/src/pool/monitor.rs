//! Looking at saturated pools now and then: who is blocked without having said so, and who needs help.
//!
//! A pool is saturated when as many workers run as its pod has CPUs. New items then wait until one of them ends, and that
//! is right as long as they compute. So every [`PERIOD_NS`] the monitor looks at each saturated pool where items wait:
//!
//! - *Undeclared blocking.* A worker that runs the same item as at the last look, has used (almost) no CPU time since, and
//!   is in state S or D, is blocked: it no longer counts as running, and the pool goes on with another. It counts again
//!   as soon as a look finds it awake and that its CPU clock moves.
//! - *Sleepers.* How many of a pod's running workers sleep at any one time, for less long than it takes to find each: see
//!   [`sleepers`](super::sleepers).
//! - *Hogs.* An item of a per-CPU pool that has used more CPU time than `cpu_intensive_thresh_us` since it was first seen, or was last
//!   seen asleep, is CPU intensive: others run beside it until it ends. Its function is counted, and reported now and
//!   then.
//! - *Help.* If what waits would take the pod longer than [`WORTH_HELPING_NS`], and neighbours have CPUs to spare, they
//!   are woken to take some of it.
//!
//! It also closes lanes that are not used. A pool without any where nothing waited for [`FORGET_AFTER`] looks in a row is no longer looked at, and with no pool left the
//! service thread sleeps: an idle process is not disturbed.

use super::offenders::worth_a_report;
use super::sleepers::Sleepers;
use super::{Busy, FrontEnd, Pool, PoolKind, WorkerHandle, WorkerState};
use crate::observe::warn;
use crate::sys::atomic::Ordering;
use crate::sys::{symbol, thread};
use crate::work::WorkFn;
use std::sync::{Arc, Weak};

/// The time between two looks: a blocked worker is found after at most two.
const PERIOD_NS: u64 = 2_000_000;
/// Less CPU time than this in one period counts as none: what it takes to go to sleep.
const ASLEEP_BELOW_NS: u64 = PERIOD_NS / 10;
/// A wait shorter than a wake-up across CPUs is not worth one.
const WORTH_HELPING_NS: u64 = 50_000;
const FORGET_AFTER: u32 = 25;
/// So many calm looks in a row, and sleepers are told at once again, and wait awake first.
const PROMPT_AFTER: u32 = 3;

pub(super) struct Watch {
    pools: Vec<Watched>,
    next_look_ns: u64,
}

struct Watched {
    pool: Weak<Pool>,
    calm_looks: u32,
    completed: u64,
    sleepers: Sleepers,
}

/// A worker that may be asleep, to be asked about while the lock is free.
struct Suspect {
    id: u32,
    handle: Arc<WorkerHandle>,
    runs: u64,
    seen_runs: u64,
    seen_cpu_ns: u64,
    seen_counted: bool,
    since_cpu_ns: u64,
    busy: Busy,
}

impl Watch {
    pub(super) fn new() -> Self {
        Watch {
            pools: Vec::new(),
            next_look_ns: 0,
        }
    }

    pub(super) fn add(&mut self, pool: Weak<Pool>) {
        self.pools.push(Watched {
            pool,
            calm_looks: 0,
            completed: 0,
            sleepers: Sleepers::default(),
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// Looks at all watched pools if it is time to. Returns the time of the next look, if there is to be one.
    pub(super) fn look(&mut self, now: u64) -> Option<u64> {
        if now >= self.next_look_ns {
            self.next_look_ns = now + PERIOD_NS;
            self.pools.retain_mut(|watched| {
                let Some(pool) = watched.pool.upgrade() else {
                    return false;
                };
                pool.look(watched)
            });
        }
        (!self.pools.is_empty()).then_some(self.next_look_ns)
    }
}

impl Pool {
    /// One look. `false`: the pool need not be watched any more.
    fn look(self: &Arc<Self>, watched: &mut Watched) -> bool {
        let mut guard = self.lock();
        // A long inbox is turned around by those in whose cache it is.
        if !guard.has_waiting() {
            guard.collect();
        }
        guard.take_back_stale();
        let lanes = guard.tend_lanes();
        let waiting = (guard.worklist.len() + guard.arrivals.len()) as u64;
        let saturated = guard.running >= guard.target;
        let completed = guard.stats.completed;
        let done = completed - watched.completed;
        watched.completed = completed;
        if !saturated || waiting == 0 {
            self.set_help_wanted(false);
            // Where items block, a pod is calm at one look and full at the next.
            match watched.calm_looks < PROMPT_AFTER {
                true => self.untold.tell(),
                false => self.untold.forbid(self.id),
            }
            guard.forget_sleepers();
            watched.calm_looks += 1;
            if lanes {
                watched.calm_looks = 0;
            }
            if watched.calm_looks >= FORGET_AFTER {
                guard.watched = false;
                return false;
            }
            return true;
        }
        watched.calm_looks = 0;
        if matches!(self.attrs.kind, PoolKind::Bh(_)) {
            // One at a time, whatever it does.
            return true;
        }
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
                    since_cpu_ns: worker.since_cpu_ns,
                    busy,
                }),
                _ => None,
            })
            .collect();
        drop(guard);
        self.untold.allow(self.id, waiting, done, PERIOD_NS);
        if self.attrs.kind == PoolKind::Unbound {
            self.count_sleepers(&mut watched.sleepers);
        }
        for suspect in suspects {
            self.question(suspect);
        }
        self.consider_help(waiting, done);
        true
    }

    /// Compares a busy worker's CPU clock with what it was at the last look.
    fn question(self: &Arc<Self>, suspect: Suspect) {
        let tid = suspect.handle.tid.load(Ordering::Relaxed) as i32;
        let Some(cpu_ns) = thread::cpu_time_ns(tid) else {
            return;
        };
        let same_item = suspect.runs == suspect.seen_runs;
        let stood_still = cpu_ns.saturating_sub(suspect.seen_cpu_ns) < ASLEEP_BELOW_NS;
        let counted = suspect.busy == Busy::Running;
        let asleep = same_item && stood_still && counted && suspect.handle.sleeps_in_item();
        let since_cpu_ns = if same_item && !asleep {
            suspect.since_cpu_ns
        } else {
            cpu_ns
        };
        // What the host of a virtual machine takes counts as CPU time too: one that sleeps is not back, whatever its clock says.
        let came_back = suspect.busy == Busy::Blocked
            && !suspect.seen_counted
            && same_item
            && !stood_still
            && !suspect.handle.sleeps_in_item();
        let hogs = counted && self.is_hogging(cpu_ns.saturating_sub(since_cpu_ns));
        let mut guard = self.lock();
        let Some(worker) = guard.workers.get_mut(suspect.id) else {
            return;
        };
        worker.seen_runs = suspect.runs;
        worker.seen_cpu_ns = cpu_ns;
        worker.seen_counted = counted;
        worker.since_cpu_ns = since_cpu_ns;
        if worker.runs != suspect.runs || worker.state != WorkerState::Busy(suspect.busy) {
            return;
        }
        if asleep {
            guard.step_out(suspect.id, Busy::Blocked);
            guard.stats.blocked_seen += 1;
        } else if came_back {
            // Out at the last look already, and its clock has moved since.
            worker.state = WorkerState::Busy(Busy::Running);
            guard.running += 1;
        } else if hogs {
            guard.step_out(suspect.id, Busy::CpuIntensive);
            let func = guard
                .busy
                .iter()
                .find(|run| run.by.tid == tid)
                .and_then(|run| run.func);
            let queue = guard.pwqs[guard.workers[suspect.id].pwq].front.clone();
            drop(guard);
            self.report_hog(func, &*queue);
        }
    }

    fn is_hogging(&self, used_ns: u64) -> bool {
        let threshold = self.attrs.params.cpu_intensive_ns.load(Ordering::Relaxed);
        matches!(self.attrs.kind, PoolKind::PerCpu(_)) && threshold != 0 && used_ns > threshold
    }

    fn report_hog(&self, func: Option<WorkFn>, queue: &dyn FrontEnd) {
        let params = &self.attrs.params;
        let func = func.map_or(0, |func| func as usize);
        let Some(count) = params.hogs.one_more(func) else {
            return;
        };
        if worth_a_report(count, params.cpu_intensive_warnings.load(Ordering::Relaxed)) {
            warn(&format!(
                "workqueue {}: {} used the CPU for more than {} us {count} times; consider an unbound workqueue for it",
                queue.name(),
                symbol::name_of(func),
                params.cpu_intensive_ns.load(Ordering::Relaxed) / 1000,
            ));
        }
    }

    /// Calls idle neighbours if `waiting` items are more than this pod will get to soon, at `done` items a period.
    fn consider_help(self: &Arc<Self>, waiting: u64, done: u64) {
        if self.attrs.strict {
            return;
        }
        let wait_ns = waiting
            .saturating_mul(PERIOD_NS)
            .checked_div(done)
            .unwrap_or(u64::MAX);
        let wanted = waiting > 0 && wait_ns > WORTH_HELPING_NS;
        self.set_help_wanted(wanted);
        if wanted {
            self.group()
                .neighbours_of(self)
                .iter()
                .filter(|other| other.send_help())
                .take(waiting as usize)
                .count();
        }
    }
}
