//! `execute`: closures without a handle. Each runs once and is dropped once, whichever thread takes
//! it and however it travels, and all that holds for a queue's items holds for them.

use crate::harness::{Alive, Deadline, Door, engine, engine_without_hogs, hold, in_own_process};
use cmwq::{Refused, Work, Workqueue, blocking};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

const CLOSURES: usize = 20_000;

#[test]
fn each_closure_runs_once_and_is_dropped_once_whoever_takes_it() {
    for (max_active, topology) in [
        (5, "l3:1 core:2 pu:1"),
        (1024, "l3:1 core:2 pu:1"),
        (16, "l3:4 core:1 pu:1"),
    ] {
        let engine = engine(topology);
        let _deadline = Deadline::new("closures", &engine);
        let wq = engine
            .workqueue("t")
            .max_active(max_active)
            .build()
            .unwrap();
        let alive = Arc::new(AtomicUsize::new(0));
        let runs: Arc<Vec<AtomicUsize>> =
            Arc::new((0..4 * CLOSURES).map(AtomicUsize::new).collect());
        let (active, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        std::thread::scope(|scope| {
            for issuer in 0..4 {
                let (wq, alive, runs, engine) = (&wq, &alive, &runs, &engine);
                let (active, most) = (&active, &most);
                scope.spawn(move || {
                    for index in issuer * CLOSURES..(issuer + 1) * CLOSURES {
                        let (alive, runs) = (Alive::new(alive), runs.clone());
                        let (active, most) = (active.clone(), most.clone());
                        if index % 3 == 0 {
                            // Too many captures for a chunk.
                            let run = move || {
                                let _alive = alive;
                                most.fetch_max(
                                    active.fetch_add(1, Ordering::SeqCst) + 1,
                                    Ordering::SeqCst,
                                );
                                runs[index].fetch_add(1 << 32, Ordering::SeqCst);
                                active.fetch_sub(1, Ordering::SeqCst);
                            };
                            wq.execute(run).unwrap();
                        } else {
                            let run = move || {
                                let _alive = alive;
                                runs[index].fetch_add(1 << 32, Ordering::SeqCst);
                            };
                            wq.execute(run).unwrap();
                        }
                        // These calls see all items: workers put back for them what they have not begun.
                        match (issuer, index % 1000) {
                            (0, 999) => wq.flush().unwrap(),
                            (1, 99) => drop(engine.dump()),
                            _ => {}
                        }
                    }
                });
            }
        });
        wq.flush().unwrap();
        for (index, runs) in runs.iter().enumerate() {
            assert_eq!(
                runs.load(Ordering::SeqCst),
                index + (1 << 32),
                "runs of closure {index}"
            );
        }
        assert_eq!(alive.load(Ordering::SeqCst), 0);
        assert!(most.load(Ordering::SeqCst) <= max_active);
        let stats = engine.stats();
        assert_eq!(
            (stats.started, stats.completed),
            (4 * CLOSURES as u64, 4 * CLOSURES as u64)
        );
    }
}

#[test]
fn what_one_thread_queues_starts_in_that_order_whatever_it_is() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("an order", &engine);
    // One at a time: if the monitor finds a worker asleep, in a page fault say, a second one runs,
    // and what the two note has no order.
    let wq = engine.workqueue("t").max_active(1).build().unwrap();
    let ran = Arc::new(Mutex::new(Vec::with_capacity(CLOSURES)));
    let works: Vec<Work> = (0..CLOSURES)
        .map(|index| {
            let ran = ran.clone();
            Work::new(move || ran.lock().unwrap().push(index))
        })
        .collect();
    for (seed, held) in [(1, true), (2, false), (3, true), (4, false)] {
        let mut random = crate::harness::Random::new(seed);
        let door = held.then(|| hold(&wq, 1));
        let mut kind = 0;
        let mut kept = Vec::new();
        for (index, work) in works.iter().enumerate() {
            if random.one_in(20) {
                kind = random.below(6);
            }
            let ran = ran.clone();
            match kind {
                0 => assert!(wq.queue(work).will_run()),
                1 => wq.execute(move || ran.lock().unwrap().push(index)).unwrap(),
                2 => {
                    let large = [index; 8];
                    wq.execute(move || ran.lock().unwrap().push(large[7]))
                        .unwrap();
                }
                // Kept for long, and then dropped at once again.
                3 => kept.push(wq.spawn(move || ran.lock().unwrap().push(index))),
                _ => drop(wq.spawn(move || ran.lock().unwrap().push(index))),
            }
        }
        if let Some(door) = door {
            door.open.complete();
        }
        wq.flush().unwrap();
        let ran = std::mem::take(&mut *ran.lock().unwrap());
        let first_wrong = ran
            .iter()
            .copied()
            .zip(0..)
            .find(|(is, should)| is != should);
        assert_eq!((first_wrong, ran.len()), (None, CLOSURES), "seed {seed}");
    }
}

