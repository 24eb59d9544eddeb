//! Case 29: what is counted.
//!
//! In the kernel a waiter's barrier is an item and is counted as one, and workers that strayed from
//! their pod are counted when they return. Neither exists here: waiters are kept in a list beside
//! the item, and between pods the work moves, not the worker. So only items are started and
//! completed, each once, whichever thread ran them.

use super::*;

/// The queue's and the engine's counts of items started and completed, which agree when it is the only queue.
fn counts(engine: &Engine, wq: &Workqueue) -> (u64, u64) {
    wq.flush().unwrap();
    let stats = engine.stats();
    assert_eq!((stats.started, stats.completed), wq.counts());
    wq.counts()
}

#[test]
fn case_29_items_are_counted_once_and_waiting_for_them_is_not() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 29", &engine);
    for kind in 0..4 {
        let builder = engine.workqueue("t");
        let wq = match kind {
            0 => builder,
            1 => builder.per_cpu(),
            2 => builder.ordered(),
            _ => builder.bh(),
        };
        let wq = wq.build().unwrap();
        let before = engine.stats();
        let runs = Arc::new(AtomicUsize::new(0));
        let work = counting(&runs);
        for n in 1..=100_u64 {
            assert!(wq.queue(&work).is_accepted());
            // Flushes of the item, of the queue, and a cancel that waits: no items.
            work.flush().unwrap();
            work.cancel_sync();
            wq.flush().unwrap();
            assert_eq!(wq.counts(), (n, n));
        }
        let stats = engine.stats();
        assert_eq!(stats.started - before.started, 100);
        assert_eq!(stats.completed - before.completed, 100);
    }
}

#[test]
fn case_29_an_item_that_was_cancelled_is_not_counted() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("case 29", &engine);
    let wq = engine.workqueue("t").max_active(1).build().unwrap();
    let door = Door::new();
    let _held = held(&wq, 0, 1, &door);
    door.wait_for(1);
    assert_eq!(wq.counts(), (1, 0), "started, not completed");
    let works: Vec<Work> = (0..20).map(|_| counting(&Arc::default())).collect();
    for work in &works {
        assert!(wq.queue(work).is_accepted());
    }
    for work in &works[..15] {
        assert!(work.cancel());
    }
    door.open.complete();
    assert_eq!(counts(&engine, &wq), (6, 6));
    drop(wq);
    let stats = engine.stats();
    assert_eq!((stats.started, stats.completed), (6, 6), "kept");
}

#[test]
fn case_29_items_that_a_neighbour_ran_are_counted_where_they_belong() {
    let engine = engine_without_limit("l3:2 core:1 pu:1");
    let _deadline = Deadline::new("case 29", &engine);
    // Nothing runs beside an item that computes, however long it takes.
    engine.set_cpu_intensive_threshold(Duration::ZERO);
    let wq = engine.workqueue("t").affinity_scope(AffinityScope::Cache);
    let wq = wq.build().unwrap();
    let door = Door::new();
    let awake = |door: &Arc<Door>| {
        let door = door.clone();
        wq.spawn_on(0, move || door.pass_awake()).unwrap()
    };
    // All from one CPU, which runs one: a worker of the other pod steals the next.
    let handles = [awake(&door), awake(&door)];
    door.wait_for(2);
    door.open.complete();
    for handle in handles {
        handle.join().unwrap();
    }
    assert_eq!(counts(&engine, &wq), (2, 2));
    assert_eq!(engine.stats().stolen, 1);
}

#[test]
fn case_29_counts_of_a_strict_queue_are_its_pods_own() {
    let engine = engine_without_limit("l3:2 core:1 pu:1");
    let _deadline = Deadline::new("case 29", &engine);
    // Nothing runs beside an item that computes, however long it takes.
    engine.set_cpu_intensive_threshold(Duration::ZERO);
    let wq = engine
        .workqueue("t")
        .affinity_scope(AffinityScope::Cache)
        .affinity_strict(true)
        .build()
        .unwrap();
    let busy = Door::new();
    let handles: Vec<_> = (0..200)
        .map(|n| {
            let busy = busy.clone();
            wq.spawn_on(0, move || {
                if n == 0 {
                    busy.pass_awake();
                }
            })
            .unwrap()
        })
        .collect();
    busy.wait_for(1);
    // The other pod is idle, and steals none of these.
    for _ in 0..200 {
        wq.spawn_on(1, || ()).unwrap().join().unwrap();
    }
    assert_eq!(wq.counts().0, 201);
    busy.open.complete();
    for handle in handles {
        handle.join().unwrap();
    }
    assert_eq!(counts(&engine, &wq), (400, 400));
    assert_eq!(engine.stats().stolen, 0);
}

#[test]
fn case_29_the_engines_counts_never_go_down() {
    let engine = engine("l3:4 core:1 pu:1");
    let _deadline = Deadline::new("case 29", &engine);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Pools come and go with their queues.
            for n in 0..100 {
                let wq = engine.workqueue("t").nice(n % 3);
                let wq = wq.affinity_scope(AffinityScope::Cpu).build().unwrap();
                for cpu in 0..4 {
                    drop(wq.spawn_on(cpu, || ()).unwrap());
                }
            }
            ended.store(true, Ordering::SeqCst);
        });
        let mut before = engine.stats();
        while !ended.load(Ordering::SeqCst) {
            let now = engine.stats();
            assert!(
                now.started >= before.started && now.completed >= before.completed,
                "{before:?}\n{now:?}"
            );
            before = now;
        }
    });
    assert_eq!(engine.stats().completed, 400);
}
