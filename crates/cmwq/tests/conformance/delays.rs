//! Cases 8, 9 and 27: delayed items, where they go, and what becomes of them when their queue is gone.

use super::*;

/// A delayed item that records which worker ran it.
fn naming() -> (Arc<Mutex<Vec<String>>>, DelayedWork) {
    let names = Arc::new(Mutex::new(Vec::new()));
    let work = DelayedWork::new({
        let names = names.clone();
        move || names.lock().unwrap().push(own_name())
    });
    (names, work)
}

fn ran_on(names: &Mutex<Vec<String>>, cpus: &[usize]) {
    let names = names.lock().unwrap();
    assert_eq!(names.len(), cpus.len(), "{names:?}");
    for (name, cpu) in names.iter().zip(cpus) {
        assert!(name.starts_with(&format!("kworker/{cpu}:")), "{names:?}");
    }
}

#[test]
fn case_08_moving_a_delayed_item_tells_whether_it_was_pending() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("case 8", &engine);
    let wq = engine.workqueue("t").max_active(1).build().unwrap();
    for delay in [Duration::ZERO, LONG] {
        let (door, ended) = (Door::new(), Arc::new(AtomicUsize::new(0)));
        let work = DelayedWork::new({
            let (door, ended) = (door.clone(), ended.clone());
            move || {
                door.pass();
                ended.fetch_add(1, Ordering::SeqCst);
            }
        });
        assert!(
            !wq.mod_delayed(&work, LONG).was_pending(),
            "idle: armed now"
        );
        assert!(
            wq.mod_delayed(&work, LONG).was_pending(),
            "on the timer: armed anew"
        );
        assert!(
            wq.mod_delayed(&work, Duration::ZERO).was_pending(),
            "and queued"
        );
        door.wait_for(1);
        assert!(!work.is_pending());
        assert!(
            !wq.mod_delayed(&work, delay).was_pending(),
            "running: one more instance"
        );
        assert!(work.is_pending());
        assert!(
            wq.mod_delayed(&work, Duration::ZERO).was_pending(),
            "queued or on the timer"
        );
        assert!(
            wq.mod_delayed(&work, LONG).was_pending(),
            "queued: on the timer again"
        );
        door.open.complete();
        wq.flush().unwrap();
        assert_eq!(ended.load(Ordering::SeqCst), 1);
        assert!(work.cancel(), "it still was on the timer");
    }
}

#[test]
fn case_08_a_disabled_delayed_item_is_not_moved() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("case 8", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let (names, work) = naming();
    assert!(wq.queue_delayed(&work, LONG).is_accepted());
    let guard = work.disable();
    assert!(guard.removed_pending());
    for delay in [Duration::ZERO, LONG] {
        assert!(!wq.mod_delayed(&work, delay).was_pending());
        assert!(!wq.queue_delayed(&work, delay).is_accepted());
        assert!(!work.is_pending());
    }
    assert!(guard.enable());
    wq.flush().unwrap();
    assert_eq!(names.lock().unwrap().len(), 0);
    assert!(!wq.mod_delayed(&work, Duration::ZERO).was_pending());
    assert!(work.flush().unwrap() || names.lock().unwrap().len() == 1);
}

#[test]
fn case_09_no_delay_needs_no_timer() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("case 9", &engine);
        let wq = engine.workqueue("t").per_cpu().build().unwrap();
        let (names, work) = naming();
        for _ in 0..100 {
            assert!(
                wq.queue_delayed_on(1, &work, Duration::ZERO)
                    .unwrap()
                    .is_accepted()
            );
            wq.flush().unwrap();
            assert!(
                !wq.mod_delayed_on(0, &work, Duration::ZERO)
                    .unwrap()
                    .was_pending()
            );
            wq.flush().unwrap();
        }
        ran_on(&names, &[1, 0].repeat(100));
        assert_eq!(threads_named("cmwq-timer"), [], "nobody asked for a timer");
        assert!(wq.queue_delayed(&work, LONG).is_accepted());
        eventually(|| threads_named("cmwq-timer").len() == 1);
        assert!(work.cancel());
    });
}

