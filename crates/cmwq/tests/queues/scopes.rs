//! Scopes and the parallel loop on them.

use crate::harness::{Deadline, Door, engine, hold, quiet_panic};
use cmwq::types::Chunks;
use cmwq::{Workqueue, scope};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn items_borrow_and_have_all_ended_when_the_scope_returns() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("borrowing", &engine);
    for wq in [
        engine.workqueue("t").build().unwrap(),
        engine.workqueue("t").max_active(1).build().unwrap(),
        engine.workqueue("t").workers_only().build().unwrap(),
        engine.workqueue("t").ordered().build().unwrap(),
        engine.workqueue("t").per_cpu().build().unwrap(),
        engine.workqueue("t").bh().build().unwrap(),
    ] {
        for count in [0, 1, 7, 500] {
            let mut squares = vec![0; count];
            let length = scope(&wq, |s| {
                for (n, square) in squares.iter_mut().enumerate() {
                    s.spawn(move || *square = n * n);
                }
                count
            });
            assert_eq!(length, count);
            assert!(
                squares
                    .iter()
                    .enumerate()
                    .all(|(n, &square)| square == n * n)
            );
        }
    }
}

#[test]
fn items_spawn_more_items_into_their_scope() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("more", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let ran = AtomicUsize::new(0);
    scope(&wq, |s| {
        for _ in 0..10 {
            s.spawn(|| {
                for _ in 0..10 {
                    s.spawn(|| {
                        s.spawn(|| {
                            ran.fetch_add(1, Ordering::SeqCst);
                        });
                    });
                }
            });
        }
    });
    assert_eq!(ran.into_inner(), 100);
}

fn sum(wq: &Workqueue, numbers: &[u64]) -> u64 {
    if numbers.len() < 4 {
        return numbers.iter().sum();
    }
    let (left, right) = numbers.split_at(numbers.len() / 2);
    let (mut of_left, mut of_right) = (0, 0);
    scope(wq, |s| {
        s.spawn(|| of_left = sum(wq, left));
        of_right = sum(wq, right);
    });
    of_left + of_right
}

#[test]
fn scopes_nest_as_deep_as_a_tree() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a tree", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let numbers: Vec<u64> = (0..1_000).collect();
    assert_eq!(sum(&wq, &numbers), 499_500);
}

#[test]
fn a_panic_is_carried_when_all_have_ended() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a panic", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    for panics in [0, 1, 2] {
        let ran = AtomicUsize::new(0);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            scope(&wq, |s| {
                for n in 0..100 {
                    let ran = &ran;
                    s.spawn(move || {
                        ran.fetch_add(1, Ordering::SeqCst);
                        if n == 50 && panics == 1 {
                            quiet_panic();
                        }
                    });
                }
                if panics == 2 {
                    quiet_panic();
                }
            });
        }));
        assert_eq!(ran.into_inner(), 100);
        match caught {
            Ok(()) => assert_eq!(panics, 0),
            Err(payload) => assert_eq!(*payload.downcast::<&str>().unwrap(), "on purpose"),
        }
    }
}

#[test]
fn a_queue_that_drains_takes_no_scope_and_leaves_a_loop_to_its_caller() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a drain", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let door = hold(&wq, 1);
    std::thread::scope(|threads| {
        let drain = threads.spawn(|| wq.drain().unwrap());
        while wq.execute(|| {}).is_ok() {
            std::thread::yield_now();
        }
        let refused = catch_unwind(AssertUnwindSafe(|| scope(&wq, |s| s.spawn(|| ()))));
        let text = *refused.unwrap_err().downcast::<String>().unwrap();
        assert!(text.contains("draining"), "{text}");
        let chunks = Chunks {
            max_threads: 4,
            ..Chunks::default()
        };
        let ran = AtomicUsize::new(0);
        wq.for_each_chunk(0..1_000, chunks, |chunk| {
            ran.fetch_add(chunk.len(), Ordering::SeqCst);
        });
        assert_eq!(ran.into_inner(), 1_000);
        door.open.complete();
        drain.join().unwrap();
    });
}

