//! The loops of the benchmarks on cmwq itself: the library's own sources, compiled for the virtual machine.

use crate::kernel::Latencies;
use cmwq_simulated::affinity::AffinityScope;
use cmwq_simulated::topology::{Topology, TopologyError};
use cmwq_simulated::{Completion, Engine, Work, Workqueue};
use cmwq_vm::machine::{Machine, OTHER_PACKAGE, Place, SAME_PACKAGE};
use cmwq_vm::os;
use cmwq_vm::{Access, Cpus, Outcome, Stuck, Tid};
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
/// Deciphering a block, and what its issuer does with it, alone on a core. Both follow from the published rows of `system` on the 3900X (1.6: the slow-down by
/// the SMT sibling). With 24 issuers 23.8 busy CPUs make 74,200 blocks a second: 321 µs each, 200 without the slow-down. With four, which are four busy CPUs
/// at most, 63,600: 63 µs each of the issuers' time, 44 without.
const DECIPHER_NS: u64 = 156_000;
/// See `DECIPHER_NS`.
const VERIFY_NS: u64 = 44_000;
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
    /// Workers never run items of other pods.
    pub strict: bool,
    /// The loop.
    pub kind: Loop,
    /// Issuers, pinned to the first CPUs and round again, but in a block load.
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
            Failed::Stuck(stuck) => write!(f, "the run has no end: {stuck}"),
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

/// Of round trips, and of items of a flood: every so many are timed, as in `benches/peers`, so that the clock costs little.
const TRIP_TIMED_EVERY: usize = 7;
/// See `TRIP_TIMED_EVERY`.
const FLOOD_TIMED_EVERY: usize = 61;
/// Items of a round of a flood, all issuers together, as in `benches/peers`.
const ROUND: usize = 200_000;

/// What an item signals, and what else it writes, on lines of its own, as the items of `benches/peers`.
#[repr(align(128))]
#[derive(Default)]
struct Target {
    done: Completion,
    /// How often it ran, or how many are still to run.
    count: OwnLine,
    /// Where it ran last.
    cpu: AtomicUsize,
}

#[repr(align(128))]
#[derive(Default)]
struct OwnLine(AtomicUsize);

impl OwnLine {
    /// An access by the program that is simulated; the count itself costs nothing.
    fn touch(&self, kind: Access) {
        os::touch(std::ptr::from_ref(self).addr(), kind);
    }
}

struct Shared {
    latencies: RefCell<Vec<u32>>,
    /// Items that have run, and with how many of them the measured time begins and ends.
    ran: Cell<usize>,
    from: usize,
    to: usize,
    /// The measured time.
    begin: Cell<u64>,
    ns: Cell<u64>,
    /// Issuers that have come to where all meet.
    meeting: RefCell<Vec<Tid>>,
    left: Cell<usize>,
    all_done: Completion,
}

impl Shared {
    /// An item has run; `false`: the measured time is over.
    fn go_on(&self) -> bool {
        let ran = self.ran.get() + 1;
        self.ran.set(ran);
        if ran == self.from {
            self.begin.set(os::observe_ns());
        }
        if ran == self.to {
            self.ns.set(os::observe_ns() - self.begin.get());
        }
        ran < self.to
    }

    /// Runs `queue`, which queues an item; `timed`: notes how long it takes.
    fn queue(&self, timed: bool, queue: impl FnOnce()) {
        if !timed {
            return queue();
        }
        let before = os::now_ns();
        queue();
        let ns = os::now_ns() - before;
        if self.ran.get() >= self.from {
            let ns = u32::try_from(ns).unwrap_or(u32::MAX);
            self.latencies.borrow_mut().push(ns);
        }
    }

    /// Waits for all issuers, asleep. The last one runs `then` before they go on.
    fn meet(&self, issuers: usize, then: impl FnOnce()) {
        os::prepare_sleep();
        self.meeting.borrow_mut().push(os::current());
        if self.meeting.borrow().len() < issuers {
            return os::sleep_unless_woken();
        }
        then();
        let all = self.meeting.take();
        for tid in all.into_iter().filter(|&tid| tid != os::current()) {
            os::wake(tid, None);
        }
    }
}

