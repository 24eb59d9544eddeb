//! Cases 13 to 15: limits, and order under them.

use super::*;

#[test]
fn case_13_unbound_limits_are_those_of_the_nodes() {
    let engine = engine("numa:2 l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 13", &engine);
    // (max_active, active on one node at most): half of it, but no less than min_active = min(max_active, 8).
    for (max_active, on_one_node) in [(1, 1), (5, 5), (10, 8), (40, 20)] {
        let wq = engine
            .workqueue("t")
            .affinity_scope(AffinityScope::Numa)
            .max_active(max_active)
            .build()
            .unwrap();
        let doors = [Door::new(), Door::new()];
        let _items: Vec<_> = [0, 2]
            .into_iter()
            .zip(&doors)
            .map(|(cpu, door)| held(&wq, cpu, 50, door))
            .collect();
        for door in &doors {
            door.wait_for(on_one_node);
        }
        settle(&engine, &wq.attrs());
        for door in &doors {
            assert_eq!(
                door.arrived.load(Ordering::SeqCst),
                on_one_node,
                "max_active {max_active}"
            );
            door.open.complete();
        }
        wq.flush().unwrap();
    }
}

#[test]
fn case_13_pods_of_a_node_share_its_limit_and_no_credit_stays_behind() {
    let engine = engine("numa:1 l3:4 core:1 pu:1");
    let _deadline = Deadline::new("case 13", &engine);
    let wq = engine
        .workqueue("t")
        .affinity_scope(AffinityScope::Cache)
        .max_active(40)
        .build()
        .unwrap();
    for round in 0..20 {
        // Every pod has credits of its own after this.
        for cpu in 0..4 {
            let door = Door::new();
            door.open.complete();
            held(&wq, cpu, 10, &door);
        }
        wq.flush().unwrap();
        let (cpu, door) = (round % 4, Door::new());
        let _items = held(&wq, cpu, 60, &door);
        door.wait_for(40);
        settle(&engine, &wq.attrs());
        assert_eq!(door.arrived.load(Ordering::SeqCst), 40);
        door.open.complete();
        wq.flush().unwrap();
    }
}

#[test]
fn case_13_a_per_cpu_limit_is_for_each_cpu() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("case 13", &engine);
    for max_active in [1, 3] {
        let queue = engine.workqueue("t").per_cpu().max_active(max_active);
        let wq = queue.build().unwrap();
        let doors = [(); 4].map(|()| Door::new());
        let items = |cpu: usize| held(&wq, cpu, max_active + 5, &doors[cpu]);
        let _items: Vec<_> = (0..4).flat_map(items).collect();
        for door in &doors {
            door.wait_for(max_active);
        }
        settle_with(&engine, engine.workqueue("probe").per_cpu());
        // All four at their limit at the same time, and none above it.
        for door in &doors {
            assert_eq!(door.arrived(), max_active);
        }
        for cpu in 0..4 {
            assert!(wq.is_congested(cpu).unwrap());
        }
        // One CPU's credits do not serve another's items.
        doors[0].open.complete();
        eventually(|| !wq.is_congested(0).unwrap());
        settle_with(&engine, engine.workqueue("probe").per_cpu());
        for door in &doors[1..] {
            assert_eq!(door.arrived(), max_active);
            door.open.complete();
        }
        wq.flush().unwrap();
        assert!(doors.iter().all(|door| door.arrived() == max_active + 5));
    }
}

/// It is a share of no node.
#[test]
fn case_13_a_pool_with_cpus_of_several_nodes_has_the_whole_limit() {
    let engine = engine("numa:2 l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 13", &engine);
    let wq = engine
        .workqueue("t")
        .affinity_scope(AffinityScope::System)
        .max_active(40)
        .build()
        .unwrap();
    for cpu in [0, 2] {
        let door = Door::new();
        let _items = held(&wq, cpu, 50, &door);
        door.wait_for(40);
        settle(&engine, &wq.attrs());
        assert_eq!(door.arrived(), 40);
        door.open.complete();
        wq.flush().unwrap();
    }
}

