//! The service thread: one per engine, asleep unless it has a request or a deadline. It does
//! nothing that can block. It runs the monitor of saturated pools (`monitor.rs`), calls rescuers
//! when a worker that is needed does not come, and culls idle workers. It has the engine check
//! whether CPUs have come or gone, and whether pools are stalled.
//!
//! Two threads beside it do what may block, and sleep without requests as well: the
//! [creator](super::creator) creates the workers, so that no issuer ever does, and the
//! [reporter](Reporter) calls the program's handlers in place of all of them. No thread waits for
//! either.

use super::checks::CpuChecks;
use super::creator::Creator;
use super::deadlines::PoolRef;
use super::timers::{PoolTimers, mayday_after};
use crate::pool::balance::monitor::Monitor;
use crate::pool::state::member;
use crate::pool::state::pool::{Pool, PoolService};
use crate::sys::park::Parker;
use crate::sys::sync::Mutex;
use crate::sys::{clock, thread};
use crate::topology::CpuSet;
use crate::trace::{Foreign, Reporter, Speaker, new_reporter};
use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

/// What the service thread does for the engine.
pub(crate) trait Maintenance: Send + Sync {
    /// CPUs may have come or gone.
    fn check_cpus(self: Arc<Self>);
    /// Finds pools that make no progress, if that is due. Returns the time of the next call, if
    /// there is to be one.
    fn watchdog(self: Arc<Self>) -> Option<u64>;
    /// Serves the pools in line for running slots. Returns the time of the next call, if any are left.
    fn tend_slots(self: Arc<Self>, now_ns: u64) -> Option<u64>;
}

/// The time between two checks of the CPUs while the process is not idle.
const CPU_CHECK_NS: u64 = 400_000_000;
/// A process that has used as much CPU time since the last check is not idle, whether workers have
/// woken up or not.
const BUSY_NS: u64 = CPU_CHECK_NS / 50;

#[derive(Default)]
struct ServiceRequests {
    /// The creator was asked for a worker, and when.
    create: Vec<(PoolRef, u64)>,
    watch: Vec<PoolRef>,
    /// Each with the time when a worker has been idle for long.
    cull: Vec<(PoolRef, u64)>,
    check_cpus: bool,
    watchdog: bool,
    slots: bool,
    started: bool,
    stop: bool,
    /// While the thread sleeps: its deadline.
    sleeps_until: Option<u64>,
}

impl ServiceRequests {
    fn any(&self) -> bool {
        let pools = [self.watch.len(), self.cull.len(), self.create.len()];
        self.check_cpus
            || self.watchdog
            || self.slots
            || self.stop
            || pools.iter().any(|&asked| asked > 0)
    }
}

pub(crate) struct Service {
    requests: Mutex<ServiceRequests>,
    /// Where its threads may run: they must not inherit the one CPU of the issuer that builds the
    /// first queue.
    cpus: CpuSet,
    parker: Parker,
    creator: Arc<Creator>,
    reporter: Arc<Reporter>,
    maintenance: OnceLock<Weak<dyn Maintenance>>,
    cpu_checks: CpuChecks,
}

impl Service {
    pub(crate) fn new(cpus: CpuSet) -> Arc<Service> {
        Arc::new(Service {
            requests: Mutex::new(ServiceRequests::default()),
            cpus,
            parker: Parker::new(),
            creator: Creator::new(),
            reporter: new_reporter(),
            maintenance: OnceLock::new(),
            cpu_checks: CpuChecks::new(),
        })
    }

    /// Sets the engine whose hooks it calls.
    pub(crate) fn set_maintenance(&self, maintenance: Weak<dyn Maintenance>) {
        // Set once, when the engine is built.
        let _ = self.maintenance.set(maintenance);
    }

    fn maintenance(&self) -> Option<Arc<dyn Maintenance>> {
        self.maintenance.get()?.upgrade()
    }

    /// The watchdog's threshold has changed.
    pub(crate) fn watchdog_changed(&self) {
        self.ask(|requests| requests.watchdog = true);
    }

    /// Runs `job` on a new thread, as soon as one can be created. `job` holds a reference to the
    /// engine.
    pub(crate) fn perform_elsewhere(
        &self,
        name: &'static str,
        job: impl FnOnce() + Send + 'static,
    ) {
        self.creator.perform(name, Box::new(job));
    }

