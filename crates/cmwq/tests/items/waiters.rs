//! Caller-runs joins: which items waiters run themselves, and what other threads see of it.
//!
//! Sabotages tried where a thread takes its item back from its caller slot: the panic of its
//! closure is not reported (`a_panic_in_the_waiters_hands_is_counted_and_handed_over`); the queue's
//! reference is not given up (`spawning_small_closures_uses_memory_of_earlier_ones` in
//! `allocations.rs`); a waker that is left is not dropped (`who_polls_is_forgotten_with_the_task`
//! in `workqueue/join.rs`).

use crate::harness::{
    Broken, Deadline, Door, counting, engine, engine_without_hogs, eventually, held, is_slow,
    quiet_panic,
};
use cmwq::topology::CpuSet;
use cmwq::{Completion, Engine, Refused, Work, Workqueue, WorkqueueBuilder};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};

/// One pod of one CPU, of which the tests' threads are issuers too: so a waiter may run its item,
/// and one item that computes keeps all others from beginning.
fn one_cpu() -> Engine {
    engine_without_hogs("l3:1 core:1 pu:1")
}

fn who() -> ThreadId {
    thread::current().id()
}

/// Keeps the only worker of the only pod busy, so that no worker begins what is queued next.
fn occupied(wq: &Workqueue, door: &Arc<Door>) -> Work {
    let work = Work::new({
        let door = door.clone();
        move || door.pass_awake()
    });
    assert!(wq.queue(&work).is_accepted());
    door.wait_for(1);
    work
}

/// Spawns and joins; returns whether a caller slot was used: no worker was woken, and the thread
/// itself ran all items.
fn spawns_in_a_caller_slot(engine: &Engine, wq: &Workqueue) -> bool {
    let before = engine.stats();
    for _ in 0..64 {
        wq.spawn(|| ()).join().unwrap();
    }
    let after = engine.stats();
    after.waiter_runs - before.waiter_runs == 64 && after.wakeups == before.wakeups
}

/// Spawns and joins until the thread has a caller slot. Where a round takes too long to earn one,
/// as under a race detector, the guarantees must hold without.
fn open_a_caller_slot(engine: &Engine, wq: &Workqueue) {
    let opened = (0..1_000).any(|_| spawns_in_a_caller_slot(engine, wq));
    assert!(opened || is_slow(), "the short way was never open");
}

#[test]
fn a_thread_that_joins_what_nobody_has_begun_runs_it_itself() {
    let engine = one_cpu();
    let _deadline = Deadline::new("joins", &engine);
    let _here = engine.become_issuer(0).unwrap();
    let wq = engine.workqueue("t").build().unwrap();
    let door = Door::new();
    let _held = occupied(&wq, &door);
    assert_eq!(wq.spawn(who).join().unwrap(), who());
    // The one that it waits for, not the one before it.
    let (first, second) = (wq.spawn(who), wq.spawn(who));
    assert_eq!(second.join().unwrap(), who());
    assert!(!first.is_finished());
    let stats = engine.stats();
    assert_eq!((stats.waiter_runs, stats.completed), (2, 2));
    door.open.complete();
    wq.flush().unwrap();
    assert_ne!(first.join().unwrap(), who());
    assert_eq!(wq.counts(), (4, 4));
}

#[test]
fn a_thread_that_flushes_an_item_runs_it_itself() {
    let engine = one_cpu();
    let _deadline = Deadline::new("flushes", &engine);
    let _here = engine.become_issuer(0).unwrap();
    let wq = engine.workqueue("t").build().unwrap();
    let door = Door::new();
    let _held = occupied(&wq, &door);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let work = Work::new({
        let seen = seen.clone();
        move || seen.lock().unwrap().push(who())
    });
    for _ in 0..3 {
        assert!(wq.queue(&work).is_accepted());
        assert!(work.flush().unwrap());
    }
    assert!(!work.flush().unwrap(), "it is idle");
    assert_eq!(*seen.lock().unwrap(), [who(); 3]);
    door.open.complete();
}

