//! Functions and items on a CPU or a node that is named, and what becomes of it where none is.

use crate::harness::{Deadline, Heard, engine, in_own_process, own_name};
use cmwq::affinity::AffinityScope;
use cmwq::raw::{run_on_cpu, run_on_each_cpu};
use cmwq::topology::Topology;
use cmwq::types::Queued;
use cmwq::{Engine, Error, Work, Workqueue};
use std::sync::{Arc, Mutex};

#[test]
fn a_function_can_be_run_on_a_cpu_and_on_each() {
    in_own_process(|| {
        let engine = Engine::builder()
            .topology(Topology::from_synthetic("l3:2 core:2 pu:1").unwrap())
            .build_global()
            .unwrap();
        let _deadline = Deadline::new("run on", &engine);
        for cpu in 0..4 {
            let name = run_on_cpu(cpu, own_name).unwrap().unwrap();
            assert!(name.starts_with(&format!("kworker/{cpu}:")), "{name}");
        }
        assert!(matches!(
            run_on_cpu(4, || ()),
            Err(Error::NoSuchCpu { cpu: 4, .. })
        ));
        let seen = Arc::new(Mutex::new(Vec::new()));
        run_on_each_cpu({
            let seen = seen.clone();
            move |cpu| seen.lock().unwrap().push((cpu, own_name()))
        })
        .unwrap()
        .unwrap();
        let mut seen = seen.lock().unwrap();
        seen.sort();
        assert_eq!(seen.len(), 4);
        for (cpu, name) in seen.iter() {
            assert!(name.starts_with(&format!("kworker/{cpu}:")), "{name}");
        }
        let panicked = run_on_each_cpu(|cpu| {
            if cpu == 2 {
                crate::harness::quiet_panic();
            }
        });
        assert!(panicked.unwrap().is_err());
    });
}

#[test]
fn items_can_be_queued_on_a_node() {
    let engine = engine("numa:3 l3:1 core:2 pu:1");
    let _deadline = Deadline::new("nodes", &engine);
    let wq = engine
        .workqueue("t")
        .affinity_scope(AffinityScope::Cpu)
        .affinity_strict(true)
        .build()
        .unwrap();
    let pool_of = |queue: &dyn Fn(&Work) -> Result<Queued, Error>| {
        let name = Arc::new(Mutex::new(String::new()));
        let work = Work::new({
            let name = name.clone();
            move || *name.lock().unwrap() = own_name()
        });
        assert!(queue(&work).unwrap().is_accepted());
        wq.flush().unwrap();
        let name = name.lock().unwrap();
        name.split(':').next().unwrap().to_owned()
    };
    let of_cpu: Vec<_> = (0..6)
        .map(|cpu| pool_of(&|work| wq.queue_on(cpu, work)))
        .collect();
    for node in 0..3 {
        let first = node as usize * 2;
        // From elsewhere: the node's first CPU. From the node: the caller's own.
        let _elsewhere = engine.become_issuer((first + 2) % 6).unwrap();
        assert_eq!(pool_of(&|work| wq.queue_on_node(node, work)), of_cpu[first]);
        let _there = engine.become_issuer(first + 1).unwrap();
        let own = pool_of(&|work| wq.queue_on_node(node, work));
        assert_eq!(own, of_cpu[first + 1]);
    }
    // Also from where unbound items may not run.
    engine.set_unbound_cpumask(&(0..5).collect()).unwrap();
    let _there = engine.become_issuer(5).unwrap();
    let masked = pool_of(&|work| wq.queue_on(5, work));
    assert_ne!(masked, pool_of(&|work| wq.queue_on(4, work)));
    assert_eq!(pool_of(&|work| wq.queue_on_node(2, work)), masked);
    let unknown = wq.queue_on_node(3, &Work::new(|| ())).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "there is no NUMA node 3; allowed: 0, 1, 2"
    );
}