    /// Wakes tasks after an event of a pool. The thread that handles the event may be one that
    /// holds locks of this crate, or has just taken a claimed item off its list: then the reporter
    /// calls the wakers. A worker between two items calls them itself.
    pub(crate) fn wake_tasks(&self, wakers: Vec<Foreign<Waker>>) {
        if wakers.is_empty() {
            return;
        }
        let wake = || {
            for waker in wakers {
                Pool::wake_task(Box::new(waker));
            }
        };
        match member::is_between_items() {
            true => wake(),
            false => self.reporter.perform(Box::new(wake)),
        }
    }

    /// What a thread that is about to be started needs in order to leave its warnings to the
    /// reporter.
    pub(crate) fn speaker(&self) -> Speaker {
        self.reporter.speaker()
    }

    /// Starts those of the engine's threads that do not run yet. They are started before they are
    /// needed: later the system might refuse to create them, and the service thread must not wait
    /// for that.
    pub(crate) fn ensure_started(self: &Arc<Self>) -> io::Result<()> {
        let mut requests = self.requests.lock();
        if !requests.started {
            self.reporter.ensure_started("cmwq-reporter", &self.cpus)?;
            self.creator.ensure_started(&self.cpus, &self.reporter)?;
            let (service, speaker) = (self.clone(), self.speaker());
            thread::spawn_bound("cmwq-service", &self.cpus, move || {
                let _speaks = speaker.speak();
                service.run();
            })?;
            (requests.started, requests.watchdog) = (true, true);
        }
        Ok(())
    }

    /// Ends the threads. Requests that are not done are dropped; reports are not, nor are jobs,
    /// since each of them keeps the engine. The caller does not wait for the threads: the creator
    /// may be in the middle of a creation, and the reporter in a handler.
    pub(crate) fn stop(&self) {
        self.ask(|requests| requests.stop = true);
        self.creator.stop();
        self.reporter.stop();
    }

    fn ask(&self, what: impl FnOnce(&mut ServiceRequests)) {
        what(&mut self.requests.lock());
        self.parker.unpark();
    }

    fn run(self: Arc<Self>) {
        let mut monitor = Monitor::default();
        let mut timers = PoolTimers::default();
        timers.cpu_check = Some(clock::now_ns() + CPU_CHECK_NS);
        let mut cpu_ns = clock::process_cpu_ns();
        let mut own_cpu_ns = thread::cpu_time_of_current_ns();
        loop {
            let asked = self.take_requests();
            if asked.stop {
                return;
            }
            let now = clock::now_ns();
            timers.asked(asked.create, asked.cull);
            for pool in asked.watch {
                monitor.add(pool.into_weak());
                // Its workers may have come back from a system call: without a wake-up. The monitor
                // is needed first.
                if self.cpu_checks.woke() {
                    timers.cpu_check.get_or_insert(now + CPU_CHECK_NS);
                }
            }
            timers.expire(
                now,
                |pool| pool.get().is_some_and(|pool| pool.mayday()),
                |pool| pool.get()?.cull(now),
            );
            if asked.check_cpus || timers.cpu_check.is_some_and(|at| at <= now) {
                let before_ns = std::mem::replace(&mut cpu_ns, clock::process_cpu_ns());
                let busy = !monitor.is_empty() || cpu_ns.saturating_sub(before_ns) >= BUSY_NS;
                timers.cpu_check = self.check_cpus(busy).then(|| now + CPU_CHECK_NS);
            }
            if asked.watchdog || timers.watchdog.is_some_and(|at| at <= now) {
                timers.watchdog = self
                    .maintenance()
                    .and_then(|maintenance| maintenance.watchdog());
            }
            if asked.slots || timers.slots.is_some_and(|at| at <= now) {
                timers.slots = self
                    .maintenance()
                    .and_then(|maintenance| maintenance.tend_slots(now));
            }
            let next_look = monitor.tick(clock::now_ns());
            let before_ns = std::mem::replace(&mut own_cpu_ns, thread::cpu_time_of_current_ns());
            let worked_ns = own_cpu_ns.saturating_sub(before_ns);
            let at = timers.earliest(next_look);
            self.sleep_until(at.map(|at| rested(at, clock::now_ns(), worked_ns)));
        }
    }