#[test]
fn what_needs_a_worker_waits_for_one() {
    let engine = one_cpu();
    let _deadline = Deadline::new("workers", &engine);
    let _here = engine.become_issuer(0).unwrap();
    let build = |builder: WorkqueueBuilder| builder.build().unwrap();
    let queues = [
        build(engine.workqueue("only").workers_only()),
        build(engine.workqueue("ordered").ordered()),
        build(engine.workqueue("strict").affinity_strict(true)),
        build(engine.workqueue("nice").nice(5)),
        build(engine.workqueue("high").highpri()),
        build(engine.workqueue("percpu").per_cpu()),
        build(engine.workqueue("bh").bh()),
    ];
    for wq in &queues {
        for _ in 0..100 {
            assert_ne!(wq.spawn(who).join().unwrap(), who(), "{}", wq.name());
        }
        let by = Arc::new(Mutex::new(None));
        let work = Work::new({
            let by = by.clone();
            move || *by.lock().unwrap() = Some(who())
        });
        assert!(wq.queue(&work).is_accepted());
        work.flush().unwrap();
        assert_ne!(by.lock().unwrap().take(), Some(who()), "{}", wq.name());
    }
    assert_eq!(engine.stats().waiter_runs, 0);
}

#[test]
fn an_item_without_a_place_is_not_run_before_it_has_one() {
    let engine = one_cpu();
    let _deadline = Deadline::new("places", &engine);
    let _here = engine.become_issuer(0).unwrap();
    let wq = engine.workqueue("t").max_active(1).build().unwrap();
    let door = Door::new();
    let _held = occupied(&wq, &door);
    let waits = wq.spawn(who);
    let joined = thread::scope(|scope| {
        let joins = scope.spawn(|| waits.join().unwrap());
        // It can only sleep: nothing ends, nothing starts.
        for _ in 0..1_000 {
            assert_eq!(engine.stats().started, 1);
            thread::yield_now();
        }
        door.open.complete();
        joins.join().unwrap()
    });
    assert_ne!(joined, who());
}

#[test]
fn an_item_of_another_pod_is_left_to_that_pods_workers() {
    // Two pods on the real machine's CPUs, if it has two.
    let engine = engine("l3:2 core:1 pu:1");
    let _deadline = Deadline::new("pods", &engine);
    let real = thread::available_parallelism().unwrap().get();
    let wq = engine.workqueue("t").build().unwrap();
    let _issuer = engine.become_issuer(0).unwrap();
    let ran_by = wq.spawn_on(1, who).unwrap().join().unwrap();
    assert!(real < 2 || ran_by != who());
}

#[test]
fn a_panic_in_the_waiters_hands_is_counted_and_handed_over() {
    let engine = one_cpu();
    let _deadline = Deadline::new("panics", &engine);
    let _here = engine.become_issuer(0).unwrap();
    let wq = engine.workqueue("t").build().unwrap();
    let mut panics = 0;
    for n in 0..300 {
        let joined = wq
            .spawn(move || {
                if n % 3 == 0 {
                    quiet_panic()
                }
            })
            .join();
        assert_eq!(joined.is_err(), n % 3 == 0);
        panics += u64::from(n % 3 == 0);
    }
    wq.flush().unwrap();
    let stats = engine.stats();
    assert_eq!((stats.panics, stats.completed), (panics, 300));
}

#[test]
fn the_short_way_wakes_nobody_and_counts_every_item() {
    let engine = one_cpu();
    let _deadline = Deadline::new("short way", &engine);
    let _here = engine.become_issuer(0).unwrap();
    let wq = engine.workqueue("t").build().unwrap();
    eventually(|| spawns_in_a_caller_slot(&engine, &wq));
    let before = wq.counts();
    for n in 0..1_000 {
        assert_eq!(wq.spawn(move || n).join().unwrap(), n);
    }
    assert_eq!(wq.counts(), (before.0 + 1_000, before.1 + 1_000));
    // Items of items, deeper than there are caller slots.
    fn nest(wq: &Arc<Workqueue>, depth: usize) -> usize {
        if depth == 0 {
            return 0;
        }
        let inner = wq.clone();
        1 + wq.spawn(move || nest(&inner, depth - 1)).join().unwrap()
    }
    let wq = Arc::new(wq);
    for _ in 0..200 {
        assert_eq!(nest(&wq, 12), 12);
    }
    wq.flush().unwrap();
    let (started, completed) = wq.counts();
    assert_eq!(started, completed);
}