#[test]
fn single_items_of_threads_outside_the_unbound_mask_do_not_meet_on_one_cpu() {
    let engine = engine("l3:4 core:1 pu:1");
    let _deadline = Deadline::new("round robin of threads", &engine);
    engine.set_unbound_cpumask(&(1..4).collect()).unwrap();
    let wq = engine
        .workqueue("t")
        .affinity_scope(AffinityScope::Cpu)
        .affinity_strict(true)
        .workers_only()
        .build()
        .unwrap();
    let pool_of = |name: String| name.split(':').next().unwrap().to_owned();
    let of_cpu = [1, 2, 3].map(|cpu| pool_of(wq.spawn_on(cpu, own_name).unwrap().join().unwrap()));
    let one = || {
        let _issuer = engine.become_issuer(0).unwrap();
        pool_of(wq.spawn(own_name).join().unwrap())
    };
    let went: Vec<String> = (0..6)
        .map(|_| std::thread::scope(|scope| scope.spawn(one).join().unwrap()))
        .collect();
    assert_eq!(went[..3], of_cpu);
    assert_eq!(went[3..], of_cpu);
}

#[test]
fn forced_round_robin_uses_every_cpu_and_says_so() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = Engine::builder()
            .topology(Topology::from_synthetic("l3:4 core:1 pu:1").unwrap())
            .debug_force_rr_cpu(true)
            .build()
            .unwrap();
        let _deadline = Deadline::new("round robin", &engine);
        engine.set_debug_force_rr_cpu(false).unwrap();
        engine.set_debug_force_rr_cpu(true).unwrap();
        assert_eq!(heard.count("debug_force_rr_cpu"), 1, "once in a process");
        let wq = engine
            .workqueue("t")
            .affinity_scope(AffinityScope::Cpu)
            .affinity_strict(true)
            .workers_only()
            .build()
            .unwrap();
        let _issuer = engine.become_issuer(2).unwrap();
        let pool = |wq: &Workqueue| {
            let name: String = wq.spawn(own_name).join().unwrap();
            name.split(':').next().unwrap().to_owned()
        };
        let pools: Vec<String> = (0..8).map(|_| pool(&wq)).collect();
        let mut distinct = pools[..4].to_vec();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), 4, "{pools:?}");
        assert_eq!(pools[..4], pools[4..], "in turn");
        // Not what names its CPU, and not per-CPU queues.
        let named = |_| wq.spawn_on(1, own_name).unwrap().join().unwrap();
        let named: Vec<String> = (0..4).map(named).collect();
        let first = named[0].split(':').next().unwrap().to_owned();
        assert!(
            named
                .iter()
                .all(|name| name.starts_with(&format!("{first}:")))
        );
        let per_cpu = engine.workqueue("p").per_cpu().build().unwrap();
        for _ in 0..4 {
            assert_eq!(pool(&per_cpu), "kworker/2");
        }
    });
}

#[test]
fn an_engine_mixes_kinds_of_cores_only_when_it_is_told_to() {
    let root = std::env::temp_dir().join(format!("cmwq-kinds-{}", std::process::id()));
    for (file, list) in [
        ("system/cpu/online", "0-15"),
        ("cpu_core/cpus", "0-7"),
        ("cpu_atom/cpus", "8-15"),
    ] {
        let file = root.join("devices").join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, list).unwrap();
    }
    let machine = Topology::from_sysfs(&root).unwrap();
    std::fs::remove_dir_all(&root).unwrap();
    let first_pod = |mix| {
        let builder = Engine::builder().topology(machine.clone());
        let builder = builder.cache_shard_size(16).mix_core_kinds(mix);
        let engine = builder.build().unwrap();
        let pods = engine.pods(AffinityScope::CacheShard);
        pods.pods()[0].cpus.to_string()
    };
    assert_eq!(
        (first_pod(false).as_str(), first_pod(true).as_str()),
        ("0-7", "0-15")
    );
}

#[test]
fn an_item_for_a_named_cpu_does_not_take_the_next_ones_along() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("the next ones", &engine);
    let _here = engine.become_issuer(0).unwrap();
    let wq = engine.workqueue("t").per_cpu().build().unwrap();
    let names = Arc::new(Mutex::new(Vec::new()));
    let work = Work::new({
        let names = names.clone();
        move || names.lock().unwrap().push(own_name())
    });
    for _ in 0..10 {
        names.lock().unwrap().clear();
        assert!(wq.queue_on(1, &work).unwrap().is_accepted());
        wq.flush().unwrap();
        assert!(wq.queue(&work).is_accepted());
        wq.flush().unwrap();
        let names = names.lock().unwrap();
        assert!(names[0].starts_with("kworker/1:"), "{names:?}");
        assert!(names[1].starts_with("kworker/0:"), "{names:?}");
    }
}
