//! The creator: one thread of each engine that only creates threads: workers, and threads for jobs
//! that may take long. The system may block the thread that creates a thread, for memory or a
//! frozen control group; the service thread goes on meanwhile, and calls the rescuers.
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
struct CreateRequests {
    asked: Vec<PoolRef>,
    jobs: Vec<Job>,
    started: bool,
    stop: bool,
}

type Work = Box<dyn FnOnce() + Send>;

/// A job that waits for a thread of its own.
struct Job {
    name: &'static str,
    /// The job itself. The thread that runs it takes it out of here; so if that thread cannot be
    /// created, the job is still here.
    what: Arc<Mutex<Option<Work>>>,
}

impl Job {
    /// `false`: no thread can be created now.
    fn starts(&self) -> bool {
        let what = self.what.clone();
        let does = move || {
            // Taken in a statement of its own, so that the lock is released before the job runs.
            let what = what.lock().take();
            what.into_iter().for_each(|what| what());
        };
        thread::spawn(self.name, does).is_ok()
    }
}

pub(in crate::pool) struct Creator {
    requests: Mutex<CreateRequests>,
    parker: Parker,
}

impl Creator {
    pub(in crate::pool) fn new() -> Arc<Creator> {
        Arc::new(Creator {
            requests: Mutex::new(CreateRequests::default()),
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
            let (creator, speaker) = (self.clone(), reporter.speaker());
            thread::spawn_bound("cmwq-creator", cpus, move || {
                let _speaks = speaker.speak();
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

    /// Has a thread created for a job, now or as soon as the system permits. The caller does not
    /// wait.
    pub(in crate::pool) fn perform(&self, name: &'static str, what: Work) {
        let what = Arc::new(Mutex::new(Some(what)));
        self.requests.lock().jobs.push(Job { name, what });
        self.parker.unpark();
    }

    fn run(&self) {
        let mut attempts = Attempts::default();
        let mut jobs = Jobs::default();
        loop {
            {
                let mut requests = self.requests.lock();
                if requests.stop {
                    return;
                }
                attempts.first.extend(requests.asked.drain(..));
                jobs.first.append(&mut requests.jobs);
            }
            jobs.start(clock::now_ns(), Job::starts);
            let Some(next) = attempts.next(clock::now_ns()) else {
                let again = [attempts.cooling.earliest(), jobs.again_at()];
                let timeout = again
                    .into_iter()
                    .flatten()
                    .min()
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

/// The jobs that have no thread yet. It reads no clock.
struct Jobs<J> {
    first: Vec<J>,
    /// No thread could be created for these.
    refused: Vec<J>,
    refused_ns: u64,
}

impl<J> Default for Jobs<J> {
    fn default() -> Self {
        Jobs {
            first: Vec::new(),
            refused: Vec::new(),
            refused_ns: 0,
        }
    }
}

impl<J> Jobs<J> {
    /// Starts threads for the new jobs, and for refused ones if the cooldown has passed.
    fn start(&mut self, now: u64, starts: impl Fn(&J) -> bool) {
        if self.again_at().is_some_and(|at| at <= now) {
            self.first.splice(0..0, self.refused.drain(..));
        }
        let refused = self.first.extract_if(.., |job| !starts(job));
        let before = self.refused.len();
        self.refused.extend(refused);
        self.first.clear();
        if self.refused.len() > before {
            self.refused_ns = now;
        }
    }

    fn again_at(&self) -> Option<u64> {
        (!self.refused.is_empty()).then(|| self.refused_ns + COOLDOWN_NS)
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_job_for_which_no_thread_can_be_created_is_kept_and_tried_again_a_second_later() {
        let mut jobs = Jobs::default();
        let started = Mutex::new(Vec::new());
        let starts = |job: &u32| {
            started.lock().push(*job);
            true
        };
        let start = 5 * SECOND;
        jobs.first.extend([1, 2]);
        jobs.start(start, |&job| job != 1);
        assert_eq!(jobs.again_at(), Some(start + SECOND));
        jobs.first.push(3);
        jobs.start(start + SECOND - 1, starts);
        assert_eq!(*started.lock(), [3], "a new one at once");
        jobs.start(start + SECOND, |_| false);
        assert_eq!(jobs.again_at(), Some(start + 2 * SECOND));
        jobs.first.push(4);
        jobs.start(start + 2 * SECOND, starts);
        assert_eq!(*started.lock(), [3, 1, 4]);
        assert_eq!(jobs.again_at(), None);
    }

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
