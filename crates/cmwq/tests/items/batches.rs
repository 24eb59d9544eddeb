//! Batch submission: `queue_batch`, `execute_batch`, `spawn_batch`. All that holds for items that
//! are queued one by one holds for those of a batch.

use crate::harness::{Alive, Broken, Deadline, Door, counting, engine, hold, quiet_panic};
use cmwq::types::Queued;
use cmwq::{Engine, JoinError, Refused, Work, Workqueue, WorkqueueBuilder};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// More than two publishes, and the last one not full.
const MANY: usize = 300;

fn every_kind(engine: &Engine) -> Vec<Workqueue> {
    let kinds: [fn(WorkqueueBuilder) -> WorkqueueBuilder; 5] = [
        |builder| builder,
        |builder| builder.max_active(3),
        WorkqueueBuilder::ordered,
        WorkqueueBuilder::per_cpu,
        WorkqueueBuilder::bh,
    ];
    let build =
        |kind: fn(WorkqueueBuilder) -> WorkqueueBuilder| kind(engine.workqueue("t")).build();
    kinds.map(|kind| build(kind).unwrap()).into()
}

#[test]
fn every_item_of_a_batch_runs_once_on_every_kind_of_queue() {
    for topology in ["l3:1 core:2 pu:1", "l3:2 core:1 pu:1", "l3:1 core:1 pu:1"] {
        let engine = engine(topology);
        let _deadline = Deadline::new("every kind", &engine);
        for wq in every_kind(&engine) {
            let counts: Vec<_> = (0..MANY).map(|_| Arc::new(AtomicUsize::new(0))).collect();
            let works: Vec<Work> = counts.iter().map(counting).collect();
            for round in 1..=20 {
                let queued = wq.queue_batch(&works);
                assert!(
                    queued.is_complete() && queued.accepted() == MANY,
                    "{queued:?}"
                );
                wq.flush().unwrap();
                let ran = |count: &Arc<AtomicUsize>| count.load(Ordering::SeqCst) == round;
                assert!(counts.iter().all(ran), "{:?}", wq.kind());
            }
        }
    }
}

#[test]
fn an_empty_batch_and_one_of_a_single_item_are_batches_too() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("small ones", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    assert_eq!(wq.queue_batch(&[]).accepted(), 0);
    assert_eq!(wq.execute_batch(std::iter::empty::<fn()>()), Ok(0));
    assert!(wq.spawn_batch(std::iter::empty::<fn()>()).is_empty());
    let count = Arc::new(AtomicUsize::new(0));
    assert_eq!(wq.queue_batch(&[counting(&count)]).accepted(), 1);
    let counter = count.clone();
    let once = move || {
        counter.fetch_add(1, Ordering::SeqCst);
    };
    assert_eq!(wq.execute_batch([once]), Ok(1));
    for handle in wq.spawn_batch([|| 7]) {
        assert_eq!(handle.join().unwrap(), 7);
    }
    wq.flush().unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[test]
fn an_ordered_queue_keeps_the_order_of_batches_of_different_functions() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("an order", &engine);
    let wq = engine.workqueue("t").ordered().build().unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    let works: Vec<Work> = (0..MANY)
        .map(|index| {
            let log = log.clone();
            // Runs of one function, of some lengths: items that differ are published in different ways.
            match index / 7 % 3 {
                0 => Work::new(move || log.lock().unwrap().push(index)),
                1 => Work::new(move || log.lock().unwrap().extend([index])),
                _ if index % 2 == 0 => Work::new(move || log.lock().unwrap().insert(index, index)),
                _ => Work::new(move || log.lock().unwrap().extend(std::iter::once(index))),
            }
        })
        .collect();
    for _ in 0..20 {
        assert!(wq.queue_batch(&works).is_complete());
        wq.flush().unwrap();
        let order = std::mem::take(&mut *log.lock().unwrap());
        assert_eq!(order, (0..MANY).collect::<Vec<_>>());
    }
    let closures = (0..MANY).map(|index| {
        let log = log.clone();
        move || log.lock().unwrap().push(index)
    });
    assert_eq!(wq.execute_batch(closures), Ok(MANY));
    wq.flush().unwrap();
    assert_eq!(*log.lock().unwrap(), (0..MANY).collect::<Vec<_>>());
}