/// What may become of an item in a caller slot other than being joined by its thread.
#[test]
fn an_item_that_its_thread_does_not_join_is_run_all_the_same() {
    let engine = one_cpu();
    let _deadline = Deadline::new("let go", &engine);
    let _here = engine.become_issuer(0).unwrap();
    let wq = Arc::new(engine.workqueue("t").build().unwrap());
    for way in 0..8 {
        open_a_caller_slot(&engine, &wq);
        let (sender, ran) = mpsc::channel();
        let handle = wq.spawn(move || sender.send(who()).unwrap());
        match way {
            0 => drop(handle),
            1 => assert!(wq.queue(&counting(&Arc::default())).is_accepted()),
            2 => eventually(|| handle.is_finished()),
            3 => {
                let done = Arc::new(Completion::new());
                let completes = done.clone();
                drop(wq.spawn(move || completes.complete()));
                done.wait();
            }
            4 => cmwq::blocking(|| assert!(ran.recv().is_ok_and(|by| by != who()))),
            // The thread makes no call of the library: the monitor finds the item.
            5 => assert_ne!(ran.recv().unwrap(), who()),
            6 => {
                thread::scope(|scope| scope.spawn(|| handle.join().unwrap()).join().unwrap());
            }
            _ => {
                wq.flush().unwrap();
                assert!(handle.is_finished(), "the flush waited for it");
            }
        }
        if !matches!(way, 4 | 5) {
            ran.recv().unwrap();
        }
    }
}

#[test]
fn a_thread_that_ends_leaves_its_last_item_to_the_workers() {
    let engine = one_cpu();
    let _deadline = Deadline::new("ends", &engine);
    let _here = engine.become_issuer(0).unwrap();
    let wq = engine.workqueue("t").build().unwrap();
    let handle = thread::scope(|scope| {
        let spawns = scope.spawn(|| {
            let _here = engine.become_issuer(0).unwrap();
            open_a_caller_slot(&engine, &wq);
            wq.spawn(who)
        });
        spawns.join().unwrap()
    });
    assert_ne!(cmwq::blocking(|| loop_until_done(handle)), who());
}

/// Without running it here.
fn loop_until_done(handle: cmwq::JoinHandle<ThreadId>) -> ThreadId {
    eventually(|| handle.is_finished());
    handle.join().unwrap()
}

#[test]
fn an_item_queued_later_by_the_same_thread_does_not_begin_before() {
    let engine = one_cpu();
    let _deadline = Deadline::new("order", &engine);
    let _here = engine.become_issuer(0).unwrap();
    let wq = engine.workqueue("t").build().unwrap();
    for _ in 0..50 {
        open_a_caller_slot(&engine, &wq);
        let log = Arc::new(Mutex::new(Vec::new()));
        let write = |n: u32| {
            let log = log.clone();
            move || log.lock().unwrap().push(n)
        };
        let first = wq.spawn(write(1));
        let second = wq.spawn(write(2));
        let done = Arc::new(Completion::new());
        let third = Work::new({
            let (write, done) = (write(3), done.clone());
            move || {
                write();
                done.complete();
            }
        });
        assert!(wq.queue(&third).is_accepted());
        done.wait();
        drop((first, second));
        wq.flush().unwrap();
        assert_eq!(*log.lock().unwrap(), [1, 2, 3]);
    }
}

#[test]
fn a_place_held_for_the_short_way_is_given_up_to_who_needs_it() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("given up", &engine);
    let wq = engine.workqueue("t").max_active(1).build().unwrap();
    for _ in 0..20 {
        for _ in 0..64 {
            wq.spawn(|| ()).join().unwrap();
        }
        // From a thread that has none.
        let runs = Arc::new(AtomicUsize::new(0));
        let work = counting(&runs);
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(wq.queue(&work).is_accepted());
                eventually(|| runs.load(Ordering::SeqCst) == 1);
            });
        });
    }
}

#[test]
fn draining_freezing_and_dropping_find_what_goes_the_short_way() {
    let engine = one_cpu();
    let _deadline = Deadline::new("drains", &engine);
    let _here = engine.become_issuer(0).unwrap();
    let wq = engine.workqueue("t").freezable().build().unwrap();
    open_a_caller_slot(&engine, &wq);
    wq.drain().unwrap();
    open_a_caller_slot(&engine, &wq);
    engine.freeze_workqueues_begin();
    assert!(!engine.freeze_workqueues_busy());
    let started = wq.counts().0;
    let frozen = wq.spawn(|| 7);
    assert_eq!(wq.counts().0, started);
    engine.thaw_workqueues();
    assert_eq!(frozen.join().unwrap(), 7);
    open_a_caller_slot(&engine, &wq);
    let last = wq.spawn(|| 8);
    drop(wq);
    assert!(last.is_finished(), "dropping a queue waits for its items");
    assert_eq!(last.join().unwrap(), 8);
    eventually(|| engine.stats().pools == 0);
}

