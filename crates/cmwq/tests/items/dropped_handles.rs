//! Threads that spawn and drop the handle, at once or later, or keep it. Each item runs once, and
//! its captures and its value are dropped once.

use crate::harness::{
    Alive, Deadline, bind_to, block_on, engine_without_hogs, eventually, hold, number, seed,
};
use cmwq::{Engine, JoinError, JoinHandle, Workqueue};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Waker};

struct Fixture {
    engine: Engine,
    wq: Workqueue,
}

fn fixture(topology: &str, max_active: usize) -> Fixture {
    let engine = engine_without_hogs(topology);
    let builder = engine.workqueue("t").max_active(max_active);
    let wq = builder.build().unwrap();
    Fixture { engine, wq }
}

/// Spawns so many that count themselves, and drops each handle at once.
fn spawn_and_drop(wq: &Workqueue, number: usize, ran: &Arc<AtomicUsize>) {
    for _ in 0..number {
        let ran = ran.clone();
        drop(wq.spawn(move || ran.fetch_add(1, Ordering::SeqCst)));
    }
}

/// The bit that an item sets above its index each time it runs.
const RUN: usize = 1 << 32;

#[test]
fn each_runs_once_and_is_dropped_once_whatever_becomes_of_its_handle() {
    let items = number("CMWQ_TEST_ITEMS", 20_000) as usize;
    let seed = seed("dropped handles");
    for (max_active, topology) in [
        (5, "l3:1 core:2 pu:1"),
        (1024, "l3:1 core:2 pu:1"),
        (16, "l3:4 core:1 pu:1"),
    ] {
        let Fixture { engine, wq } = fixture(topology, max_active);
        let _deadline = Deadline::new("dropped handles", &engine);
        let alive = Arc::new(AtomicUsize::new(0));
        let runs: Arc<Vec<AtomicUsize>> = Arc::new((0..4 * items).map(AtomicUsize::new).collect());
        let (to, others) = mpsc::sync_channel::<JoinHandle<Alive>>(64);
        let panicked = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(move || others.into_iter().for_each(drop));
            for issuer in 0..4 {
                let (wq, alive, runs, engine) = (&wq, &alive, &runs, &engine);
                let (to, panicked) = (to.clone(), &panicked);
                scope.spawn(move || {
                    let mut random = crate::harness::Random::new(seed + issuer as u64);
                    let mut kept = Vec::new();
                    let mut kind = 9;
                    for index in issuer * items..(issuer + 1) * items {
                        if random.one_in(30) {
                            kind = random.below(14);
                        }
                        let (alive, runs) = (Alive::new(alive), runs.clone());
                        let handle = match kind {
                            7 => {
                                let large = [index; 3];
                                wq.spawn(move || {
                                    runs[large[2]].fetch_add(RUN, Ordering::SeqCst);
                                    alive
                                })
                            }
                            8 => {
                                panicked.fetch_add(1, Ordering::SeqCst);
                                wq.spawn(move || -> Alive {
                                    runs[index].fetch_add(RUN, Ordering::SeqCst);
                                    let _alive = alive;
                                    std::panic::resume_unwind(Box::new(index))
                                })
                            }
                            _ => wq.spawn(move || {
                                runs[index].fetch_add(RUN, Ordering::SeqCst);
                                alive
                            }),
                        };
                        match kind {
                            0 => drop(handle.join().unwrap()),
                            1 => kept.push(handle),
                            2 => to.send(handle).unwrap(),
                            3 => drop((handle.is_finished(), handle)),
                            4 => drop(block_on(handle).unwrap()),
                            5 => {
                                let mut handle = pin!(handle);
                                let mut context = Context::from_waker(Waker::noop());
                                drop(handle.as_mut().poll(&mut context));
                            }
                            6 => {
                                // Anything else that the library does, before the handle is dropped.
                                wq.execute(|| {}).unwrap();
                                drop(handle);
                            }
                            _ => drop(handle),
                        }
                        match (issuer, index % 1000) {
                            (0, 999) => wq.flush().unwrap(),
                            (1, 99) => drop(engine.dump()),
                            _ => {}
                        }
                    }
                    for handle in kept {
                        drop(handle.join().unwrap());
                    }
                });
            }
            drop(to);
        });
        wq.flush().unwrap();
        for (index, runs) in runs.iter().enumerate() {
            let runs = runs.load(Ordering::SeqCst);
            assert_eq!(runs, index + RUN, "runs of item {index}, seed {seed}");
        }
        // The queue's own reference goes right after the item has been counted as completed.
        eventually(|| alive.load(Ordering::SeqCst) == 0);
        assert_eq!(
            engine.stats().panics,
            panicked.load(Ordering::SeqCst) as u64
        );
    }
}

#[test]
fn a_handle_that_was_kept_gives_the_result() {
    let Fixture { engine, wq } = fixture("l3:1 core:2 pu:1", 1024);
    let _deadline = Deadline::new("kept handles", &engine);
    // Only a thread on a CPU of the pod runs what it waits for.
    bind_to(&[0, 1]);
    for round in 0..100 {
        let ran = Arc::new(AtomicUsize::new(0));
        let door = hold(&wq, 2);
        let mut kept = Vec::new();
        for _ in 0..4 {
            spawn_and_drop(&wq, 40, &ran);
            kept.push(wq.spawn(move || round));
        }
        // The thread can run this one itself.
        let last = kept.pop().unwrap();
        match round % 3 {
            0 => assert_eq!(last.join().unwrap(), round),
            1 => kept.push(last),
            _ => drop(last),
        }
        assert_eq!(ran.load(Ordering::SeqCst), 0, "no worker is free");
        door.open.complete();
        for handle in kept {
            assert_eq!(handle.join().unwrap(), round);
        }
        wq.flush().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 160);
    }
}

#[test]
fn a_flush_waits_for_what_was_spawned_with_and_without_a_handle() {
    let Fixture { engine, wq } = fixture("l3:1 core:2 pu:1", 1024);
    let _deadline = Deadline::new("a flush of dropped handles", &engine);
    for _ in 0..100 {
        let ran = Arc::new(AtomicUsize::new(0));
        let door = hold(&wq, 2);
        spawn_and_drop(&wq, 50, &ran);
        // With its handle or without it, when the flush begins.
        let kept = wq.spawn({
            let ran = ran.clone();
            move || ran.fetch_add(1, Ordering::SeqCst)
        });
        std::thread::scope(|scope| {
            let flush = scope.spawn(|| {
                wq.flush().unwrap();
                ran.load(Ordering::SeqCst)
            });
            drop(kept);
            door.open.complete();
            assert_eq!(flush.join().unwrap(), 51);
        });
    }
}

#[test]
fn what_is_refused_is_dropped_and_its_handle_told() {
    let Fixture { engine, wq } = fixture("l3:1 core:2 pu:1", 1024);
    let _deadline = Deadline::new("refused", &engine);
    let (ran, alive) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let door = hold(&wq, 2);
    spawn_and_drop(&wq, 50, &ran);
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| wq.drain());
        // Until the queue takes nothing any more.
        let refused = loop {
            let counted = Alive::new(&alive);
            let handle = wq.spawn(move || drop(counted));
            if handle.is_finished() {
                break handle.join();
            }
        };
        assert!(matches!(refused, Err(JoinError::Refused(_))));
        door.open.complete();
        drain.join().unwrap().unwrap();
    });
    assert_eq!(ran.load(Ordering::SeqCst), 50);
    eventually(|| alive.load(Ordering::SeqCst) == 0);
}
