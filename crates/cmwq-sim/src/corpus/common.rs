//! What several operations do.

use super::awaiting::awaited_by;
use super::world::{Account, Does, Extra, NICE, PAUSE, Queue, ShotId, World};
use cmwq_simulated::types::{CpuLimit, DisableGuard, Moved, WorkqueueAttrs};
use cmwq_simulated::{
    Completion, CompletionQueue, ConcurrencyGroup, DelayedWork, JoinError, JoinHandle,
};
use cmwq_vm::{Cpus, os};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

pub(super) fn queue_x(w: &World) {
    let queue = || w.q.wq.queue(&w.x.0);
    let _ = w.x.1.queue(&w.facts, queue);
}

pub(super) fn move_d(w: &World, delay: Duration) {
    let (work, account): &(DelayedWork, Arc<Account>) = &w.d;
    let before = account.is_disabled_since();
    match w.q.wq.mod_delayed(work, delay) {
        Moved::Accepted => {
            account.accept(&w.facts, true);
            let all_the_time = before.is_some() && account.is_disabled_since() == before;
            w.facts
                .expect(!all_the_time, || "a disabled item was accepted".into());
        }
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

/// The thread that has disabled it has removed what was pending, and the queue accepts nothing until it is enabled.
pub(super) fn x_is_not_pending(w: &World) {
    w.facts
        .expect(!w.x.0.is_pending(), || "a disabled item is pending".into());
}

pub(super) fn spawn_and_join(w: &World, queue: &Queue) {
    join(w, w.shot(queue), queue);
}

/// Spawns this one-shot item, and joins it.
pub(super) fn join(
    w: &World,
    (id, shot): (ShotId, impl FnOnce() -> u64 + Send + 'static),
    queue: &Queue,
) {
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

/// The handle is polled so often at a time.
pub(super) fn await_handle(w: &World, polls: usize) {
    let (id, shot) = w.shot(&w.q);
    let handle = w.q.wq.spawn(shot);
    w.facts.accept(id, !is_refused(w, id, &handle));
    if let Ok(value) = awaited_by(polls, handle) {
        w.expect_value(id, value);
        w.facts.have_ended(&[id], "an awaited handle");
    }
}

/// A thread earns a caller slot by 16 joins at once, and loses it on another CPU.
pub(super) fn earn_a_slot(w: &World) {
    let here = Cpus::from_iter([os::current_cpu()]);
    os::set_affinity(os::current(), here);
    (0..40).for_each(|_| spawn_and_join(w, &w.r));
}

/// From now on one worker may run over all pools.
pub(super) fn limit_cpus(w: &World) {
    let one = CpuLimit::Workers(NonZeroU32::MIN);
    w.engine.set_cpu_limit(one).expect("not in a fork");
}

pub(super) fn change_attrs(queue: &Queue) {
    let attrs = queue.wq.attrs();
    let other = WorkqueueAttrs {
        nice: NICE,
        ..attrs.clone()
    };
    queue.wq.apply_attrs(other).expect("legal attributes");
    queue.wq.apply_attrs(attrs).expect("legal attributes");
}

/// An item that waits for its own queue's entry is told when nothing can be posted any more.
pub(super) fn wait_in_item(w: &World) {
    let done = Arc::new(CompletionQueue::new());
    let (poster, own, facts) = (done.poster(), done.clone(), w.facts.clone());
    let waits = move || {
        let got = own.wait(1, &mut Vec::new());
        facts.expect(got == 1, || {
            "an entry was posted, and its owner has none".into()
        });
        0
    };
    let submitted = done.submit(&w.r.wq, 1, waits);
    assert!(submitted.is_ok(), "the queue is open");
    let posted = poster.post(4, 0);
    posted.unwrap_or_else(|_| panic!("it has no limit, and an owner"));
}

pub(super) fn raise_own_group(w: &World) {
    let group = ConcurrencyGroup::new("own", 1);
    let own = w.engine.workqueue("own").group(&group);
    let own = own.build().expect("legal attributes");
    // The first one ends when the second one has begun, which the limit does not let before it is raised.
    let (begun, other) = (Arc::new(Completion::new()), Arc::new(Completion::new()));
    let (waits, ended) = (begun.clone(), other.clone());
    let first = own.execute(move || {
        waits.wait();
        ended.complete();
    });
    let second = own.execute(move || begun.complete());
    assert!(first.is_ok() && second.is_ok(), "the queue is open");
    group.set_max_active(2).expect("a legal limit");
    other.wait();
}

/// Two items are active when the limit is lowered to one, and nothing waits. When one of them has
/// ended, the other one still has the only place.
pub(super) fn lower_own_group(w: &World) {
    let group = ConcurrencyGroup::new("own", 2);
    let own = w.engine.workqueue("own").group(&group);
    let own = own.build().expect("legal attributes");
    let held = || {
        let (begun, end) = (Arc::new(Completion::new()), Arc::new(Completion::new()));
        let (begins, ends) = (begun.clone(), end.clone());
        let run = move || {
            begins.complete();
            ends.wait();
        };
        let handle = own.spawn(run);
        begun.wait();
        (handle, end)
    };
    let [first, second] = [held(), held()];
    group.set_max_active(1).expect("a legal limit");
    first.1.complete();
    let joined = first.0.join();
    let has_begun = Arc::new(AtomicBool::new(false));
    let begins = has_begun.clone();
    let late = own.spawn(move || begins.store(true, Relaxed));
    os::sleep(PAUSE);
    w.facts.expect(!has_begun.load(Relaxed), || {
        "two items of a group are active after its limit was lowered to one".into()
    });
    second.1.complete();
    let all = [joined, second.0.join(), late.join()];
    assert!(all.iter().all(Result::is_ok), "the queue is open");
}

/// From now on closures wait until all that was accepted has begun.
pub(super) fn let_items_meet(w: &World, limit: usize) {
    w.let_items_meet(limit);
    // These are short: their workers take several at once from now on.
    for _ in 0..4 {
        batch(w, 8, Does::Steps(1));
        w.q.wq.flush().expect("not from an item");
    }
}

/// So many closures at once.
fn batch(w: &World, count: usize, does: Does) {
    let made = (0..count).map(|_| w.shot_that(&w.q, does));
    let (ids, shots): (Vec<_>, Vec<_>) = made.unzip();
    let accepted = match w
        .q
        .wq
        .execute_batch(shots.into_iter().map(without_a_result))
    {
        Ok(all) => all,
        Err(refused) => refused.accepted,
    };
    for (at, id) in ids.into_iter().enumerate() {
        w.facts.accept(id, at < accepted);
    }
}

pub(super) fn execute_batch(w: &World) {
    batch(w, 3, Does::Meets);
}

/// Short ones, and then some that meet.
pub(super) fn meet(w: &World, short: &[usize], meeting: &[usize]) {
    short
        .iter()
        .for_each(|&count| batch(w, count, Does::Steps(1)));
    meeting
        .iter()
        .for_each(|&count| batch(w, count, Does::Meets));
}

/// There is room for one completion: an item that is refused leaves it to the next one.
pub(super) fn submit_for_room(w: &World) {
    let done = CompletionQueue::builder().capacity(1).build();
    let done = done.expect("it has no eventfd");
    let (id, shot) = w.shot(&w.q);
    let accepted = done.submit(&w.q.wq, 1, shot).is_ok();
    w.facts.accept(id, accepted);
    let wait = || while done.wait(1, &mut Vec::new()) == 0 {};
    if accepted {
        wait();
    }
    let (id, shot) = w.shot(&w.r);
    let next = done.submit(&w.r.wq, 2, shot).is_ok();
    w.facts.expect(next, || {
        "there is no room though nothing is under way".into()
    });
    w.facts.accept(id, next);
    wait();
}

/// No thread that waits runs items of this queue.
pub(super) fn join_for_workers(w: &World) {
    let queue = w.extra(Extra::Workers);
    let (id, shot) = w.shot(&queue);
    let (own, facts) = (os::current(), w.facts.clone());
    let handle = queue.wq.spawn(move || {
        let elsewhere = os::current() != own;
        facts.expect(elsewhere, || {
            "an item for workers only runs on the thread that waits for it".into()
        });
        shot()
    });
    w.facts.accept(id, true);
    let value = handle
        .join()
        .expect("it is not refused, and does not panic");
    w.expect_value(id, value);
    w.facts.have_ended(&[id], "a join");
}
