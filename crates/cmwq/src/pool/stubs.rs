//! Parts for the unit tests of pools: a pool without threads, and a queue that ignores what it is told.
#![allow(unsafe_code, reason = "claims items")]

use super::attrs::kind::{Binding, Place, PoolAttrs, PoolKind};
use super::attrs::params::Params;
use super::queue::credits::NodeLimit;
use super::queue::pwq::{PwqKey, Traits};
use super::silent::{NoFront, NoHelper};
use super::state::group::Group;
use super::state::pool::{Pool, PwqState, Rescue};
use super::task::call::run_item;
use super::task::run::Task;
use crate::item::Work;
use crate::topology::CpuSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Waits until `what` holds, which no machine needs a minute for.
pub(crate) fn eventually(what: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !what() {
        assert!(Instant::now() < until, "it does not come");
        std::thread::yield_now();
    }
}

/// A strict pool of two CPUs that has no worker and gets none.
pub(in crate::pool) fn pool(id: u32, idle_timeout_ns: u64) -> Arc<Pool> {
    let cpus = CpuSet::from_iter([0, 1]);
    pool_with(
        &Group::new(),
        true,
        id,
        idle_timeout_ns,
        Arc::default(),
        cpus,
    )
}

/// A pool of these CPUs that is not strict.
pub(in crate::pool) fn pool_on(group: &Arc<Group<Pool>>, id: u32, cpus: &[usize]) -> Arc<Pool> {
    let cpus = CpuSet::from_iter(cpus.iter().copied());
    pool_with(group, false, id, 0, Arc::default(), cpus)
}

/// A strict pool that shares `params` with the other pools of an engine.
pub(in crate::pool) fn pool_of(params: &Arc<Params>, id: u32) -> Arc<Pool> {
    let cpus = CpuSet::from_iter([0, 1]);
    pool_with(&Group::new(), true, id, 0, params.clone(), cpus)
}

/// Of one CPU and of this kind, with what it shares with the other pools of an engine.
pub(in crate::pool) fn pool_of_kind(kind: PoolKind, params: &Arc<Params>) -> Arc<Pool> {
    let attrs = PoolAttrs {
        kind,
        ..attrs(true, 0, params.clone(), CpuSet::from_iter([0]))
    };
    Pool::new(
        72,
        attrs.clone(),
        binding(&attrs),
        Arc::new(NoHelper),
        Group::new(),
    )
}

pub(in crate::pool) fn pool_with(
    group: &Arc<Group<Pool>>,
    strict: bool,
    id: u32,
    idle_timeout_ns: u64,
    params: Arc<Params>,
    cpus: CpuSet,
) -> Arc<Pool> {
    let attrs = attrs(strict, idle_timeout_ns, params, cpus);
    let binding = binding(&attrs);
    let pool = Pool::new(id, attrs, binding, Arc::new(NoHelper), group.clone());
    group.join(&pool);
    pool
}

/// Of an unbound pool.
fn attrs(strict: bool, idle_timeout_ns: u64, params: Arc<Params>, cpus: CpuSet) -> PoolAttrs {
    let place = Place {
        first_cpu: cpus.iter().next().unwrap_or(0),
        ..Place::default()
    };
    PoolAttrs {
        kind: PoolKind::Unbound,
        nice: 0,
        strict,
        cpus,
        place,
        batch: 1,
        idle_timeout_ns,
        params,
        threads: None,
    }
}

fn binding(attrs: &PoolAttrs) -> Binding {
    Binding {
        target: attrs.cpus.len() as u32,
        cpus: attrs.cpus.clone(),
        associated: attrs.kind != PoolKind::Unbound,
    }
}

/// Adds a pool workqueue with `limit` credits.
pub(in crate::pool) fn add_pwq(pool: &Arc<Pool>, traits: Traits, limit: i32) -> PwqKey {
    add_rescued_pwq(pool, traits, limit, None)
}

pub(in crate::pool) fn add_rescued_pwq(
    pool: &Arc<Pool>,
    traits: Traits,
    limit: i32,
    rescuer: Option<Arc<dyn Rescue>>,
) -> PwqKey {
    let limit = Arc::new(NodeLimit::new(limit, 1));
    let state = PwqState::of(Arc::new(NoFront), rescuer, traits, limit, 0, 0);
    pool.lock().add_pwq(state)
}

/// Queues an item that is idle.
pub(in crate::pool) fn queue(pool: &Arc<Pool>, pwq: PwqKey, work: &Work) {
    let mut pending = work.claim().expect("idle");
    pending.set_destination(pool.id, pwq.place);
    pool.publish(pending);
}

/// A pool of these CPUs, all of them taken, where so many items wait. It has called no thief.
pub(in crate::pool) fn saturated(
    group: &Arc<Group<Pool>>,
    id: u32,
    cpus: &[usize],
    waiting: usize,
) -> Arc<Pool> {
    let pool = pool_on(group, id, cpus);
    let pwq = add_pwq(&pool, Traits::default(), 1000);
    for _ in 0..waiting {
        queue(&pool, pwq, &Work::new(|| ()));
    }
    let mut guard = pool.lock();
    guard.call_no_thief();
    guard.drain();
    let target = guard.target();
    guard.counts.set_running(target);
    drop(guard);
    pool
}

/// Runs what waits, on this thread.
pub(in crate::pool) fn run_all(pool: &Arc<Pool>) {
    let next = || pool.lock().task_for_helper();
    while let Some(Task { started, run }) = next() {
        let panicked = run_item(started, run);
        assert!(pool.lock().end_task(run, panicked).is_none());
    }
}