#[test]
fn chunks_make_up_the_range_and_keep_to_their_bounds() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("chunks", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    for (range, min_chunk, max_threads) in [
        (0..100_000, 1, 0),
        (7..10_007, 64, 3),
        (5..6, 10, 8),
        (0..0, 1, 2),
        (0..50, 0, 1),
        (0..1_000, 1_000, 4),
        (0..20_000, 1, usize::MAX),
        (0..usize::MAX, usize::MAX / 10, usize::MAX),
        (usize::MAX - 9..usize::MAX, 3, 2),
    ] {
        let seen: Mutex<Vec<std::ops::Range<usize>>> = Mutex::default();
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let chunks = Chunks {
            min_chunk,
            max_threads,
        };
        wq.for_each_chunk(range.clone(), chunks, |chunk| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            seen.lock().unwrap().push(chunk);
            now.fetch_sub(1, Ordering::SeqCst);
        });
        let mut seen = seen.into_inner().unwrap();
        seen.sort_by_key(|chunk| chunk.start);
        let mut next = range.start;
        for chunk in &seen {
            assert_eq!(chunk.start, next);
            assert!(!chunk.is_empty());
            assert!(chunk.len() >= min_chunk || chunk.end == range.end);
            next = chunk.end;
        }
        assert_eq!(next, range.end);
        let threads = if max_threads == 0 { 4 } else { max_threads };
        assert!(most.into_inner() <= threads);
    }
}

#[test]
fn a_panic_in_a_loop_is_carried() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a loop's panic", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        wq.for_each_chunk(0..1_000, Chunks::default(), |chunk| {
            if chunk.contains(&500) {
                quiet_panic();
            }
        });
    }));
    assert!(caught.is_err());
}

/// A payload whose destructor lets an item end, and panics.
struct Bomb(Arc<Door>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.open.complete();
        quiet_panic();
    }
}

#[test]
fn a_payload_whose_destructor_panics_does_not_end_the_scope_before_its_items() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("bombs", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    for in_body in [false, true] {
        let (door, ended) = (Door::new(), AtomicUsize::new(0));
        let caught = catch_unwind(AssertUnwindSafe(|| {
            scope(&wq, |s| {
                s.spawn(|| {
                    door.pass();
                    // Long enough for the scope to unwind meanwhile.
                    (0..1_000).for_each(|_| std::thread::yield_now());
                    ended.fetch_add(1, Ordering::SeqCst);
                });
                door.wait_for(1);
                for _ in 0..3 {
                    s.spawn(|| std::panic::resume_unwind(Box::new(Bomb(door.clone()))));
                }
                if in_body {
                    quiet_panic();
                }
            });
        }));
        assert_eq!(ended.into_inner(), 1);
        // The last bomb.
        std::mem::forget(caught.unwrap_err());
    }
}

#[test]
fn a_loop_ends_with_its_range_though_no_worker_can_begin() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("no worker", &engine);
    let chunks = Chunks {
        max_threads: 4,
        ..Chunks::default()
    };
    let ran = AtomicUsize::new(0);
    let run = |wq: &Workqueue| {
        wq.for_each_chunk(0..1_000, chunks, |chunk| {
            ran.fetch_add(chunk.len(), Ordering::SeqCst);
        });
    };
    let wq = engine.workqueue("t").max_active(1).build().unwrap();
    let door = hold(&wq, 1);
    run(&wq);
    door.open.complete();
    let wq = engine.workqueue("t").freezable().build().unwrap();
    engine.freeze_workqueues_begin();
    run(&wq);
    engine.thaw_workqueues();
    let wq = engine.workqueue("t").ordered().build().unwrap();
    scope(&wq, |s| s.spawn(|| run(&wq)));
    let panicking = || wq.for_each_chunk(0..1_000, chunks, |_| quiet_panic());
    let caught = catch_unwind(AssertUnwindSafe(|| scope(&wq, |s| s.spawn(panicking))));
    assert!(caught.is_err());
    assert_eq!(ran.into_inner(), 3_000);
}

#[test]
fn a_loop_without_a_limit_on_threads_does_not_queue_an_item_for_each_chunk() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("no limit", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let chunks = Chunks {
        max_threads: usize::MAX,
        ..Chunks::default()
    };
    let ran = AtomicUsize::new(0);
    wq.for_each_chunk(0..100_000, chunks, |chunk| {
        ran.fetch_add(chunk.len(), Ordering::SeqCst);
    });
    assert_eq!(ran.into_inner(), 100_000);
    wq.flush().unwrap();
    assert!(wq.counts().0 < cmwq::raw::WQ_MAX_ACTIVE as u64);
}
