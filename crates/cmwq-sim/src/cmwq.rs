//! The loops of the benchmarks on cmwq itself: the library's own sources, compiled for the virtual machine.

use crate::kernel::Latencies;
use cmwq_simulated::affinity::AffinityScope;
use cmwq_simulated::topology::{Topology, TopologyError};
use cmwq_simulated::{Completion, Engine, Work};
use cmwq_vm::machine::{Machine, OTHER_PACKAGE, Place, SAME_PACKAGE};
use cmwq_vm::os::{self, access};
use cmwq_vm::{Access, Cpus, Outcome, Stuck};
use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::{fs, io};

/// What the issuers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// Each queues its one item, waits for it, and so on.
    Roundtrip,
    /// Each queues items without waiting; the time ends when all have run.
    Flood,
    /// Each keeps [`DEPTH`] items in flight that compute for 20 µs, and waits for the oldest.
    Window,
    /// Each keeps [`DEPTH`] blocks of 32 KiB in flight: an item deciphers a block, its issuer verifies it. What was deciphered under another last-level
    /// cache comes from there first. The device is taken to be as fast as needed.
    BlockLoad,
}

/// Items that one issuer has in flight in a window, as in `benches/peers`, and in a block load, as published.
pub const DEPTH: usize = 64;
/// What an item of a window computes.
const WINDOW_NS: u64 = 20_000;
/// Deciphering a block at 1 ns a byte, and verifying it at 0.4: estimates for one core with instructions for AES and SHA.
const DECIPHER_NS: u64 = 32_768;
/// See `DECIPHER_NS`.
const VERIFY_NS: u64 = 13_107;
/// Lines of a block that come from another cache at a time: an estimate.
const BLOCK_LINES: u64 = 512;
/// See `BLOCK_LINES`.
const LINES_AT_A_TIME: u64 = 10;

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The machine.
    pub machine: Machine,
    /// The queue's scope.
    pub scope: AffinityScope,
    /// Cores of a shard.
    pub shard_size: usize,
    /// The loop.
    pub kind: Loop,
    /// Issuers, pinned to the first CPUs and round again.
    pub issuers: usize,
    /// Items of each.
    pub items: usize,
    /// The seed.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Pods of the scope.
    pub pods: usize,
    /// Items in a second of virtual time.
    pub items_per_s: f64,
    /// Time inside the queueing call.
    pub enqueue: Latencies,
    /// The machine's account.
    pub outcome: Outcome,
}

/// Why there is no result.
#[derive(Debug)]
pub enum Failed {
    /// The machine cannot be described to the library.
    Description(io::Error),
    /// The library does not accept its description.
    Topology(TopologyError),
    /// The run has no end.
    Stuck(Stuck),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::Description(error) => write!(f, "the machine cannot be written down: {error}"),
            Failed::Topology(error) => write!(f, "the machine is not accepted: {error}"),
            Failed::Stuck(stuck) => write!(f, "the run has no end: {stuck:?}"),
        }
    }
}

/// A virtual minute: a loop that takes longer hangs.
const LIMIT_NS: u64 = 60_000_000_000;

/// Runs the loop.
///
/// # Errors
/// See [`Failed`]. A run without an end is a defect of the library or of the machine.
pub fn run(plan: &Plan) -> Result<Measured, Failed> {
    let topology = topology(&plan.machine)?;
    let result = Rc::new(RefCell::new(None));
    let place = result.clone();
    let job = plan.clone();
    let main = move || *place.borrow_mut() = Some(issue(&job, topology));
    let outcome = cmwq_vm::run(&plan.machine, plan.seed, LIMIT_NS, main).map_err(Failed::Stuck)?;
    let (pods, items_per_s, enqueue) = result.take().expect("the main thread leaves its result");
    Ok(Measured {
        pods,
        items_per_s,
        enqueue,
        outcome,
    })
}

struct Shared {
    latencies: RefCell<Vec<u32>>,
    /// From the first issuer's first item after the warm-up to the last one's last.
    span: Cell<(u64, u64)>,
    left: Cell<usize>,
    all_done: Completion,
}

