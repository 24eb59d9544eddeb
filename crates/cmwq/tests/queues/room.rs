//! The bound on how many items wait: who is refused, who waits for room, and when room comes back.
//!
//! Sabotages tried: an item that is cancelled keeps its room; so does one that starts behind a run
//! of itself; a drain that leaves waiters in the line; a waiter that is dropped keeps what it was
//! handed.

use crate::harness::{
    Deadline, Door, Heard, Random, block_on, counting, engine, eventually, in_own_process, seed,
};
use cmwq::types::{BatchRefused, Moved, Queued};
use cmwq::{DelayedWork, Engine, Error, JoinError, Refused, Work, Workqueue};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

/// A queue of which one item may run and `bound` may wait, and whose one place is taken until the door opens.
fn busy(engine: &Engine, bound: usize) -> (Workqueue, Arc<Door>) {
    let builder = engine.workqueue("bounded").max_active(1);
    let wq = builder.max_waiting(bound).build().unwrap();
    let door = Door::new();
    let own = door.clone();
    wq.execute(move || own.pass()).unwrap();
    door.wait_for(1);
    (wq, door)
}

fn waiting(engine: &Engine) -> usize {
    engine.queue_states()[0]
        .room
        .expect("it is bounded")
        .waiting
}

#[test]
fn a_full_queue_refuses_every_kind_of_item_and_gives_closures_back() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("full queues", &engine);
    let (wq, door) = busy(&engine, 2);
    let ran = Arc::new(AtomicUsize::new(0));
    let work = counting(&ran);
    assert_eq!(wq.queue(&work), Queued::Accepted);
    assert_eq!(wq.queue(&work), Queued::AlreadyPending, "takes no room");
    let other = wq.spawn(|| 7);
    // Full from here on.
    assert_eq!(waiting(&engine), 2);
    let refused = wq.try_spawn(|| "later").unwrap_err();
    assert_eq!((refused.why, (refused.func)()), (Refused::Full, "later"));
    assert_eq!(wq.try_execute(|| ()).unwrap_err().why, Refused::Full);
    assert_eq!(wq.execute(|| ()), Err(Refused::Full));
    assert!(matches!(
        wq.spawn(|| ()).join(),
        Err(JoinError::Refused(Refused::Full))
    ));
    let another = counting(&ran);
    assert_eq!(wq.queue(&another), Queued::Refused(Refused::Full));
    assert!(!another.is_pending());
    let batch = wq.queue_batch(std::slice::from_ref(&another));
    assert_eq!(batch.not_accepted(), [(0, Queued::Refused(Refused::Full))]);
    let batch = wq.execute_batch([|| (), || ()]);
    let (accepted, why) = (0, Refused::Full);
    assert_eq!(batch, Err(BatchRefused { accepted, why }));
    assert_eq!(wq.try_room().unwrap_err(), Refused::Full);
    let timed_out = wq.room().wait_timeout(Duration::from_millis(1));
    assert_eq!(timed_out.unwrap_err(), Refused::Full);
    assert!(engine.queue_states()[0].stats.refused >= 8);
    door.open.complete();
    assert_eq!(other.join().unwrap(), 7);
    wq.flush().unwrap();
    assert_eq!((ran.load(Ordering::SeqCst), waiting(&engine)), (1, 0));
    assert_eq!(wq.try_spawn(|| 1).unwrap().join().unwrap(), 1);
}

#[test]
fn room_comes_back_with_what_is_cancelled_aborted_or_dropped() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("room comes back", &engine);
    let (wq, door) = busy(&engine, 1);
    let work = Work::new(|| ());
    for _ in 0..3 {
        assert!(wq.queue(&work).is_accepted());
        assert_eq!(wq.try_room().unwrap_err(), Refused::Full);
        assert!(work.cancel());
        let handle = wq.try_spawn(|| ()).unwrap();
        assert!(handle.abort());
        drop(wq.try_room().unwrap());
        let disabled = work.disable();
        assert_eq!(wq.try_room().unwrap().queue(&work), Queued::Disabled);
        drop(disabled);
        let mut context = Context::from_waker(Waker::noop());
        assert!(wq.queue(&work).is_accepted());
        {
            // In the line, and handed the room before it is dropped.
            let mut given_up = pin!(wq.room());
            assert!(given_up.as_mut().poll(&mut context).is_pending());
            assert!(work.cancel());
        }
        assert_eq!(waiting(&engine), 0);
    }
    door.open.complete();
}

