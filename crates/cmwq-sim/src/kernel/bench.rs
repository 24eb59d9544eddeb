//! The published micro-benchmark on the reference engine: each issuer queues its one item, waits
//! for it, and so on.

use super::{Completion, Item, Queue, Settings};
use cmwq_vm::machine::Machine;
use cmwq_vm::os::{self, access};
use cmwq_vm::{Access, Cpus, Line, LockTotals, Outcome, Stuck};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Enqueue latencies, sorted.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Vec<u32>);

impl Latencies {
    /// Of these.
    #[must_use]
    pub fn new(mut ns: Vec<u32>) -> Self {
        ns.sort_unstable();
        Latencies(ns)
    }

    /// The element at N * p / 100, as the published program takes it; 0 without any.
    #[must_use]
    pub fn percentile(&self, p: usize) -> u64 {
        let at = (self.0.len() * p / 100).min(self.0.len().saturating_sub(1));
        self.0.get(at).copied().map_or(0, u64::from)
    }
}

/// One row of the benchmark.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Pods of the scope.
    pub pods: usize,
    /// Items in a second of virtual time.
    pub items_per_s: f64,
    /// Time inside the queueing call.
    pub enqueue: Latencies,
    /// Workers at the end.
    pub workers: usize,
    /// Compare-exchanges of the node's counter that failed.
    pub retries: u64,
    /// The pools' locks.
    pub locks: LockTotals,
    /// The machine's own account.
    pub outcome: Outcome,
}

/// A pinned issuer on each CPU, `items` from each, after a tenth as many to warm up.
///
/// # Errors
/// The run has no end, which would be a defect of the engine.
pub fn roundtrip(
    machine: &Machine,
    settings: Settings,
    items: usize,
    seed: u64,
) -> Result<Measured, Stuck> {
    let mut machine = machine.clone();
    machine.costs.kept_ppt = settings.costs.kept_ppt;
    let issuers = machine.cpus.len();
    let warm_up = items.div_ceil(10);
    let pods = settings.pods.pods.len();
    let result = Rc::new(RefCell::new(None));
    let place = result.clone();
    let main = move || {
        let issuer_ns = settings.costs.issuer_ns;
        let queue = Queue::new(settings);
        let counter = os::new_line();
        let shared = Rc::new(Shared {
            latencies: RefCell::new(Vec::with_capacity(issuers * items)),
            spans: RefCell::new(Vec::with_capacity(issuers)),
            left: Cell::new(issuers),
            all_done: Completion::new(),
        });
        for cpu in 0..issuers {
            let (queue, shared) = (queue.clone(), shared.clone());
            let main = move || shared.issue(&queue, counter, issuer_ns, warm_up, items);
            os::spawn(&format!("issuer{cpu}"), Some(Cpus::from_iter([cpu])), main)
                .expect("memory for a stack");
        }
        shared.all_done.wait();
        let latencies = Latencies::new(shared.latencies.take());
        let rate = shared.rate(items);
        *place.borrow_mut() = Some((
            latencies,
            rate,
            queue.workers(),
            queue.retries(),
            queue.locks(),
        ));
    };
    let outcome = cmwq_vm::run(&machine, seed, u64::MAX, main)?;
    let (enqueue, items_per_s, workers, retries, locks) =
        result.take().expect("the main thread leaves its result");
    Ok(Measured {
        pods,
        items_per_s,
        enqueue,
        workers,
        retries,
        locks,
        outcome,
    })
}

struct Shared {
    latencies: RefCell<Vec<u32>>,
    spans: RefCell<Vec<(u64, u64)>>,
    left: Cell<usize>,
    all_done: Completion,
}

impl Shared {
    /// An issuer's life: it queues its one item, waits for it, and so on.
    fn issue(
        &self,
        queue: &Rc<Queue>,
        counter: Line,
        issuer_ns: u64,
        warm_up: usize,
        items: usize,
    ) {
        let done = Rc::new(Completion::new());
        let of_item = done.clone();
        let item = Item::new(move || {
            access(counter, Access::Update);
            of_item.complete();
        });
        let mut begin = 0;
        for number in 0..warm_up + items {
            if number == warm_up {
                begin = os::observe_ns();
            }
            os::work(issuer_ns);
            done.reset();
            let before = os::now_ns();
            let _ = queue.queue(&item);
            let after = os::now_ns();
            if number >= warm_up {
                let ns = u32::try_from(after - before).unwrap_or(u32::MAX);
                self.latencies.borrow_mut().push(ns);
            }
            done.wait();
        }
        self.spans.borrow_mut().push((begin, os::observe_ns()));
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.all_done.complete();
        }
    }

    /// The sum of each issuer's own rate while it was at it: what comes before the last has begun
    /// and after the first has ended does not distort it much.
    fn rate(&self, items: usize) -> f64 {
        self.spans
            .borrow()
            .iter()
            .map(|&(begin, end)| items as f64 * 1e9 / (end - begin).max(1) as f64)
            .sum()
    }
}
