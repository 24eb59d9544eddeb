//! The service thread: one per engine, asleep unless asked. It creates workers, so that no issuer ever does; it watches
//! saturated pools (`monitor.rs`); and it lets workers go that have long been idle.

use super::monitor::Watch;
use super::{Pool, WorkerState};
use crate::sys::park::Parker;
use crate::sys::sync::Mutex;
use crate::sys::{clock, thread};
use crate::topology::CpuSet;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What a pool may ask for. Called with no pool's lock held.
pub(crate) trait Helper: Send + Sync {
    /// Create one worker; the pool counts it as coming.
    fn create_worker(&self, pool: &Arc<Pool>);
    /// The pool is saturated: look at it now and then.
    fn watch(&self, pool: &Arc<Pool>);
    /// Too many workers are idle: look again when they have been so for long.
    fn cull_later(&self, pool: &Arc<Pool>);
}

/// How long the creation of workers rests after a failure (the kernel's cooldown).
const CREATE_COOLDOWN_NS: u64 = 1_000_000_000;

#[derive(Default)]
struct Requests {
    create: Vec<Weak<Pool>>,
    watch: Vec<Weak<Pool>>,
    cull: Vec<Weak<Pool>>,
    started: bool,
    stop: bool,
}

pub(crate) struct Service {
    requests: Mutex<Requests>,
    /// Where the thread may run: it must not inherit the one CPU of an issuer that built the first queue.
    cpus: CpuSet,
    parker: Parker,
}

/// Something to do at a point in time.
type Timed = (u64, Weak<Pool>);

impl Service {
    pub(crate) fn new(cpus: CpuSet) -> Arc<Service> {
        Arc::new(Service {
            requests: Mutex::new(Requests::default()),
            cpus,
            parker: Parker::new(),
        })
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
        let mut retries: Vec<Timed> = Vec::new();
        let mut culls: Vec<Timed> = Vec::new();
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
                create(pool, now, &mut retries);
            }
            if asked.stop {
                return;
            }
            for pool in asked.watch {
                watch.add(pool);
            }
            for pool in asked.cull {
                let after = pool.upgrade().map_or(0, |pool| pool.attrs.idle_timeout_ns);
                culls.push((now + after, pool));
            }
            for pool in due(&mut retries, now) {
                create(pool, now, &mut retries);
            }
            for pool in due(&mut culls, now) {
                if let Some(next) = pool.upgrade().and_then(|pool| pool.cull(now)) {
                    culls.push((next, pool));
                }
            }
            let next_look = watch.look(clock::now_ns());
            let next = [next_look, earliest(&retries), earliest(&culls)]
                .into_iter()
                .flatten()
                .min();
            let timeout =
                next.map(|at| Duration::from_nanos(at.saturating_sub(clock::now_ns()).max(1)));
            self.parker.park_for(timeout);
        }
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

fn create(pool: Weak<Pool>, now: u64, retries: &mut Vec<Timed>) {
    let Some(strong) = pool.upgrade() else { return };
    if strong.start_worker().is_err() {
        retries.push((now + CREATE_COOLDOWN_NS, pool));
    }
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
            // To the end of the list, where the picking is done.
            guard.idle.remove(0);
            guard.idle.push(oldest);
            guard.workers[oldest].die = true;
            guard.leaving += 1;
            guard.wake_idle();
        }
        guard.cull_armed = false;
        None
    }
}
