//! Queues on real threads: what is queued runs, once, where it may, and is waited for.

use crate::harness::{Deadline, engine};
use cmwq::affinity::AffinityScope;
use cmwq::{Completion, JoinError, Work, Workqueue};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

#[test]
fn a_queued_item_runs_and_flush_waits_for_it() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("flush", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let work = Work::new({
        let runs = runs.clone();
        move || {
            runs.fetch_add(1, Ordering::Relaxed);
        }
    });
    for round in 1..=1000 {
        assert!(wq.queue(&work).is_accepted(), "an idle item is accepted");
        wq.flush().unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), round);
    }
}

#[test]
fn spawn_returns_the_value_and_the_panic() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("spawn", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    assert_eq!(wq.spawn(|| 6 * 7).join().unwrap(), 42);
    let error = wq
        .spawn(|| -> u32 { panic!("no such thing") })
        .join()
        .unwrap_err();
    assert!(error.to_string().contains("no such thing"));
    // As `?` needs it in a function that returns such a box.
    let error: Box<dyn std::error::Error + Send + Sync> = error.into();
    let Ok(error) = error.downcast::<JoinError>() else {
        panic!("another error")
    };
    let JoinError::Panicked(payload) = *error else {
        panic!("{error}")
    };
    assert_eq!(payload.downcast_ref(), Some(&"no such thing"));
    assert!(payload.into_inner().is::<&str>());
    assert_eq!(
        wq.spawn(|| 1).join().unwrap(),
        1,
        "the pool goes on after a panic"
    );
    // A handle is completed before its worker has counted.
    wq.flush().unwrap();
    assert_eq!(engine.stats().panics, 1);
}

#[test]
fn dropping_a_queue_runs_everything_that_is_queued() {
    let engine = engine("l3:2 core:2 pu:1");
    let _deadline = Deadline::new("dropping", &engine);
    let runs = Arc::new(AtomicUsize::new(0));
    let wq = engine.workqueue("t").build().unwrap();
    for _ in 0..10_000 {
        let runs = runs.clone();
        drop(wq.spawn(move || runs.fetch_add(1, Ordering::Relaxed)));
    }
    drop(wq);
    assert_eq!(runs.load(Ordering::Relaxed), 10_000);
}

#[test]
fn an_ordered_queue_runs_one_at_a_time_in_order_through_attribute_changes() {
    let engine = engine("l3:2 core:2 pu:1");
    let _deadline = Deadline::new("ordered", &engine);
    let wq = engine.workqueue("t").ordered().build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::new(AtomicUsize::new(0));
    for n in 0..5_000 {
        let (seen, inside) = (seen.clone(), inside.clone());
        drop(wq.spawn(move || {
            assert_eq!(
                inside.fetch_add(1, Ordering::SeqCst),
                0,
                "two items of an ordered queue overlap"
            );
            seen.lock().unwrap().push(n);
            inside.fetch_sub(1, Ordering::SeqCst);
        }));
        if n % 50 == 0 {
            let mut attrs = wq.attrs();
            attrs.cpumask = Some(cmwq::topology::CpuSet::from_iter([n / 50 % 4]));
            wq.apply_attrs(attrs).unwrap();
        }
    }
    wq.flush().unwrap();
    assert_eq!(*seen.lock().unwrap(), (0..5_000).collect::<Vec<_>>());
}

#[test]
fn strict_items_stay_in_their_pod_and_the_pod_is_that_of_the_issuer() {
    let engine = engine("l3:2 core:1 pu:1");
    let _deadline = Deadline::new("strict", &engine);
    let wq = engine
        .workqueue("t")
        .affinity_scope(AffinityScope::Cache)
        .affinity_strict(true)
        .build()
        .unwrap();
    let real: Vec<usize> = (0..2)
        .map(|cpu| {
            let _issuer = engine.become_issuer(cpu).unwrap();
            current_cpu()
        })
        .collect();
    for (cpu, &home) in real.iter().enumerate() {
        let _issuer = engine.become_issuer(cpu).unwrap();
        let places: Vec<usize> = (0..500)
            .map(|_| wq.spawn(current_cpu).join().unwrap())
            .collect();
        assert!(
            places.iter().all(|&place| place == home),
            "an item left the pod of CPU {cpu}"
        );
    }
}

fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

#[test]
fn items_that_join_items_of_their_own_queue_do_not_deadlock() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("joins", &engine);
    let wq = Arc::new(engine.workqueue("t").build().unwrap());
    fn nest(wq: &Arc<Workqueue>, depth: usize) -> usize {
        if depth == 0 {
            return 0;
        }
        let inner = wq.clone();
        1 + wq.spawn(move || nest(&inner, depth - 1)).join().unwrap()
    }
    assert_eq!(nest(&wq, 50), 50);
}

#[test]
fn a_worker_that_blocks_without_saying_so_is_replaced() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("blocks", &engine);
    let wq = engine.workqueue("t").workers_only().build().unwrap();
    let (sender, receiver) = mpsc::channel::<u32>();
    // The only CPU's worker waits for a message of the second item: without the monitor it never ends.
    let waits = wq.spawn(move || receiver.recv().unwrap());
    let sends = wq.spawn(move || sender.send(7).unwrap());
    assert_eq!(waits.join().unwrap(), 7);
    sends.join().unwrap();
}

