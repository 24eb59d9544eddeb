//! The kinds of workqueues and what goes with each: what may be combined, system queues, BH, warnings of wrong use.

mod harness;

use cmwq::affinity::AffinityScope;
use cmwq::topology::{CpuSet, Topology};
use cmwq::{
    Engine, Error, FlushError, SystemWorkqueue, WQ_DFL_ACTIVE, WQ_MAX_ACTIVE, Work, Workqueue,
    WorkqueueBuilder, WorkqueueKind, current_work, in_memory_reclaim, run_on_cpu, run_on_each_cpu,
};
use harness::{
    Deadline, Door, Heard, counting, engine, eventually, held, in_own_process, own_name,
    settle_with, threads_named,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Change = fn(WorkqueueBuilder) -> WorkqueueBuilder;

#[test]
fn what_excludes_each_other_is_refused_and_named() {
    let engine = engine("l3:1 core:2 pu:1");
    let changes: [(&str, Change); 13] = [
        ("bh", |b| b.bh()),
        ("ordered", |b| b.ordered()),
        ("per_cpu", |b| b.per_cpu()),
        ("highpri", |b| b.highpri()),
        ("freezable", |b| b.freezable()),
        ("mem_reclaim", |b| b.mem_reclaim()),
        ("cpu_intensive", |b| b.cpu_intensive()),
        ("power_efficient", |b| b.power_efficient()),
        ("max_active", |b| b.max_active(7)),
        ("nice", |b| b.nice(3)),
        ("cpumask", |b| b.cpumask(CpuSet::from_iter([0]))),
        ("affinity_scope", |b| b.affinity_scope(AffinityScope::Numa)),
        ("affinity_strict", |b| b.affinity_strict(true)),
    ];
    let attributes = ["nice", "cpumask", "affinity_scope", "affinity_strict"];
    let excluded = |one: &str, other: &str| match (one, other) {
        ("bh", "per_cpu" | "highpri") => false,
        ("bh", _) => true,
        ("ordered", "per_cpu" | "power_efficient" | "max_active") => true,
        ("per_cpu" | "power_efficient", other) => attributes.contains(&other),
        ("highpri", "nice") => true,
        _ => false,
    };
    for (i, (one, first)) in changes.iter().enumerate() {
        assert!(first(engine.workqueue("t")).build().is_ok(), "{one} alone");
        for (other, second) in &changes[i + 1..] {
            // In either order.
            let both = [
                second(first(engine.workqueue("t"))),
                first(second(engine.workqueue("t"))),
            ];
            for built in both.map(WorkqueueBuilder::build) {
                match built {
                    Ok(_) => assert!(!excluded(one, other), "{one} and {other} went through"),
                    Err(Error::Incompatible { one: a, other: b }) => {
                        assert!(excluded(one, other), "{one} and {other}: refused");
                        assert_eq!((a, b), (*one, *other));
                    }
                    Err(Error::OrderedMaxActive) => {
                        assert_eq!((*one, *other), ("ordered", "max_active"));
                    }
                    Err(error) => panic!("{one} and {other}: {error}"),
                }
            }
        }
    }
    let text = engine.workqueue("t").bh().ordered().build().unwrap_err();
    assert_eq!(
        text.to_string(),
        "a workqueue cannot be both bh and ordered"
    );
}

#[test]
fn changes_that_a_kind_does_not_take_are_refused() {
    let engine = engine("l3:1 core:2 pu:1");
    let (unbound, per_cpu, bh, ordered) = (
        engine.workqueue("u").build().unwrap(),
        engine.workqueue("p").per_cpu().build().unwrap(),
        engine.workqueue("b").bh().build().unwrap(),
        engine.workqueue("o").ordered().build().unwrap(),
    );
    let kinds = [&unbound, &per_cpu, &bh, &ordered].map(|wq| wq.kind());
    assert_eq!(
        kinds,
        [
            WorkqueueKind::Unbound,
            WorkqueueKind::PerCpu,
            WorkqueueKind::Bh,
            WorkqueueKind::Ordered
        ]
    );
    assert_eq!(
        kinds.map(|kind| kind.to_string()),
        ["unbound", "percpu", "bh", "ordered"]
    );
    let attrs = unbound.attrs();
    let work = Work::new(|| ());
    for (name, wq) in [("per_cpu", &per_cpu), ("bh", &bh)] {
        for refused in [
            wq.apply_attrs(attrs.clone()),
            wq.set_min_active(3),
            wq.queue_on_node(0, &work).map(drop),
        ] {
            let error = refused.unwrap_err();
            assert!(
                matches!(error, Error::Incompatible { one, .. } if one == name),
                "{error}"
            );
        }
        assert!(!work.is_pending());
    }
    let error = bh.set_max_active(3).unwrap_err();
    assert!(matches!(
        error,
        Error::Incompatible {
            one: "bh",
            other: "max_active"
        }
    ));
    assert!(matches!(
        ordered.set_max_active(3),
        Err(Error::OrderedMaxActive)
    ));
    assert_eq!(
        (unbound.max_active(), ordered.max_active()),
        (WQ_DFL_ACTIVE, 1)
    );
    per_cpu.set_max_active(5).unwrap();
    assert_eq!(per_cpu.max_active(), 5);
}

#[test]
fn numbers_and_names_out_of_range_are_cut_with_a_warning() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let wq = engine.workqueue("t").max_active(WQ_MAX_ACTIVE + 1).build();
        let wq = wq.unwrap();
        assert_eq!((wq.max_active(), heard.count("2049")), (WQ_MAX_ACTIVE, 1));
        wq.set_max_active(4_000).unwrap();
        assert_eq!((wq.max_active(), heard.count("4000")), (WQ_MAX_ACTIVE, 1));
        wq.set_max_active(0).unwrap();
        assert_eq!(wq.max_active(), WQ_DFL_ACTIVE);
        // 30 bytes, and one letter of two that does not fit.
        let long = format!("{}äb", "x".repeat(30));
        let wq = engine.workqueue(&long).build().unwrap();
        assert_eq!((wq.name().len(), heard.count("is cut")), (30, 1));
        let error = engine.workqueue("t").nice(20).build().unwrap_err();
        assert!(matches!(error, Error::Nice(20)));
    });
}

