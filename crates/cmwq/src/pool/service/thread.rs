//! The service thread: one per engine, asleep unless asked. It does what is due at some time, and nothing that can block: it watches
//! saturated pools (`monitor.rs`); it calls rescuers when a worker that is needed does not come; it lets workers go that have long
//! been idle; it has the engine look whether CPUs have come or gone, and whether pools are stalled.
//!
//! What may block is done by two threads beside it, which sleep unless asked as well: the [creator](super::creator) creates the
//! workers, so that no issuer ever does, and the [reporter](Reporter) calls the program's handlers. Nobody waits for either.

use super::creator::Creator;
use super::deadlines::PoolRef;
use super::timers::{Timers, mayday_after};
use crate::pool::balance::monitor::Watch;
use crate::pool::state::pool::{Helper, Pool};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;
use crate::sys::park::Parker;
use crate::sys::sync::Mutex;
use crate::sys::{clock, thread};
use crate::topology::CpuSet;
use crate::trace::Reporter;
use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// What the service thread does for the engine.
pub(crate) trait Caretaker: Send + Sync {
    /// CPUs may have come or gone.
    fn check_cpus(self: Arc<Self>);
    /// Looks for pools that make no progress, if it is time to. Returns the time of the next look, if there is to be one.
    fn watchdog(self: Arc<Self>, now_ns: u64) -> Option<u64>;
    /// Looks after the pools in line for running slots. Returns the time of the next look, if there are any.
    fn tend_slots(self: Arc<Self>, now_ns: u64) -> Option<u64>;
}

/// How often the CPUs are looked at while the process is not idle.
const CPU_CHECK_NS: u64 = 400_000_000;

#[derive(Default)]
struct Requests {
    /// The creator was asked for a worker: since when.
    create: Vec<(PoolRef, u64)>,
    watch: Vec<PoolRef>,
    cull: Vec<PoolRef>,
    check_cpus: bool,
    watchdog: bool,
    slots: bool,
    started: bool,
    stop: bool,
    /// While the thread sleeps: until when.
    sleeps_until: Option<u64>,
}

impl Requests {
    fn any(&self) -> bool {
        let pools = [self.watch.len(), self.cull.len(), self.create.len()];
        self.check_cpus
            || self.watchdog
            || self.slots
            || self.stop
            || pools.iter().any(|&asked| asked > 0)
    }
}

/// Whether the CPUs are being looked at again and again. An idle process is not disturbed: nothing runs that could be in the
/// wrong place, and the first worker to wake up begins the looking anew.
mod checks {
    /// Not; the next worker that wakes up asks for it.
    pub(in crate::pool) const RESTING: u32 = 0;
    /// Yes, and no worker has woken up since the last look.
    pub(in crate::pool) const QUIET: u32 = 1;
    /// Yes.
    pub(in crate::pool) const BUSY: u32 = 2;
}

pub(crate) struct Service {
    requests: Mutex<Requests>,
    /// Where its threads may run: they must not inherit the one CPU of an issuer that built the first queue.
    cpus: CpuSet,
    parker: Parker,
    creator: Arc<Creator>,
    reporter: Arc<Reporter>,
    caretaker: OnceLock<Weak<dyn Caretaker>>,
    /// One of [`checks`].
    cpu_checks: AtomicU32,
}

impl Service {
    pub(crate) fn new(cpus: CpuSet) -> Arc<Service> {
        Arc::new(Service {
            requests: Mutex::new(Requests::default()),
            cpus,
            parker: Parker::new(),
            creator: Creator::new(),
            reporter: Reporter::new(),
            caretaker: OnceLock::new(),
            cpu_checks: AtomicU32::new(checks::RESTING),
        })
    }

    /// For whom it looks at CPUs and stalled pools.
    pub(crate) fn set_caretaker(&self, caretaker: Weak<dyn Caretaker>) {
        // Set once, by whoever makes the engine.
        let _ = self.caretaker.set(caretaker);
    }

    fn caretaker(&self) -> Option<Arc<dyn Caretaker>> {
        self.caretaker.get()?.upgrade()
    }

    /// The watchdog's threshold has changed.
    pub(crate) fn watchdog_changed(&self) {
        self.ask(|requests| requests.watchdog = true);
    }

    /// Does `job` on a thread of its own; on the reporter's if no thread can be created.
    pub(crate) fn perform_elsewhere(&self, name: &str, job: impl FnOnce() + Send + 'static) {
        let job = Arc::new(Mutex::new(Some(job)));
        let perform = move |job: &Mutex<Option<_>>| {
            // In a statement of its own: the lock is free again.
            let job = job.lock().take();
            if let Some(job) = job {
                let job: Box<dyn FnOnce() + Send> = Box::new(job);
                job();
            }
        };
        let of_thread = job.clone();
        if thread::spawn(name, move || perform(&of_thread)).is_err() {
            self.reporter.perform(Box::new(move || perform(&job)));
        }
    }