#[test]
fn case_09_only_a_delay_sets_the_target_that_a_timer_remembers() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("case 9", &engine);
    let wq = engine.workqueue("t").per_cpu().build().unwrap();
    let (names, work) = naming();
    // A flush fires the timer now, which shows its destination.
    assert!(wq.queue_delayed_on(2, &work, LONG).unwrap().is_accepted());
    assert!(
        !wq.queue_delayed_on(1, &work, Duration::ZERO)
            .unwrap()
            .is_accepted()
    );
    assert!(
        !wq.queue_delayed_on(3, &work, LONG).unwrap().is_accepted(),
        "pending: as it was"
    );
    assert_eq!(work.flush(), Ok(true));
    assert!(
        wq.queue_delayed_on(1, &work, Duration::ZERO)
            .unwrap()
            .is_accepted()
    );
    wq.flush().unwrap();
    assert!(wq.queue_delayed_on(2, &work, LONG).unwrap().is_accepted());
    assert!(wq.mod_delayed_on(3, &work, LONG).unwrap().was_pending());
    assert_eq!(work.flush(), Ok(true));
    assert!(wq.queue_delayed_on(2, &work, LONG).unwrap().is_accepted());
    assert!(
        wq.mod_delayed_on(1, &work, Duration::ZERO)
            .unwrap()
            .was_pending()
    );
    wq.flush().unwrap();
    ran_on(&names, &[2, 1, 3, 1]);
    // To another queue as well.
    let other = engine
        .workqueue("other")
        .per_cpu()
        .highpri()
        .build()
        .unwrap();
    assert!(wq.queue_delayed_on(2, &work, LONG).unwrap().is_accepted());
    assert!(other.mod_delayed_on(0, &work, LONG).unwrap().was_pending());
    assert_eq!(work.flush(), Ok(true));
    assert_eq!(other.counts().0, 1);
    ran_on(&names, &[2, 1, 3, 1, 0]);
}

#[test]
fn case_09_a_timer_that_fires_goes_to_its_target() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("case 9", &engine);
    let wq = engine.workqueue("t").per_cpu().build().unwrap();
    let (names, work) = naming();
    for cpu in 0..4 {
        let delay = Duration::from_millis(1);
        assert!(
            wq.queue_delayed_on(cpu, &work, delay)
                .unwrap()
                .is_accepted()
        );
        eventually(|| names.lock().unwrap().len() == cpu + 1);
        // Until its run has ended it would go behind that, not to its target.
        wq.flush().unwrap();
    }
    ran_on(&names, &[0, 1, 2, 3]);
}

/// Whoever fires or stops the timer does not matter.
#[test]
fn case_09_a_timer_without_a_target_goes_to_the_cpu_of_the_thread_that_armed_it() {
    let usable = rustix::thread::sched_getaffinity(None).unwrap();
    if !usable.is_set(0) || !usable.is_set(1) {
        return;
    }
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("case 9", &engine);
    let wq = engine.workqueue("t").per_cpu().build().unwrap();
    let (names, work) = naming();
    let on = |cpu: usize, does: &(dyn Fn() + Sync)| {
        let there = || {
            bind_to(&[cpu]);
            does();
        };
        std::thread::scope(|scope| scope.spawn(there).join().unwrap());
    };
    for (arms, flushes) in [(0, 1), (1, 0)] {
        // Without a delay it goes to the CPU of the caller, whatever number that has in this engine.
        for delay in [Duration::ZERO, LONG] {
            on(arms, &|| {
                assert!(wq.queue_delayed(&work, delay).is_accepted());
            });
            on(flushes, &|| {
                let _ = work.flush().unwrap();
            });
        }
    }
    let names = names.lock().unwrap();
    let cpus: Vec<_> = names.iter().map(|name| name.split(':').next()).collect();
    assert_eq!((cpus[0], cpus[2]), (cpus[1], cpus[3]));
    assert_ne!(cpus[0], cpus[2]);
}

#[test]
fn case_27_a_timer_whose_queue_is_gone_is_dropped_with_a_warning() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("case 27", &engine);
        let (names, work) = naming();
        let mut dropped = 0;
        // The queue may be slower to go than the timer to fire: then once more, with a later timer.
        for attempt in 1_u32.. {
            let wq = engine.workqueue("t").build().unwrap();
            assert!(
                wq.queue_delayed(&work, attempt * Duration::from_millis(2))
                    .is_accepted()
            );
            drop(wq);
            eventually(|| !work.is_pending());
            if names.lock().unwrap().len() < attempt as usize {
                dropped += 1;
                break;
            }
        }
        eventually(|| heard.count("was dropped") == dropped);
        // The item is idle and as good as new.
        let wq = engine.workqueue("t").build().unwrap();
        let before = names.lock().unwrap().len();
        assert!(wq.queue_delayed(&work, Duration::ZERO).is_accepted());
        wq.flush().unwrap();
        assert_eq!(names.lock().unwrap().len(), before + 1);
    });
}

#[test]
fn case_27_destroying_does_not_wait_for_a_timer_and_a_later_flush_finds_nothing() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 27", &engine);
    let (names, work) = naming();
    for _ in 0..100 {
        let wq = engine.workqueue("t").build().unwrap();
        assert!(wq.queue_delayed(&work, LONG).is_accepted());
        drop(wq);
        assert!(work.is_pending(), "the timer goes on");
        // Fires it now, with its queue gone.
        assert_eq!(work.flush(), Ok(false));
        assert!(!work.is_pending());
    }
    assert_eq!(names.lock().unwrap().len(), 0);
    let wq = engine.workqueue("t").build().unwrap();
    assert!(wq.queue_delayed(&work, LONG).is_accepted());
    drop(wq);
    assert!(work.cancel(), "and it can be taken off");
}