#[test]
fn an_engine_that_saves_power_makes_its_power_efficient_queues_unbound() {
    for on in [false, true] {
        let engine = Engine::builder()
            .topology(Topology::from_synthetic("l3:1 core:2 pu:1").unwrap())
            .power_efficient(on)
            .build()
            .unwrap();
        let _deadline = Deadline::new("power", &engine);
        let expected = match on {
            true => WorkqueueKind::Unbound,
            false => WorkqueueKind::PerCpu,
        };
        let saves = engine.workqueue("s").power_efficient().workers_only();
        let saves = [
            saves.build(),
            engine
                .workqueue("s")
                .per_cpu()
                .power_efficient()
                .workers_only()
                .build(),
        ];
        for wq in saves.map(Result::unwrap) {
            assert_eq!(wq.kind(), expected);
            let name = wq.spawn_on(1, own_name).unwrap().join().unwrap();
            let prefix = if on { "kworker/u" } else { "kworker/1:" };
            assert!(name.starts_with(prefix), "{name}");
            assert_eq!(wq.set_min_active(3).is_ok(), on);
        }
        let per_cpu = engine.workqueue("p").per_cpu().build().unwrap();
        assert_eq!(per_cpu.kind(), WorkqueueKind::PerCpu);
    }
}

// ---- system queues ----

