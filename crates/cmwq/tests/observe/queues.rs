//! Queues as tools see them: where their items go, what they count, and who uses the CPUs.

use crate::harness::{Deadline, engine};
use crate::live;
use cmwq::affinity::AffinityScope;
use cmwq::observe::PoolFor;
use cmwq::topology::CpuSet;
use cmwq::types::WorkqueueKind;
use cmwq::{Completion, Engine, Work};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn queues_are_found_while_they_live_and_show_where_their_items_go() {
    let engine = engine("l3:2 core:2 pu:1");
    let _deadline = Deadline::new("queues", &engine);
    let wq = engine
        .workqueue("mine")
        .affinity_scope(AffinityScope::Cache)
        .max_active(10)
        .mem_reclaim()
        .build()
        .expect("a queue");
    let other = engine
        .workqueue("mine")
        .per_cpu()
        .build()
        .expect("a queue of the same name");
    let live = engine.live_queues();
    assert_eq!(live.len(), 2);
    assert!(live[0].serial() < live[1].serial());
    assert!(
        Engine::all()
            .iter()
            .any(|own| own.serial() == engine.serial())
    );

    let states = engine.queue_states();
    let pools: HashMap<u32, _> = engine
        .pool_states()
        .into_iter()
        .map(|pool| (pool.id, pool))
        .collect();
    let cache = &states[0];
    assert_eq!(
        (cache.kind, cache.max_active, cache.min_active),
        (WorkqueueKind::Unbound, 10, 8)
    );
    for (cpu, pool) in cache.cpu_pool.iter().enumerate() {
        let pool = &pools[&pool.expect("every CPU has one")];
        assert_eq!(pool.kind, PoolFor::Unbound);
        assert_eq!(
            pool.pod,
            if cpu < 2 {
                CpuSet::from_iter([0, 1])
            } else {
                CpuSet::from_iter([2, 3])
            }
        );
        assert_eq!(pool.cpus, CpuSet::from_iter(0..4), "neighbours may help");
    }
    let default = &pools[&cache.default_pool.expect("an unbound queue has one")];
    assert_eq!(default.pod, CpuSet::from_iter(0..4));
    assert!(cache.rescuer.is_some());
    assert_eq!(cache.nodes.last().expect("of no node").max_active, 10);
    for (cpu, pool) in states[1].cpu_pool.iter().enumerate() {
        assert_eq!(
            pools[&pool.expect("every CPU has one")].kind,
            PoolFor::PerCpu(cpu)
        );
    }
    assert_eq!(states[1].default_pool, None);

    live[0]
        .set_attribute("affinity_scope", "system")
        .expect("possible");
    let moved = &engine.queue_states()[0];
    assert_eq!(moved.attrs.affinity_scope, AffinityScope::System);
    assert_eq!(moved.cpu_pool[0], moved.cpu_pool[3], "at once");
    drop((wq, other));
    assert!(engine.live_queues().is_empty());
    // It is gone; a handle from before shows what it was and harms nothing.
    assert_eq!(live[0].attribute("max_active"), Ok("10".to_owned()));
    live[0]
        .set_attribute("affinity_scope", "cpu")
        .expect("of no consequence");
}

#[test]
fn a_queues_counts_name_its_own_items_their_cpu_time_and_what_runs_now() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("counts", &engine);
    let wq = engine.workqueue("counted").build().expect("a queue");
    let state = || engine.queue_states().remove(0);
    engine.account_cpu_time();
    let stop = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(Completion::new());
    let (seen, running) = (stop.clone(), begun.clone());
    let spins = wq.spawn(move || {
        running.complete();
        while !seen.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    begun.wait();
    let runs = engine.pool_states().into_iter().flat_map(|pool| pool.runs);
    let runs: Vec<_> = runs.collect();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].queue, live(&engine, "counted").id());
    // It ends when its CPU time was seen.
    while state().stats.cpu_ns == 0 {
        assert!(engine.account_cpu_time(), "an item runs");
    }
    stop.store(true, Ordering::Relaxed);
    spins.join().expect("no panic");
    wq.flush().expect("not from an item");
    let stats = state().stats;
    assert_eq!((stats.started, stats.completed), (1, 1));
    assert_eq!(engine.stats().cpu_ns, stats.cpu_ns);
}

/// Two queues of one pool, and one worker's CPU time between them: what computes has it, what
/// sleeps has none, and all of it is charged.
#[test]
fn cpu_time_goes_to_those_who_compute() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("CPU time", &engine);
    let computes = engine
        .workqueue("computes")
        .per_cpu()
        .cpu_intensive()
        .build()
        .expect("a queue");
    let sleeps = engine
        .workqueue("sleeps")
        .per_cpu()
        .build()
        .expect("a queue");
    engine.account_cpu_time();
    let stop = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(Completion::new());
    let (seen, running) = (stop.clone(), begun.clone());
    let sleeper = sleeps.spawn(move || {
        running.complete();
        while !seen.load(Ordering::Relaxed) {
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
    });
    begun.wait();
    // So short that samples rarely find one running.
    let work = Work::new(|| {
        for _ in 0..100_000 {
            std::hint::spin_loop();
        }
    });
    let cpu_ns = || {
        let states = engine.queue_states();
        let of = |name: &str| {
            let state = states.iter().find(|state| state.name == name);
            state.expect("it is there").stats.cpu_ns
        };
        (of("computes"), of("sleeps"))
    };
    while cpu_ns().0 < 50_000_000 {
        let _ = computes.queue(&work);
        engine.account_cpu_time();
    }
    let (computing, sleeping) = cpu_ns();
    assert!(sleeping < computing / 5, "{computing} ns and {sleeping} ns");
    stop.store(true, Ordering::Relaxed);
    sleeper.join().expect("no panic");
}
