//! Cases 16 to 24: waking, idle workers, pods and scopes.

use super::*;

#[test]
fn case_16_a_burst_to_an_idle_pool_loses_nothing() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("case 16", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let works: Vec<Work> = (0..1_000).map(|_| counting(&runs)).collect();
    for burst in 1..=100 {
        // At rest: every worker has gone to sleep, or is about to, which is the harder case.
        for work in &works {
            assert!(wq.queue(work).is_accepted());
        }
        // No flush: it would settle the pool itself and hide a lost wake-up.
        eventually(|| runs.load(Ordering::SeqCst) == burst * works.len());
    }
}

#[test]
fn case_16_wake_ups_chain_until_every_cpu_of_the_pod_is_used() {
    let engine = engine_without_limit("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("case 16", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    for _ in 0..50 {
        let together = Arc::new(AtomicUsize::new(0));
        // Each item ends only when four run at the same time; awake, so that none counts as blocked.
        for _ in 0..4 {
            let together = together.clone();
            drop(wq.spawn(move || {
                together.fetch_add(1, Ordering::SeqCst);
                while together.load(Ordering::SeqCst) < 4 {
                    std::thread::yield_now();
                }
            }));
        }
        eventually(|| together.load(Ordering::SeqCst) == 4);
        wq.flush().unwrap();
    }
}

/// An engine of one CPU, and a queue whose workers are idle.
fn with_idle_workers(test: &'static str) -> (Engine, Workqueue, Deadline) {
    let engine = engine("l3:1 core:1 pu:1");
    let deadline = Deadline::new(test, &engine);
    // Items that compute are left alone, however long they take.
    engine.set_cpu_intensive_threshold(Duration::ZERO);
    let wq = engine.workqueue("t").per_cpu().workers_only();
    let wq = wq.build().unwrap();
    let door = Door::new();
    let _items = held(&wq, 0, 4, &door);
    door.wait_for(4);
    door.open.complete();
    wq.flush().unwrap();
    all_idle(&engine);
    (engine, wq, deadline)
}

/// All workers have gone to sleep, and none is on the way.
fn all_idle(engine: &Engine) {
    eventually(|| {
        let pools = engine.pool_states();
        let mut workers = pools.iter().flat_map(|pool| &pool.workers);
        pools.iter().all(|pool| pool.manager.is_none())
            && workers.all(|worker| worker.doing == "idle")
    });
}

#[test]
fn case_16_a_burst_wakes_one_worker() {
    let (engine, wq, _deadline) = with_idle_workers("case 16");
    for _ in 0..20 {
        all_idle(&engine);
        let before = engine.stats();
        assert!(before.workers >= 4, "{before:?}");
        let door = Door::new();
        let own = door.clone();
        // The first item ends when all are queued, so that its worker does not park in between.
        wq.execute(move || own.pass_awake()).unwrap();
        // Every holder of the pool's lock settles it: one worker is on its way, or runs.
        let looks = || engine.stats();
        looks();
        let runs = Arc::new(AtomicUsize::new(0));
        let works: Vec<Work> = (0..500).map(|_| counting(&runs)).collect();
        for work in &works {
            assert!(wq.queue(work).is_accepted());
            looks();
        }
        door.open.complete();
        eventually(|| runs.load(Ordering::SeqCst) == works.len());
        let after = engine.stats();
        assert_eq!(after.wakeups - before.wakeups, 1, "{before:?}\n{after:?}");
    }
}

#[test]
fn case_20_the_worker_that_went_idle_last_is_woken_first() {
    let (engine, wq, _deadline) = with_idle_workers("case 20");
    let who = || wq.spawn(|| std::thread::current().id()).join().unwrap();
    let first = who();
    assert!(engine.stats().workers >= 4);
    for _ in 0..30 {
        all_idle(&engine);
        assert_eq!(who(), first);
    }
}