#[test]
fn system_queues_are_made_at_first_use_and_flushing_one_is_warned_of_once() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = Engine::global().unwrap();
        let _deadline = Deadline::new("system queues", &engine);
        assert_eq!(engine.stats().pools, 0, "nobody asked for one yet");
        let expected = [
            ("events", WorkqueueKind::PerCpu, 1024),
            ("events_highpri", WorkqueueKind::PerCpu, 1024),
            ("events_long", WorkqueueKind::PerCpu, 1024),
            ("events_unbound", WorkqueueKind::Unbound, 2048),
            ("events_dfl_long", WorkqueueKind::Unbound, 2048),
            ("events_freezable", WorkqueueKind::PerCpu, 1024),
            ("events_power_efficient", WorkqueueKind::PerCpu, 1024),
            (
                "events_freezable_pwr_efficient",
                WorkqueueKind::PerCpu,
                1024,
            ),
            ("events_bh", WorkqueueKind::Bh, 1024),
            ("events_bh_highpri", WorkqueueKind::Bh, 1024),
        ];
        let bh = SystemWorkqueue::Bh.get().unwrap();
        bh.flush().unwrap();
        assert_eq!(heard.count("whole process"), 0, "BH items are short");
        for (which, (name, kind, max_active)) in SystemWorkqueue::ALL.into_iter().zip(expected) {
            let wq = which.get().unwrap();
            assert_eq!((wq.name(), which.name(), wq.kind()), (name, name, kind));
            if kind != WorkqueueKind::Bh {
                assert_eq!(wq.max_active(), max_active, "{name}");
            }
            assert_eq!(wq.spawn(|| 5).join().unwrap(), 5);
            // Twice the same queue.
            wq.flush().unwrap();
            let again = which.get().unwrap();
            assert_eq!(again.counts(), (1, 1), "{name}");
            again.flush().unwrap();
        }
        assert_eq!(heard.count("whole process"), 1);
        assert!(threads_named("kworker/R-").is_empty(), "none has a rescuer");
        engine.freeze_workqueues_begin();
        for which in SystemWorkqueue::ALL {
            let frozen = which.name().contains("freezable");
            let handle = which.get().unwrap().spawn(|| ());
            if frozen {
                assert!(which.get().unwrap().is_congested(0).is_ok());
                settle_with(&engine, engine.workqueue("probe").per_cpu());
                assert!(!handle.is_finished(), "{which:?}");
            } else {
                handle.join().unwrap();
            }
        }
        engine.thaw_workqueues();
    });
}

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
                harness::quiet_panic();
            }
        });
        assert!(panicked.unwrap().is_err());
    });
}

// ---- BH ----

#[test]
fn bh_items_run_one_at_a_time_in_order_on_their_cpu() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("BH", &engine);
    let (normal, high) = (
        engine.workqueue("n").bh().build().unwrap(),
        engine.workqueue("h").bh().highpri().build().unwrap(),
    );
    for wq in [&normal, &high] {
        let inside = [(); 4].map(|()| Arc::new(AtomicUsize::new(0)));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let handles: Vec<_> = (0..2_000)
            .map(|n| {
                let (cpu, seen) = (n % 4, seen.clone());
                let inside = inside[cpu].clone();
                wq.spawn_on(cpu, move || {
                    let others = inside.fetch_add(1, Ordering::SeqCst);
                    seen.lock().unwrap().push((cpu, n));
                    // Gives others every chance to begin.
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    (others, own_name())
                })
                .unwrap()
            })
            .collect();
        for (n, handle) in handles.into_iter().enumerate() {
            let (others, name) = handle.join().unwrap();
            assert_eq!(others, 0, "two at a time");
            assert!(name.starts_with(&format!("kworker/b{}:", n % 4)), "{name}");
        }
        for cpu in 0..4 {
            let seen = seen.lock().unwrap();
            let of_cpu = seen.iter().filter(|(on, _)| *on == cpu).map(|(_, n)| *n);
            assert!(of_cpu.eq((cpu..2_000).step_by(4)), "CPU {cpu}: order");
        }
    }
    // An item that blocks, whether it says so or not, is replaced by nobody.
    let door = Door::new();
    let _held = held(&normal, 1, 1, &door);
    door.wait_for(1);
    let next = normal.spawn_on(1, || ()).unwrap();
    settle_with(&engine, engine.workqueue("probe").bh().highpri());
    assert!(!next.is_finished());
    assert_eq!(high.spawn_on(1, || 1).unwrap().join().unwrap(), 1);
    assert_eq!(normal.spawn_on(2, || 2).unwrap().join().unwrap(), 2);
    door.open.complete();
    next.join().unwrap();
}

#[cfg(debug_assertions)]
#[test]
fn a_bh_item_that_goes_to_sleep_is_named_once() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("BH sleeper", &engine);
        let wq = engine.workqueue("soft").bh().build().unwrap();
        let awake = Work::new(|| {
            std::hint::black_box(own_sum());
        });
        let sleeper = Work::new(|| std::thread::park_timeout(Duration::from_micros(100)));
        for _ in 0..20 {
            assert!(wq.queue(&awake));
            wq.flush().unwrap();
        }
        assert_eq!(heard.count("went to sleep"), 0);
        for _ in 0..5 {
            assert!(wq.queue(&sleeper));
            wq.flush().unwrap();
        }
        let told = heard.with("went to sleep");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("BH workqueue soft"), "{told:?}");
    });
}

#[cfg(debug_assertions)]
fn own_sum() -> u64 {
    (0..1_000).sum()
}

