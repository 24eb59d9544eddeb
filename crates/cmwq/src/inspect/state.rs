//! The state of an engine, its queues and its pools, as plain data. Each part is read by itself, so parts may be a few microseconds apart.
#![forbid(unsafe_code)]

use crate::affinity::AffinityScope;
use crate::topology::CpuSet;
use crate::trace::LatencyHistogram;
use crate::workqueue::GroupState;
use crate::workqueue::{WorkqueueAttrs, WorkqueueKind};

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
    /// How long `queue()` took, for the calls that were [timed](crate::observe::EnqueueTiming).
    pub enqueue: LatencyHistogram,
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

/// The counters of one queue: the kernel's statistics, and a few more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Items started.
    pub started: u64,
    /// Items completed.
    pub completed: u64,
    /// CPU time of its items, in ns, as [charged](crate::Engine::account_cpu_time).
    pub cpu_ns: u64,
    /// Items that became CPU hogs.
    pub cpu_intensive: u64,
    /// Times another worker took over because one of its items blocked.
    pub cm_wakeups: u64,
    /// Calls for the rescuer.
    pub mayday: u64,
    /// Items that the rescuer ran.
    pub rescued: u64,
    /// Items that workers of other pods stole and ran.
    pub helps: u64,
    /// Items that threads waiting for them ran (caller-runs joins).
    pub waiter_runs: u64,
    /// Workers that were woken and then first ran an item of it.
    pub wakeups: u64,
    /// Visits to the shared store of credits.
    pub limit_visits: u64,
    /// Times that a thread waited for the lock of one of the pools that it uses now, on behalf of any queue of these pools.
    pub lock_waits: u64,
}

/// One worker pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolState {
    /// Its number, unique in the process.
    pub id: u32,
    /// What it is for.
    pub kind: PoolFor,
    /// As the kernel's: 1 BH, 2 a worker is being created, 4 not bound to one CPU (unbound, or its CPU may not be used now).
    pub flags: u32,
    /// The thread that creates a worker, while one is being created; 0: that thread has not begun.
    pub manager: Option<i32>,
    /// For how long, in ns, no item has started while some wait; `None`: none waits.
    pub hung_ns: Option<u64>,
    /// How many queues use it.
    pub users: usize,
    /// The nice level that its workers should have.
    pub nice: i32,
    /// The nice level that they have, once a worker has begun.
    pub effective_nice: Option<i32>,
    /// The pod, in the topology's CPU numbers.
    pub pod: CpuSet,
    /// Where its items may run: the pod of a strict pool; otherwise the queues' whole mask, because of work stealing.
    pub cpus: CpuSet,
    /// Whether items stay in the pod.
    pub strict: bool,
    /// The NUMA node of its first CPU.
    pub node: Option<u32>,
    /// The real CPUs that its workers are bound to.
    pub binding: CpuSet,
    /// How many workers may run at a time.
    pub target: usize,
    /// How many workers run.
    pub running: usize,
    /// Items that are ready to run and wait for a worker.
    pub waiting: usize,
    /// All workers.
    pub workers: Vec<WorkerState>,
    /// The items in execution, on workers, thieves and rescuers.
    pub runs: Vec<RunState>,
    /// Its counters.
    pub stats: PoolCounts,
}

/// What a pool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolFor {
    /// A pod.
    Unbound,
    /// One CPU.
    PerCpu(usize),
    /// One CPU, one item at a time.
    Bh(usize),
}

/// One worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerState {
    /// Its number in the pool, as in its thread's name.
    pub id: u32,
    /// The kernel's id of its thread; 0: the thread has not begun.
    pub tid: i32,
    /// `starting`, `idle`, `searching`, `running`, `blocked`, `cpu_intensive` or `helping`.
    pub doing: &'static str,
}

/// One item in execution.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunState {
    /// The kernel's id of the thread that runs it.
    pub tid: i32,
    /// Whether that thread is a rescuer.
    pub rescuer: bool,
    /// The [id](super::LiveQueue::id) of its queue.
    pub queue: usize,
    /// The address of its function; [`function_name`](crate::observe::function_name) names it.
    pub func: usize,
    /// Its [description](crate::set_worker_desc); otherwise the queue's name.
    pub description: String,
    /// How long it has run, in ns, by a clock that ticks every few milliseconds.
    pub for_ns: u64,
    /// The functions of items that run right after it on the same worker.
    pub scheduled: Vec<usize>,
}

/// The counters of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounts {
    /// Items started.
    pub started: u64,
    /// Items completed.
    pub completed: u64,
    /// Idle workers woken, for any reason.
    pub wakeups: u64,
    /// Items that workers of other pods stole and ran.
    pub helps: u64,
    /// Times that a thread waited for its lock.
    pub lock_waits: u64,
    /// Workers created.
    pub workers_created: u64,
    /// Failed attempts to create a worker.
    pub create_failures: u64,
    /// Workers found blocked that had not declared it.
    pub blocked_seen: u64,
    /// Items whose function panicked.
    pub panics: u64,
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
