//! Cancelling, moving and waiting while the queue's pool workqueues come and go.

mod harness;

use cmwq::topology::CpuSet;
use cmwq::types::WorkqueueAttrs;
use cmwq::{DelayedWork, Work};
use harness::{Broken, Deadline, Door, counting, engine, held};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Attributes that need another pool than the previous CPU's.
fn on_cpu(cpu: usize) -> WorkqueueAttrs {
    WorkqueueAttrs {
        cpumask: Some(CpuSet::from_iter([cpu])),
        ..WorkqueueAttrs::default()
    }
}

#[test]
fn a_cancelled_item_that_waited_for_a_place_leaves_the_place_to_others() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a place", &engine);
    for ordered in [true, false] {
        let builder = engine.workqueue("t").attrs(on_cpu(0));
        let wq = if ordered {
            builder.ordered()
        } else {
            builder.max_active(1)
        };
        let wq = wq.build().unwrap();
        let door = Door::new();
        held(&wq, 0, 1, &door);
        door.wait_for(1);
        let count = Arc::default();
        let (waits, next) = (counting(&count), counting(&count));
        assert!(wq.queue(&waits).is_accepted());
        wq.apply_attrs(on_cpu(1)).unwrap();
        // It waited for a credit, and was the only item that kept its pool workqueue waiting.
        assert!(waits.cancel());
        assert!(wq.queue(&next).is_accepted());
        door.open.complete();
        wq.flush().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 1);
        // And the limit is what it was.
        assert!(wq.queue(&waits).is_accepted());
        wq.drain().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn cancel_sync_waits_for_a_run_on_the_pool_before_the_last() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("cancel_sync", &engine);
    let wq = engine
        .workqueue("t")
        .attrs(on_cpu(0))
        .ordered()
        .build()
        .unwrap();
    let (door, ended) = (Door::new(), Arc::new(AtomicBool::new(false)));
    let work = Work::new({
        let (door, ended) = (door.clone(), ended.clone());
        move || {
            door.pass();
            std::thread::sleep(Duration::from_millis(20));
            ended.store(true, Ordering::SeqCst);
        }
    });
    assert!(wq.queue(&work).is_accepted());
    door.wait_for(1);
    wq.apply_attrs(on_cpu(1)).unwrap();
    // An ordered queue's next instance does not go to the pool that runs the item, or it would overtake.
    assert!(wq.queue(&work).is_accepted());
    assert!(work.cancel());
    assert!(work.busy().running, "it runs where it was queued before");
    assert!(wq.queue(&work).is_accepted());
    door.open.complete();
    assert!(work.cancel_sync());
    assert!(
        ended.load(Ordering::SeqCst),
        "cancel_sync returned while the function ran"
    );
}

#[test]
fn an_item_that_requeues_itself_on_an_ordered_queue_keeps_its_turn_when_the_pool_changes() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("its turn", &engine);
    let wq = engine
        .workqueue("t")
        .attrs(on_cpu(0))
        .ordered()
        .build()
        .unwrap();
    let (door, seen) = (Door::new(), Arc::new(Mutex::new(String::new())));
    let noting = |name: char| {
        let (door, seen) = (door.clone(), seen.clone());
        Work::new(move || {
            seen.lock().unwrap().push(name);
            door.pass();
        })
    };
    let (one, two) = (noting('1'), noting('2'));
    assert!(wq.queue(&one).is_accepted());
    door.wait_for(1);
    wq.apply_attrs(on_cpu(1)).unwrap();
    assert!(wq.queue(&two).is_accepted());
    assert!(
        wq.queue(&one).is_accepted(),
        "it runs on the old pool, behind which is free"
    );
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!(*seen.lock().unwrap(), "121");
}

#[test]
fn an_item_that_is_sent_to_the_cpu_that_runs_it_goes_behind_what_was_queued_there_before() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("behind", &engine);
    let wq = engine.workqueue("t").bh().build().unwrap();
    let (door, seen) = (Door::new(), Arc::new(Mutex::new(String::new())));
    let noting = |name: char| {
        let (door, seen) = (door.clone(), seen.clone());
        Work::new(move || {
            seen.lock().unwrap().push(name);
            door.pass_awake();
        })
    };
    let (one, two) = (noting('1'), noting('2'));
    assert!(wq.queue_on(0, &one).unwrap().is_accepted());
    door.wait_for(1);
    assert!(wq.queue_on(0, &two).unwrap().is_accepted());
    assert!(wq.queue_on(1, &one).unwrap().is_accepted());
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!(*seen.lock().unwrap(), "121");
}

#[test]
fn an_item_that_is_moved_and_disabled_at_once_is_accounted_for() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("moved and disabled", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let work = DelayedWork::new({
        let runs = runs.clone();
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
        }
    });
    let hour = Duration::from_secs(3600);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = wq.mod_delayed(&work, hour);
            }
        });
        for _ in 0..20_000 {
            // Accepted, it is pending, and moving it keeps it so.
            let accepted = wq.queue_delayed(&work, hour).is_accepted();
            if accepted && !work.disable().removed_pending() {
                over.store(true, Ordering::Relaxed);
                panic!("it was pending and nobody has removed it");
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    drop(work.disable_sync());
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[test]
fn an_ordered_queue_keeps_its_order_while_its_pool_changes_for_one_cpu_after_the_other() {
    /// So many items may wait.
    const AHEAD: usize = 1_000;
    let engine = engine("l3:1 core:1024 pu:1");
    let _deadline = Deadline::new("one after the other", &engine);
    let wq = engine.workqueue("t").ordered().build().unwrap();
    let (last, broken) = (Arc::new(AtomicUsize::new(0)), Arc::new(Broken::default()));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for cpu in 0..500 {
                wq.apply_attrs(on_cpu(cpu % 2)).unwrap();
            }
            over.store(true, Ordering::Relaxed);
        });
        let mut number = 0;
        while !over.load(Ordering::Relaxed) {
            for cpu in [0, 1023] {
                // Some wait at each change, but no millions at the end.
                while number > last.load(Ordering::SeqCst) + AHEAD {
                    std::thread::yield_now();
                }
                number += 1;
                let (last, broken) = (last.clone(), broken.clone());
                let check = move || {
                    let before = last.swap(number, Ordering::SeqCst);
                    broken.expect(before + 1 == number, || {
                        format!("{number} ran after {before}")
                    });
                };
                drop(wq.spawn_on(cpu, check).unwrap());
            }
        }
    });
    wq.flush().unwrap();
    broken.none();
}