// ---- warnings of waits that may never end ----

#[test]
fn an_item_that_waits_for_its_own_queue_or_for_itself_is_told() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("own queue", &engine);
        let wq = Arc::new(engine.workqueue("own").build().unwrap());
        for _ in 0..3 {
            let inner = wq.clone();
            let results = wq.spawn(move || (inner.flush(), inner.drain()));
            let own = Err(FlushError::OwnItem);
            assert_eq!(results.join().unwrap(), (own, own));
        }
        assert_eq!(heard.count("waits for the whole queue"), 1);
        assert_eq!(heard.count("workqueue own"), 1);
        let me: Arc<std::sync::OnceLock<Work>> = Arc::default();
        let results = Arc::new(Mutex::new(Vec::new()));
        let work = Work::new({
            let (me, results) = (Arc::downgrade(&me), results.clone());
            move || {
                let me = me.upgrade().unwrap();
                let me = me.get().unwrap();
                let waited = (me.flush(), me.cancel_sync());
                results.lock().unwrap().push(waited);
                assert!(current_work().is_some());
            }
        });
        me.set(work.clone()).unwrap();
        for _ in 0..3 {
            assert!(wq.queue(&work));
            wq.flush().unwrap();
        }
        assert_eq!(*results.lock().unwrap(), [(false, false); 3]);
        assert_eq!(heard.count("flush was called from the item's own"), 1);
        assert_eq!(heard.count("cancel or disable with wait was called"), 1);
        assert_eq!(engine.stats().panics, 0);
        assert_eq!(current_work(), None);
    });
}

#[test]
fn waiting_for_a_queue_without_a_rescuer_is_warned_of_where_memory_is_freed() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("reclaim", &engine);
        let reclaim = engine.workqueue("frees").mem_reclaim().build().unwrap();
        let other = Arc::new(engine.workqueue("also").mem_reclaim().build().unwrap());
        let plain = Arc::new(engine.workqueue("plain").build().unwrap());
        let work = counting(&Arc::default());
        // No fault: what waits has no rescuer, or what is waited for has one, or nothing is waited for.
        let nested = engine.workqueue("nested").build().unwrap();
        let waits = plain.spawn(move || nested.flush().unwrap());
        waits.join().unwrap();
        let waits = reclaim.spawn({
            let (other, work) = (other.clone(), work.clone());
            move || {
                other.flush().unwrap();
                work.cancel_sync();
                work.flush();
            }
        });
        waits.join().unwrap();
        in_memory_reclaim(|| other.flush().unwrap());
        for wq in [&reclaim, &other, &plain] {
            wq.flush().unwrap();
        }
        assert_eq!(heard.count("rescuer"), 0);
        for _ in 0..3 {
            let inner = plain.clone();
            reclaim
                .spawn(move || inner.flush().unwrap())
                .join()
                .unwrap();
        }
        let told = heard.with("which has a rescuer, waits for");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("workqueue frees") && told[0].contains("workqueue plain"));
        // One item of such a queue is as bad.
        let door = Door::new();
        let held = held(&plain, 0, 1, &door);
        door.wait_for(1);
        std::thread::scope(|scope| {
            scope.spawn(|| in_memory_reclaim(|| held[0].flush()));
            eventually(|| heard.count("a thread that frees memory waits for") == 1);
            door.open.complete();
        });
        in_memory_reclaim(|| plain.flush().unwrap());
        assert_eq!(heard.count("a thread that frees memory waits for"), 1);
    });
}

// ---- queueing in other ways ----

#[test]
fn enable_and_queue_queues_with_the_last_reason_gone() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("enable and queue", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let work = counting(&runs);
    let (first, second) = (work.disable(), work.disable());
    assert!(!wq.enable_and_queue(first), "one reason is left");
    assert!(!work.is_pending());
    assert!(wq.enable_and_queue(second));
    wq.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
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
    let pool_of = |queue: &dyn Fn(&Work) -> Result<bool, Error>| {
        let name = Arc::new(Mutex::new(String::new()));
        let work = Work::new({
            let name = name.clone();
            move || *name.lock().unwrap() = own_name()
        });
        assert!(queue(&work).unwrap());
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
    let unknown = wq.queue_on_node(3, &Work::new(|| ())).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "there is no NUMA node 3; allowed: 0, 1, 2"
    );
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
        assert_eq!(heard.count("debug_force_rr_cpu"), 1);
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