#[test]
fn it_is_told_which_items_were_not_accepted_and_why() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("fates", &engine);
    let wq = engine.workqueue("t").max_active(1).build().unwrap();
    let counts: Vec<_> = (0..MANY).map(|_| Arc::new(AtomicUsize::new(0))).collect();
    let works: Vec<Work> = counts.iter().map(counting).collect();
    let door = hold(&wq, 1);
    let disabled = works[2].disable();
    assert!(wq.queue(&works[200]).is_accepted());
    let mut batch = works.clone();
    batch[5] = works[4].clone();
    let queued = wq.queue_batch(&batch);
    let rest = [
        (2, Queued::Disabled),
        (5, Queued::AlreadyPending),
        (200, Queued::AlreadyPending),
    ];
    assert_eq!(queued.not_accepted(), rest);
    assert_eq!(queued.accepted(), MANY - 3);
    assert!(!queued.is_complete());
    // One of them is taken back.
    assert!(works[7].cancel());
    door.open.complete();
    wq.flush().unwrap();
    assert!(disabled.enable());
    let idle = |(index, count): (usize, &Arc<AtomicUsize>)| {
        (count.load(Ordering::SeqCst) == 0).then_some(index)
    };
    let idle: Vec<usize> = counts.iter().enumerate().filter_map(idle).collect();
    assert_eq!(idle, [2, 5, 7]);
}

