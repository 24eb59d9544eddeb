//! Cases 17 and 18: one running item per CPU, and what counts as running.

use super::*;

/// A per-CPU queue on an engine that takes no item for a CPU hog.
fn per_cpu(engine: &Engine) -> Workqueue {
    engine.set_cpu_intensive_threshold(Duration::ZERO);
    engine.workqueue("t").per_cpu().build().unwrap()
}

#[test]
fn case_17_a_blocked_item_is_replaced_and_starts_no_third_when_it_comes_back() {
    let engine = engine_without_limit("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 17", &engine);
    let wq = per_cpu(&engine);
    // An item that the system makes wait, for memory say, is replaced as well.
    let undisturbed = || engine.stats().blocked_seen == 0;
    for _ in 0..20 {
        // The first computes, blocks, comes back, and computes again, each until told otherwise.
        let [begun, blocked, back] = [(); 3].map(|()| Door::new());
        let first = wq.spawn_on(1, {
            let (begun, blocked, back) = (begun.clone(), blocked.clone(), back.clone());
            move || {
                begun.pass_awake();
                blocked.pass();
                back.pass_awake();
            }
        });
        begun.wait_for(1);
        let (second_door, third_door) = (Door::new(), Door::new());
        let awake = |door: &Arc<Door>| {
            let door = door.clone();
            wq.spawn_on(1, move || door.pass_awake()).unwrap()
        };
        let second = awake(&second_door);
        settle_elsewhere(&wq);
        assert!(
            second_door.arrived() == 0 || !undisturbed(),
            "the first one computes"
        );
        begun.open.complete();
        second_door.wait_for(1);
        assert!(
            blocked.arrived() == 1 || !undisturbed(),
            "the second one starts at once"
        );
        let third = awake(&third_door);
        blocked.open.complete();
        back.wait_for(1);
        // Two run now, one too many: nothing starts until both have ended.
        settle_elsewhere(&wq);
        assert!(
            third_door.arrived() == 0 || !undisturbed(),
            "a third one beside two"
        );
        second_door.open.complete();
        second.join().unwrap();
        settle_elsewhere(&wq);
        assert!(
            third_door.arrived() == 0 || !undisturbed(),
            "a third one beside the first"
        );
        back.open.complete();
        first.unwrap().join().unwrap();
        third_door.wait_for(1);
        third_door.open.complete();
        third.join().unwrap();
        wq.flush().unwrap();
    }
    assert!(
        engine.stats().cm_wakeups >= 20 || !undisturbed(),
        "each block is counted"
    );
}

/// Time for an item to start wrongly: many items run on the other CPU.
fn settle_elsewhere(wq: &Workqueue) {
    for _ in 0..20 {
        wq.spawn_on(0, || ()).unwrap().join().unwrap();
    }
}

#[test]
fn case_17_an_item_that_computes_is_left_alone_on_its_cpu() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 17", &engine);
    let wq = per_cpu(&engine);
    let (door, order) = (Door::new(), Arc::new(Mutex::new(Vec::new())));
    let first = wq.spawn_on(1, {
        let door = door.clone();
        move || door.pass_awake()
    });
    door.wait_for(1);
    let push = |n: usize| {
        let order = order.clone();
        wq.spawn_on(1, move || order.lock().unwrap().push(n))
            .unwrap()
    };
    let handles: Vec<_> = (0..50).map(push).collect();
    settle_elsewhere(&wq);
    assert_eq!(order.lock().unwrap().len(), 0);
    door.open.complete();
    first.unwrap().join().unwrap();
    for handle in handles {
        handle.join().unwrap();
    }
    let (mut order, stats) = (order.lock().unwrap(), engine.stats());
    // An item that the system makes wait, for memory say, is overtaken.
    if stats.blocked_seen > 0 {
        order.sort_unstable();
    }
    assert_eq!(*order, (0..50).collect::<Vec<_>>(), "{stats:?}");
}

#[test]
fn case_17_an_item_that_blocks_without_saying_so_is_found() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 17", &engine);
    let wq = per_cpu(&engine);
    let (send, receive) = std::sync::mpsc::channel();
    // Not cmwq's own wait, so undeclared.
    let first = wq.spawn_on(1, move || receive.recv().unwrap()).unwrap();
    let second = wq.spawn_on(1, || 2).unwrap();
    assert_eq!(second.join().unwrap(), 2);
    assert!(!first.is_finished());
    send.send(1).unwrap();
    assert_eq!(first.join().unwrap(), 1);
    assert!(engine.stats().blocked_seen >= 1);
}

#[test]
fn case_17_items_declared_cpu_intensive_do_not_hold_others_up() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 17", &engine);
    engine.set_cpu_intensive_threshold(Duration::ZERO);
    let hogs = engine.workqueue("hogs").per_cpu().cpu_intensive();
    let (hogs, wq) = (hogs.build().unwrap(), per_cpu(&engine));
    let door = Door::new();
    let handles: Vec<_> = (0..3)
        .map(|_| {
            let door = door.clone();
            hogs.spawn_on(1, move || door.pass_awake()).unwrap()
        })
        .collect();
    door.wait_for(3);
    assert_eq!(wq.spawn_on(1, || 4).unwrap().join().unwrap(), 4);
    door.open.complete();
    for handle in handles {
        handle.join().unwrap();
    }
    // Their start is regulated all the same: not while another item runs.
    let (first, second) = (Door::new(), Door::new());
    let running = wq.spawn_on(1, {
        let first = first.clone();
        move || first.pass_awake()
    });
    first.wait_for(1);
    let hog = hogs.spawn_on(1, {
        let second = second.clone();
        move || second.pass_awake()
    });
    settle_elsewhere(&wq);
    assert_eq!(second.arrived(), 0);
    first.open.complete();
    second.wait_for(1);
    second.open.complete();
    running.unwrap().join().unwrap();
    hog.unwrap().join().unwrap();
}