/// An item that is queued while it runs waits on the worker that runs it.
#[test]
fn an_item_that_waits_for_its_own_run_has_room_until_it_starts() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("own runs", &engine);
    let wq = engine.workqueue("bounded").max_waiting(1).build().unwrap();
    let (door, ran) = (Door::new(), Arc::new(AtomicUsize::new(0)));
    let work = Work::new({
        let (door, ran) = (door.clone(), ran.clone());
        move || {
            ran.fetch_add(1, Ordering::SeqCst);
            door.pass();
        }
    });
    assert!(wq.queue(&work).is_accepted());
    door.wait_for(1);
    assert!(wq.queue(&work).is_accepted());
    assert_eq!(wq.execute(|| ()), Err(Refused::Full));
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!((ran.load(Ordering::SeqCst), waiting(&engine)), (2, 0));
    wq.execute(|| ()).unwrap();
}

#[test]
fn waiters_get_room_in_turn_and_no_later_issuer_overtakes_them() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("waiters for room", &engine);
    let (wq, door) = busy(&engine, 1);
    wq.execute(|| ()).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut first = Box::pin(wq.room());
    assert!(first.as_mut().poll(&mut context).is_pending());
    let mut second = Box::pin(wq.room());
    assert!(second.as_mut().poll(&mut context).is_pending());
    wq.set_max_waiting(2).unwrap();
    assert_eq!((wq.max_waiting(), waiting(&engine)), (Some(2), 2));
    assert!(second.as_mut().poll(&mut context).is_pending());
    let room = block_on(first).unwrap();
    assert_eq!(wq.try_room().unwrap_err(), Refused::Full);
    let handle = room.spawn(|| 5).unwrap();
    door.open.complete();
    assert_eq!(handle.join().unwrap(), 5);
    let work = Work::new(|| ());
    assert!(block_on(second).unwrap().queue(&work).is_accepted());
    wq.flush().unwrap();
    assert_eq!(waiting(&engine), 0);
    // Without a bound there always is room, and there is no bound to change.
    let free = engine.workqueue("free").build().unwrap();
    assert_eq!(
        free.room()
            .wait()
            .unwrap()
            .spawn(|| 3)
            .unwrap()
            .join()
            .unwrap(),
        3
    );
    assert!(matches!(free.set_max_waiting(1), Err(Error::NoMaxWaiting)));
}

#[test]
fn a_drain_and_a_shutdown_refuse_those_that_wait_for_room() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("drained waiters", &engine);
    let (wq, door) = busy(&engine, 1);
    wq.execute(|| ()).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| wq.room().wait().unwrap_err());
        let mut context = Context::from_waker(Waker::noop());
        let mut task = Box::pin(wq.room());
        assert!(task.as_mut().poll(&mut context).is_pending());
        let drains = scope.spawn(|| wq.drain());
        assert_eq!(waits.join().unwrap(), Refused::Draining);
        assert_eq!(block_on(task).unwrap_err(), Refused::Draining);
        door.open.complete();
        drains.join().unwrap().unwrap();
    });
    let room = wq.room().wait().unwrap();
    let mut shutdown = wq.clone().shutdown();
    let refused = room.spawn(|| ()).unwrap_err();
    assert_eq!(refused.why, Refused::Draining);
    assert_eq!(wq.room().wait().unwrap_err(), Refused::Draining);
    shutdown.wait().unwrap();
}

/// A moved item comes without room of its own, so the queue gives none back for it.
#[test]
fn an_item_that_is_moved_into_a_drain_leaves_the_room_of_others() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("moved into a drain", &engine);
    let (wq, door) = busy(&engine, 1);
    wq.execute(|| ()).unwrap();
    let work = DelayedWork::new(|| ());
    let armed = wq.queue_delayed(&work, Duration::from_secs(3600));
    assert_eq!(armed, Queued::Accepted);
    let (full, moved, left) = std::thread::scope(|scope| {
        let drains = scope.spawn(|| wq.drain());
        // It is full, so this waits for the drain.
        let full = wq.room().wait().err();
        let moved = wq.mod_delayed(&work, Duration::ZERO);
        let left = waiting(&engine);
        door.open.complete();
        drains.join().unwrap().unwrap();
        (full, moved, left)
    });
    let refused = Moved::Refused {
        why: Refused::Draining,
        was_pending: true,
    };
    assert_eq!((full, moved), (Some(Refused::Draining), refused));
    assert_eq!((left, waiting(&engine)), (1, 0));
}

#[test]
fn an_item_cannot_wait_for_room_in_its_own_queue() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("own room", &engine);
    let wq = engine.workqueue("bounded").max_waiting(1).build().unwrap();
    let own = wq.clone();
    let result = wq.spawn(move || own.room().wait().unwrap_err());
    assert_eq!(result.join().unwrap(), Refused::OwnItem);
}

