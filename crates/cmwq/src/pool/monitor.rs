//! Looking at saturated pools now and then: who is blocked without having said so, and who needs help.
//!
//! A pool is saturated when as many workers run as its pod has CPUs. New items then wait until one of them ends, and that
//! is right as long as they compute. So every [`PERIOD_NS`] the monitor looks at each saturated pool where items wait:
//!
//! - *Undeclared blocking.* A worker that runs the same item as at the last look, has used (almost) no CPU time since, and
//!   is in state S or D, is blocked: it no longer counts as running, and the pool goes on with another. It counts again
//!   as soon as a look finds that its CPU clock moves.
//! - *Help.* If what waits would take the pod longer than [`WORTH_HELPING_NS`], and neighbours have CPUs to spare, they
//!   are woken to take some of it.
//!
//! A pool where nothing waited for [`FORGET_AFTER`] looks in a row is no longer looked at, and with no pool left the
//! service thread sleeps: an idle process is not disturbed.

use super::{Pool, WorkerState};
use crate::sys::atomic::Ordering;
use crate::sys::thread;
use std::sync::{Arc, Weak};

/// The time between two looks: a blocked worker is found after at most two.
const PERIOD_NS: u64 = 2_000_000;
/// Less CPU time than this in one period counts as none: what it takes to go to sleep.
const ASLEEP_BELOW_NS: u64 = PERIOD_NS / 10;
/// A wait shorter than a wake-up across CPUs is not worth one.
const WORTH_HELPING_NS: u64 = 50_000;
const FORGET_AFTER: u32 = 25;

pub(super) struct Watch {
    pools: Vec<Watched>,
    next_look_ns: u64,
}

struct Watched {
    pool: Weak<Pool>,
    calm_looks: u32,
    completed: u64,
}

/// A worker that may be asleep, to be asked about while the lock is free.
struct Suspect {
    id: u32,
    tid: i32,
    runs: u64,
    seen_runs: u64,
    seen_cpu_ns: u64,
    seen_counted: bool,
    counted: bool,
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
        });
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
        guard.drain();
        let waiting = guard.worklist.len() as u64;
        let saturated = guard.running >= self.target;
        let completed = guard.stats.completed;
        let done = completed - watched.completed;
        watched.completed = completed;
        if !saturated || waiting == 0 {
            self.set_help_wanted(false);
            watched.calm_looks += 1;
            if watched.calm_looks >= FORGET_AFTER {
                guard.watched = false;
                return false;
            }
            return true;
        }
        watched.calm_looks = 0;
        let suspects: Vec<Suspect> = guard
            .workers
            .iter()
            .filter_map(|(id, worker)| match worker.state {
                WorkerState::Busy { counted } => Some(Suspect {
                    id,
                    tid: worker.handle.tid.load(Ordering::Relaxed) as i32,
                    runs: worker.runs,
                    seen_runs: worker.seen_runs,
                    seen_cpu_ns: worker.seen_cpu_ns,
                    seen_counted: worker.seen_counted,
                    counted,
                }),
                _ => None,
            })
            .collect();
        drop(guard);
        for suspect in suspects {
            self.question(suspect);
        }
        self.consider_help(waiting, done);
        true
    }

    /// Compares a busy worker's CPU clock with what it was at the last look.
    fn question(self: &Arc<Self>, suspect: Suspect) {
        let Some(cpu_ns) = thread::cpu_time_ns(suspect.tid) else {
            return;
        };
        let same_item = suspect.runs == suspect.seen_runs;
        let stood_still = cpu_ns.saturating_sub(suspect.seen_cpu_ns) < ASLEEP_BELOW_NS;
        let asleep = same_item && stood_still && suspect.counted && thread::is_asleep(suspect.tid);
        let mut guard = self.lock();
        let Some(worker) = guard.workers.get_mut(suspect.id) else {
            return;
        };
        worker.seen_runs = suspect.runs;
        worker.seen_cpu_ns = cpu_ns;
        worker.seen_counted = suspect.counted;
        if worker.runs != suspect.runs
            || worker.state
                != (WorkerState::Busy {
                    counted: suspect.counted,
                })
        {
            return;
        }
        if asleep {
            worker.state = WorkerState::Busy { counted: false };
            guard.running -= 1;
            guard.stats.blocked_seen += 1;
        } else if !suspect.counted && !suspect.seen_counted && same_item && !stood_still {
            // Out at the last look already, and its clock has moved since.
            worker.state = WorkerState::Busy { counted: true };
            guard.running += 1;
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
