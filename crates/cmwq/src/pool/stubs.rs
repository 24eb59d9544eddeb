//! Parts for the unit tests of pools: a pool without threads, and a queue that ignores what it is told.
#![allow(unsafe_code, reason = "claims items")]

use super::attrs::params::Params;
use super::queue::pwq::{PwqKey, Traits};
use super::silent::{self, Made};
use super::state::group::Group;
use super::state::pool::{Inner, Pool};
use super::state::worker::WorkerHandle;
use super::task::busy::Executor;
use super::task::call::call;
use super::task::run::Task;
use crate::item::{RawWork, Work};
use crate::topology::CpuSet;
use std::ptr::NonNull;
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
    let made = Made {
        idle_timeout_ns,
        ..Made::default()
    };
    made.pool(id)
}

/// A pool of these CPUs that is not strict.
pub(in crate::pool) fn pool_on(group: &Arc<Group<Pool>>, id: u32, cpus: &[usize]) -> Arc<Pool> {
    pool_below(group, id, 0, cpus)
}

/// As [`pool_on`], below the last-level cache of this number.
pub(in crate::pool) fn pool_below(
    group: &Arc<Group<Pool>>,
    id: u32,
    llc: usize,
    cpus: &[usize],
) -> Arc<Pool> {
    let made = Made {
        strict: false,
        llc,
        group: group.clone(),
        cpus: CpuSet::from_iter(cpus.iter().copied()),
        ..Made::default()
    };
    made.pool(id)
}

/// A strict pool that shares `params` with the other pools of an engine.
pub(in crate::pool) fn pool_of(params: &Arc<Params>, id: u32) -> Arc<Pool> {
    let made = Made {
        params: params.clone(),
        ..Made::default()
    };
    made.pool(id)
}

/// Adds a pool workqueue with `limit` credits.
pub(in crate::pool) fn add_pwq(pool: &Arc<Pool>, traits: Traits, limit: i32) -> PwqKey {
    silent::add_pwq(pool, traits, limit, None)
}

/// Queues an item that is idle.
pub(in crate::pool) fn queue(pool: &Arc<Pool>, pwq: PwqKey, work: &Work) {
    let mut pending = work.claim().expect("idle");
    pending.set_destination(pool.id, pwq.index);
    pool.publish_single(pending);
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
    guard.drain();
    let target = guard.target();
    guard.counts.set_running(target);
    drop(guard);
    pool
}

/// Runs the first of what waits, on this thread. `false`: nothing waits.
pub(in crate::pool) fn run_one(pool: &Arc<Pool>) -> bool {
    let next = pool.lock().next_task(Executor::worker());
    let Some(Task { started, run }) = next else {
        return false;
    };
    let panicked = call(started, run.current);
    assert!(pool.lock().end_task(run, panicked).is_none());
    true
}

/// Runs all that waits, on this thread.
pub(in crate::pool) fn run_all(pool: &Arc<Pool>) {
    while run_one(pool) {}
}

/// A worker that searches for work, without a thread.
pub(in crate::pool) fn searching(pool: &Arc<Pool>) -> (u32, Arc<WorkerHandle>) {
    let (id, handle) = pool.enroll();
    let mut guard = pool.lock();
    let inner: &mut Inner = &mut guard;
    let worker = &mut inner.workers[id];
    inner.counts.transition_starting_to_searching(worker);
    drop(guard);
    (id, handle)
}

/// A worker that has been idle since then, without a thread.
pub(in crate::pool) fn idle(pool: &Arc<Pool>, since_ns: u64) -> (u32, Arc<WorkerHandle>) {
    let (id, handle) = pool.enroll();
    let mut guard = pool.lock();
    let inner: &mut Inner = &mut guard;
    let worker = &mut inner.workers[id];
    inner.counts.set_idle(id, worker, since_ns);
    drop(guard);
    (id, handle)
}

/// Items that do nothing, in the test's memory.
pub(in crate::pool) fn raw_items<const N: usize>() -> [RawWork; N] {
    std::array::from_fn(|_| RawWork::new(nothing))
}

pub(crate) extern "C-unwind" fn nothing(_: NonNull<RawWork>) {}