    /// Starts those of its threads that do not run yet. All of them before they are needed: the service thread may not wait for
    /// their creation, and it may be refused just then.
    pub(crate) fn ensure_started(self: &Arc<Self>) -> io::Result<()> {
        let mut requests = self.requests.lock();
        if !requests.started {
            self.reporter.ensure_started(&self.cpus)?;
            self.creator.ensure_started(&self.cpus, &self.reporter)?;
            let service = self.clone();
            thread::spawn("cmwq-service", move || service.run())?;
            requests.started = true;
        }
        Ok(())
    }

    /// Ends the threads. What was asked for and not done is dropped, but for what is to be said. The caller does not wait for them: the
    /// creator may be in the middle of a creation, and the reporter in a handler.
    pub(crate) fn stop(&self) {
        self.ask(|requests| requests.stop = true);
        self.creator.stop();
        self.reporter.stop();
    }

    fn ask(&self, what: impl FnOnce(&mut Requests)) {
        what(&mut self.requests.lock());
        self.parker.unpark();
    }

    fn run(self: Arc<Self>) {
        self.reporter.speak_for_current_thread();
        // Refused if none of them is allowed any more: then it stays where it is.
        let _ = thread::bind_current(&self.cpus);
        let mut watch = Watch::default();
        let mut timers = Timers::default();
        timers.watchdog = self
            .caretaker()
            .and_then(|caretaker| caretaker.watchdog(clock::now_ns()));
        loop {
            let asked = self.take_requests();
            if asked.stop {
                return;
            }
            let now = clock::now_ns();
            timers.asked(asked.create, asked.cull, now);
            for pool in asked.watch {
                watch.add(pool.into_weak());
            }
            timers.expire(now);
            if asked.check_cpus || timers.cpu_check.is_some_and(|at| at <= now) {
                timers.cpu_check = self
                    .check_cpus(!watch.is_empty())
                    .then(|| now + CPU_CHECK_NS);
            }
            if asked.watchdog || timers.watchdog.is_some_and(|at| at <= now) {
                timers.watchdog = self
                    .caretaker()
                    .and_then(|caretaker| caretaker.watchdog(now));
            }
            if asked.slots || timers.slots.is_some_and(|at| at <= now) {
                timers.slots = self
                    .caretaker()
                    .and_then(|caretaker| caretaker.tend_slots(now));
            }
            let next_look = watch.look(clock::now_ns());
            self.sleep_until(timers.earliest(next_look));
        }
    }

    fn take_requests(&self) -> Requests {
        let mut requests = self.requests.lock();
        let (started, stop) = (requests.started, requests.stop);
        let left = Requests {
            started,
            stop,
            ..Requests::default()
        };
        std::mem::replace(&mut *requests, left)
    }

    /// Sleeps, unless something was asked for meanwhile.
    fn sleep_until(&self, at: Option<u64>) {
        {
            let mut requests = self.requests.lock();
            if requests.any() {
                return;
            }
            requests.sleeps_until = Some(at.unwrap_or(u64::MAX));
        }
        let left = |at: u64| Duration::from_nanos(at.saturating_sub(clock::now_ns()).max(1));
        self.parker.park_for(at.map(left));
    }

    /// Has the engine look at its CPUs, unless nothing has happened since the last look. Tells whether to look again.
    fn check_cpus(&self, saturated: bool) -> bool {
        // Relaxed, all of them: a hint that decides only when the next look comes.
        let was = self.cpu_checks.swap(checks::QUIET, Ordering::Relaxed);
        if was != checks::BUSY && !saturated {
            self.cpu_checks.store(checks::RESTING, Ordering::Relaxed);
            return false;
        }
        if let Some(caretaker) = self.caretaker() {
            caretaker.check_cpus();
        }
        true
    }
}

impl Helper for Service {
    fn create_worker(&self, pool: &Arc<Pool>) {
        let asked_ns = clock::now_ns();
        self.creator.ask(pool);
        // The service thread has to be awake in time to call the rescuers; while pools grow it most often will be.
        let wake = {
            let mut requests = self.requests.lock();
            requests.create.push((PoolRef::to(pool), asked_ns));
            requests
                .sleeps_until
                .is_some_and(|until| until > mayday_after(asked_ns))
        };
        if wake {
            self.parker.unpark();
        }
    }

    fn watch(&self, pool: &Arc<Pool>) {
        self.ask(|requests| requests.watch.push(PoolRef::to(pool)));
    }

    fn cull_later(&self, pool: &Arc<Pool>) {
        self.ask(|requests| requests.cull.push(PoolRef::to(pool)));
    }

    fn call_thief(&self, pool: &Arc<Pool>) {
        pool.call_thief();
    }

    fn slots_wanted(&self) {
        self.ask(|requests| requests.slots = true);
    }

    #[inline]
    fn woke(&self) {
        match self.cpu_checks.load(Ordering::Relaxed) {
            checks::BUSY => {}
            checks::QUIET => self.cpu_checks.store(checks::BUSY, Ordering::Relaxed),
            _ => {
                if self.cpu_checks.swap(checks::BUSY, Ordering::Relaxed) == checks::RESTING {
                    self.ask(|requests| requests.check_cpus = true);
                }
            }
        }
    }
}
