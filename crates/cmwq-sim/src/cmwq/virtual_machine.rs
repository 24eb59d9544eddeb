//! The virtual machine and the library, as the loads know them.

use super::Parts;
use crate::kernel::Latencies;
use cmwq_loads::{Access, Bell, Found, Job, Load, Machine, Pool, Shape, Span, Usage};
use cmwq_simulated::{Completion, Work, Workqueue};
use cmwq_vm::os::{self, Totals};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The machine that the caller runs on.
#[derive(Clone)]
struct Virtual {
    cpus: usize,
    ran: Arc<AtomicU64>,
    /// The state whenever the load asked what is used: at the end of each window.
    marks: Arc<Mutex<Vec<Mark>>>,
}

/// The end of a window.
#[derive(Clone, Copy)]
struct Mark {
    ns: u64,
    /// Jobs that have run. The load itself counts items when their round ends, which in a collapse
    /// is about one round in a window.
    ran: u64,
    totals: Totals,
}

impl Machine for Virtual {
    type Bell = Done;

    fn cpus(&self) -> usize {
        self.cpus
    }

    fn now_ns(&self) -> u64 {
        os::now_ns()
    }

    fn compute(&self, ns: u64) {
        os::work(ns);
    }

    fn sleep(&self, ns: u64) {
        os::sleep(Duration::from_nanos(ns));
    }

    fn start(&self, name: &str, cpu: Option<usize>, main: Box<dyn FnOnce() + Send>) {
        let all = 0..self.cpus;
        let allowed = cpu.map_or_else(|| all.collect(), |cpu| [cpu].into_iter().collect());
        os::spawn(name, Some(allowed), main).expect("memory for a stack");
    }

    fn own_cpu_ns(&self) -> u64 {
        os::usage(os::current()).map_or(0, |usage| usage.ran_ns)
    }

    fn usage(&self) -> Usage {
        let totals = os::totals();
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.push(Mark {
            ns: os::observe_ns(),
            ran: self.ran.load(Relaxed),
            totals,
        });
        Usage {
            cpu_ns: totals.busy_ns,
            sleeps: totals.wakeups,
            switches: totals.switches,
        }
    }

    fn threads(&self) -> usize {
        os::threads_named("").len()
    }

    fn touch(&self, address: usize, access: Access) {
        let access = match access {
            Access::Read => cmwq_vm::Access::Read,
            Access::Write => cmwq_vm::Access::Write,
            Access::Update => cmwq_vm::Access::Update,
        };
        os::touch(address, access);
    }
}

/// The library's own way to wait.
struct Done(Completion);

impl Bell for Done {
    const COUNTS: bool = true;

    fn new() -> Done {
        Done(Completion::new())
    }

    fn ring(&self) {
        self.0.complete();
    }

    fn wait(&self) {
        self.0.wait();
        // A ring that comes before this is seen by the caller, who looks at what it waits for.
        self.0.reinit();
    }
}

/// How often a call is timed: the clock takes time.
const TIMED_EVERY: u64 = 7;

/// The library's queue.
struct Library {
    queue: Workqueue,
    submitted: AtomicU64,
    counts: Arc<Counts>,
    enqueue_ns: Mutex<Vec<u32>>,
}

/// Counts that cost nothing on the machine: they are none of the load.
#[derive(Default)]
struct Counts {
    /// Of jobs that have not begun. It may be below zero: one begins before its issuer has counted it.
    waiting: AtomicI64,
    /// When a job began, or one came when none waited.
    changed_ns: AtomicU64,
    ran: Arc<AtomicU64>,
    idled_ns: AtomicU64,
}

impl Counts {
    fn come(&self) {
        if self.waiting.fetch_add(1, Relaxed) == 0 {
            self.changed_ns.store(os::observe_ns(), Relaxed);
        }
    }

    fn run(&self, job: Job) {
        self.waiting.fetch_sub(1, Relaxed);
        self.changed_ns.store(os::observe_ns(), Relaxed);
        job.run();
        self.ran.fetch_add(1, Relaxed);
    }