#[test]
fn a_worker_that_says_it_blocks_is_replaced() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("says it blocks", &engine);
    let wq = engine.workqueue("t").workers_only().build().unwrap();
    let (sender, receiver) = mpsc::channel::<u32>();
    let waits = wq.spawn(move || cmwq::blocking(|| cmwq::blocking(|| receiver.recv().unwrap())));
    let sends = wq.spawn(move || sender.send(7).unwrap());
    assert_eq!(waits.join().unwrap(), 7);
    sends.join().unwrap();
    wq.flush().unwrap();
    assert_eq!(
        wq.spawn(|| 1).join().unwrap(),
        1,
        "the count of running workers is right afterwards"
    );
}

#[test]
fn a_flooded_pod_is_helped_by_its_idle_neighbour() {
    let engine = engine("l3:2 core:1 pu:1");
    let _deadline = Deadline::new("helped", &engine);
    // Not beside one another as CPU hogs.
    engine.set_cpu_intensive_threshold(Duration::ZERO);
    let wq = engine
        .workqueue("t")
        .affinity_scope(AffinityScope::Cache)
        .workers_only()
        .build()
        .unwrap();
    let _issuer = engine.become_issuer(0).unwrap();
    let until = Arc::new(AtomicUsize::new(0));
    // Items end only when two workers run one each: without stealing this would never end.
    let handles: Vec<_> = (0..2)
        .map(|_| {
            let until = until.clone();
            wq.spawn(move || {
                until.fetch_add(1, Ordering::SeqCst);
                while until.load(Ordering::SeqCst) < 2 {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    for handle in handles {
        handle.join().unwrap();
    }
    assert!(engine.stats().stolen >= 1);
}

#[test]
fn an_item_may_requeue_itself_and_drain_waits_for_the_last() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("requeues itself", &engine);
    let wq = Arc::new(engine.workqueue("t").build().unwrap());
    let runs = Arc::new(AtomicUsize::new(0));
    let me: Arc<OnceLock<Work>> = Arc::new(OnceLock::new());
    let work = Work::new({
        let (wq, runs, me) = (Arc::downgrade(&wq), runs.clone(), me.clone());
        move || {
            if runs.fetch_add(1, Ordering::Relaxed) < 99 {
                assert!(wq.upgrade().unwrap().queue(me.get().unwrap()).is_accepted());
            }
        }
    });
    me.set(work.clone()).unwrap();
    assert!(wq.queue(&work).is_accepted());
    wq.drain().unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 100);
}

#[test]
fn max_active_is_never_exceeded_and_all_items_run() {
    let engine = engine("numa:2 l3:2 core:2 pu:1");
    let _deadline = Deadline::new("max_active", &engine);
    let wq = engine.workqueue("t").max_active(1).build().unwrap();
    // One per node: each node's share is at least min_active, which is 1 here.
    let active = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let total = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for cpu in 0..8 {
            let (engine, wq, active, total) = (&engine, &wq, &active, &total);
            scope.spawn(move || {
                let _issuer = engine.become_issuer(cpu).unwrap();
                for _ in 0..500 {
                    let (active, total) = (active.clone(), total.clone());
                    drop(wq.spawn(move || {
                        assert_eq!(
                            active[cpu / 4].fetch_add(1, Ordering::SeqCst),
                            0,
                            "node limit exceeded"
                        );
                        std::hint::spin_loop();
                        active[cpu / 4].fetch_sub(1, Ordering::SeqCst);
                        total.fetch_add(1, Ordering::SeqCst);
                    }));
                }
            });
        }
    });
    wq.flush().unwrap();
    assert_eq!(total.load(Ordering::SeqCst), 4_000);
    assert_eq!(engine.stats().panics, 0);
}

#[test]
fn a_completion_reused_at_once_is_safe() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("completion", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let done = Arc::new(Completion::new());
    let work = Work::new({
        let done = done.clone();
        move || done.complete()
    });
    for _ in 0..5_000 {
        done.reinit();
        assert!(wq.queue(&work).is_accepted());
        done.wait();
    }
}

#[test]
fn a_pod_whose_items_sleep_for_a_moment_each_gets_more_workers_and_loses_them_when_they_do_not() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("sleeps", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    // How many run at the same time, and the most there were.
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let batch = |sleeps: bool| {
        most.store(0, Ordering::SeqCst);
        for _ in 0..200 {
            let (now, most) = (now.clone(), most.clone());
            let item = move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                if sleeps {
                    // Over long before the monitor could tell that it sleeps.
                    std::thread::sleep(Duration::from_micros(500));
                }
                now.fetch_sub(1, Ordering::SeqCst);
            };
            drop(wq.spawn(item));
        }
        wq.flush().unwrap();
        most.load(Ordering::SeqCst)
    };
    while batch(true) < 5 {}
    while batch(false) > 1 {}
}