#[test]
fn max_active_holds_for_batches() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("a limit", &engine);
    let wq = engine.workqueue("t").max_active(2).build().unwrap();
    let (active, broken) = (Arc::new(AtomicUsize::new(0)), Arc::new(Broken::default()));
    let works: Vec<Work> = (0..MANY)
        .map(|_| {
            let (active, broken) = (active.clone(), broken.clone());
            Work::new(move || {
                let now = active.fetch_add(1, Ordering::SeqCst) + 1;
                broken.expect(now <= 2, || format!("{now} at once"));
                std::thread::yield_now();
                active.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    for _ in 0..5 {
        assert!(wq.queue_batch(&works).is_complete());
        wq.flush().unwrap();
    }
    broken.none();
}

#[test]
fn items_that_several_threads_queue_in_batches_never_run_twice_at_once() {
    for topology in ["l3:1 core:2 pu:1", "l3:2 core:1 pu:1"] {
        let engine = engine(topology);
        let _deadline = Deadline::new("re-entrance", &engine);
        let wq = engine.workqueue("t").build().unwrap();
        let broken = Arc::new(Broken::default());
        let runs = Arc::new(AtomicUsize::new(0));
        let works: Vec<Work> = (0..100)
            .map(|index| {
                let (broken, runs, runs_now) =
                    (broken.clone(), runs.clone(), AtomicBool::new(false));
                Work::new(move || {
                    let twice = runs_now.swap(true, Ordering::SeqCst);
                    broken.expect(!twice, || format!("item {index} ran twice at once"));
                    runs.fetch_add(1, Ordering::SeqCst);
                    runs_now.store(false, Ordering::SeqCst);
                })
            })
            .collect();
        let accepted = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for issuer in 0..3 {
                let (wq, works, accepted) = (&wq, &works, &accepted);
                scope.spawn(move || {
                    for _ in 0..300 {
                        let queued = match issuer {
                            0 => wq.queue_batch(works).accepted(),
                            1 => wq.queue_batch(&works[40..60]).accepted(),
                            _ => works
                                .iter()
                                .filter(|work| wq.queue(work).is_accepted())
                                .count(),
                        };
                        accepted.fetch_add(queued, Ordering::SeqCst);
                    }
                });
            }
        });
        wq.flush().unwrap();
        broken.none();
        assert_eq!(runs.load(Ordering::SeqCst), accepted.load(Ordering::SeqCst));
    }
}

#[test]
fn closures_of_a_batch_run_once_and_are_dropped_once() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("closures", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let (alive, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..50 {
        let small = (0..MANY).map(|_| {
            let (alive, ran) = (Alive::new(&alive), ran.clone());
            move || {
                let _alive = alive;
                ran.fetch_add(1, Ordering::SeqCst);
            }
        });
        assert_eq!(wq.execute_batch(small), Ok(MANY));
        let large = (0..MANY).map(|_| {
            let (alive, ran, padding) = (Alive::new(&alive), ran.clone(), [1; 30]);
            move || {
                let _alive = alive;
                ran.fetch_add(padding[3], Ordering::SeqCst);
            }
        });
        assert_eq!(wq.execute_batch(large), Ok(MANY));
    }
    wq.flush().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 100 * MANY);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    let (started, completed) = wq.counts();
    assert_eq!((started, completed), (100 * MANY as u64, 100 * MANY as u64));
}

#[test]
fn the_handles_of_a_batch_are_in_its_order() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("handles", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    for _ in 0..20 {
        let handles = wq.spawn_batch((0..MANY).map(|index| {
            move || match index {
                11 => quiet_panic(),
                _ => vec![index; 3],
            }
        }));
        assert_eq!(handles.len(), MANY);
        for (index, handle) in handles.into_iter().enumerate() {
            match handle.join() {
                Ok(result) => assert_eq!(result, [index; 3]),
                Err(JoinError::Panicked(_)) => assert_eq!(index, 11),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_draining_queue_takes_no_batch() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a drain", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let (alive, count) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let works: Vec<Work> = (0..MANY).map(|_| counting(&count)).collect();
    let door = hold(&wq, 1);
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| wq.drain().unwrap());
        while wq.execute(|| {}).is_ok() {
            std::thread::yield_now();
        }
        let queued = wq.queue_batch(&works);
        assert_eq!(queued.accepted(), 0);
        let all = (0..MANY).map(|index| (index, Queued::Refused(Refused::Draining)));
        assert!(all.eq(queued.not_accepted().iter().copied()));
        let mut given = 0;
        let closures = std::iter::repeat_with(|| {
            given += 1;
            let alive = Alive::new(&alive);
            move || drop(alive)
        });
        let refused = wq.execute_batch(closures.take(MANY)).unwrap_err();
        assert_eq!((refused.accepted, refused.why), (0, Refused::Draining));
        assert!(given <= 128, "it went on asking: {given}");
        for handle in wq.spawn_batch((0..MANY).map(|_| {
            let alive = Alive::new(&alive);
            move || drop(alive)
        })) {
            let refused = handle.join().unwrap_err();
            assert!(matches!(refused, JoinError::Refused(Refused::Draining)));
        }
        assert_eq!(alive.load(Ordering::SeqCst), 0, "some were not dropped");
        door.open.complete();
        drain.join().unwrap();
    });
    assert!(!works.iter().any(Work::is_pending));
    assert!(wq.queue_batch(&works).is_complete());
    wq.flush().unwrap();
    assert_eq!(count.load(Ordering::SeqCst), MANY);
}

#[test]
fn what_a_panicking_iterator_gave_before_is_run_or_dropped() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a panic", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let (alive, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let closures = (0..MANY).map(|index| {
        if index == 200 {
            quiet_panic();
        }
        let (alive, ran) = (Alive::new(&alive), ran.clone());
        move || {
            let _alive = alive;
            ran.fetch_add(1, Ordering::SeqCst);
        }
    });
    let panicked = catch_unwind(AssertUnwindSafe(|| wq.execute_batch(closures)));
    assert!(panicked.is_err());
    wq.flush().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 128);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn an_item_may_queue_the_batch_that_it_is_part_of() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("itself", &engine);
    let wq = Arc::new(engine.workqueue("t").build().unwrap());
    let works: Arc<Mutex<Vec<Work>>> = Arc::default();
    let (runs, done) = (Arc::new(AtomicUsize::new(0)), Door::new());
    for _ in 0..20 {
        let (works_there, runs, wq_there, done) =
            (works.clone(), runs.clone(), wq.clone(), done.clone());
        works.lock().unwrap().push(Work::new(move || {
            if runs.fetch_add(1, Ordering::SeqCst) > 10_000 {
                return done.open.complete();
            }
            let works = works_there.lock().unwrap().clone();
            let _ = wq_there.queue_batch(&works);
        }));
    }
    let first = works.lock().unwrap().clone();
    assert!(wq.queue_batch(&first).accepted() > 0);
    done.open.wait();
    wq.drain().unwrap();
    // They refer to themselves.
    works.lock().unwrap().clear();
}

#[test]
fn an_iterator_is_asked_for_nothing_after_its_end() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("an end", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    for count in [0, 5, 128, 130] {
        let mut asked = 0;
        let mut next = || {
            asked += 1;
            assert!(asked <= count + 1);
            (asked <= count).then_some(|| ())
        };
        assert_eq!(wq.execute_batch(std::iter::from_fn(&mut next)), Ok(count));
        asked = 0;
        let mut next = || {
            asked += 1;
            assert!(asked <= count + 1);
            (asked <= count).then_some(|| ())
        };
        let handles = wq.spawn_batch(std::iter::from_fn(&mut next));
        assert_eq!(handles.len(), count);
    }
}
