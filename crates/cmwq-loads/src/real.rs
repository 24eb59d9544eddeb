//! The machine that the process runs on.

use crate::watch::Watch;
use crate::{Bell, Machine, Usage};
use nix::sys::resource::{UsageWho, getrusage};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

/// The machine that the process runs on: its threads, its clock and its CPUs. `B` is how a thread
/// waits.
///
/// ```
/// use cmwq_loads::Machine;
/// use cmwq_loads::real::{Park, Threads, calibrate};
///
/// let machine = Threads::<Park>::new(calibrate());
/// let began = machine.now_ns();
/// machine.compute(10_000);
/// println!("10 us of computing took {} ns", machine.now_ns() - began);
/// ```
pub struct Threads<B> {
    cpus: Arc<[usize]>,
    /// Steps of [`spin`] that take a microsecond.
    steps_per_us: f64,
    watch: Option<Watch>,
    bell: PhantomData<fn() -> B>,
}

impl<B> Clone for Threads<B> {
    fn clone(&self) -> Self {
        Threads {
            cpus: self.cpus.clone(),
            steps_per_us: self.steps_per_us,
            watch: self.watch.clone(),
            bell: PhantomData,
        }
    }
}

impl<B> Threads<B> {
    /// The CPUs that the calling thread may run on. `steps_per_us`: see [`calibrate`].
    #[must_use]
    pub fn new(steps_per_us: f64) -> Self {
        let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU)
            .filter(|&cpu| set.is_set(cpu))
            .collect();
        Threads {
            cpus: cpus.into(),
            steps_per_us,
            watch: None,
            bell: PhantomData,
        }
    }

    /// Who runs which items where is noted there. Each item then reads the clock twice.
    #[must_use]
    pub fn watched_by(self, watch: Watch) -> Self {
        Threads {
            watch: Some(watch),
            ..self
        }
    }
}

/// Computes: each step needs the one before it, so that the time is the same in every language.
pub fn spin(steps: u64) {
    let mut x = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

/// Steps of [`spin`] that take a microsecond here when nothing disturbs them.
#[must_use]
pub fn calibrate() -> f64 {
    const STEPS: u64 = 20_000;
    let shortest = (0..500)
        .map(|_| {
            let start = monotonic_ns();
            spin(STEPS);
            monotonic_ns() - start
        })
        .min();
    STEPS as f64 * 1e3 / shortest.unwrap_or(1).max(1) as f64
}

fn monotonic_ns() -> u64 {
    ns(clock_gettime(ClockId::Monotonic))
}

fn ns(time: rustix::time::Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl<B: Bell> Machine for Threads<B> {
    type Bell = B;

    fn cpus(&self) -> usize {
        self.cpus.len()
    }

    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn compute(&self, ns: u64) {
        spin((ns as f64 * self.steps_per_us / 1e3) as u64);
    }

    fn sleep(&self, ns: u64) {
        thread::sleep(Duration::from_nanos(ns));
    }

    fn start(&self, name: &str, cpu: Option<usize>, main: Box<dyn FnOnce() + Send>) {
        let cpu = cpu.map(|cpu| self.cpus[cpu % self.cpus.len()]);
        let watch = self.watch.clone();
        let main = move || {
            if let Some(watch) = watch {
                watch.is_issuer();
            }
            // Sleeps between arrivals are short: they are to end in time.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            if let Some(cpu) = cpu {
                let mut set = CpuSet::new();
                set.set(cpu);
                // A CPU that has gone meanwhile: the thread stays where it is.
                let _ = sched_setaffinity(None, &set);
            }
            main();
        };
        let started = thread::Builder::new().name(name.to_owned()).spawn(main);
        started.expect("the system has a thread for it");
    }

    fn own_cpu_ns(&self) -> u64 {
        ns(clock_gettime(ClockId::ThreadCPUTime))
    }

    fn usage(&self) -> Usage {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
            return Usage::default();
        };
        let sleeps = usage.voluntary_context_switches() as u64;
        Usage {
            cpu_ns: ns(clock_gettime(ClockId::ProcessCPUTime)),
            sleeps,
            switches: sleeps + usage.involuntary_context_switches() as u64,
        }
    }

    fn threads(&self) -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("Threads:"));
        line.and_then(|number| number.trim().parse().ok())
            .unwrap_or(0)
    }

    fn item_begins(&self) -> u64 {
        self.watch.as_ref().map_or(0, |_| monotonic_ns())
    }

    fn item_ends(&self, began: u64) {
        if let Some(watch) = &self.watch {
            watch.note(began, monotonic_ns());
        }
    }
}

/// Waits by park and unpark of the standard library.
///
/// ```
/// use cmwq_loads::Bell;
/// use cmwq_loads::real::Park;
/// use std::sync::Arc;
///
/// let bell = Arc::new(Park::new());
/// bell.adopt(); // this thread waits
/// let ringer = bell.clone();
/// std::thread::spawn(move || ringer.ring());
/// bell.wait();
/// ```
#[derive(Default)]
pub struct Park(OnceLock<Thread>);

impl Bell for Park {
    fn new() -> Park {
        Park::default()
    }

    fn adopt(&self) {
        self.0.get_or_init(thread::current);
    }

    fn ring(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }

    fn wait(&self) {
        thread::park();
    }
}
