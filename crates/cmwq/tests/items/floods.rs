//! Many short items at once, which workers claim in batches: none is lost, none runs twice at once,
//! limits hold, and a waiter for one of them does not wait for long ones behind it.

use crate::harness::{Deadline, Door, engine, engine_without_hogs};
use cmwq::raw::{NoSuchWorkqueue, RawWork, WorkqueueHandle};
use cmwq::types::Queued;
use cmwq::{Work, blocking};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const ITEMS: usize = 2_000;

/// Items that count their runs, and find out if they run twice at once or too many of them do.
struct Crowd {
    runs: AtomicUsize,
    active: AtomicUsize,
    most: AtomicUsize,
    twice: AtomicUsize,
}

fn crowd(items: usize) -> (Arc<Crowd>, Vec<Work>) {
    let crowd = Arc::new(Crowd {
        runs: AtomicUsize::new(0),
        active: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        twice: AtomicUsize::new(0),
    });
    let works = (0..items)
        .map(|_| {
            let (crowd, inside) = (crowd.clone(), AtomicBool::new(false));
            Work::new(move || {
                let again = inside.swap(true, Ordering::SeqCst);
                crowd.twice.fetch_add(usize::from(again), Ordering::SeqCst);
                let active = crowd.active.fetch_add(1, Ordering::SeqCst) + 1;
                crowd.most.fetch_max(active, Ordering::SeqCst);
                crowd.runs.fetch_add(1, Ordering::SeqCst);
                crowd.active.fetch_sub(1, Ordering::SeqCst);
                inside.store(false, Ordering::SeqCst);
            })
        })
        .collect();
    (crowd, works)
}

/// Several threads queue all items again and again, each time from another end, and some flush, on
/// a queue that lets only so many be active.
fn flood(max_active: usize, topology: &str) {
    let engine = engine(topology);
    let _deadline = Deadline::new("a flood", &engine);
    let wq = engine
        .workqueue("flood")
        .max_active(max_active)
        .build()
        .unwrap();
    let (crowd, works) = crowd(ITEMS);
    let accepted = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for issuer in 0..4 {
            let (wq, works, accepted) = (&wq, &works, &accepted);
            scope.spawn(move || {
                for round in 0..20 {
                    for index in 0..ITEMS {
                        let at = (index + issuer * ITEMS / 4) % ITEMS;
                        accepted.fetch_add(
                            usize::from(wq.queue(&works[at]).is_accepted()),
                            Ordering::SeqCst,
                        );
                    }
                    match (issuer, round % 4) {
                        (0, _) => wq.flush().unwrap(),
                        (1, 0) => {
                            // Cancelled wherever it waits; then it counts as not accepted.
                            for work in works.iter().step_by(97) {
                                let cancelled = usize::from(work.cancel());
                                accepted.fetch_sub(cancelled, Ordering::SeqCst);
                            }
                        }
                        (2, 0) => assert!(works[7].flush().is_ok()),
                        _ => {}
                    }
                }
            });
        }
    });
    wq.flush().unwrap();
    assert_eq!(crowd.twice.load(Ordering::SeqCst), 0);
    assert!(crowd.most.load(Ordering::SeqCst) <= max_active);
    assert_eq!(
        crowd.runs.load(Ordering::SeqCst),
        accepted.load(Ordering::SeqCst)
    );
    let completed = engine.stats().completed;
    assert_eq!(completed, accepted.load(Ordering::SeqCst) as u64);
}

#[test]
fn floods_far_beyond_the_limit_lose_nothing() {
    flood(5, "l3:1 core:2 pu:1");
}

#[test]
fn floods_at_the_default_limit_lose_nothing() {
    flood(1024, "l3:1 core:2 pu:1");
}

#[test]
fn floods_over_several_pods_lose_nothing() {
    flood(16, "l3:4 core:1 pu:1");
}

#[test]
fn who_waits_for_a_short_item_does_not_wait_for_a_long_one_behind_it() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("a short item", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let (crowd, works) = crowd(ITEMS);
    for round in 0..20 {
        for work in &works {
            let _ = wq.queue(work);
        }
        // The flush of the queue would wait for it, that of an item before it must not.
        let door = Door::new();
        let long = Arc::new(Work::new({
            let door = door.clone();
            move || blocking(|| door.open.wait())
        }));
        let last = &works[round];
        let _ = wq.queue(&long);
        last.flush().unwrap();
        assert!(!last.is_pending());
        door.open.complete();
        wq.flush().unwrap();
    }
    assert_eq!(crowd.twice.load(Ordering::SeqCst), 0);
}