#[test]
fn case_13_min_active_holds_on_every_node() {
    let engine = engine("numa:2 l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 13", &engine);
    let wq = engine
        .workqueue("t")
        .affinity_scope(AffinityScope::Numa)
        .max_active(20)
        .build()
        .unwrap();
    assert_eq!((wq.min_active(), wq.max_active()), (8, 20));
    // (min_active, active on one node): half of 20, or more if so much is promised to each.
    for (min_active, on_one_node) in [(1, 10), (15, 15), (99, 20)] {
        wq.set_min_active(min_active).unwrap();
        assert_eq!(wq.min_active(), min_active.min(20));
        let door = Door::new();
        let _items = held(&wq, 0, 30, &door);
        door.wait_for(on_one_node);
        settle(&engine, &wq.attrs());
        assert_eq!(door.arrived(), on_one_node, "min_active {min_active}");
        door.open.complete();
        wq.flush().unwrap();
    }
    // A lowered limit takes min_active with it, and a raised one does not bring it back.
    wq.set_max_active(3).unwrap();
    wq.set_max_active(20).unwrap();
    assert_eq!((wq.min_active(), wq.max_active()), (3, 20));
    let per_cpu = engine.workqueue("p").per_cpu().build().unwrap();
    let ordered = engine.workqueue("o").ordered().build().unwrap();
    for other in [per_cpu, ordered] {
        let refused = other.set_min_active(2);
        assert!(matches!(refused, Err(Error::Incompatible { .. })));
    }
}

#[test]
fn case_14_inactive_items_are_not_overtaken_when_the_limit_is_raised() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("case 14", &engine);
    // Nothing runs beside an item that computes, however long it takes.
    engine.set_cpu_intensive_threshold(Duration::ZERO);
    for round in 0..50 {
        let wq = engine.workqueue("t").max_active(1).build().unwrap();
        let door = Door::new();
        let first = held(&wq, 0, 1, &door);
        door.wait_for(1);
        let (next, late) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        // A pod of one CPU runs one item at a time, so what starts in order ends in order. They
        // take no lock: while one sleeps another may start.
        let push = |n: usize| {
            let (next, late) = (next.clone(), late.clone());
            drop(wq.spawn(move || {
                if next.fetch_add(1, Ordering::SeqCst) != n {
                    late.fetch_add(1, Ordering::SeqCst);
                }
            }));
        };
        (0..20).for_each(push);
        wq.set_max_active(1 + round % 7).unwrap();
        (20..40).for_each(push);
        wq.set_max_active(1024).unwrap();
        (40..60).for_each(push);
        door.open.complete();
        wq.flush().unwrap();
        assert_eq!(next.load(Ordering::SeqCst), 60);
        // An item that the system makes wait, for memory say, is overtaken.
        let (late, stats) = (late.load(Ordering::SeqCst), engine.stats());
        assert!(late == 0 || stats.blocked_seen > 0, "{late}: {stats:?}");
        drop(first);
    }
}

#[test]
fn case_14_raising_the_limit_lets_exactly_so_many_more_start() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("case 14", &engine);
    let wq = engine.workqueue("t").max_active(4).build().unwrap();
    let door = Door::new();
    let _items = held(&wq, 0, 30, &door);
    for limit in [4, 9, 12] {
        wq.set_max_active(limit).unwrap();
        door.wait_for(limit);
        settle(&engine, &wq.attrs());
        assert_eq!(door.arrived.load(Ordering::SeqCst), limit);
    }
    // Lowered: what is active stays, nothing starts before it has sunk below the limit.
    wq.set_max_active(2).unwrap();
    settle(&engine, &wq.attrs());
    assert_eq!(door.arrived.load(Ordering::SeqCst), 12);
    door.open.complete();
    wq.flush().unwrap();
    let door = Door::new();
    let _items = held(&wq, 0, 10, &door);
    door.wait_for(2);
    settle(&engine, &wq.attrs());
    assert_eq!(door.arrived.load(Ordering::SeqCst), 2);
    door.open.complete();
    wq.flush().unwrap();
}

#[test]
fn case_14_a_limit_raised_by_new_attributes_lets_waiting_items_start() {
    let engine = engine("numa:2 l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 14", &engine);
    // Strict, so that node 0 keeps its pool: its share grows from 32 to 43 when a CPU of node 1 is taken out.
    let wq = engine
        .workqueue("t")
        .affinity_scope(AffinityScope::Numa)
        .affinity_strict(true)
        .max_active(64)
        .build()
        .unwrap();
    let door = Door::new();
    let _items = held(&wq, 0, 50, &door);
    door.wait_for(32);
    let mut attrs = wq.attrs();
    attrs.cpumask = Some(CpuSet::from_iter([0, 1, 2]));
    wq.apply_attrs(attrs).unwrap();
    door.wait_for(43);
    settle(&engine, &wq.attrs());
    assert_eq!(door.arrived.load(Ordering::SeqCst), 43);
    door.open.complete();
    wq.flush().unwrap();
}

