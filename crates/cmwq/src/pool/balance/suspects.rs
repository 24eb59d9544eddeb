//! The monitor's samples of busy workers: which of them sleep without having declared it, have come
//! back, or run a CPU hog.
#![forbid(unsafe_code)]

use super::monitor::PERIOD_NS;
use crate::item::{WorkFn, address_of};
use crate::pool::attrs::function_counts::worth_a_report;
use crate::pool::lock::guard::PoolGuard;
use crate::pool::state::hogs::Computing;
use crate::pool::state::pool::{FrontEnd, Pool};
use crate::pool::state::worker::{Busy, WorkerHandle, WorkerState};
use crate::sys::atomic::Ordering;
use crate::sys::{names, thread};
use crate::trace::warn_with;
use std::sync::Arc;

/// Less CPU time than this in one period counts as none: going to sleep takes some.
const ASLEEP_BELOW_NS: u64 = PERIOD_NS / 10;
/// How many threads' states are read at a tick at most. Each read takes some microseconds.
const MOST_STATES: usize = 16;

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
    /// Reads the thread's CPU clock. Returns `None` if the thread has ended.
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

impl Pool {
    /// Samples every worker that runs an item, with the lock free. `next_suspect`: which of those
    /// that may sleep is asked first, and will be at the next tick.
    pub(super) fn sample_busy(self: &Arc<Self>, guard: PoolGuard<'_>, next_suspect: &mut usize) {
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
        let first = *next_suspect % still.max(1);
        *next_suspect = first + MOST_STATES;
        let mut asked = (0..still).map(|nth| (nth + still - first) % still < MOST_STATES);
        for suspect in suspects {
            let asleep = suspect.may_sleep()
                && asked.next() == Some(true)
                && suspect.handle.may_sleep_in_item();
            self.judge(suspect, asleep);
        }
    }

    /// Compares a busy worker's CPU clock with its value at the last tick.
    fn judge(self: &Arc<Self>, suspect: Suspect, asleep: bool) {
        let Suspect { tid, cpu_ns, .. } = suspect;
        let same_item = suspect.is_same_item();
        let counted = suspect.busy == Busy::Running;
        // A moving clock alone does not show that a worker is back, since time that the host of a
        // virtual machine takes counts as CPU time too.
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
            // It was not counted as running at the last tick, and its clock has moved since.
            guard.step_in(suspect.id, None);
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
            // Only per-CPU pools report hogs: on an unbound queue computing for long is allowed.
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
                    names::name_of(func),
                )
            });
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
