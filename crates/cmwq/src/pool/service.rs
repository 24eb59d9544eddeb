//! The service thread: one per engine, asleep unless asked. It creates workers, so that no issuer ever does; it watches
//! saturated pools (`monitor.rs`); it lets workers go that have long been idle; it calls rescuers when workers cannot be
//! created; and it has the engine look whether CPUs have come or gone.

use super::monitor::Watch;
use super::{Pool, WorkerState};
use crate::observe::warn;
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;
use crate::sys::park::Parker;
use crate::sys::sync::Mutex;
use crate::sys::{clock, thread};
use crate::topology::CpuSet;
use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// What a pool may ask for. Called with no pool's lock held.
pub(crate) trait Helper: Send + Sync {
    /// Create one worker; the pool counts it as coming.
    fn create_worker(&self, pool: &Arc<Pool>);
    /// The pool is saturated: look at it now and then.
    fn watch(&self, pool: &Arc<Pool>);
    /// Too many workers are idle: look again when they have been so for long.
    fn cull_later(&self, pool: &Arc<Pool>);
    /// A worker has woken up, or looks for work: the process is not idle.
    fn woke(&self);
}

/// What the service thread does for the engine.
pub(crate) trait Caretaker: Send + Sync {
    /// CPUs may have come or gone.
    fn check_cpus(self: Arc<Self>);
    /// Looks for pools that make no progress, if it is time to. Returns the time of the next look, if there is to be one.
    fn watchdog(self: Arc<Self>, now_ns: u64) -> Option<u64>;
}

/// How long the creation of workers rests after a failure (the kernel's cooldown).
const CREATE_COOLDOWN_NS: u64 = 1_000_000_000;
/// When rescuers are called, after a creation that failed and then again and again.
const MAYDAY_INITIAL_NS: u64 = 10_000_000;
const MAYDAY_INTERVAL_NS: u64 = 100_000_000;
/// How often the CPUs are looked at while the process is not idle.
const CPU_CHECK_NS: u64 = 400_000_000;

#[derive(Default)]
struct Requests {
    create: Vec<Weak<Pool>>,
    watch: Vec<Weak<Pool>>,
    cull: Vec<Weak<Pool>>,
    check_cpus: bool,
    watchdog: bool,
    started: bool,
    stop: bool,
}

/// Whether the CPUs are being looked at again and again. An idle process is not disturbed: nothing runs that could be in the
/// wrong place, and the first worker to wake up begins the looking anew.
mod checks {
    /// Not; the next worker that wakes up asks for it.
    pub(super) const RESTING: u32 = 0;
    /// Yes, and no worker has woken up since the last look.
    pub(super) const QUIET: u32 = 1;
    /// Yes.
    pub(super) const BUSY: u32 = 2;
}

pub(crate) struct Service {
    requests: Mutex<Requests>,
    /// Where the thread may run: it must not inherit the one CPU of an issuer that built the first queue.
    cpus: CpuSet,
    parker: Parker,
    caretaker: OnceLock<Weak<dyn Caretaker>>,
    /// One of [`checks`].
    cpu_checks: AtomicU32,
}

/// Something to do at a point in time.
type Timed = (u64, Weak<Pool>);