fn issue(plan: &Plan, topology: Topology) -> (usize, f64, Latencies) {
    let engine = Engine::builder()
        .topology(topology)
        .cache_shard_size(plan.shard_size)
        .build()
        .expect("a topology is given");
    let pods = engine.pods(plan.scope).pods().len();
    let queue = engine
        .workqueue("bench_wq")
        .affinity_scope(plan.scope)
        .affinity_strict(plan.strict)
        .build()
        .expect("these attributes are legal");
    let queue = Arc::new(queue);
    let items = plan.issuers * plan.items;
    // The first fill of a window is its warm-up.
    let from = match plan.kind {
        Loop::Roundtrip => items.div_ceil(10),
        Loop::Flood => 0,
        Loop::Window | Loop::BlockLoad => plan.issuers * DEPTH,
    };
    let shared = Rc::new(Shared {
        latencies: RefCell::default(),
        ran: Cell::new(0),
        from,
        to: from + items,
        begin: Cell::new(0),
        ns: Cell::new(0),
        meeting: RefCell::default(),
        left: Cell::new(plan.issuers),
        all_done: Completion::new(),
    });
    for number in 0..plan.issuers {
        let (queue, shared, plan) = (queue.clone(), shared.clone(), plan.clone());
        let cpus = plan.machine.cpus.len();
        // The threads of the published block loads were free.
        let allowed = match plan.kind {
            Loop::BlockLoad => (0..cpus).collect(),
            _ => Cpus::from_iter([number % cpus]),
        };
        let main = move || {
            shared.meet(plan.issuers, || ());
            match plan.kind {
                Loop::Roundtrip => roundtrip(&queue, &shared),
                Loop::Flood => flood(&plan, &queue, &shared),
                Loop::Window | Loop::BlockLoad => window(&plan, &queue, &shared),
            }
            shared.left.set(shared.left.get() - 1);
            if shared.left.get() == 0 {
                shared.all_done.complete();
            }
        };
        os::spawn(&format!("issuer{number}"), Some(allowed), main).expect("memory for a stack");
    }
    shared.all_done.wait();
    let rate = items as f64 * 1e9 / shared.ns.get().max(1) as f64;
    (pods, rate, Latencies::new(shared.latencies.take()))
}

fn roundtrip(queue: &Workqueue, shared: &Shared) {
    let target = Arc::new(Target::default());
    let of_item = target.clone();
    let item = Work::new(move || {
        of_item.count.touch(Access::Write);
        of_item.done.complete();
    });
    for number in 0.. {
        shared.queue(usize::is_multiple_of(number, TRIP_TIMED_EVERY), || {
            target.done.reinit();
            let _ = queue.queue(&item);
        });
        target.done.wait();
        if !shared.go_on() {
            return;
        }
    }
}

/// Rounds, as long as their items are not all; the first, shorter, warms up. The measured time is that of the rounds.
fn flood(plan: &Plan, queue: &Workqueue, shared: &Shared) {
    let share = plan.items.min((ROUND / plan.issuers).max(1));
    let target = Arc::new(Target::default());
    let items: Vec<Work> = (0..share)
        .map(|_| {
            let target = target.clone();
            Work::new(move || {
                target.count.touch(Access::Update);
                if target.count.0.fetch_sub(1, Relaxed) == 1 {
                    target.done.complete();
                }
            })
        })
        .collect();
    let mut left = plan.items;
    let mut count = share.div_ceil(10);
    let mut is_warm = false;
    while left > 0 {
        target.done.reinit();
        target.count.0.store(count, Relaxed);
        shared.meet(plan.issuers, || shared.begin.set(os::observe_ns()));
        for (number, item) in items[..count].iter().enumerate() {
            let timed = is_warm && number.is_multiple_of(FLOOD_TIMED_EVERY);
            shared.queue(timed, || {
                let _ = queue.queue(item);
            });
        }
        target.done.wait();
        shared.meet(plan.issuers, || {
            if is_warm {
                let ns = os::observe_ns() - shared.begin.get();
                shared.ns.set(shared.ns.get() + ns);
            }
        });
        if is_warm {
            left -= count;
        }
        is_warm = true;
        count = share.min(left);
    }
}

/// Each item has a completion, and its issuer waits for the oldest. All are timed.
fn window(plan: &Plan, queue: &Workqueue, shared: &Shared) {
    let is_block = plan.kind == Loop::BlockLoad;
    let item_ns = if is_block { DECIPHER_NS } else { WINDOW_NS };
    let slots: Vec<(Arc<Target>, Work)> = (0..DEPTH)
        .map(|_| {
            let target = Arc::new(Target::default());
            let at = target.clone();
            let item = Work::new(move || {
                os::work(item_ns);
                let _ = os::now_ns();
                at.cpu.store(os::current_cpu(), Relaxed);
                at.count.touch(Access::Write);
                at.done.complete();
            });
            (target, item)
        })
        .collect();
    for number in 0.. {
        let (target, item) = &slots[number % DEPTH];
        if number >= DEPTH {
            target.done.wait();
            let _ = os::now_ns();
            if is_block {
                os::work(verifying_ns(&plan.machine, target.cpu.load(Relaxed)));
            }
            if !shared.go_on() {
                break;
            }
        }
        shared.queue(true, || {
            target.done.reinit();
            let _ = queue.queue(item);
        });
    }
    for (target, _) in &slots {
        target.done.wait();
    }
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