#[test]
fn case_14_a_limit_lowered_by_new_attributes_holds_at_once() {
    let engine = engine("numa:2 l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 14", &engine);
    let wq = engine
        .workqueue("t")
        .affinity_scope(AffinityScope::Numa)
        .affinity_strict(true)
        .cpumask(CpuSet::from_iter([0, 1, 2]))
        .max_active(64)
        .build()
        .unwrap();
    // Node 0 has held 43 credits; 32 is its share from here on.
    let door = Door::new();
    let _items = held(&wq, 0, 50, &door);
    door.wait_for(43);
    door.open.complete();
    wq.flush().unwrap();
    let mut attrs = wq.attrs();
    attrs.cpumask = None;
    wq.apply_attrs(attrs).unwrap();
    let door = Door::new();
    let _items = held(&wq, 0, 50, &door);
    door.wait_for(32);
    settle(&engine, &wq.attrs());
    assert_eq!(door.arrived.load(Ordering::SeqCst), 32);
    door.open.complete();
    wq.flush().unwrap();
}

#[test]
fn case_15_an_ordered_queue_keeps_its_order_through_100_changes_of_its_attributes() {
    let engine = engine("numa:2 l3:2 core:2 pu:1");
    let _deadline = Deadline::new("case 15", &engine);
    let wq = engine.workqueue("t").ordered().build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::new(AtomicUsize::new(0));
    let broken = Arc::new(Broken::default());
    let changing = AtomicBool::new(true);
    let produced = std::thread::scope(|scope| {
        let producer = scope.spawn(|| {
            let mut n = 0;
            while changing.load(Ordering::Relaxed) || n < 2_000 {
                let (seen, inside, broken) = (seen.clone(), inside.clone(), broken.clone());
                let me = n;
                let handle = wq.spawn(move || {
                    let others = inside.fetch_add(1, Ordering::SeqCst);
                    broken.expect(others == 0, || "two items overlap".into());
                    seen.lock().unwrap().push(me);
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
                if n % 64 == 63 {
                    handle.join().unwrap();
                }
                n += 1;
            }
            n
        });
        let mut random = Random::new(15);
        for _ in 0..100 {
            let bits = random.bits();
            wq.apply_attrs(WorkqueueAttrs {
                cpumask: Some((0..8).filter(|cpu| bits >> cpu & 1 == 1).collect()),
                affinity_strict: bits >> 8 & 1 == 1,
                nice: (bits >> 9) as i32 & 1,
                ..WorkqueueAttrs::default()
            })
            .unwrap();
        }
        changing.store(false, Ordering::Relaxed);
        producer.join().unwrap()
    });
    wq.flush().unwrap();
    broken.none();
    assert_eq!(*seen.lock().unwrap(), (0..produced).collect::<Vec<_>>());
    assert!(matches!(wq.set_max_active(2), Err(Error::OrderedMaxActive)));
}

#[test]
fn case_13_no_credit_is_lost_with_a_pod_whose_waiting_item_was_cancelled() {
    let engine = engine("numa:1 l3:2 core:1 pu:1");
    let _deadline = Deadline::new("case 13", &engine);
    let wq = engine
        .workqueue("t")
        .affinity_scope(AffinityScope::Cache)
        .max_active(1)
        .build()
        .unwrap();
    let door = Door::new();
    let _active = held(&wq, 0, 1, &door);
    door.wait_for(1);
    // The other pod waits for the one credit, and goes while it does.
    let waits = Work::new(|| ());
    assert!(wq.queue_on(1, &waits).unwrap().is_accepted());
    assert!(wq.is_congested(1).unwrap());
    assert!(waits.cancel());
    wq.apply_attrs(WorkqueueAttrs {
        affinity_strict: true,
        ..wq.attrs()
    })
    .unwrap();
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!(wq.spawn(|| 1).join().unwrap(), 1);
}

#[test]
fn case_15_an_ordered_queue_goes_on_when_its_waiting_item_was_cancelled_after_a_change() {
    let engine = engine("numa:1 l3:2 core:1 pu:1");
    let _deadline = Deadline::new("case 15", &engine);
    let wq = engine.workqueue("t").ordered().build().unwrap();
    let door = Door::new();
    let _active = held(&wq, 0, 1, &door);
    door.wait_for(1);
    let waits = Work::new(|| ());
    assert!(wq.queue_on(0, &waits).unwrap().is_accepted());
    assert!(wq.is_congested(0).unwrap());
    wq.apply_attrs(WorkqueueAttrs {
        affinity_strict: true,
        ..wq.attrs()
    })
    .unwrap();
    assert!(waits.cancel());
    door.open.complete();
    assert_eq!(wq.spawn(|| 1).join().unwrap(), 1);
}