    /// The probe's look.
    fn look(&self, now: u64) {
        // A thread of the engine that was woken, or made, and waits for the CPU of another one is
        // the scheduler's to move.
        if self.waiting.load(Relaxed) <= 0 || os::waits_for_cpu(&["kworker/", "cmwq-"]) {
            return;
        }
        let longest = (0..os::cpus()).map(|cpu| os::idle_for(cpu, now)).max();
        let waited = now.saturating_sub(self.changed_ns.load(Relaxed));
        let idled = waited.min(longest.unwrap_or(0));
        self.idled_ns.fetch_max(idled, Relaxed);
    }
}

impl Pool for Library {
    type Item = Work;

    fn item(&self, job: Job) -> Work {
        let counts = self.counts.clone();
        Work::new(move || counts.run(job))
    }

    fn submit(&self, item: &Work) {
        // One OS thread carries out all: a plain count would do.
        let number = self.submitted.fetch_add(1, Relaxed);
        if !number.is_multiple_of(TIMED_EVERY) {
            if self.queue.queue(item).is_accepted() {
                self.counts.come();
            }
            return;
        }
        let before = os::now_ns();
        let queued = self.queue.queue(item);
        let ns = u32::try_from(os::now_ns() - before).unwrap_or(u32::MAX);
        let mut all = self
            .enqueue_ns
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(ns);
        if queued.is_accepted() {
            self.counts.come();
        }
    }

    fn gather(&self, jobs: &[Job]) -> bool {
        let spawn = |&job: &Job| {
            let counts = self.counts.clone();
            let handle = self.queue.spawn(move || counts.run(job));
            self.counts.come();
            handle
        };
        let handles: Vec<_> = jobs.iter().map(spawn).collect();
        for handle in handles {
            handle.join().expect("no item of a load panics");
        }
        true
    }
}

/// Carries out the load on the machine that the caller runs on.
pub(super) fn run(
    queue: Workqueue,
    load: &Load,
    span: Span,
    probe_ns: u64,
) -> Result<Parts, String> {
    let counts = Arc::<Counts>::default();
    let ran = counts.ran.clone();
    if probe_ns > 0 {
        let (counts, mut now) = (counts.clone(), os::observe_ns());
        os::set_probe(probe_ns, move || {
            now += probe_ns;
            counts.look(now);
        });
    }
    let machine = Virtual {
        cpus: os::cpus(),
        ran,
        marks: Arc::default(),
    };
    let pool = Arc::new(Library {
        queue,
        submitted: AtomicU64::new(0),
        counts: counts.clone(),
        enqueue_ns: Mutex::default(),
    });
    let mut found = cmwq_loads::run(&machine, &pool, load, span)?;
    let mut enqueue = pool
        .enqueue_ns
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let enqueue = Latencies::new(std::mem::take(&mut *enqueue));
    let marks = machine.marks.lock().unwrap_or_else(PoisonError::into_inner);
    let did = count_jobs(&mut found, &marks, load, span);
    Ok(Parts {
        found,
        enqueue,
        did,
        idled_ns: counts.idled_ns.load(Relaxed),
        ran: counts.ran.load(Relaxed),
    })
}

/// The figures for each item by what has run; returns what the machine did in the last two windows.
fn count_jobs(found: &mut Found, marks: &[Mark], load: &Load, span: Span) -> Totals {
    let [.., from, middle, to] = marks[..] else {
        unreachable!("two windows have three ends");
    };
    let stages = match load.shape {
        Shape::Flow { stages, .. } => f64::from(stages),
        Shape::Gather { .. } | Shape::Arrive { .. } => 1.0,
    };
    let items = |to: Mark, from: Mark| (to.ran - from.ran) as f64 / stages;
    let rate = |to: Mark, from: Mark| items(to, from) * 1e9 / (to.ns - from.ns).max(1) as f64;
    let (one, other) = (rate(middle, from), rate(to, middle));
    let tolerance = one.max(other) * f64::from(span.tolerance_percent) / 100.0;
    found.is_steady = other > 0.0 && (one - other).abs() <= tolerance;
    found.items_per_s = rate(to, from);
    let scale = found.items as f64 / items(to, from).max(1.0);
    found.items = items(to, from) as u64;
    found.cpu_ns_per_item *= scale;
    found.wakeups_per_item *= scale;
    found.switches_per_item *= scale;
    to.totals.since(&from.totals)
}
