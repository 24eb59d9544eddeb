//! What an engine, its queues and its pools are at one moment, as plain data. Each part is looked at by itself, so they may be a few
//! microseconds apart.
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
    /// Unlike the name, no other queue of the process has or had it.
    pub serial: u64,
    /// The name.
    pub name: String,
    /// The kind.
    pub kind: WorkqueueKind,
    /// The kind and the flags in words, such as `percpu highpri`.
    pub flags: String,
    /// Whether it has a rescuer, and which.
    pub rescuer: Option<RescuerState>,
    /// The attributes as they were given; they mean something to unbound and ordered queues only.
    pub attrs: WorkqueueAttrs,
    /// The limit on active items.
    pub max_active: usize,
    /// How many may be active on each node in any case.
    pub min_active: usize,
    /// Where an item queued from a CPU goes: the pool's number, by CPU number.
    pub cpu_pool: Vec<Option<u32>>,
    /// The pool for CPUs that have no pod, of unbound and ordered queues.
    pub default_pool: Option<u32>,
    /// The limit and the active items of each node, of unbound and ordered queues; last, with no node, of the pools that lie on none.
    pub nodes: Vec<NodeState>,
    /// Its shares of its pools, the latest last.
    pub pwqs: Vec<PwqState>,
    /// What it has counted. Sums can go down when attributes change, as the kernel's do.
    pub stats: QueueStats,
    /// The limit that it shares with other queues.
    pub group: Option<GroupState>,
    /// How long `queue()` took, as far as it was [timed](crate::observe::EnqueueTiming).
    pub enqueue: LatencyHistogram,
}

/// One queue's share of one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PwqState {
    /// The pool's number.
    pub pool: u32,
    /// Items that run or are ready to.
    pub active: usize,
    /// Items that wait for a place (`max_active`).
    pub inactive: usize,
    /// It takes no new items; it goes with its last one.
    pub retired: bool,
}

/// One node's share of a queue's limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeState {
    /// The node; `None`: pools that lie on no single one.
    pub node: Option<u32>,
    /// Items active there.
    pub active: usize,
    /// How many may be.
    pub max_active: usize,
}

/// A queue's rescuer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RescuerState {
    /// The kernel's id of its thread; 0: it has not begun.
    pub tid: i32,
    /// The real CPUs that it may run on.
    pub cpus: CpuSet,
}

/// What one queue has counted: the kernel's statistics, and a few more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Items started.
    pub started: u64,
    /// Items completed.
    pub completed: u64,
    /// CPU time of its items, in ns, as far as it was [charged](crate::Engine::account_cpu_time).
    pub cpu_ns: u64,
    /// Items that used the CPU for too long.
    pub cpu_intensive: u64,
    /// Times another worker took over because one of its items blocked.
    pub cm_wakeups: u64,
    /// Calls for the rescuer.
    pub mayday: u64,
    /// Items that the rescuer ran.
    pub rescued: u64,
    /// Items that a pool's neighbours ran.
    pub helps: u64,
    /// Items that threads ran which waited for them.
    pub waiter_runs: u64,
    /// Workers that were woken up and then first ran an item of it.
    pub wakeups: u64,
    /// Visits to the store of places that its pods share.
    pub limit_visits: u64,
    /// Times that somebody had to wait for the lock of one of the pools that it uses now; other queues of these pools are in it.
    pub lock_waits: u64,
}

/// One worker pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolState {
    /// Its number, in the whole process.
    pub id: u32,
    /// What it is for.
    pub kind: PoolFor,
    /// As the kernel's: 1 BH, 2 a worker is being created, 4 not bound to one CPU (unbound, or its CPU may not be used now).
    pub flags: u32,
    /// The thread that creates a worker, while one is being created; 0: it has not begun.
    pub manager: Option<i32>,
    /// For how long, in ns, nothing has been started while something waits; `None`: nothing waits.
    pub hung_ns: Option<u64>,
    /// How many queues use it.
    pub users: usize,
    /// The nice level that its workers should have.
    pub nice: i32,
    /// The nice level that they have, once one has begun.
    pub effective_nice: Option<i32>,
    /// The pod, in the topology's CPU numbers.
    pub pod: CpuSet,
    /// Where its items may run at all: the pod of a strict pool, and otherwise the queues' whole mask, since neighbours help.
    pub cpus: CpuSet,
    /// Whether items stay in the pod in any case.
    pub strict: bool,
    /// The NUMA node of its first CPU.
    pub node: Option<u32>,
    /// The real CPUs that its workers are bound to.
    pub binding: CpuSet,
    /// How many workers may run at a time.
    pub target: usize,
    /// How many do.
    pub running: usize,
    /// Items that are ready to run and wait.
    pub waiting: usize,
    /// All workers.
    pub workers: Vec<WorkerState>,
    /// What is being run, by workers, helpers and rescuers.
    pub runs: Vec<RunState>,
    /// What it has counted.
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
    /// The kernel's id of its thread; 0: it has not begun.
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
    /// Whether that is a rescuer.
    pub rescuer: bool,
    /// The [id](super::LiveQueue::id) of its queue.
    pub queue: usize,
    /// The address of its function; [`function_name`](crate::observe::function_name) names it.
    pub func: usize,
    /// What it was [described](crate::set_worker_desc) as; otherwise the queue's name.
    pub description: String,
    /// For how long, in ns, by a clock that ticks every few milliseconds.
    pub for_ns: u64,
    /// The functions of items that run right after it on the same worker.
    pub scheduled: Vec<usize>,
}

/// What one pool has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounts {
    /// Items started.
    pub started: u64,
    /// Items completed.
    pub completed: u64,
    /// Idle workers woken, for whatever reason.
    pub wakeups: u64,
    /// Items that neighbours ran.
    pub helps: u64,
    /// Times that somebody had to wait for its lock.
    pub lock_waits: u64,
    /// Workers created.
    pub workers_created: u64,
    /// Attempts to create one that failed.
    pub create_failures: u64,
    /// Workers found blocked that had not said so.
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
