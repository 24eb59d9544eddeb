//! The key of a pool.

use crate::pool::{PoolFor, WorkerThreads};
use crate::topology::CpuSet;

/// Two requests share a pool if and only if their keys are equal. Neither the scope nor orderedness
/// is part of the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PoolKey {
    pub(crate) kind: PoolFor,
    pub(crate) nice: i32,
    /// Where the workers run.
    pub(crate) pod: CpuSet,
    /// The whole effective mask of the queue. It is `None` for pools whose workers never steal from
    /// others (strict pools) and for pools of one CPU.
    pub(crate) effective: Option<CpuSet>,
    /// The program's settings of the worker threads.
    pub(crate) threads: Option<WorkerThreads>,
}

impl PoolKey {
    pub(crate) fn is_strict(&self) -> bool {
        self.effective.is_none()
    }
}