fn issue(plan: &Plan, topology: Topology) -> (usize, f64, Latencies) {
    let engine = Engine::builder()
        .topology(topology)
        .cache_shard_size(plan.shard_size)
        .default_affinity_scope(AffinityScope::CacheShard)
        .build()
        .expect("a topology is given");
    let pods = engine.pods(plan.scope).pods().len();
    let queue = engine
        .workqueue("bench_wq")
        .affinity_scope(plan.scope)
        .max_active(cmwq_simulated::WQ_MAX_ACTIVE)
        .build()
        .expect("these attributes are legal");
    let queue = Arc::new(queue);
    let shared = Rc::new(Shared {
        latencies: RefCell::new(Vec::with_capacity(plan.issuers * plan.items)),
        span: Cell::new((u64::MAX, 0)),
        left: Cell::new(plan.issuers),
        all_done: Completion::new(),
    });
    let begin = os::observe_ns();
    let counter = os::new_line();
    for number in 0..plan.issuers {
        let (queue, shared, plan) = (queue.clone(), shared.clone(), plan.clone());
        let cpu = number % plan.machine.cpus.len();
        let main = move || {
            match plan.kind {
                Loop::Roundtrip => roundtrip(&plan, &queue, counter, &shared),
                Loop::Flood => flood(&plan, &queue, counter, &shared),
                Loop::Window | Loop::BlockLoad => window(&plan, &queue, &shared),
            }
            shared.left.set(shared.left.get() - 1);
            if shared.left.get() == 0 {
                shared.all_done.complete();
            }
        };
        os::spawn(
            &format!("issuer{number}"),
            Some(Cpus::from_iter([cpu])),
            main,
        )
        .expect("memory for a stack");
    }
    shared.all_done.wait();
    queue
        .flush()
        .expect("it is not flushed from one of its items");
    let (from, to) = match plan.kind {
        // Issuers that share a CPU may come one after the other: the rates of each are no sum.
        Loop::Roundtrip | Loop::Window | Loop::BlockLoad => shared.span.get(),
        Loop::Flood => (begin, os::observe_ns()),
    };
    let items = plan.issuers * plan.items;
    let rate = items as f64 * 1e9 / to.saturating_sub(from).max(1) as f64;
    (pods, rate, Latencies::new(shared.latencies.take()))
}

fn roundtrip(
    plan: &Plan,
    queue: &cmwq_simulated::Workqueue,
    counter: cmwq_vm::Line,
    shared: &Shared,
) {
    let done = Arc::new(Completion::new());
    let of_item = done.clone();
    let item = Work::new(move || {
        access(counter, Access::Update);
        of_item.complete();
    });
    let warm_up = plan.items.div_ceil(10);
    let mut begin = 0;
    for number in 0..warm_up + plan.items {
        if number == warm_up {
            begin = os::observe_ns();
        }
        done.reinit();
        let before = os::now_ns();
        let _ = queue.queue(&item);
        let after = os::now_ns();
        if number >= warm_up {
            note(shared, after - before);
        }
        done.wait();
    }
    let (from, to) = shared.span.get();
    shared.span.set((from.min(begin), to.max(os::observe_ns())));
}

/// One of the items that an issuer has in flight.
struct Slot {
    item: Work,
    done: Arc<Completion>,
    /// Where it ran last.
    cpu: Arc<AtomicUsize>,
}

impl Slot {
    fn new(item_ns: u64) -> Slot {
        let (done, cpu) = (Arc::new(Completion::new()), Arc::new(AtomicUsize::new(0)));
        let (tells, at) = (done.clone(), cpu.clone());
        let item = Work::new(move || {
            os::work(item_ns);
            at.store(os::current_cpu(), Relaxed);
            tells.complete();
        });
        Slot { item, done, cpu }
    }

    fn queue(&self, queue: &cmwq_simulated::Workqueue, measured: Option<&Shared>) {
        self.done.reinit();
        let before = os::now_ns();
        let _ = queue.queue(&self.item);
        if let Some(shared) = measured {
            note(shared, os::now_ns() - before);
        }
    }
}

