//! Case 26: freezing and thawing.

use super::*;

/// The kinds of queues that can be frozen, with a limit of two each but for the ordered one.
fn freezable(engine: &Engine) -> [Workqueue; 3] {
    let queue = |name| engine.workqueue(name).freezable();
    [
        queue("unbound").max_active(2).build().unwrap(),
        queue("per_cpu").per_cpu().max_active(2).build().unwrap(),
        queue("ordered").ordered().build().unwrap(),
    ]
}

/// Whatever may start has started.
fn settle_all(engine: &Engine) {
    settle_with(engine, engine.workqueue("probe"));
    settle_with(engine, engine.workqueue("probe").per_cpu());
}

#[test]
fn case_26_active_items_end_new_ones_wait_and_thawing_starts_them_in_order() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("case 26", &engine);
    engine.set_cpu_intensive_threshold(Duration::ZERO);
    for wq in freezable(&engine) {
        let places = if wq.name() == "ordered" { 1 } else { 2 };
        let (door, order) = (Door::new(), Arc::new(Mutex::new(Vec::new())));
        let push = |n: usize| {
            let order = order.clone();
            wq.spawn_on(0, move || order.lock().unwrap().push(n))
                .unwrap()
        };
        let first = wq.spawn_on(0, {
            let (door, order) = (door.clone(), order.clone());
            move || {
                door.pass_awake();
                order.lock().unwrap().push(0);
            }
        });
        door.wait_for(1);
        // Accepted before: the first of these has a credit, the others wait for one.
        let before: Vec<_> = (1..5).map(push).collect();
        engine.freeze_workqueues_begin();
        engine.freeze_workqueues_begin();
        assert!(engine.freeze_workqueues_busy());
        let after: Vec<_> = (5..50).map(push).collect();
        door.open.complete();
        eventually(|| !engine.freeze_workqueues_busy());
        settle_all(&engine);
        assert!(order.lock().unwrap().iter().copied().eq(0..places));
        assert!(wq.is_congested(0).unwrap());
        first.unwrap().join().unwrap();
        engine.thaw_workqueues();
        engine.thaw_workqueues();
        // Not by joining: this thread would run what it joins, before others.
        wq.flush().unwrap();
        for handle in before.into_iter().chain(after) {
            handle.join().unwrap();
        }
        assert!(order.lock().unwrap().iter().copied().eq(0..50));
        assert!(!engine.freeze_workqueues_busy());
    }
}

#[test]
fn case_26_flushing_what_is_frozen_waits_and_cancelling_does_not() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 26", &engine);
    for wq in freezable(&engine) {
        let runs = Arc::new(AtomicUsize::new(0));
        let [stays, goes, waited] = [(); 3].map(|()| counting(&runs));
        engine.freeze_workqueues_begin();
        for work in [&stays, &goes, &waited] {
            assert!(wq.queue_on(0, work).unwrap().is_accepted());
        }
        let flushed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                wq.flush().unwrap();
                flushed.fetch_add(1, Ordering::SeqCst);
            });
            scope.spawn(|| {
                waited.flush().unwrap();
                assert!(!waited.is_pending());
                flushed.fetch_add(1, Ordering::SeqCst);
            });
            assert!(goes.cancel());
            assert!(!goes.cancel_sync());
            settle_all(&engine);
            assert!(stays.is_pending() && !goes.is_pending());
            assert_eq!(flushed.load(Ordering::SeqCst), 0);
            assert_eq!(runs.load(Ordering::SeqCst), 0);
            engine.thaw_workqueues();
        });
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn case_26_other_queues_are_not_touched() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 26", &engine);
    let other = engine.workqueue("other").build().unwrap();
    engine.freeze_workqueues_begin();
    assert_eq!(other.spawn(|| 1).join().unwrap(), 1);
    assert!(!engine.freeze_workqueues_busy());
    engine.thaw_workqueues();
}

#[test]
fn case_26_a_queue_made_while_frozen_is_frozen_and_keeps_its_limit() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 26", &engine);
    engine.freeze_workqueues_begin();
    for wq in freezable(&engine) {
        let door = Door::new();
        let _held = held(&wq, 0, 10, &door);
        settle_all(&engine);
        assert_eq!(door.arrived(), 0);
        let mut limit = 1;
        if wq.name() != "ordered" {
            limit = 3;
            wq.set_max_active(limit).unwrap();
            settle_all(&engine);
            assert_eq!(door.arrived(), 0, "a new limit does not thaw");
        }
        assert_eq!(wq.max_active(), limit);
        engine.thaw_workqueues();
        door.wait_for(limit);
        settle_all(&engine);
        assert_eq!(door.arrived(), limit, "the limit that was set meanwhile");
        door.open.complete();
        wq.flush().unwrap();
        engine.freeze_workqueues_begin();
    }
    engine.thaw_workqueues();
}

#[test]
fn case_26_new_attributes_do_not_thaw() {
    let engine = engine("numa:2 l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 26", &engine);
    for ordered in [false, true] {
        let builder = engine.workqueue("t").freezable();
        let builder = if ordered { builder.ordered() } else { builder };
        let wq = builder.build().unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        engine.freeze_workqueues_begin();
        let works: Vec<Work> = (0..40).map(|_| counting(&runs)).collect();
        for (n, work) in works.iter().enumerate() {
            assert!(wq.queue_on(n % 4, work).unwrap().is_accepted());
            let mut attrs = wq.attrs();
            attrs.cpumask = Some(CpuSet::from_iter([n % 4]));
            wq.apply_attrs(attrs).unwrap();
        }
        settle_all(&engine);
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        assert!(!engine.freeze_workqueues_busy());
        engine.thaw_workqueues();
        wq.flush().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 40);
    }
}

#[test]
fn case_26_an_item_that_queues_itself_comes_to_rest() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 26", &engine);
    for wq in freezable(&engine) {
        let wq = Arc::new(wq);
        let (runs, me) = (Arc::new(AtomicUsize::new(0)), Arc::new(OnceLock::new()));
        let work = Work::new({
            let (runs, me, wq) = (runs.clone(), me.clone(), Arc::downgrade(&wq));
            move || {
                runs.fetch_add(1, Ordering::SeqCst);
                if let (Some(me), Some(wq)) = (me.get(), wq.upgrade()) {
                    let _ = wq.queue(me);
                }
            }
        });
        me.set(work.clone()).unwrap();
        assert!(wq.queue(&work).is_accepted());
        for round in 1..20 {
            eventually(|| runs.load(Ordering::SeqCst) > round * 10);
            engine.freeze_workqueues_begin();
            eventually(|| !engine.freeze_workqueues_busy());
            let at_rest = runs.load(Ordering::SeqCst);
            settle_all(&engine);
            assert_eq!(runs.load(Ordering::SeqCst), at_rest);
            engine.thaw_workqueues();
        }
        work.cancel_sync();
    }
}