impl Service {
    pub(crate) fn new(cpus: CpuSet) -> Arc<Service> {
        Arc::new(Service {
            requests: Mutex::new(Requests::default()),
            cpus,
            parker: Parker::new(),
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

    /// Starts the thread if it does not run yet.
    pub(crate) fn ensure_started(self: &Arc<Self>) -> io::Result<()> {
        let mut requests = self.requests.lock();
        if !requests.started {
            let service = self.clone();
            thread::spawn("cmwq-service", move || service.run())?;
            requests.started = true;
        }
        Ok(())
    }

    /// Ends the thread. What was asked for and not done is dropped.
    pub(crate) fn stop(&self) {
        self.ask(|requests| requests.stop = true);
    }

    fn ask(&self, what: impl FnOnce(&mut Requests)) {
        what(&mut self.requests.lock());
        self.parker.unpark();
    }

    fn run(self: Arc<Self>) {
        // Refused if none of them is allowed any more: then it stays where it is.
        let _ = thread::bind_current(&self.cpus);
        let mut watch = Watch::new();
        let mut timers = Timers {
            watchdog: self
                .caretaker()
                .and_then(|caretaker| caretaker.watchdog(clock::now_ns())),
            ..Timers::default()
        };
        loop {
            let asked = {
                let mut requests = self.requests.lock();
                let (started, stop) = (requests.started, requests.stop);
                std::mem::replace(
                    &mut *requests,
                    Requests {
                        started,
                        stop,
                        ..Requests::default()
                    },
                )
            };
            let now = clock::now_ns();
            for pool in asked.create {
                timers.create(pool, now, true);
            }
            if asked.stop {
                return;
            }
            for pool in asked.watch {
                watch.add(pool);
            }
            for pool in asked.cull {
                let after = pool.upgrade().map_or(0, |pool| pool.attrs.idle_timeout_ns);
                timers.culls.push((now + after, pool));
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
            let next_look = watch.look(clock::now_ns());
            let timeout = timers
                .earliest(next_look)
                .map(|at| Duration::from_nanos(at.saturating_sub(clock::now_ns()).max(1)));
            self.parker.park_for(timeout);
        }
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

/// What the thread does by time.
#[derive(Default)]
struct Timers {
    retries: Vec<Timed>,
    maydays: Vec<Timed>,
    culls: Vec<Timed>,
    cpu_check: Option<u64>,
    watchdog: Option<u64>,
}

impl Timers {
    fn expire(&mut self, now: u64) {
        for pool in due(&mut self.retries, now) {
            self.create(pool, now, false);
        }
        for pool in due(&mut self.maydays, now) {
            if pool.upgrade().is_some_and(|pool| pool.mayday()) {
                self.maydays.push((now + MAYDAY_INTERVAL_NS, pool));
            }
        }
        for pool in due(&mut self.culls, now) {
            if let Some(next) = pool.upgrade().and_then(|pool| pool.cull(now)) {
                self.culls.push((next, pool));
            }
        }
    }

    /// Creates a worker; if that fails, tries again later, and sees to it that rescuers are called meanwhile.
    fn create(&mut self, pool: Weak<Pool>, now: u64, first: bool) {
        let Some(strong) = pool.upgrade() else { return };
        if let Err(error) = strong.start_worker() {
            static WARNED: AtomicU32 = AtomicU32::new(0);
            if WARNED.swap(1, Ordering::Relaxed) == 0 {
                warn(&format!(
                    "a worker thread cannot be created, trying again every second: {error}"
                ));
            }
            if first {
                self.maydays.push((now + MAYDAY_INITIAL_NS, pool.clone()));
            }
            self.retries.push((now + CREATE_COOLDOWN_NS, pool));
        }
    }

    fn earliest(&self, other: Option<u64>) -> Option<u64> {
        let lists = [&self.retries, &self.maydays, &self.culls];
        let timed = lists.into_iter().filter_map(|list| earliest(list));
        timed
            .chain(other)
            .chain(self.cpu_check)
            .chain(self.watchdog)
            .min()
    }
}

fn earliest(timed: &[Timed]) -> Option<u64> {
    timed.iter().map(|(at, _)| *at).min()
}

fn due(timed: &mut Vec<Timed>, now: u64) -> Vec<Weak<Pool>> {
    let mut due = Vec::new();
    timed.retain(|(at, pool)| {
        let is_due = *at <= now;
        if is_due {
            due.push(pool.clone());
        }
        !is_due
    });
    due
}

impl Helper for Service {
    fn create_worker(&self, pool: &Arc<Pool>) {
        self.ask(|requests| requests.create.push(Arc::downgrade(pool)));
    }

    fn watch(&self, pool: &Arc<Pool>) {
        self.ask(|requests| requests.watch.push(Arc::downgrade(pool)));
    }

    fn cull_later(&self, pool: &Arc<Pool>) {
        self.ask(|requests| requests.cull.push(Arc::downgrade(pool)));
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

impl Pool {
    /// Lets workers go that have been idle for long, oldest first, while too many are. A worker that was picked to be
    /// woken is not on the idle list, so it cannot be among them. Returns when to look again.
    pub(super) fn cull(self: &Arc<Self>, now: u64) -> Option<u64> {
        let mut guard = self.lock();
        while guard.too_many_idle() {
            let oldest = guard.idle[0];
            let WorkerState::Idle { since_ns } = guard.workers[oldest].state else {
                unreachable!("a worker on the idle list is idle")
            };
            let deadline = since_ns + self.attrs.idle_timeout_ns;
            if deadline > now {
                return Some(deadline);
            }
            guard.workers[oldest].die = true;
            guard.leaving += 1;
            guard.wake_at(0);
        }
        guard.cull_armed = false;
        None
    }
}