#[test]
fn a_closure_that_blocks_holds_up_none_of_those_behind_it() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a closure that blocks", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    for _ in 0..20 {
        let cpu = hold(&wq, 2);
        let (door, ran) = (Door::new(), Arc::new(AtomicUsize::new(0)));
        // Enough before it for a chunk, and for batches.
        for index in 0..200 {
            let (door, ran) = (door.clone(), ran.clone());
            if index == 100 {
                wq.execute(move || blocking(|| door.open.wait())).unwrap();
            } else {
                wq.execute(move || {
                    // The last one lets the one that blocks go.
                    if ran.fetch_add(1, Ordering::SeqCst) == 198 {
                        door.open.complete();
                    }
                })
                .unwrap();
            }
        }
        cpu.open.complete();
        wq.flush().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 199);
    }
}

#[test]
fn a_closure_that_panics_is_counted_and_the_others_run() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("panics", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let cpu = hold(&wq, 2);
    for index in 0..100 {
        let ran = ran.clone();
        wq.execute(move || {
            if index % 10 == 3 {
                std::panic::resume_unwind(Box::new(index));
            }
            ran.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    }
    cpu.open.complete();
    wq.flush().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 90);
    assert_eq!(engine.stats().panics, 10);
}

#[test]
fn a_closure_that_is_refused_is_dropped() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a refused closure", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let alive = Arc::new(AtomicUsize::new(0));
    let (stop, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                for _ in 0..100 {
                    let (small, large) = (Alive::new(&alive), (Alive::new(&alive), [0_u64; 8]));
                    let results = [
                        wq.execute(move || drop(small)),
                        wq.execute(move || drop(large)),
                    ];
                    for result in results {
                        match result {
                            Ok(()) => {}
                            Err(why) => {
                                assert_eq!(why, Refused::Draining);
                                refused.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                    }
                }
            }
        });
        while refused.load(Ordering::SeqCst) < 100 {
            wq.drain().unwrap();
        }
        stop.store(true, Ordering::SeqCst);
    });
    wq.flush().unwrap();
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn the_first_closure_that_is_refused_is_warned_of() {
    let heard = Arc::new(AtomicUsize::new(0));
    cmwq::observe::set_warning_handler({
        let heard = heard.clone();
        move |text| {
            if text.contains("workqueue warns: draining") {
                heard.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a warning", &engine);
    let wq = engine.workqueue("warns").build().unwrap();
    std::thread::scope(|scope| {
        let door = hold(&wq, 1);
        let drain = scope.spawn(|| wq.drain().unwrap());
        while wq.execute(|| {}).is_ok() {
            std::thread::yield_now();
        }
        assert_eq!(wq.execute(|| {}), Err(Refused::Draining));
        door.open.complete();
        drain.join().unwrap();
    });
    assert_eq!(heard.load(Ordering::SeqCst), 1);
}

/// Closures of different types are never in one chunk.
fn nothing() {}

#[test]
fn what_a_draining_queues_items_may_do_the_next_item_of_their_worker_may_not() {
    let engine = engine_without_hogs("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a drain", &engine);
    let wq = Arc::new(engine.workqueue("t").build().unwrap());
    let other = engine.workqueue("other").build().unwrap();
    // One worker runs all that follows.
    let door = hold(&other, 1);
    let (wait, results) = (Door::new(), Arc::new(Mutex::new(Vec::new())));
    wq.execute({
        let (wq, wait) = (wq.clone(), wait.clone());
        move || {
            wait.pass_awake();
            // Its queue drains. Some go alone, the others in a chunk.
            for _ in 0..20 {
                wq.execute(nothing).unwrap();
            }
        }
    })
    .unwrap();
    while wait.arrived() < 1 {
        std::thread::yield_now();
    }
    other
        .execute({
            let (wq, results) = (wq.clone(), results.clone());
            move || results.lock().unwrap().push(wq.execute(nothing))
        })
        .unwrap();
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| wq.drain().unwrap());
        while wq.execute(|| {}).is_ok() {
            std::thread::yield_now();
        }
        wait.open.complete();
        drain.join().unwrap();
    });
    door.open.complete();
    other.flush().unwrap();
    assert_eq!(*results.lock().unwrap(), [Err(Refused::Draining)]);
}

#[test]
fn a_forks_child_adds_nothing_to_its_parents_chunk() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("fork", &engine);
        let wq = engine.workqueue("t").build().unwrap();
        // On one CPU, the child too.
        let _issuer = engine.become_issuer(0).unwrap();
        // No worker takes what is queued behind these.
        let door = hold(&wq, 2);
        let ran = Arc::new(AtomicUsize::new(0));
        let count = || {
            let ran = ran.clone();
            move || {
                ran.fetch_add(1, Ordering::SeqCst);
            }
        };
        for _ in 0..100 {
            wq.execute(count()).unwrap();
        }
        // SAFETY: the child queues, which it may, and leaves by _exit.
        match unsafe { libc::fork() } {
            -1 => panic!("fork failed"),
            0 => {
                let refused = (0..100).all(|_| wq.execute(count()) == Err(Refused::Forked));
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(if refused { 0 } else { 1 }) }
            }
            pid => {
                let mut status = -1;
                // SAFETY: waits for our own child; `status` is valid for writes.
                unsafe { libc::waitpid(pid, &mut status, 0) };
                assert_eq!(status, 0, "the child's closures are refused");
            }
        }
        door.open.complete();
        wq.flush().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 100);
    });
}