fn window(plan: &Plan, queue: &cmwq_simulated::Workqueue, shared: &Shared) {
    let is_block = plan.kind == Loop::BlockLoad;
    let slots: Vec<Slot> = (0..DEPTH)
        .map(|_| Slot::new(if is_block { DECIPHER_NS } else { WINDOW_NS }))
        .collect();
    // The first fill is the warm-up.
    slots.iter().for_each(|slot| slot.queue(queue, None));
    let begin = os::observe_ns();
    for number in 0..plan.items {
        let slot = &slots[number % DEPTH];
        slot.done.wait();
        if is_block {
            os::work(verifying_ns(&plan.machine, slot.cpu.load(Relaxed)));
        }
        slot.queue(queue, Some(shared));
    }
    let (from, to) = shared.span.get();
    shared.span.set((from.min(begin), to.max(os::observe_ns())));
    slots.iter().for_each(|slot| slot.done.wait());
}

/// What verifying a block takes here that was deciphered there.
fn verifying_ns(machine: &Machine, there: usize) -> u64 {
    let (here, there) = (machine.cpus[os::current_cpu()], machine.cpus[there]);
    let class = match () {
        () if here.llc == there.llc => return VERIFY_NS,
        () if here.package == there.package => SAME_PACKAGE,
        () => OTHER_PACKAGE,
    };
    VERIFY_NS + BLOCK_LINES * machine.costs.transfer_ns[class] / LINES_AT_A_TIME
}

fn flood(plan: &Plan, queue: &cmwq_simulated::Workqueue, counter: cmwq_vm::Line, shared: &Shared) {
    for _ in 0..plan.items {
        let before = os::now_ns();
        queue
            .execute(move || access(counter, Access::Update))
            .expect("the queue takes items");
        note(shared, os::now_ns() - before);
    }
}

fn note(shared: &Shared, ns: u64) {
    let ns = u32::try_from(ns).unwrap_or(u32::MAX);
    shared.latencies.borrow_mut().push(ns);
}

/// The machine as the library reads it: a tree like `/sys`.
fn topology(machine: &Machine) -> Result<Topology, Failed> {
    let root = tempfile::tempdir().map_err(Failed::Description)?;
    write_tree(machine, root.path()).map_err(Failed::Description)?;
    Topology::from_sysfs(root.path()).map_err(Failed::Topology)
}

fn write_tree(machine: &Machine, root: &Path) -> io::Result<()> {
    let cpu_dir = root.join("devices/system/cpu");
    let list = |same: &dyn Fn(&Place) -> bool| {
        let mut text = String::new();
        for (cpu, place) in machine.cpus.iter().enumerate() {
            if same(place) {
                let comma = if text.is_empty() { "" } else { "," };
                let _ = write!(text, "{comma}{cpu}");
            }
        }
        text + "\n"
    };
    fs::create_dir_all(&cpu_dir)?;
    for name in ["online", "possible"] {
        fs::write(cpu_dir.join(name), list(&|_| true))?;
    }
    for (cpu, place) in machine.cpus.iter().enumerate() {
        let dir = cpu_dir.join(format!("cpu{cpu}"));
        fs::create_dir_all(dir.join("topology"))?;
        fs::create_dir_all(dir.join("cache/index3"))?;
        let siblings = list(&|other| other.core == place.core);
        fs::write(dir.join("topology/thread_siblings_list"), siblings)?;
        fs::write(
            dir.join("topology/physical_package_id"),
            format!("{}\n", place.package),
        )?;
        fs::write(dir.join("cache/index3/level"), "3\n")?;
        fs::write(dir.join("cache/index3/type"), "Unified\n")?;
        let shared = list(&|other| other.llc == place.llc);
        fs::write(dir.join("cache/index3/shared_cpu_list"), shared)?;
        let node = root.join(format!("devices/system/node/node{}", place.node));
        fs::create_dir_all(&node)?;
        fs::write(
            node.join("cpulist"),
            list(&|other| other.node == place.node),
        )?;
    }
    Ok(())
}
