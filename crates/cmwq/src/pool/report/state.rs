//! The state of one pool at one moment, as a plain copy.
#![forbid(unsafe_code)]

use crate::pool::{PoolCounts, PoolFor};
use crate::topology::CpuSet;

/// The state of one worker pool at one moment, from
/// [`Engine::pool_states`](crate::Engine::pool_states).
///
/// ```
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// queue.spawn(|| ()).join()?;
/// let engine = cmwq::Engine::global()?;
/// for pool in engine.pool_states() {
///     println!("pool {}: {} of {} workers run, {} items wait", pool.id, pool.running, pool.target, pool.waiting);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolState {
    /// Its number, unique in the process.
    pub id: u32,
    /// What it is for.
    pub kind: PoolFor,
    /// As the kernel's: 1 BH, 2 a worker is being created, 4 not bound to one CPU (unbound, or its
    /// CPU may not be used now).
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
    /// Where its items may run: the pod of a strict pool; otherwise the queues' whole mask, because
    /// of work stealing.
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
    pub workers: Vec<PoolWorker>,
    /// The items in execution, on workers, thieves and rescuers.
    pub runs: Vec<RunState>,
    /// Its counters.
    pub stats: PoolCounts,
}

/// A worker and what it does: a part of a [`PoolState`].
///
/// ```
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// queue.spawn(|| ()).join()?;
/// let engine = cmwq::Engine::global()?;
/// for worker in engine.pool_states().iter().flat_map(|pool| &pool.workers) {
///     println!("thread {}: {}", worker.tid, worker.doing);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolWorker {
    /// Its number in the pool, as in its thread's name.
    pub id: u32,
    /// The kernel's id of its thread; 0: the thread has not begun.
    pub tid: i32,
    /// `starting`, `idle`, `searching`, `running`, `blocked`, `cpu_intensive` or `stealing`.
    pub doing: &'static str,
}

/// An item that is running: a part of a [`PoolState`].
///
/// ```
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// queue.spawn(|| ()).join()?;
/// let engine = cmwq::Engine::global()?;
/// for run in engine.pool_states().iter().flat_map(|pool| &pool.runs) {
///     println!("thread {} runs {} since {} ns", run.tid, cmwq::observe::function_name(run.func), run.for_ns);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunState {
    /// The kernel's id of the thread that runs it.
    pub tid: i32,
    /// Whether that thread is a rescuer.
    pub rescuer: bool,
    /// The [id](crate::observe::LiveQueue::id) of its queue.
    pub queue: usize,
    /// The address of its function; [`function_name`](crate::observe::function_name) names it.
    pub func: usize,
    /// Its [description](crate::observe::set_worker_desc); otherwise the queue's name.
    pub description: String,
    /// How long it has run, in ns, by a clock that ticks every few milliseconds.
    pub for_ns: u64,
    /// The functions of items that run right after it on the same worker.
    pub scheduled: Vec<usize>,
}