#[test]
fn an_item_in_the_middle_of_a_long_backlog_can_be_taken_out_and_the_rest_keeps_its_order() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("a backlog", &engine);
    let wq = engine.workqueue("t").max_active(1).build().unwrap();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let works: Vec<Work> = (0..ITEMS)
        .map(|index| {
            let ran = ran.clone();
            Work::new(move || ran.lock().unwrap().push(index))
        })
        .collect();
    let taken_out: Vec<usize> = (700..ITEMS).step_by(451).collect();
    for round in 0..10 {
        // The only CPU is busy while the backlog grows and while items are cancelled.
        let door = Door::new();
        let long = Work::new({
            let door = door.clone();
            move || {
                door.arrived.fetch_add(1, Ordering::SeqCst);
                while !door.open.is_done() {
                    std::hint::spin_loop();
                }
            }
        });
        let _ = wq.queue(&long);
        while door.arrived.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        for work in &works {
            assert!(wq.queue(work).is_accepted());
        }
        for &index in &taken_out {
            assert!(works[index].cancel(), "item {index} of round {round}");
        }
        door.open.complete();
        wq.flush().unwrap();
        let ran = std::mem::take(&mut *ran.lock().unwrap());
        let left = (0..ITEMS).filter(|index| !taken_out.contains(index));
        assert_eq!(ran, left.collect::<Vec<_>>(), "round {round}");
    }
}

#[test]
fn an_item_that_runs_in_another_pod_does_not_go_the_way_of_those_queued_before_it() {
    let engine = engine("l3:2 core:2 pu:1");
    let _deadline = Deadline::new("another pod", &engine);
    let wq = engine.workqueue("t").affinity_strict(true).build().unwrap();
    let (there, here) = (Door::new(), Door::new());
    // All of one type, so that they can go in one chunk; the first one is slow.
    let runs: Arc<[AtomicUsize; 32]> = Arc::new(std::array::from_fn(|_| AtomicUsize::new(0)));
    let (inside, twice) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let items: Vec<Work> = (0..runs.len())
        .map(|index| {
            let (runs, there) = (runs.clone(), there.clone());
            let (inside, twice) = (inside.clone(), twice.clone());
            Work::new(move || {
                if index == 0 {
                    if inside.swap(true, Ordering::SeqCst) {
                        twice.store(true, Ordering::SeqCst);
                    } else if runs[0].load(Ordering::SeqCst) == 0 {
                        there.pass();
                    }
                    inside.store(false, Ordering::SeqCst);
                }
                runs[index].fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    let slow = &items[0];
    assert!(wq.queue_on(0, slow).unwrap().is_accepted());
    let _issuer = engine.become_issuer(2).unwrap();
    // No worker of this pod takes what is queued behind these.
    for _ in 0..2 {
        let here = here.clone();
        wq.execute(move || here.pass_awake()).unwrap();
    }
    while there.arrived() < 1 || here.arrived() < 2 {
        std::thread::yield_now();
    }
    let (last, before) = items[1..].split_last().unwrap();
    assert!(before.iter().all(|item| wq.queue(item).is_accepted()));
    assert!(wq.queue(slow).is_accepted());
    assert!(wq.queue(last).is_accepted());
    here.open.complete();
    while runs[1..]
        .iter()
        .any(|runs| runs.load(Ordering::SeqCst) == 0)
    {
        std::thread::yield_now();
    }
    there.open.complete();
    wq.flush().unwrap();
    assert!(!twice.load(Ordering::SeqCst), "two workers ran it at once");
    assert_eq!(runs[0].load(Ordering::SeqCst), 2);
}

/// What raw items do that only have to run.
unsafe extern "C-unwind" fn nothing(_: NonNull<RawWork>) {}

#[test]
fn a_flood_by_a_handle_ends_when_its_queue_does() {
    let engine = engine_without_hogs("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a handle", &engine);
    let items: Vec<RawWork> = (0..100).map(|_| RawWork::new(nothing)).collect();
    for round in 0..50 {
        let handle = WorkqueueHandle::new(engine.workqueue("t").build().unwrap()).unwrap();
        let wq = handle.get().unwrap();
        // No worker takes what is queued behind these, so it is in a chunk.
        let door = Door::new();
        for _ in 0..2 {
            let door = door.clone();
            wq.execute(move || door.pass_awake()).unwrap();
        }
        door.wait_for(2);
        let (last, before) = items.split_last().unwrap();
        for item in before {
            // SAFETY: it stays until the queue is destroyed.
            let queued = unsafe { handle.queue_raw(NonNull::from(item)) };
            assert_eq!(queued, Ok(Queued::Accepted), "round {round}");
        }
        // SAFETY: as above.
        let again = unsafe { handle.queue_raw(NonNull::from(&before[0])) };
        assert_eq!(again, Ok(Queued::AlreadyPending));
        door.open.complete();
        handle.destroy().unwrap();
        // SAFETY: as above.
        let late = unsafe { handle.queue_raw(NonNull::from(last)) };
        assert_eq!(late, Err(NoSuchWorkqueue), "round {round}");
        assert!(!last.is_pending(), "it is as it was");
        assert!(
            before.iter().all(|item| !item.is_pending()),
            "they have run"
        );
    }
}
