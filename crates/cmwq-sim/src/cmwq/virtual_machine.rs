//! The virtual machine and the library, as the loads know them.

use super::Parts;
use crate::kernel::Latencies;
use cmwq_loads::{Access, Bell, Job, Load, Machine, Pool, Span, Usage};
use cmwq_simulated::{Completion, Work, Workqueue};
use cmwq_vm::os::{self, Totals};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The machine that the caller runs on.
#[derive(Clone)]
struct Virtual {
    cpus: usize,
    /// What the machine had done whenever the load asked what is used: at the end of each window.
    marks: Arc<Mutex<Vec<Totals>>>,
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
        marks.push(totals);
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
    enqueue_ns: Mutex<Vec<u32>>,
}

impl Pool for Library {
    type Item = Work;

    fn item(&self, job: Job) -> Work {
        Work::new(move || job.run())
    }

    fn submit(&self, item: &Work) {
        // One OS thread carries out all: a plain count would do.
        let number = self.submitted.fetch_add(1, Relaxed);
        if !number.is_multiple_of(TIMED_EVERY) {
            let _ = self.queue.queue(item);
            return;
        }
        let before = os::now_ns();
        let _ = self.queue.queue(item);
        let ns = u32::try_from(os::now_ns() - before).unwrap_or(u32::MAX);
        let mut all = self
            .enqueue_ns
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(ns);
    }

    fn gather(&self, jobs: &[Job]) -> bool {
        let spawn = |&job: &Job| self.queue.spawn(move || job.run());
        let handles: Vec<_> = jobs.iter().map(spawn).collect();
        for handle in handles {
            handle.join().expect("no item of a load panics");
        }
        true
    }
}

/// Carries out the load on the machine that the caller runs on.
pub(super) fn run(queue: Workqueue, load: &Load, span: Span) -> Result<Parts, String> {
    let machine = Virtual {
        cpus: os::cpus(),
        marks: Arc::default(),
    };
    let pool = Arc::new(Library {
        queue,
        submitted: AtomicU64::new(0),
        enqueue_ns: Mutex::default(),
    });
    let found = cmwq_loads::run(&machine, &pool, load, span)?;
    let enqueue = std::mem::take(
        &mut *pool
            .enqueue_ns
            .lock()
            .unwrap_or_else(PoisonError::into_inner),
    );
    let marks = machine.marks.lock().unwrap_or_else(PoisonError::into_inner);
    let [.., from, _, to] = marks[..] else {
        unreachable!("two windows have three ends");
    };
    Ok((found, Latencies::new(enqueue), to.since(&from)))
}
