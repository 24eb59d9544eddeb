//! The creator: one thread of each engine that only creates workers. The system may block the thread that creates a thread, for memory or a frozen
//! control group; the service thread goes on meanwhile, and calls the rescuers.
#![forbid(unsafe_code)]

use super::deadlines::{Deadlines, PoolRef};
use crate::pool::state::pool::Pool;
use crate::sys::park::Parker;
use crate::sys::sync::Mutex;
use crate::sys::{clock, thread};
use crate::topology::CpuSet;
use crate::trace::Reporter;
use crate::trace::warn_once;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long the creation of a pool's worker rests after a refusal (the kernel's cooldown).
const COOLDOWN_NS: u64 = 1_000_000_000;

#[derive(Default)]
struct Requests {
    asked: Vec<PoolRef>,
    started: bool,
    stop: bool,
}

pub(in crate::pool) struct Creator {
    requests: Mutex<Requests>,
    parker: Parker,
}

impl Creator {
    pub(in crate::pool) fn new() -> Arc<Creator> {
        Arc::new(Creator {
            requests: Mutex::new(Requests::default()),
            parker: Parker::new(),
        })
    }

    /// Starts the thread, on `cpus`, if it does not run yet.
    pub(in crate::pool) fn ensure_started(
        self: &Arc<Self>,
        cpus: &CpuSet,
        reporter: &Arc<Reporter>,
    ) -> io::Result<()> {
        let mut requests = self.requests.lock();
        if !requests.started {
            let (creator, reporter) = (self.clone(), reporter.clone());
            thread::spawn_bound("cmwq-creator", cpus, move || {
                reporter.speak_for_current_thread();
                creator.run();
            })?;
            requests.started = true;
        }
        Ok(())
    }

    /// Ends the thread. Requests that are not done are dropped.
    pub(in crate::pool) fn stop(&self) {
        self.requests.lock().stop = true;
        self.parker.unpark();
    }

    /// Asks for one worker.
    pub(in crate::pool) fn ask(&self, pool: &Arc<Pool>) {
        self.requests.lock().asked.push(PoolRef::to(pool));
        self.parker.unpark();
    }

    fn run(&self) {
        let mut attempts = Attempts::default();
        loop {
            {
                let mut requests = self.requests.lock();
                if requests.stop {
                    return;
                }
                attempts.first.extend(requests.asked.drain(..));
            }
            let Some(next) = attempts.next(clock::now_ns()) else {
                let timeout = attempts
                    .cooling
                    .earliest()
                    .map(|at| Duration::from_nanos(at.saturating_sub(clock::now_ns()).max(1)));
                self.parker.park_for(timeout);
                continue;
            };
            // Not under the lock: this may take long.
            let Some(pool) = next.get() else { continue };
            match pool.start_worker() {
                Ok(()) if pool.is_short_beside_hogs() => attempts.first.push_back(next),
                Ok(()) => {}
                Err(error) => {
                    warn_once!(
                        "a worker thread cannot be created, trying again every second: {error}"
                    );
                    attempts.refused(next, clock::now_ns());
                }
            }
        }
    }
}

/// Which pools get a worker, in which order. It reads no clock.
struct Attempts<P> {
    first: VecDeque<P>,
    /// Pools whose creation was refused.
    cooling: Deadlines<P>,
}

impl<P> Default for Attempts<P> {
    fn default() -> Self {
        Attempts {
            first: VecDeque::new(),
            cooling: Deadlines::default(),
        }
    }
}

impl<P: PartialEq> Attempts<P> {
    fn next(&mut self, now: u64) -> Option<P> {
        self.first.extend(self.cooling.take_due(now));
        self.first.pop_front()
    }

    fn refused(&mut self, pool: P, now: u64) {
        self.cooling.set(now + COOLDOWN_NS, pool);
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_refused_creation_is_tried_again_a_second_later_and_others_need_not_wait() {
        let mut attempts = Attempts::default();
        attempts.first.extend([1, 2]);
        let start = 5 * SECOND;
        assert_eq!(attempts.next(start), Some(1));
        attempts.refused(1, start);
        assert_eq!(attempts.next(start), Some(2), "at once");
        assert_eq!(attempts.next(start), None);
        assert_eq!(attempts.cooling.earliest(), Some(start + SECOND));
        assert_eq!(attempts.next(start + SECOND - 1), None);
        assert_eq!(attempts.next(start + SECOND), Some(1));
        attempts.refused(1, start + SECOND);
        assert_eq!(attempts.next(start + 2 * SECOND), Some(1), "and again");
        assert_eq!(attempts.next(start + 9 * SECOND), None, "it has come");
        assert_eq!(attempts.cooling.earliest(), None);
    }
}