/// One item computes until the next has started beside it. Its function is the same every time, and
/// for every queue.
fn hog_until_the_next_starts(wq: &Workqueue) {
    let (door, beside) = (Door::new(), Door::new());
    beside.open.complete();
    let hog = hog(wq, &door);
    let next = wq.spawn_on(1, {
        let beside = beside.clone();
        move || beside.pass()
    });
    beside.wait_for(1);
    assert!(!hog.is_finished(), "beside it, not after it");
    door.open.complete();
    hog.join().unwrap();
    next.unwrap().join().unwrap();
    // A handle tells of the function's end. The engine gives room beside a hog until its worker has
    // told the pool of it.
    wq.flush().unwrap();
}

fn hog(wq: &Workqueue, door: &Arc<Door>) -> cmwq::JoinHandle<()> {
    let inside = door.clone();
    let hog = wq.spawn_on(1, move || inside.pass_awake()).unwrap();
    door.wait_for(1);
    hog
}

#[test]
fn case_18_an_item_over_the_threshold_gets_company_and_a_report_now_and_then() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("case 18", &engine);
        assert_eq!(engine.cpu_intensive_threshold(), Duration::from_millis(10));
        assert_eq!(engine.cpu_intensive_warning_threshold(), 4);
        engine.set_cpu_intensive_threshold(Duration::from_millis(1));
        let wq = engine.workqueue("hogs").per_cpu().build().unwrap();
        for count in 1..=11 {
            hog_until_the_next_starts(&wq);
            assert_eq!(engine.stats().cpu_intensive, count);
        }
        eventually(|| heard.count("11 times") == 1);
        let told = heard.with("used the CPU for more than 1000 us");
        let at = |n: usize| told[n].contains(&format!(" {} times", [4, 5, 7, 11][n]));
        assert!(told.len() == 4 && (0..4).all(at), "{told:?}");
        assert!(told.iter().all(|text| text.contains("workqueue hogs")));
        // Counted for ever, but not reported any more.
        engine.set_cpu_intensive_warning_threshold(0);
        for _ in 12..=19 {
            hog_until_the_next_starts(&wq);
        }
        // Another function has a count of its own: the report on it comes after those on the hog
        // would have come.
        engine.set_cpu_intensive_warning_threshold(1);
        let (door, stop) = (Door::new(), Arc::new(AtomicBool::new(false)));
        let other = wq.spawn_on(1, {
            let (door, stop) = (door.clone(), stop.clone());
            move || {
                door.arrived.fetch_add(1, Ordering::SeqCst);
                while !stop.load(Ordering::Relaxed) {}
            }
        });
        door.wait_for(1);
        let next = wq.spawn_on(1, || ()).unwrap();
        eventually(|| heard.count("1000 us 1 times") == 1);
        stop.store(true, Ordering::Relaxed);
        other.unwrap().join().unwrap();
        next.join().unwrap();
        assert_eq!(heard.count("used the CPU for more than"), 5);
    });
}

/// CPU time that the calling thread has used.
fn own_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn case_18_no_threshold_means_no_hog() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 18", &engine);
    engine.set_cpu_intensive_threshold(Duration::ZERO);
    let per_cpu = engine.workqueue("p").per_cpu().build().unwrap();
    let unbound = engine
        .workqueue("u")
        .affinity_scope(AffinityScope::Cpu)
        .affinity_strict(true)
        .build()
        .unwrap();
    for wq in [per_cpu, unbound] {
        let (begun, beside) = (Door::new(), Arc::new(AtomicBool::new(false)));
        let hog = wq.spawn_on(1, {
            let (begun, beside) = (begun.clone(), beside.clone());
            move || {
                let from = own_cpu_time();
                begun.pass_awake();
                // Far longer than the usual threshold.
                while own_cpu_time() < from + Duration::from_millis(50) {}
                beside.load(Ordering::SeqCst)
            }
        });
        begun.wait_for(1);
        let next = wq.spawn_on(1, move || beside.store(true, Ordering::SeqCst));
        begun.open.complete();
        assert!(!hog.unwrap().join().unwrap(), "another one ran beside it");
        next.unwrap().join().unwrap();
    }
    assert_eq!(engine.stats().cpu_intensive, 0);
}

#[test]
fn case_18_a_strict_pod_of_one_cpu_is_like_a_per_cpu_queue() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("case 18", &engine);
        engine.set_cpu_intensive_warning_threshold(1);
        let wq = engine
            .workqueue("u")
            .affinity_scope(AffinityScope::Cpu)
            .affinity_strict(true)
            .workers_only()
            .build()
            .unwrap();
        for count in 1..=4 {
            hog_until_the_next_starts(&wq);
            assert_eq!(engine.stats().cpu_intensive, count);
        }
        // An unbound queue is what the warning advises.
        assert_eq!(heard.count("used the CPU"), 0);
    });
}