#[test]
fn case_20_workers_that_were_long_idle_go_but_two_stay() {
    let engine = Engine::builder()
        .topology(Topology::from_synthetic("l3:1 core:4 pu:1").unwrap())
        .idle_timeout(Duration::from_millis(1))
        .build()
        .unwrap();
    let _deadline = Deadline::new("case 20", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    for _ in 0..3 {
        let door = Door::new();
        let _items = held(&wq, 0, 30, &door);
        door.wait_for(30);
        assert!(engine.stats().workers >= 30);
        door.open.complete();
        wq.flush().unwrap();
        // 30 blocked items needed 30 workers and a spare; idle, no more than two are kept.
        eventually(|| engine.stats().workers <= 2);
        assert_eq!(wq.spawn(|| 5).join().unwrap(), 5);
    }
    eventually(|| engine.stats().workers == 2);
    // The items declared that they block, so the monitor need not find them. (It may see a few just
    // before they declare it.)
    let seen = engine.stats().blocked_seen;
    assert!(seen < 30, "{seen} of 90 blocked workers had to be found");
}

#[test]
fn case_21_the_culler_strands_no_item() {
    let engine = Engine::builder()
        .topology(Topology::from_synthetic("l3:1 core:4 pu:1").unwrap())
        .idle_timeout(Duration::from_nanos(1))
        .build()
        .unwrap();
    let _deadline = Deadline::new("case 21", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let works: Vec<Work> = (0..8).map(|_| counting(&runs)).collect();
    for round in 1..=3_000 {
        if round % 100 == 1 {
            // More workers than are kept, so that there is something to cull.
            let door = Door::new();
            let _items = held(&wq, 0, 12, &door);
            door.wait_for(12);
            door.open.complete();
        }
        for work in &works {
            assert!(wq.queue(work).is_accepted());
        }
        eventually(|| runs.load(Ordering::SeqCst) == round * works.len());
    }
}

#[test]
fn case_22_shards_are_cut_as_the_rule_says_and_a_size_of_zero_is_one() {
    for (size, cores, pods) in [
        (0, 6, 6),
        (1, 6, 6),
        (3, 8, 3),
        (8, 11, 1),
        (8, 12, 2),
        (8, 128, 16),
        (28, 128, 5),
    ] {
        let engine = Engine::builder()
            .topology(Topology::from_synthetic(&format!("l3:1 core:{cores} pu:2")).unwrap())
            .cache_shard_size(size)
            .build()
            .unwrap();
        let shards = engine.pods(AffinityScope::CacheShard).pods();
        assert_eq!(shards.len(), pods, "{cores} cores by {size}");
        assert!(
            shards
                .iter()
                .all(|pod| pod.cpus.iter().all(|cpu| pod.cpus.contains(cpu ^ 1))),
            "siblings are in one shard"
        );
    }
}

#[test]
fn case_23_scope_names_are_exact_and_default_is_refused_globally() {
    assert_eq!("cache\n".parse(), Ok(AffinityScope::Cache));
    assert_eq!("default".parse(), Ok(AffinityScope::Default));
    for wrong in ["Cache", "cache ", "cache_", "cache\n\n", ""] {
        assert!(wrong.parse::<AffinityScope>().is_err(), "{wrong:?}");
    }
    let engine = engine("l3:1 core:1 pu:1");
    let refused = engine.set_default_affinity_scope(AffinityScope::Default);
    assert!(matches!(refused, Err(Error::DefaultScope)));
    assert_eq!(engine.default_affinity_scope(), AffinityScope::CacheShard);
}

#[test]
fn case_24_a_new_default_scope_moves_only_queues_on_default() {
    let engine = engine("l3:2 core:2 pu:1");
    let _deadline = Deadline::new("case 24", &engine);
    let follows = engine.workqueue("follows").build().unwrap();
    // Two shards, and the pool of all CPUs that stands in for CPUs without a pod.
    assert_eq!(engine.stats().pools, 3);
    let stays = engine
        .workqueue("stays")
        .affinity_scope(AffinityScope::CacheShard)
        .build()
        .unwrap();
    let ordered = engine.workqueue("ordered").ordered().build().unwrap();
    assert_eq!(
        engine.stats().pools,
        3,
        "pools of equal attributes are shared"
    );
    let door = Door::new();
    let _items = held(&follows, 0, 1, &door);
    door.wait_for(1);
    engine
        .set_default_affinity_scope(AffinityScope::Cpu)
        .unwrap();
    assert_eq!(engine.stats().pools, 7, "and one for each CPU");
    drop((stays, ordered));
    // The item that was queued before still runs on its old pool; the other old one is gone.
    assert_eq!(engine.stats().pools, 6);
    assert_eq!(follows.spawn(|| 3).join().unwrap(), 3);
    door.open.complete();
    follows.flush().unwrap();
    eventually(|| engine.stats().pools == 5);
}
