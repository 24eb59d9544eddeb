//! Pools of tests and models, and stand-ins for what is around them: a queue that ignores what it
//! is told, and a service that creates no worker.

use super::attrs::kind::{Binding, PoolAttrs, PoolFor, Position};
use super::attrs::params::Params;
use super::queue::credits::NodeLimit;
use super::queue::pwq::{PwqKey, Traits};
use super::queue::times::Sampler;
use super::state::group::Group;
use super::state::pool::{FrontEnd, Pool, PoolService, PwqState, Rescue};
use crate::item::{Pending, RawWork, WorkFn};
use crate::topology::CpuSet;
use std::sync::Arc;

/// What a pool is like: strict, of two CPUs, with workers that take single items, unless something
/// else is said.
pub(in crate::pool) struct Made {
    pub(in crate::pool) kind: PoolFor,
    pub(in crate::pool) strict: bool,
    pub(in crate::pool) cpus: CpuSet,
    pub(in crate::pool) batch: usize,
    pub(in crate::pool) idle_timeout_ns: u64,
    /// What it shares with the other pools of an engine.
    /// The last-level cache.
    pub(in crate::pool) llc: usize,
    pub(in crate::pool) params: Arc<Params>,
    pub(in crate::pool) group: Arc<Group<Pool>>,
    pub(in crate::pool) service: Arc<dyn PoolService>,
}

impl Default for Made {
    fn default() -> Self {
        Made {
            kind: PoolFor::Unbound,
            strict: true,
            cpus: CpuSet::from_iter([0, 1]),
            llc: 0,
            batch: 1,
            idle_timeout_ns: 0,
            params: Arc::default(),
            group: Group::new(),
            service: Arc::new(NoService),
        }
    }
}

impl Pool {
    /// Publishes an item whose destination is set, by itself.
    pub(crate) fn publish_single(self: &Arc<Self>, item: Pending) {
        self.publish(item, None, &Sampler::new(), None);
    }
}

impl Made {
    pub(in crate::pool) fn pool(self, id: u32) -> Arc<Pool> {
        let binding = Binding {
            target: self.cpus.len() as u32,
            cpus: self.cpus.clone(),
            associated: self.kind != PoolFor::Unbound,
        };
        let position = Position {
            llc: self.llc,
            first_cpu: self.cpus.first().unwrap_or(0),
            ..Position::default()
        };
        let attrs = PoolAttrs {
            kind: self.kind,
            nice: 0,
            strict: self.strict,
            cpus: self.cpus,
            position,
            batch: self.batch,
            idle_timeout_ns: self.idle_timeout_ns,
            params: self.params,
            threads: None,
        };
        let pool = Pool::new(id, attrs, binding, self.service, self.group.clone());
        self.group.join(&pool);
        pool
    }
}

/// Adds a pool workqueue with `limit` credits, whose queue gets no notifications.
pub(in crate::pool) fn add_pwq(
    pool: &Arc<Pool>,
    traits: Traits,
    limit: i32,
    rescuer: Option<Arc<dyn Rescue>>,
) -> PwqKey {
    let limit = Arc::new(NodeLimit::new(limit));
    let state = PwqState::of(Arc::new(NoFront), rescuer, traits, limit, 0, 0);
    pool.lock().add_pwq(state)
}

/// Creates no worker: the pool has only the workers that it has.
pub(in crate::pool) struct NoService;

impl PoolService for NoService {
    fn create_worker(&self, _: &Arc<Pool>) {}
    fn watch(&self, _: &Arc<Pool>) {}
    fn cull_later(&self, _: &Arc<Pool>) {}
    fn woke(&self) {}
}

pub(in crate::pool) struct NoFront;

impl FrontEnd for NoFront {
    fn name(&self) -> &str {
        "silent"
    }
    fn flags(&self) -> String {
        String::new()
    }
    fn check_dependency(&self, _: Option<WorkFn>) {}
    fn pool_that_runs(&self, _: &RawWork, _: u32) -> Option<u32> {
        None
    }
    fn colour_done(&self, _: u32) {}
    fn must_wait(&self, _: &Arc<Pool>, _: PwqKey) {}
    fn credits_freed(&self, _: usize) {}
    fn pwq_gone(&self, _: &Arc<Pool>, _: PwqKey) {}
}