    fn take_requests(&self) -> ServiceRequests {
        let mut requests = self.requests.lock();
        let (started, stop) = (requests.started, requests.stop);
        let left = ServiceRequests {
            started,
            stop,
            ..ServiceRequests::default()
        };
        std::mem::replace(&mut *requests, left)
    }

    /// Sleeps, unless a request has come meanwhile.
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

    /// Has the engine check its CPUs, unless nothing has happened since the last check. Returns
    /// whether to check again.
    fn check_cpus(&self, busy: bool) -> bool {
        match busy {
            true => self.cpu_checks.begin_busy(),
            false if self.cpu_checks.begin() => {}
            false => return false,
        }
        if let Some(maintenance) = self.maintenance() {
            maintenance.check_cpus();
        }
        true
    }
}

/// When to go on with what is due at `at`, after work that took `worked_ns` of CPU time and has ended
/// `now`: not before the thread has slept for as long. Where looking at all pools takes longer than
/// the time between two ticks, it would otherwise never sleep, and use a whole CPU.
fn rested(at: u64, now: u64, worked_ns: u64) -> u64 {
    at.max(now.saturating_add(worked_ns))
}

impl PoolService for Service {
    fn create_worker(&self, pool: &Arc<Pool>) {
        let asked_ns = clock::now_ns();
        self.creator.ask(pool);
        // The service thread must be awake in time to call the rescuers; while pools grow it mostly is.
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
        let at = clock::now_ns().saturating_add(pool.attrs.idle_timeout_ns);
        self.ask(|requests| requests.cull.push((PoolRef::to(pool), at)));
    }

    fn slots_wanted(&self) {
        self.ask(|requests| requests.slots = true);
    }

    fn speaker(&self) -> Option<Speaker> {
        Some(self.reporter.speaker())
    }

    #[inline]
    fn woke(&self) {
        if self.cpu_checks.woke() {
            self.ask(|requests| requests.check_cpus = true);
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::pool::stubs;
    use crate::sys::atomic::{AtomicU32, Ordering};

    struct Checks(AtomicU32);

    impl Maintenance for Checks {
        fn check_cpus(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn watchdog(self: Arc<Self>) -> Option<u64> {
            None
        }
        fn tend_slots(self: Arc<Self>, _now_ns: u64) -> Option<u64> {
            None
        }
    }

    #[test]
    fn after_work_the_thread_sleeps_for_as_long_as_it_worked_whatever_is_due() {
        let ms = |ms: u64| ms * 1_000_000;
        for (due, worked, goes_on) in [(12, 1, 12), (12, 3, 13), (11, 0, 11), (2, 1, 11)] {
            assert_eq!(rested(ms(due), ms(10), ms(worked)), ms(goes_on));
        }
    }

    /// A worker that comes back from a system call and finds items does not wake up.
    #[test]
    fn a_saturated_pool_requests_checks_that_rest() {
        let service = Service::new(thread::current_binding().unwrap());
        let checks = Arc::new(Checks(AtomicU32::new(0)));
        let maintenance: Arc<dyn Maintenance> = checks.clone();
        service.set_maintenance(Arc::downgrade(&maintenance));
        service.ensure_started().unwrap();
        // Not in a spin, which would be work of the process.
        let until = std::time::Instant::now() + Duration::from_secs(120);
        while service.requests.lock().sleeps_until != Some(u64::MAX) {
            assert!(std::time::Instant::now() < until, "they do not rest");
            std::thread::sleep(Duration::from_millis(50));
        }
        let before = checks.0.load(Ordering::Relaxed);
        service.watch(&stubs::pool(1022, 0));
        stubs::eventually(|| checks.0.load(Ordering::Relaxed) > before);
        service.stop();
    }
    /// Otherwise the thread would call rescuers only when it wakes up for another reason.
    #[test]
    fn whoever_asks_for_a_worker_wakes_the_thread_if_it_would_sleep_too_long() {
        let service = Service::new(thread::current_binding().unwrap());
        let pool = stubs::pool(1023, 0);
        let woken = [Some(u64::MAX), Some(0), None].map(|until| {
            service.requests.lock().sleeps_until = until;
            service.create_worker(&pool);
            service.parker.park_for(Some(Duration::ZERO))
        });
        assert_eq!(woken, [true, false, false]);
    }
}
