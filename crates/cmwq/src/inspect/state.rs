//! The state of an engine, its queues and its pools, as plain data. Each part is read by itself, so parts may be a few microseconds apart.
#![forbid(unsafe_code)]

use crate::pool::QueueStats;
use crate::topology::CpuSet;
use crate::trace::LatencyHistogram;
use crate::workqueue::GroupState;
use crate::workqueue::{WorkqueueAttrs, WorkqueueKind};
use cmwq_topology::affinity::AffinityScope;

/// One workqueue.
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

/// How long items of a queue wait and run. They are always measured, for a sample of the items: one for each pool that runs them and every two
/// milliseconds (or tick of the system's coarse clock, up to four), so nearly all items of a queue that is used up to some hundred times a
/// second. Items that a thread spawned and joined at once, and ran itself, are left out. A change of the attributes drops what the old pools have measured.
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

/// The bound on how many items of a queue wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoomState {
    /// Items that are queued and have not started.
    pub waiting: usize,
    /// How many may be.
    pub max_waiting: usize,
}

/// One queue's share of one pool: a pool workqueue.
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

/// One node's share of a queue's limit.
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

/// A queue's rescuer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RescuerState {
    /// The kernel's id of its thread; 0: the thread has not begun.
    pub tid: i32,
    /// The real CPUs that it may run on.
    pub cpus: CpuSet,
}

/// The pods of one affinity scope.
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
