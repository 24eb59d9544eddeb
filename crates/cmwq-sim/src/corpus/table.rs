//! The public operations. Whatever is in this table is in the corpus, with each of the others.

use super::awaiting::{awaited, begun};
use super::common::{
    await_handle, change_attrs, disabled, earn_a_slot, execute, execute_batch, is_refused, join,
    join_for_workers, let_items_meet, limit_cpus, lower_own_group, meet, move_d, queue_x,
    raise_own_group, spawn_and_join, submit_for_room, wait_in_item, without_a_result,
    x_is_not_pending,
};
use super::operation::Subject::{Delayed, Field, Item, Pods, Pool, Queue as OneQueue};
use super::operation::{Operation, op, prepared};
use super::world::{Does, Extra, MANY, NICE, PAUSE, step};
use cmwq_simulated::topology::CpuSet;
use cmwq_simulated::types::{CpuLimit, WorkqueueAttrs};
use cmwq_simulated::{CompletionQueue, scope};
use cmwq_vm::{Cpus, os};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const SHORT: Duration = Duration::from_micros(3);

/// All of them.
pub const OPERATIONS: &[Operation] = &[
    op("queue", &[Item, OneQueue], queue_x),
    op("queue-on", &[Item, OneQueue, Pool], |w| {
        let queue = || w.q.wq.queue_on(1, &w.x.0).expect("a CPU");
        let _ = w.x.1.queue(&w.facts, queue);
    }),
    op("queue-batch", &[Item, OneQueue], |w| {
        let flags = [w.x.1.raise(), w.y.1.raise()];
        let queued = w.q.wq.queue_batch(&[w.x.0.clone(), w.y.0.clone()]);
        for (at, account) in [&w.x.1, &w.y.1].into_iter().enumerate() {
            let accepted = queued.not_accepted().iter().all(|(not, _)| *not != at);
            account.owe(flags[at], accepted);
            account.accept(&w.facts, accepted);
        }
    }),
    // What a thread has kept from one call it uses again in the next.
    op("queue-often", &[Item, OneQueue], |w| {
        for _ in 0..3 {
            queue_x(w);
            let queue = || w.q.wq.queue(&w.y.0);
            let _ = w.y.1.queue(&w.facts, queue);
        }
    }),
    // The other threads have done all of theirs in between, in most schedules.
    op("queue-pause-queue", &[Item, OneQueue], |w| {
        queue_x(w);
        os::sleep(PAUSE);
        let queue = || w.q.wq.queue(&w.y.0);
        let _ = w.y.1.queue(&w.facts, queue);
    }),
    op("queue-twice", &[Item, OneQueue], |w| {
        queue_x(w);
        step();
        queue_x(w);
    }),
    op("cancel", &[Item], |w| {
        w.x.1.remove(&w.facts, || w.x.0.cancel(), |&it| it);
    }),
    op("cancel-sync", &[Item], |w| {
        let begun = w.x.1.begun();
        w.x.1.remove(&w.facts, || w.x.0.cancel_sync(), |&it| it);
        w.x.1.has_ended(begun, &w.facts, "a cancel that waits");
    }),
    op("disable", &[Item], |w| {
        let guard = disabled(w, &w.x.1, || w.x.0.disable());
        x_is_not_pending(w);
        step();
        guard.enable();
    }),
    op("disable-sync", &[Item], |w| {
        let guard = disabled(w, &w.x.1, || w.x.0.disable_sync());
        x_is_not_pending(w);
        w.x.1.is_disabled_for(step);
        guard.enable();
    }),
    op("enable-and-queue", &[Item, OneQueue], |w| {
        let guard = disabled(w, &w.x.1, || w.x.0.disable_sync());
        let queue = || w.q.wq.enable_and_queue(guard);
        let _ = w.x.1.queue(&w.facts, queue);
    }),
    op("flush-item", &[Item], |w| {
        let accepted = w.x.1.accepted();
        w.x.0.flush().expect("not from the item");
        w.x.1.are_over(accepted, &w.facts, "a flush of the item");
    }),
    // Whatever is pending has run, also if another thread has queued it and is not done with that.
    op("queue-and-flush", &[Item, OneQueue], |w| {
        w.x.1.lingers.store(true, Relaxed);
        queue_x(w);
        // Its run has begun, and another thread may queue it again.
        os::sleep(PAUSE / 4);
        let owed = w.x.1.queue(&w.facts, || w.q.wq.queue(&w.x.0));
        w.x.0.flush().expect("not from the item");
        w.x.1.has_run_since(owed, &w.facts);
    }),
    op("flush-item-timeout", &[Item], |w| {
        let _ = w.x.0.flush_timeout(SHORT);
    }),
    op("look-at-item", &[Item], |w| {
        let _ = (w.x.0.busy(), w.x.0.is_pending());
    }),
    op("queue-delayed", &[Delayed, OneQueue], |w| {
        let queued = w.q.wq.queue_delayed(&w.d.0, SHORT);
        w.d.1.accept(&w.facts, queued.is_accepted());
    }),
    op("move-delayed", &[Delayed, OneQueue], |w| {
        move_d(w, SHORT / 2)
    }),
    op("move-delayed-now", &[Delayed, OneQueue], |w| {
        move_d(w, Duration::ZERO)
    }),
    op("cancel-delayed", &[Delayed], |w| {
        w.d.1.remove(&w.facts, || w.d.0.cancel(), |&it| it);
    }),
    op("cancel-delayed-sync", &[Delayed], |w| {
        let begun = w.d.1.begun();
        w.d.1.remove(&w.facts, || w.d.0.cancel_sync(), |&it| it);
        w.d.1.has_ended(begun, &w.facts, "a cancel that waits");
    }),
    op("disable-delayed", &[Delayed], |w| {
        let guard = disabled(w, &w.d.1, || w.d.0.disable_sync());
        w.d.1.is_disabled_for(|| os::sleep(PAUSE));
        guard.enable();
    }),
    op("flush-delayed", &[Delayed], |w| {
        let accepted = w.d.1.accepted();
        w.d.0.flush().expect("not from the item");
        w.d.1
            .are_over(accepted, &w.facts, "a flush of the delayed item");
    }),
    op("queue-embedded", &[Field, OneQueue], |w| {
        let queued = w.q.wq.queue_embedded(&w.field.0, |field| &field.item);
        w.field.1.accept(&w.facts, queued.is_accepted());
    }),
    op("cancel-embedded", &[Field], |w| {
        let cancel = || w.field.0.item.cancel_sync();
        w.field.1.remove(&w.facts, cancel, Option::is_some);
    }),
    op("flush-embedded", &[Field], |w| {
        let accepted = w.field.1.accepted();
        w.field.0.item.flush().expect("not from the item");
        w.field
            .1
            .are_over(accepted, &w.facts, "a flush of the value's item");
    }),
    op("queue-raw", &[OneQueue], |w| w.queue_loose(&w.q)),
    op("execute", &[OneQueue], |w| execute(w, &w.q)),
    op("execute-batch", &[OneQueue], execute_batch),
    op("spawn-and-join", &[OneQueue], |w| spawn_and_join(w, &w.q)),
    prepared(
        "join-for-workers",
        &[OneQueue],
        |w| drop(w.extra(Extra::Workers)),
        join_for_workers,
    ),
    op("spawn-and-drop", &[OneQueue], |w| {
        let (id, shot) = w.shot(&w.q);
        let handle = w.q.wq.spawn(shot);
        w.facts.accept(id, !is_refused(w, id, &handle));
        drop(handle);
    }),
    op("spawn-and-abort", &[OneQueue], |w| {
        let (id, shot) = w.shot(&w.q);
        let handle = w.q.wq.spawn(shot);
        w.facts.accept(id, !is_refused(w, id, &handle));
        w.facts.take_back(id, || handle.abort());
    }),
    op("join-timeout", &[OneQueue], |w| {
        let (id, shot) = w.shot(&w.q);
        let mut handle = w.q.wq.spawn(shot);
        w.facts.accept(id, !is_refused(w, id, &handle));
        if let Some(Ok(value)) = handle.join_timeout(SHORT) {
            w.expect_value(id, value);
        }
    }),
    op("scope", &[OneQueue], |w| {
        if w.facts.drains.load(Relaxed) {
            return execute(w, &w.q);
        }
        let (id, shot) = w.shot(&w.q);
        scope(&w.q.wq, |s| {
            s.spawn(without_a_result(shot));
            w.facts.accept(id, true);
        });
        w.facts.have_ended(&[id], "a scope");
    }),
    op("await-handle", &[OneQueue], |w| await_handle(w, 4)),
    // The result comes between two polls, or while one registers its waker.
    op("await-often", &[OneQueue], |w| await_handle(w, 24)),
    op("submit-and-wait", &[OneQueue], |w| {
        let (id, shot) = w.shot(&w.q);
        let submitted = w.done.submit(&w.q.wq, 1, shot).is_ok();
        w.facts.accept(id, submitted);
        if submitted {
            let mut entries = Vec::new();
            while w.done.wait(1, &mut entries) == 0 {}
        }
    }),
    op("submit-for-room", &[OneQueue], submit_for_room),
    op("post-and-wait", &[OneQueue], |w| {
        w.done
            .post(2, 0)
            .unwrap_or_else(|_| panic!("it has no limit"));
        let mut entries = Vec::new();
        while w.done.wait(1, &mut entries) == 0 {}
    }),
    // From another thread than an owner's, and then the poster goes.
    op("post", &[OneQueue], |w| {
        let poster = w.done.poster();
        let posted = poster.post(3, 0);
        posted.unwrap_or_else(|_| panic!("it has no limit, and an owner"));
    }),
    // An item that waits for its own queue's entry is told when nothing can be posted any more.
    op("wait-in-item", &[OneQueue, Pool], wait_in_item),
    op("own-and-leave", &[OneQueue], |w| drop(w.done.clone())),
    op("submit-and-close", &[OneQueue], |w| {
        let done = CompletionQueue::new();
        let (id, shot) = w.shot(&w.q);
        let submitted = done.submit(&w.q.wq, 1, shot).is_ok();
        w.facts.accept(id, submitted);
    }),
    op("await-flush", &[OneQueue], |w| {
        let before = w.before_flush(&w.q);
        awaited(w.q.wq.flush_async()).expect("not from an item");
        w.after_flush(&before, "an awaited flush");
    }),
    // More generations at a time than there are colours.
    op("many-flushes", &[OneQueue], |w| {
        execute(w, &w.q);
        let before = w.before_flush(&w.q);
        let flushes: Vec<_> = (0..17).map(|_| begun(w.q.wq.flush_async())).collect();
        for flush in flushes {
            awaited(flush).expect("not from an item");
        }
        w.after_flush(&before, "the last of many flushes");
    }),
    op("flush-queue", &[OneQueue], |w| {
        let before = w.before_flush(&w.q);
        w.q.wq.flush().expect("not from an item");
        w.after_flush(&before, "a flush of the queue");
    }),
    prepared(
        "drain",
        &[OneQueue],
        |w| w.facts.drains.store(true, Relaxed),
        |w| {
            w.q.wq.drain().expect("not from an item");
            // No other thread has gone on since the queue was opened again: this is what was
            // accepted before or meanwhile.
            let accepted = w.all_accepted(&w.q);
            w.after_flush(&accepted, "a drain");
        },
    ),
    prepared(
        "limits",
        &[OneQueue],
        |w| w.q.lane.raised_by.store(1, Relaxed),
        |w| {
            let limit = w.q.lane.most.load(Relaxed);
            w.q.wq.set_max_active(limit + 1).expect("a legal limit");
            step();
            w.q.wq.set_max_active(limit).expect("a legal limit");
        },
    ),
    prepared(
        "execute-grouped",
        &[OneQueue],
        |w| drop(w.extra(Extra::Grouped)),
        |w| execute(w, &w.extra(Extra::Grouped)),
    ),
    prepared(
        "group-limit",
        &[OneQueue],
        |w| w.extra(Extra::Grouped).lane.raised_by.store(1, Relaxed),
        |w| {
            w.group.set_max_active(2).expect("a legal limit");
            step();
            w.group.set_max_active(1).expect("a legal limit");
        },
    ),
    prepared(
        "wait-for-room",
        &[OneQueue],
        |w| drop(w.extra(Extra::Bounded)),
        |w| {
            let bounded = w.extra(Extra::Bounded);
            for _ in 0..2 {
                let room = bounded.wq.room().wait().expect("the queue is open");
                let (id, shot) = w.shot(&bounded);
                let accepted = room.execute(without_a_result(shot)).is_ok();
                w.facts.accept(id, accepted);
            }
        },
    ),
    prepared(
        "give-up-room",
        &[OneQueue],
        |w| drop(w.extra(Extra::Bounded)),
        |w| drop(w.extra(Extra::Bounded).wq.room().wait_timeout(SHORT)),
    ),
    prepared(
        "more-room",
        &[OneQueue],
        |w| drop(w.extra(Extra::Bounded)),
        |w| {
            let bounded = w.extra(Extra::Bounded);
            bounded.wq.set_max_waiting(2).expect("it has a limit");
            step();
            bounded.wq.set_max_waiting(1).expect("it has a limit");
        },
    ),
    op("raise-own-group", &[Pool], raise_own_group),
    op("lower-own-group", &[Pool], lower_own_group),
    // The queue is in the group while its items, or another queue's, have all there is.
    op("join-group", &[OneQueue, Pool], |w| {
        let own = w.engine.workqueue("own").group(&w.group).freezable();
        let own = own.build().expect("legal attributes");
        for _ in 0..2 {
            let (id, shot) = w.shot_apart();
            w.facts
                .accept(id, own.execute(without_a_result(shot)).is_ok());
        }
        drop(own);
    }),
    prepared(
        "execute-per-cpu",
        &[Pool],
        |w| drop(w.extra(Extra::PerCpu)),
        |w| execute(w, &w.extra(Extra::PerCpu)),
    ),
    prepared(
        "execute-bh",
        &[Pool],
        |w| drop(w.extra(Extra::Bh)),
        |w| execute(w, &w.extra(Extra::Bh)),
    ),
    prepared(
        "execute-ordered",
        &[OneQueue, Pool],
        |w| drop(w.extra(Extra::Ordered)),
        |w| {
            let ordered = w.extra(Extra::Ordered);
            execute(w, &ordered);
            execute(w, &ordered);
        },
    ),
    prepared(
        "execute-and-move",
        &[Pool, Pods],
        |w| drop(w.extra(Extra::Ordered)),
        |w| {
            let ordered = w.extra(Extra::Ordered);
            // The first and the last of the slots that are replaced one after the other.
            for cpu in [0, 3, 0, 3] {
                os::set_affinity(os::current(), Cpus::from_iter([cpu]));
                execute(w, &ordered);
            }
        },
    ),
    prepared(
        "ordered-attrs",
        &[Pool],
        // Its other pools are there already.
        |w| drop((w.extra(Extra::Ordered), w.extra(Extra::Nice))),
        |w| change_attrs(&w.extra(Extra::Ordered)),
    ),
    // Then the items of all other operations wait for each other, too.
    prepared(
        "meet",
        &[OneQueue, Pool, Pods],
        |w| let_items_meet(w, 8),
        |w| meet(w, &[5, 2], &[4]),
    ),
    // An item that runs in one pod is queued again by a thread that floods another one.
    prepared(
        "flood",
        &[Pool, Pods],
        |w| _ = w.floods(),
        |w| {
            for (item, account) in w.floods().begin() {
                let _ = account.queue(&w.facts, || w.r.wq.queue(item));
            }
            let (item, account) = &w.floods().shared;
            for _ in 0..3 {
                let _ = account.queue(&w.facts, || w.r.wq.queue(item));
                os::sleep(PAUSE / 4);
            }
        },
    ),
    op("execute-beside", &[Pool], |w| execute(w, &w.r)),
    prepared("join-in-a-slot", &[OneQueue, Pool], earn_a_slot, |w| {
        spawn_and_join(w, &w.r)
    }),
    prepared("linger-in-a-slot", &[OneQueue, Pool], earn_a_slot, |w| {
        join(w, w.shot_that(&w.r, Does::Lingers), &w.r);
    }),
    op("flush-beside", &[Pool], |w| {
        let before = w.facts.accepted_on(&w.r.lane);
        w.r.wq.flush().expect("not from an item");
        w.facts.have_ended(&before, "a flush of the queue");
    }),
    op("make-and-drop", &[Pool], |w| {
        let queue = w.engine.workqueue("own").freezable();
        let queue = queue.build().expect("legal attributes");
        let (id, shot) = w.shot_apart();
        let accepted = queue.execute(without_a_result(shot)).is_ok();
        w.facts.accept(id, accepted);
        drop(queue);
        w.facts.have_ended(&[id], "the end of the queue");
    }),
    op("attrs", &[OneQueue, Pool], |w| change_attrs(&w.q)),
    op("attrs-beside", &[Pool], |w| change_attrs(&w.r)),
    // Another pool for the queue, and no more.
    op("attrs-once", &[OneQueue], |w| {
        let attrs = w.q.wq.attrs();
        let other = WorkqueueAttrs {
            nice: NICE,
            ..attrs
        };
        w.q.wq.apply_attrs(other).expect("legal attributes");
    }),
    op("mask", &[Pool], |w| {
        let all = w.engine.topology().cpus().clone();
        let one = CpuSet::from_iter([1]);
        w.engine.set_unbound_cpumask(&one).expect("a CPU");
        w.engine.set_unbound_cpumask(&all).expect("all CPUs");
    }),
    op("freeze-and-thaw", &[OneQueue, Pool], |w| {
        w.facts.frozen.fetch_add(1, Relaxed);
        let thaws = w.facts.thaws.load(Relaxed);
        w.engine.freeze_workqueues_begin();
        if !w.engine.freeze_workqueues_busy() {
            w.facts.still_until.store(thaws + 1, Relaxed);
            os::sleep(PAUSE);
            step();
        }
        w.facts.thaws.fetch_add(1, Relaxed);
        w.engine.thaw_workqueues();
        w.facts.frozen.fetch_sub(1, Relaxed);
    }),
    prepared(
        "cpu-limit",
        &[Pool],
        |w| w.limited.most.store(MANY, Relaxed),
        |w| {
            limit_cpus(w);
            step();
            w.engine
                .set_cpu_limit(CpuLimit::None)
                .expect("not in a fork");
        },
    ),
    prepared("execute-limited", &[Pool], limit_cpus, |w| {
        for _ in 0..2 {
            let (id, shot) = w.shot_limited();
            let accepted = w.r.wq.execute(without_a_result(shot)).is_ok();
            w.facts.accept(id, accepted);
        }
    }),
    op("dump", &[OneQueue, Pool], |w| {
        drop((w.engine.dump(), w.engine.stats()))
    }),
];