#[test]
fn a_queue_that_drains_refuses_a_thread_that_had_the_short_way() {
    let engine = one_cpu();
    let _deadline = Deadline::new("refuses", &engine);
    let _here = engine.become_issuer(0).unwrap();
    let wq = engine.workqueue("t").build().unwrap();
    for _ in 0..10 {
        let door = Door::new();
        open_a_caller_slot(&engine, &wq);
        let _held = held(&wq, 0, 1, &door);
        door.wait_for(1);
        thread::scope(|scope| {
            scope.spawn(|| wq.drain().unwrap());
            // What gets in before the drain begins runs; what comes after is refused.
            eventually(|| match wq.spawn(|| ()).join() {
                Ok(()) => false,
                Err(error) => {
                    assert!(matches!(error, cmwq::JoinError::Refused(Refused::Draining)));
                    true
                }
            });
            door.open.complete();
        });
    }
}

#[test]
fn threads_that_go_the_short_way_meet_everything_that_closes_it() {
    let engine = engine("l3:2 core:1 pu:1");
    let _deadline = Deadline::new("closes", &engine);
    let wq = engine
        .workqueue("t")
        .max_active(3)
        .freezable()
        .build()
        .unwrap();
    let over = AtomicBool::new(false);
    let broken = Arc::new(Broken::default());
    let (inside, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let spawned = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let (inside, ran, broken) = (inside.clone(), ran.clone(), broken.clone());
                    let handle = wq.spawn(move || {
                        let others = inside.fetch_add(1, Ordering::SeqCst);
                        // Per node, or 3 in all: never more than the limit.
                        broken.expect(others < 3, || format!("{others} others are active"));
                        ran.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    });
                    handle.join().unwrap();
                    spawned.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for round in 0..300 {
            match round % 5 {
                0 => {
                    let before = spawned.load(Ordering::SeqCst);
                    wq.flush().unwrap();
                    let now = ran.load(Ordering::SeqCst);
                    broken.expect(now >= before, || format!("{now} ran of {before}"));
                }
                1 => {
                    let mut attrs = wq.attrs();
                    attrs.cpumask = Some(CpuSet::from_iter([round % 2]));
                    wq.apply_attrs(attrs).unwrap();
                }
                2 => wq.set_max_active(1 + round % 3).unwrap(),
                3 => {
                    engine.freeze_workqueues_begin();
                    eventually(|| !engine.freeze_workqueues_busy());
                    // Not the workqueue's counts: those of a pool workqueue that is replaced go with it.
                    let still = ran.load(Ordering::SeqCst);
                    thread::yield_now();
                    broken.expect(ran.load(Ordering::SeqCst) == still, || {
                        "ran while frozen".into()
                    });
                    engine.thaw_workqueues();
                }
                _ => drop(engine.dump().to_string()),
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    wq.flush().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), spawned.load(Ordering::SeqCst));
    let (started, completed) = wq.counts();
    assert!(started == completed);
    broken.none();
}

/// A waiter that runs its item must keep no other item from the pod's only worker, though only the
/// monitor calls the pool again.
#[test]
fn what_waits_behind_a_waiter_is_run_though_nobody_calls() {
    let engine = one_cpu();
    let _deadline = Deadline::new("waits behind a waiter", &engine);
    let _here = engine.become_issuer(0).unwrap();
    let wq = engine.workqueue("t").build().unwrap();
    for round in 0..100 {
        let door = Door::new();
        let _held = occupied(&wq, &door);
        let behind = Arc::new(Completion::new());
        let own = wq.spawn(move || {
            door.open.complete();
            // Most likely the worker comes back meanwhile.
            (0..50).for_each(|_| thread::yield_now());
            who()
        });
        drop(wq.spawn({
            let behind = behind.clone();
            move || behind.complete()
        }));
        assert_eq!(own.join().unwrap(), who(), "round {round}");
        // Not by a wait of the library's, which would release the pool's lock once more.
        eventually(|| behind.is_done());
    }
}
