//! The state of an engine, its queues and its pools, as plain data. The parts are read one after
//! the other, so they may be a few microseconds apart.
#![forbid(unsafe_code)]

use crate::pool::QueueStats;
use crate::topology::CpuSet;
use crate::workqueue::GroupState;
use crate::workqueue::{WorkqueueAttrs, WorkqueueKind};
use cmwq_topology::affinity::AffinityScope;
use cmwq_trace::LatencyHistogram;

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
    /// The serial number of the queue. Unlike the name it is unique: no other queue of the process
    /// has or had the same.
    pub serial: u64,
    /// The name.
    pub name: String,
    /// The kind.
    pub kind: WorkqueueKind,
    /// The kind and the flags in words, such as `percpu highpri`.
    pub flags: String,
    /// Its rescuer, if it has one.
    pub rescuer: Option<RescuerState>,
    /// The attributes as they were given. They take effect on unbound and ordered queues only.
    pub attrs: WorkqueueAttrs,
    /// The limit on active items.
    pub max_active: usize,
    /// How many items may be active on each NUMA node in any case, however small its share of
    /// `max_active` is.
    pub min_active: usize,
    /// How many items wait, and how many may, if the queue has a
    /// [limit](crate::WorkqueueBuilder::max_waiting) on that.
    pub room: Option<RoomState>,
    /// The number of the pool to which an item goes, indexed by the CPU that it is queued from.
    pub cpu_pool: Vec<Option<u32>>,
    /// The pool for CPUs that have no pod. Only unbound and ordered queues have one.
    pub default_pool: Option<u32>,
    /// The limit and the active items of each node, for unbound and ordered queues. The last entry,
    /// which has no node, is for the pools that lie on no single node.
    pub nodes: Vec<NodeState>,
    /// The queue's parts in its pools (*pool workqueues*), the oldest first.
    pub pwqs: Vec<PwqState>,
    /// The queue's counters. As in the kernel a sum can go down when the attributes change.
    pub stats: QueueStats,
    /// The state of the limit that the queue shares with other queues, if it is in a group.
    pub group: Option<GroupState>,
    /// How long its items wait and run.
    pub times: QueueTimes,
    /// How long `queue()` took, for the calls that were [timed](crate::observe::EnqueueTiming).
    pub enqueue: LatencyHistogram,
}

/// Tells how long items of a queue wait and run: a part of a [`QueueState`]. The library always
/// measures this, for a sample of the items: up to 32 items in two milliseconds (or in a tick of the
/// system's coarse clock, which may be up to four). Of items that come in a burst the first ones are
/// measured one by one, and the later ones ever more rarely. The wait of one counts for all items
/// that have started since the sample before, so the histogram is an estimate of the waits of all
/// items. Items that a thread spawned, joined at once and ran itself are not sampled. A change of the
/// attributes drops what the old pools have measured.
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
    /// The time from the call that queued an item to the start of the item.
    pub wait: LatencyHistogram,
    /// The time from the start of an item to its end. For items that take less than a few
    /// microseconds it is an average over several of them.
    pub run: LatencyHistogram,
    /// For how long the longest waiting of the sampled items has waited until now, in ns. `None`:
    /// none of them waits.
    pub longest_waiting_ns: Option<u64>,
    /// For how long the longest running item has run until now, in ns, by a clock that ticks every
    /// few milliseconds. `None`: no item runs.
    pub longest_running_ns: Option<u64>,
}

/// How many items of a queue with a [limit](crate::WorkqueueBuilder::max_waiting) on waiting items
/// wait, and how many may: a part of a [`QueueState`].
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
    /// How many items may be queued and not started.
    pub max_waiting: usize,
}

/// The part of one queue in one pool (its *pool workqueue*): a part of a [`QueueState`].
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
    /// Items that wait because `max_active` is reached.
    pub inactive: usize,
    /// Whether the part takes no new items. It is removed when its last item has ended.
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
    /// The NUMA node. `None`: this entry is for pools that lie on no single node.
    pub node: Option<u32>,
    /// How many items are active there.
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
    /// The kernel's id of the thread. 0: the thread has not begun.
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
    /// The pods of the scope: the CPUs and the NUMA node of each. A pod that does not lie on a
    /// single node has `None`.
    pub pods: Vec<(CpuSet, Option<u32>)>,
    /// The pod of each CPU number, as an index into `pods`.
    pub cpu_pod: Vec<Option<usize>>,
}
