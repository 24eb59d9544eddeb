//! The state of an engine, its queues and its pools, as plain data. Each part is read by itself, so parts may be a few microseconds apart.
#![forbid(unsafe_code)]

use crate::pool::QueueStats;
use crate::topology::CpuSet;
use crate::trace::LatencyHistogram;
use crate::workqueue::GroupState;
use crate::workqueue::{WorkqueueAttrs, WorkqueueKind};
use cmwq_topology::affinity::AffinityScope;

/// The state of one workqueue at one moment, from
/// [`Engine::queue_states`](crate::Engine::queue_states).
///
/// ```
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// queue.spawn(|| ()).join()?;
/// let engine = cmwq::Engine::global()?;
/// let states = engine.queue_states();
/// let state = states.iter().find(|state| state.name == "io").expect("it exists");
/// println!("{}: at most {} active, {} ended", state.name, state.max_active, state.stats.completed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueState {
    /// Unlike the name, unique: no other queue of the process has or had it.
    pub serial: u64,
    /// The name.
    pub name: String,
    /// The kind.
    pub kind: WorkqueueKind,
    /// The kind and the flags in words, such as `percpu highpri`.
    pub flags: String,
    /// Its rescuer, if it has one.
    pub rescuer: Option<RescuerState>,
    /// The attributes as they were given; they apply to unbound and ordered queues only.
    pub attrs: WorkqueueAttrs,
    /// The limit on active items.
    pub max_active: usize,
    /// How many items may be active on each node in any case.
    pub min_active: usize,
    /// How many items wait, and may wait, if that is [bounded](crate::WorkqueueBuilder::max_waiting).
    pub room: Option<RoomState>,
    /// The destination pool of an item, by the CPU number that it is queued from.
    pub cpu_pool: Vec<Option<u32>>,
    /// The pool for CPUs that have no pod, of unbound and ordered queues.
    pub default_pool: Option<u32>,
    /// The limit and the active items of each node, of unbound and ordered queues; last, with no node, of the pools that lie on no single
    /// node.
    pub nodes: Vec<NodeState>,
    /// Its pool workqueues, the latest last.
    pub pwqs: Vec<PwqState>,
    /// Its counters. Sums can go down when attributes change, as the kernel's do.
    pub stats: QueueStats,
    /// The limit that it shares with other queues.
    pub group: Option<GroupState>,
    /// How long its items wait and run.
    pub times: QueueTimes,
    /// How long `queue()` took, for the calls that were [timed](crate::observe::EnqueueTiming).
    pub enqueue: LatencyHistogram,
}

/// Tells how long items of a queue wait and run: a part of a [`QueueState`]. They are always
/// measured, for a sample of the items: one for each pool that runs them and every two milliseconds
/// (or tick of the system's coarse clock, up to four), so nearly all items of a queue that is used
/// up to some hundred times a second. Items that a thread spawned and joined at once, and ran
/// itself, are left out. A change of the attributes drops what the old pools have measured.
///
/// ```
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// queue.spawn(|| ()).join()?;
/// let engine = cmwq::Engine::global()?;
/// let states = engine.queue_states();
/// let state = states.iter().find(|state| state.name == "io").expect("it exists");
/// println!("{} waits and {} runs were measured", state.times.wait.count(), state.times.run.count());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct QueueTimes {
    /// From the call that queued an item to its start.
    pub wait: LatencyHistogram,
    /// From its start to its end. What items of less than a few microseconds take is an average of some of them.
    pub run: LatencyHistogram,
    /// The longest time that one of the sampled items waits now, in ns; `None`: none does.
    pub longest_waiting_ns: Option<u64>,
    /// The longest time that an item runs now, in ns, by a clock that ticks every few milliseconds; `None`: none runs.
    pub longest_running_ns: Option<u64>,
}

/// How many items of a queue with a [bound](crate::WorkqueueBuilder::max_waiting) wait, and how
/// many may: a part of a [`QueueState`].
///
/// ```
/// let queue = cmwq::Workqueue::builder("requests").max_waiting(100).build()?;
/// let states = cmwq::Engine::global()?.queue_states();
/// let state = states.iter().find(|state| state.name == "requests").expect("it exists");
/// assert_eq!(state.room.as_ref().expect("it is bounded").max_waiting, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoomState {
    /// Items that are queued and have not started.
    pub waiting: usize,
    /// How many may be.
    pub max_waiting: usize,
}

/// What one queue has in one pool: a part of a [`QueueState`].
///
/// ```
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// queue.spawn(|| ()).join()?;
/// let engine = cmwq::Engine::global()?;
/// let states = engine.queue_states();
/// let state = states.iter().find(|state| state.name == "io").expect("it exists");
/// for part in &state.pwqs {
///     println!("pool {}: {} active, {} waiting for a place", part.pool, part.active, part.inactive);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PwqState {
    /// The pool's number.
    pub pool: u32,
    /// Items that run or are ready to run.
    pub active: usize,
    /// Items that wait for a credit (`max_active`).
    pub inactive: usize,
    /// It takes no new items, and is removed with its last one.
    pub retired: bool,
}

/// How much of a queue's limit one NUMA node has, and uses: a part of a [`QueueState`].
///
/// ```
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// queue.spawn(|| ()).join()?;
/// let engine = cmwq::Engine::global()?;
/// let states = engine.queue_states();
/// let state = states.iter().find(|state| state.name == "io").expect("it exists");
/// for node in &state.nodes {
///     println!("{} of {} items are active", node.active, node.max_active);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeState {
    /// The node; `None`: pools that lie on no single node.
    pub node: Option<u32>,
    /// Items active there.
    pub active: usize,
    /// The limit on active items there.
    pub max_active: usize,
}

/// The reserve thread of a queue built with [`mem_reclaim`](crate::WorkqueueBuilder::mem_reclaim):
/// a part of a [`QueueState`].
///
/// ```
/// let queue = cmwq::Workqueue::builder("writeback").mem_reclaim().build()?;
/// let states = cmwq::Engine::global()?.queue_states();
/// let state = states.iter().find(|state| state.name == "writeback").expect("it exists");
/// println!("the rescuer is thread {}", state.rescuer.as_ref().expect("it has one").tid);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RescuerState {
    /// The kernel's id of its thread; 0: the thread has not begun.
    pub tid: i32,
    /// The real CPUs that it may run on.
    pub cpus: CpuSet,
}

/// The pods of one affinity scope, from [`Engine::scope_states`](crate::Engine::scope_states).
///
/// ```
/// for scope in cmwq::Engine::global()?.scope_states() {
///     println!("{:?}", scope.scope);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ScopeState {
    /// The scope.
    pub scope: AffinityScope,
    /// Its pods: their CPUs and their nodes.
    pub pods: Vec<(CpuSet, Option<u32>)>,
    /// By CPU number: an index into `pods`.
    pub cpu_pod: Vec<Option<usize>>,
}
