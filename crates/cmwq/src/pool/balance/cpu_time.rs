//! Charging CPU time to the queues whose items use it, as the kernel does at its ticks: by looking now and then who is running.
#![forbid(unsafe_code)]

use crate::pool::state::pool::{Inner, Pool};
use crate::pool::state::worker::{Busy, WorkerState};
use crate::sys::atomic::Ordering;
use crate::sys::thread::{self, ThreadState};
use std::sync::Arc;

/// No more workers of a pool are asked in one look: each answer is a file to read. The next look goes on with the others.
const MOST_ASKED: usize = 16;

impl Pool {
    /// Charges workers that are found running an item with all CPU time of their threads that has not been charged yet, to the queue of
    /// that item. Nothing is charged twice or left out for good, and which queue is met how often goes by who computes for how long:
    /// so the shares are right on average, and the sum contains what workers use to look for work in between. A worker that sleeps in its item is
    /// not charged then. Tells whether anything has run since the last look.
    ///
    /// The first call only begins the reckoning. What others run, a rescuer and a thread that waits for its item, is not seen.
    pub(crate) fn account_cpu_time(self: &Arc<Self>) -> bool {
        let (running, begins, ran) = {
            let mut guard = self.lock();
            let inner: &mut Inner = &mut guard;
            let begins = !std::mem::replace(&mut inner.cpu_accounting.begun, true);
            let started = std::mem::replace(&mut inner.cpu_accounting.started, inner.stats.started);
            inner.cpu_accounting.looks += 1;
            let running = inner.workers_to_ask(begins);
            (running, begins, started != inner.stats.started)
        };
        let busy = ran || (!begins && !running.is_empty());
        // With the lock free: a system call or two for each.
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
            let used = cpu_ns.saturating_sub(slot.charged_cpu_ns);
            if begins {
                slot.charged_cpu_ns = cpu_ns;
            } else if matches!(slot.state, WorkerState::Busy(_)) {
                slot.charged_cpu_ns = cpu_ns;
                // Between its beginning and its end nobody else's item is in `pwq`.
                inner.pwqs[slot.pwq].stats.cpu_ns += used;
            }
        }
        busy
    }
}

impl Inner {
    /// The workers that run an item and are not known to be blocked, as far as they are asked in this look; `all`: all that have begun.
    fn workers_to_ask(&self, all: bool) -> Vec<(u32, i32)> {
        let workers = self.workers.iter().filter_map(|(id, slot)| {
            let tid = slot.handle.tid.load(Ordering::Relaxed) as i32;
            let runs = matches!(
                slot.state,
                WorkerState::Busy(Busy::Running | Busy::CpuIntensive)
            );
            (tid != 0 && (all || runs)).then_some((id, tid))
        });
        let mut workers: Vec<(u32, i32)> = workers.collect();
        if !all && workers.len() > MOST_ASKED {
            let first = self.cpu_accounting.looks * MOST_ASKED % workers.len();
            workers.rotate_left(first);
            workers.truncate(MOST_ASKED);
        }
        workers
    }
}
