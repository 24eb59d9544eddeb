//! Accounts CPU time to the queues whose items use it, by sampling which workers run, as the kernel
//! does at its ticks.
#![forbid(unsafe_code)]

use crate::pool::state::pool::{Inner, Pool};
use crate::pool::state::worker::{Busy, WorkerState};
use crate::sys::thread::{self, ThreadState};
use std::sync::Arc;

/// How many workers of a pool are asked in one sample at most, since each costs reading a file. The
/// next sample goes on with the others.
const MOST_ASKED: usize = 16;

impl Pool {
    /// For each worker that runs an item now: accounts all CPU time of its thread that is not
    /// accounted yet to the queue of that item. No time is counted twice or left out for good, and
    /// a queue is met the more often the more it computes. So the shares are right on average, and
    /// the sum contains what workers use to search in between. A worker that sleeps in its item is
    /// left out of this sample. Returns whether anything has run since the last sample.
    ///
    /// The first call only takes the initial clocks. Time of rescuers and of waiters that run their
    /// item is not seen.
    pub(crate) fn account_cpu_time(self: &Arc<Self>) -> bool {
        let (running, begins, ran) = {
            let mut guard = self.lock();
            let inner: &mut Inner = &mut guard;
            let begins = !std::mem::replace(&mut inner.cpu_accounting.begun, true);
            let started = std::mem::replace(&mut inner.cpu_accounting.started, inner.stats.started);
            inner.cpu_accounting.ticks += 1;
            let running = inner.workers_to_ask(begins);
            (running, begins, started != inner.stats.started)
        };
        let busy = ran || (!begins && !running.is_empty());
        // Done with the lock released, since it takes a system call or two for each worker.
        let clocks: Vec<(u32, u64)> = running
            .into_iter()
            .filter(|&(_, tid)| begins || thread::state_of(tid) != ThreadState::Asleep)
            .filter_map(|(id, tid)| Some((id, thread::cpu_time_ns(tid)?)))
            .collect();
        let mut guard = self.lock();
        let inner: &mut Inner = &mut guard;
        for (id, cpu_ns) in clocks {
            let Some(slot) = inner.workers.get_mut(id) else {
                continue;
            };
            let used = cpu_ns.saturating_sub(slot.accounted_cpu_ns);
            if begins {
                slot.accounted_cpu_ns = cpu_ns;
            } else if matches!(slot.state, WorkerState::Busy(_)) {
                slot.accounted_cpu_ns = cpu_ns;
                // While the worker is busy, the field `pwq` names the pool workqueue of its item.
                inner.pwqs[slot.pwq].stats.cpu_ns += used;
            }
        }
        busy
    }
}

impl Inner {
    /// The workers to ask in this sample: those that run an item and are not known to be blocked.
    /// `all`: all that have begun.
    fn workers_to_ask(&self, all: bool) -> Vec<(u32, i32)> {
        let workers = self.workers.iter().filter_map(|(id, slot)| {
            let tid = slot.handle.tid();
            let runs = matches!(
                slot.state,
                WorkerState::Busy(Busy::Running | Busy::CpuIntensive)
            );
            (tid != 0 && (all || runs)).then_some((id, tid))
        });
        let mut workers: Vec<(u32, i32)> = workers.collect();
        if !all && workers.len() > MOST_ASKED {
            let first = self.cpu_accounting.ticks * MOST_ASKED % workers.len();
            workers.rotate_left(first);
            workers.truncate(MOST_ASKED);
        }
        workers
    }
}
