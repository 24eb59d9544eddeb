//! What several operations do.

use super::world::{Account, Queue, ShotId, World};
use cmwq_simulated::types::{CpuLimit, DisableGuard, Moved, WorkqueueAttrs};
use cmwq_simulated::{DelayedWork, JoinError, JoinHandle};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub(super) fn queue_x(w: &World) {
    let queue = || w.q.wq.queue(&w.x.0).is_accepted();
    w.x.1.queue(&w.facts, queue);
}

pub(super) fn move_d(w: &World, delay: Duration) {
    let (work, account): &(DelayedWork, Arc<Account>) = &w.d;
    match w.q.wq.mod_delayed(work, delay) {
        Moved::Accepted => account.accept(&w.facts, true),
        Moved::Refused { was_pending, .. } => account.was_removed(&w.facts, was_pending),
        Moved::Pending | Moved::Disabled => {}
    }
}

pub(super) fn without_a_result(shot: impl FnOnce() -> u64) -> impl FnOnce() {
    move || {
        shot();
    }
}

pub(super) fn execute(w: &World, queue: &Queue) {
    let (id, shot) = w.shot(queue);
    let accepted = queue.wq.execute(without_a_result(shot)).is_ok();
    w.facts.accept(id, accepted);
}

/// A handle whose closure was refused is finished at once, and nothing has run.
pub(super) fn is_refused(w: &World, id: ShotId, handle: &JoinHandle<u64>) -> bool {
    w.facts.drains.load(Relaxed) && handle.is_finished() && !w.facts.has_begun(id)
}

/// What waits is removed.
pub(super) fn disabled(
    w: &World,
    account: &Account,
    disable: impl FnOnce() -> DisableGuard,
) -> DisableGuard {
    account.remove(&w.facts, disable, DisableGuard::removed_pending)
}

pub(super) fn spawn_and_join(w: &World, queue: &Queue) {
    let (id, shot) = w.shot(queue);
    let handle = queue.wq.spawn(shot);
    let drains = w.facts.drains.load(Relaxed);
    if !drains {
        w.facts.accept(id, true);
    }
    match handle.join() {
        Ok(value) => {
            if drains {
                w.facts.accept(id, true);
            }
            w.expect_value(id, value);
            w.facts.have_ended(&[id], "a join");
        }
        Err(JoinError::Refused(_)) => w.facts.accept(id, false),
        Err(error) => w.facts.expect(false, || format!("a join: {error:?}")),
    }
}

/// From now on one worker may run over all pools.
pub(super) fn limit_cpus(w: &World) {
    let one = CpuLimit::Workers(NonZeroU32::MIN);
    w.engine.set_cpu_limit(one).expect("not in a fork");
}

pub(super) fn change_attrs(queue: &Queue) {
    let attrs = queue.wq.attrs();
    let other = WorkqueueAttrs {
        nice: -3,
        ..attrs.clone()
    };
    queue.wq.apply_attrs(other).expect("legal attributes");
    queue.wq.apply_attrs(attrs).expect("legal attributes");
}