#[test]
fn threads_come_and_go_and_so_do_queues() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("threads that go", &engine);
    let ran = Arc::new(AtomicUsize::new(0));
    for round in 0..50 {
        let wq = engine.workqueue("t").build().unwrap();
        let other = engine.workqueue("u").build().unwrap();
        std::thread::scope(|scope| {
            for issuer in 0..3 {
                let (wq, other, ran) = (&wq, &other, &ran);
                scope.spawn(move || {
                    // Most of these threads end with a partly filled chunk.
                    for index in 0..100 + 7 * issuer + round {
                        let ran = ran.clone();
                        let queue = if index % 30 < 15 { wq } else { other };
                        let run = move || {
                            ran.fetch_add(1, Ordering::SeqCst);
                        };
                        queue.execute(run).unwrap();
                    }
                });
            }
        });
        // This thread still has its cached state of the queue.
        for _ in 0..20 {
            let ran = ran.clone();
            wq.execute(move || {
                ran.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        }
    }
    let expected: usize = (0..50).map(|round| 3 * (100 + round) + 7 * 3 + 20).sum();
    assert_eq!(ran.load(Ordering::SeqCst), expected);
}

#[test]
fn ordered_and_per_cpu_queues_take_closures_too() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("other kinds", &engine);
    let ordered = engine.workqueue("o").ordered().build().unwrap();
    let ran = Arc::new(Mutex::new(Vec::new()));
    for index in 0..CLOSURES {
        let ran = ran.clone();
        ordered
            .execute(move || ran.lock().unwrap().push(index))
            .unwrap();
    }
    ordered.flush().unwrap();
    assert!(ran.lock().unwrap().iter().copied().eq(0..CLOSURES));

    let per_cpu = engine.workqueue("p").per_cpu().build().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    for _ in 0..CLOSURES {
        let count = count.clone();
        per_cpu
            .execute(move || {
                count.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
    }
    per_cpu.flush().unwrap();
    assert_eq!(count.load(Ordering::SeqCst), CLOSURES);
}

#[test]
fn a_closure_may_wait_for_another_one_of_its_own_kind() {
    /// Closures of one type: each queues the next, which may get the same memory, and waits for it
    /// undeclared.
    fn nest(queue: &Arc<Workqueue>, depth: u32, done: mpsc::Sender<u32>) {
        let inner = queue.clone();
        let closure = move || {
            let below = match depth {
                0 => 0,
                _ => {
                    let (sender, receiver) = mpsc::channel();
                    nest(&inner, depth - 1, sender);
                    receiver.recv().expect("it runs")
                }
            };
            done.send(below + 1).expect("the one above waits");
        };
        queue.execute(closure).expect("it is taken");
    }
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("nested closures", &engine);
    let queue = Arc::new(engine.workqueue("t").build().unwrap());
    for _ in 0..20 {
        let (sender, receiver) = mpsc::channel();
        nest(&queue, 5, sender);
        assert_eq!(receiver.recv(), Ok(6));
    }
}
