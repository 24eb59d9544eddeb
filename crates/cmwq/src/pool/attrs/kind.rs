//! What a pool is for, and where its workers run.
#![forbid(unsafe_code)]

use super::params::Params;
use super::threads::WorkerThreads;
use crate::topology::CpuSet;
use std::sync::Arc;

/// Tells what a pool is for: a pod, or one CPU.
///
/// ```
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// queue.spawn(|| ()).join()?;
/// let engine = cmwq::Engine::global()?;
/// use cmwq::observe::PoolFor;
///
/// let pools = engine.pool_states();
/// let unbound = pools.iter().filter(|pool| pool.kind == PoolFor::Unbound);
/// println!("{} pools are for pods", unbound.count());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolFor {
    /// A pod: as many running workers as it has CPUs.
    Unbound,
    /// One CPU: one running worker, bound to it while it may be used.
    PerCpu(usize),
    /// One CPU: one worker, which runs one item at a time, in order, whether it blocks or not.
    Bh(usize),
}

/// What the workers need to know of their pool, and what does not change.
#[derive(Clone)]
pub(crate) struct PoolAttrs {
    pub(crate) kind: PoolFor,
    /// Nice level of the workers, -20 to 19.
    pub(crate) nice: i32,
    /// A strict pool neither steals nor is stolen from.
    pub(crate) strict: bool,
    /// The pod, in the CPU numbers of the topology.
    pub(crate) cpus: CpuSet,
    /// Where the pod lies, to find the nearest victim.
    pub(crate) position: Position,
    /// How many items a worker takes at once at most.
    pub(crate) batch: usize,
    /// How long a worker may be idle before it may be culled, in ns.
    pub(crate) idle_timeout_ns: u64,
    pub(crate) params: Arc<Params>,
    /// What the program asks of the workers, if anything.
    pub(crate) threads: Option<WorkerThreads>,
}

impl PoolAttrs {
    /// Whether its items run in the manner of softirqs: one at a time, and without sleeping.
    #[inline]
    pub(in crate::pool) fn is_bh(&self) -> bool {
        matches!(self.kind, PoolFor::Bh(_))
    }
}

/// Where a pool's workers run. It changes when CPUs come and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// CPUs that exist: what the workers are bound to.
    pub(crate) cpus: CpuSet,
    /// How many workers may run at the same time.
    pub(crate) target: u32,
    /// Whether `cpus` is the one CPU that the pool is for.
    pub(crate) associated: bool,
}

/// Where a pod lies on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Position {
    pub(crate) llc: usize,
    pub(crate) node: Option<u32>,
    pub(crate) first_cpu: usize,
}

impl Position {
    /// Whether it is under another last-level cache.
    pub(in crate::pool) fn is_far(self, other: Position) -> bool {
        self.distance(other).0 > 0
    }

    /// Larger is farther: another LLC, another node, then by CPU number, so that not all thieves
    /// choose alike.
    pub(in crate::pool) fn distance(self, other: Position) -> (u8, usize) {
        let level = match (self.llc == other.llc, self.node == other.node) {
            (true, true) => 0,
            (_, true) => 1,
            _ => 2,
        };
        (level, self.first_cpu.abs_diff(other.first_cpu))
    }
}