#[test]
fn a_bound_of_0_is_taken_for_1_with_a_warning() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let wq = engine.workqueue("bounded").max_waiting(0).build().unwrap();
        assert_eq!(
            (wq.max_waiting(), heard.count("max_waiting 0")),
            (Some(1), 1)
        );
        wq.set_max_waiting(0).unwrap();
        assert_eq!(
            (wq.max_waiting(), heard.count("max_waiting 0")),
            (Some(1), 2)
        );
        wq.set_max_waiting(usize::MAX).unwrap();
        assert_eq!(heard.count("max_waiting"), 2);
        wq.spawn(|| ()).join().unwrap();
    });
}

#[test]
fn timers_that_fire_are_accepted_beyond_the_bound() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("timers", &engine);
    let (wq, door) = busy(&engine, 1);
    let ran = Arc::new(AtomicUsize::new(0));
    let timers: Vec<_> = (0..3)
        .map(|_| {
            let ran = ran.clone();
            DelayedWork::new(move || {
                ran.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    for timer in &timers {
        assert!(
            wq.queue_delayed(timer, Duration::from_millis(1))
                .is_accepted()
        );
    }
    eventually(|| waiting(&engine) == 3);
    assert_eq!(wq.execute(|| ()), Err(Refused::Full));
    // Moved to the end of the queue it is accepted again, beyond the bound or not.
    let moved = wq.mod_delayed(&timers[1], Duration::ZERO);
    assert_eq!((moved, waiting(&engine)), (Moved::Pending, 3));
    // Moved to a timer it gives its room back.
    assert!(
        wq.mod_delayed(&timers[0], Duration::from_secs(1000))
            .was_pending()
    );
    assert_eq!(waiting(&engine), 2);
    assert!(timers[0].cancel());
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!((ran.load(Ordering::SeqCst), waiting(&engine)), (2, 0));
}

/// Issuers of all kinds on queues of all kinds: at the end all room is free, no more waited than
/// might, and all that was accepted has run.
#[test]
fn issuers_that_try_wait_and_await_fill_a_queue_to_its_bound_at_most() {
    const BOUND: usize = 8;
    let seed = seed("bounded queues");
    let engine = engine("l3:2 core:2 pu:1");
    let _deadline = Deadline::new("issuers of a bounded queue", &engine);
    for ordered in [false, true] {
        let builder = engine.workqueue("bounded").max_waiting(BOUND);
        let wq = match ordered {
            true => builder.ordered().build(),
            false => builder.max_active(3).build(),
        };
        let wq = wq.unwrap();
        let (ran, accepted) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        let item = || {
            let ran = ran.clone();
            move || {
                ran.fetch_add(1, Ordering::SeqCst);
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (wq, accepted, item, engine) = (&wq, &accepted, &item, &engine);
                let mut random = Random::new(seed + thread);
                scope.spawn(move || {
                    for _ in 0..1_000 {
                        let taken = match random.below(5) {
                            0 => wq.execute(item()).is_ok(),
                            1 => wq.room().wait().unwrap().execute(item()).is_ok(),
                            2 => block_on(wq.room()).unwrap().spawn(item()).is_ok(),
                            3 => wq
                                .try_spawn(item())
                                .is_ok_and(|handle| handle.join().is_ok()),
                            _ => {
                                // It may be handed room, and gives it up.
                                drop(wq.room().wait_timeout(Duration::from_micros(20)));
                                false
                            }
                        };
                        accepted.fetch_add(usize::from(taken), Ordering::SeqCst);
                        assert!(waiting(engine) <= BOUND, "seed {seed}");
                    }
                });
            }
        });
        wq.flush().unwrap();
        let counts = (ran.load(Ordering::SeqCst), waiting(&engine));
        assert_eq!(counts, (accepted.load(Ordering::SeqCst), 0), "seed {seed}");
    }
}

/// Though the thread knows the way there from the items before.
#[test]
fn a_batch_is_refused_by_a_full_queue_after_any_number_of_items() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("full for batches", &engine);
    for bound in 1..=12 {
        let (wq, door) = busy(&engine, bound);
        let works: Vec<_> = (0..bound).map(|_| counting(&Arc::default())).collect();
        for work in &works {
            assert_eq!(wq.queue(work), Queued::Accepted);
        }
        let batch = [(); 2].map(|()| counting(&Arc::default()));
        let items = wq.queue_batch(&batch).accepted();
        let closures = wq.execute_batch([|| (), || ()]);
        door.open.complete();
        let (accepted, why) = (0, Refused::Full);
        assert_eq!(closures, Err(BatchRefused { accepted, why }), "{bound}");
        assert_eq!(items, 0, "{bound}");
    }
}
