//! Where an item goes that names no CPU, and which pool workqueue gets a free credit.

use crate::harness::{
    Deadline, Door, counting, engine, eventually, held, in_own_process, own_name, threads_named,
};
use cmwq::affinity::AffinityScope;
use cmwq::topology::CpuSet;
use cmwq::{Engine, Workqueue};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// A queue with a pod for each CPU, out of which none of its items goes.
fn pods(engine: &Engine, max_active: usize) -> Workqueue {
    engine
        .workqueue("t")
        .affinity_scope(AffinityScope::Cpu)
        .affinity_strict(true)
        .workers_only()
        .max_active(max_active)
        .build()
        .unwrap()
}

/// The pool of the worker that runs it.
fn pool() -> String {
    let name = own_name();
    name.split(':').next().unwrap_or_default().to_owned()
}

fn pool_of(wq: &Workqueue, cpu: usize) -> String {
    wq.spawn_on(cpu, pool).unwrap().join().unwrap()
}

/// For each way of queueing without a CPU: how many items ran in the pool of each CPU.
fn where_they_ran(wq: &Workqueue, pools: &HashMap<String, usize>) -> Vec<HashMap<usize, usize>> {
    const ITEMS: usize = 300;
    let ran = Arc::new(Mutex::new(Vec::new()));
    let one = || {
        let ran = ran.clone();
        move || ran.lock().unwrap().push(pool())
    };
    let took = || {
        wq.flush().unwrap();
        let mut counts = HashMap::new();
        for pool in std::mem::take(&mut *ran.lock().unwrap()) {
            let cpu = *pools.get(&pool).unwrap_or(&usize::MAX);
            *counts.entry(cpu).or_default() += 1;
        }
        assert_eq!(counts.values().sum::<usize>(), ITEMS);
        counts
    };
    let one_by_one = {
        (0..ITEMS).for_each(|_| wq.spawn(one()).join().unwrap());
        took()
    };
    // Without waiting in between: the thread's cached route must not decide.
    let spawned = {
        (0..ITEMS).for_each(|_| drop(wq.spawn(one())));
        took()
    };
    let executed = {
        (0..ITEMS).for_each(|_| wq.execute(one()).unwrap());
        took()
    };
    vec![one_by_one, spawned, executed]
}

#[test]
fn an_issuer_outside_the_mask_spreads_its_items_and_one_inside_keeps_them() {
    let engine = engine("l3:4 core:1 pu:1");
    let _deadline = Deadline::new("the mask", &engine);
    let wq = pods(&engine, 1024);
    engine
        .set_unbound_cpumask(&CpuSet::from_iter([1, 2]))
        .unwrap();
    let pools = HashMap::from([1, 2].map(|cpu| (pool_of(&wq, cpu), cpu)));
    assert_eq!(pools.len(), 2, "each has its own");
    for inside in [1, 2] {
        let _issuer = engine.become_issuer(inside).unwrap();
        for counts in where_they_ran(&wq, &pools) {
            assert_eq!(counts, HashMap::from([(inside, 300)]));
        }
    }
    for outside in [0, 3] {
        let _issuer = engine.become_issuer(outside).unwrap();
        for counts in where_they_ran(&wq, &pools) {
            let mut cpus: Vec<_> = counts.keys().copied().collect();
            cpus.sort_unstable();
            assert_eq!(cpus, [1, 2], "{counts:?}");
            // Round robin; other threads may take part in the same round.
            assert!(counts.values().all(|&items| items >= 100), "{counts:?}");
        }
        // An item queued on a named CPU ignores the mask.
        assert!(!pools.contains_key(&pool_of(&wq, outside)));
    }
    // Per-CPU items go to their issuer's CPU, whatever the mask for unbound items.
    let per_cpu = engine.workqueue("p").per_cpu().build().unwrap();
    let _issuer = engine.become_issuer(3).unwrap();
    for _ in 0..10 {
        assert_eq!(per_cpu.spawn(pool).join().unwrap(), "kworker/3");
    }
}

/// Whether all workers of the process but the calling one sleep.
fn others_sleep() -> bool {
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    threads_named("kworker/").into_iter().all(|(tid, _)| {
        let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status"));
        tid == own || status.is_ok_and(|status| status.contains("\nState:\tS"))
    })
}

#[test]
fn pool_workqueues_that_wait_for_a_place_take_turns() {
    const PODS: usize = 3;
    in_own_process(|| {
        let engine = engine("l3:3 core:1 pu:1");
        let _deadline = Deadline::new("turns", &engine);
        let wq = pods(&engine, 1);
        let ran = Arc::new(Mutex::new(Vec::new()));
        for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
            let door = Door::new();
            let _held = held(&wq, order[2], 1, &door);
            door.wait_for(1);
            // The pods have one, two and three items that wait.
            for (more, cpu) in order.into_iter().enumerate() {
                for n in 0..=more {
                    let ran = ran.clone();
                    let item = wq.spawn_on(cpu, move || {
                        // A worker that hands on a credit enters the pool workqueue in the line
                        // again afterwards.
                        eventually(others_sleep);
                        ran.lock().unwrap().push((cpu, n));
                    });
                    drop(item.unwrap());
                }
                // The item is accepted. The worker that accepts it then puts the pool workqueue in
                // line, behind those before it, and sleeps.
                assert!(wq.is_congested(cpu).unwrap());
                eventually(others_sleep);
            }
            door.open.complete();
            wq.flush().unwrap();
            let ran = std::mem::take(&mut *ran.lock().unwrap());
            let turns = (0..PODS).flat_map(|n| order[n..].iter().map(move |&cpu| (cpu, n)));
            assert_eq!(ran, turns.collect::<Vec<_>>(), "one each, in line");
        }
    });
}

#[test]
fn a_turn_that_nobody_needs_any_more_goes_to_the_next_in_line() {
    let engine = engine("l3:3 core:1 pu:1");
    let _deadline = Deadline::new("the next in line", &engine);
    let wq = pods(&engine, 1);
    for _ in 0..3 {
        let (door, cancelled, runs) = (Door::new(), Arc::default(), Arc::default());
        let _held = held(&wq, 0, 1, &door);
        door.wait_for(1);
        let works = [1, 2].map(|cpu| {
            let work = counting(if cpu == 1 { &cancelled } else { &runs });
            assert!(wq.queue_on(cpu, &work).unwrap().is_accepted());
            // Accepted: the pool workqueue waits in line.
            assert!(wq.is_congested(cpu).unwrap());
            work
        });
        assert!(works[0].cancel());
        door.open.complete();
        // Not by a flush, which visits all pool workqueues.
        eventually(|| runs.load(Ordering::SeqCst) == 1);
        assert_eq!(cancelled.load(Ordering::SeqCst), 0);
        // The limit is what it was.
        wq.flush().unwrap();
        assert!(wq.queue_on(0, &works[0]).unwrap().is_accepted());
        wq.flush().unwrap();
        assert_eq!(cancelled.load(Ordering::SeqCst), 1);
    }
}
