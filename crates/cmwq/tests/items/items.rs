//! Cancelling, disabling, enabling and flushing single items.

use crate::harness::{Deadline, counting, engine};
use cmwq::{Completion, Work, Workqueue};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A queue, and the time that `test` may take.
fn queue_on(synthetic: &str, max_active: usize, test: &'static str) -> (Workqueue, Deadline) {
    let engine = engine(synthetic);
    let deadline = Deadline::new(test, &engine);
    let builder = engine.workqueue("items").max_active(max_active);
    (builder.build().expect("a queue"), deadline)
}

fn counter() -> (Arc<AtomicUsize>, Work) {
    let runs = Arc::new(AtomicUsize::new(0));
    let work = Work::new({
        let runs = runs.clone();
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
        }
    });
    (runs, work)
}

/// An item that says when it has begun and ends when told to.
fn gate() -> (Arc<Completion>, Arc<Completion>, Work) {
    let (begun, end) = (Arc::new(Completion::new()), Arc::new(Completion::new()));
    let work = Work::new({
        let (begun, end) = (begun.clone(), end.clone());
        move || {
            begun.complete();
            end.wait();
        }
    });
    (begun, end, work)
}

#[test]
fn an_item_behind_the_limit_can_be_cancelled_and_the_others_still_run() {
    let (wq, _deadline) = queue_on("l3:1 core:1 pu:1", 1, "behind the limit");
    let (begun, end, blocker) = gate();
    let items: Vec<_> = (0..10).map(|_| counter()).collect();
    assert!(wq.queue(&blocker).is_accepted());
    begun.wait();
    for (_, work) in &items {
        assert!(wq.queue(work).is_accepted());
    }
    for (_, work) in items.iter().step_by(2) {
        assert!(work.cancel(), "a pending item is removed");
        assert!(!work.cancel(), "an idle item is not");
        assert!(!work.is_pending());
    }
    end.complete();
    wq.flush().unwrap();
    for (n, (runs, _)) in items.iter().enumerate() {
        assert_eq!(runs.load(Ordering::SeqCst), n % 2, "item {n}");
    }
}

#[test]
fn an_active_item_can_be_cancelled_and_its_place_is_free_again() {
    let (wq, _deadline) = queue_on("l3:1 core:1 pu:1", 2, "an active item");
    // One CPU and no blocking declared: the second item is active but not started.
    let spin = Arc::new(AtomicBool::new(true));
    let spinning = Arc::new(Completion::new());
    let spinner = Work::new({
        let (spin, spinning) = (spin.clone(), spinning.clone());
        move || {
            spinning.complete();
            while spin.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
        }
    });
    let (active, waiting) = (counter(), counter());
    assert!(wq.queue(&spinner).is_accepted());
    spinning.wait();
    assert!(wq.queue(&active.1).is_accepted());
    assert!(wq.queue(&waiting.1).is_accepted());
    assert!(active.1.cancel());
    spin.store(false, Ordering::SeqCst);
    wq.flush().unwrap();
    assert_eq!(
        (
            active.0.load(Ordering::SeqCst),
            waiting.0.load(Ordering::SeqCst)
        ),
        (0, 1)
    );
}

#[test]
fn flush_of_a_running_and_pending_item_waits_for_the_pending_instance() {
    let (wq, _deadline) = queue_on("l3:1 core:2 pu:1", 0, "flush");
    let (runs, begun, end) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(Completion::new()),
        Arc::new(Completion::new()),
    );
    let work = Work::new({
        let (runs, begun, end) = (runs.clone(), begun.clone(), end.clone());
        move || {
            begun.complete();
            end.wait();
            runs.fetch_add(1, Ordering::SeqCst);
        }
    });
    assert!(!work.flush().unwrap(), "never queued");
    assert!(wq.queue(&work).is_accepted());
    begun.wait();
    assert!(
        wq.queue(&work).is_accepted(),
        "running, not pending: a second instance"
    );
    assert_eq!((work.busy().pending, work.busy().running), (true, true));
    std::thread::scope(|scope| {
        let flusher = scope.spawn(|| {
            // Whether it waits or comes too late to: afterwards both instances have ended.
            work.flush().unwrap();
            runs.load(Ordering::SeqCst)
        });
        end.complete();
        assert_eq!(flusher.join().unwrap(), 2);
    });
}

#[test]
fn flush_is_not_left_waiting_when_the_instance_is_cancelled() {
    let (wq, _deadline) = queue_on("l3:1 core:1 pu:1", 1, "a cancelled flush");
    let (begun, end, blocker) = gate();
    let (runs, work) = counter();
    assert!(wq.queue(&blocker).is_accepted());
    begun.wait();
    assert!(wq.queue(&work).is_accepted());
    std::thread::scope(|scope| {
        let flusher = scope.spawn(|| work.flush());
        while !work.cancel() {
            std::thread::yield_now();
        }
        // Flushed before or after the cancel: either way it returns.
        assert!(flusher.join().unwrap().is_ok());
    });
    end.complete();
    wq.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[test]
fn cancels_and_queues_from_many_threads_account_for_every_instance() {
    let (wq, _deadline) = queue_on("l3:2 core:2 pu:1", 0, "cancels");
    let (runs, work) = counter();
    let (accepted, removed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (wq, work, accepted, removed) = (&wq, &work, &accepted, &removed);
            scope.spawn(move || {
                for n in 0..3_000 {
                    match (n + thread) % 4 {
                        0 | 1 => {
                            accepted.fetch_add(
                                usize::from(wq.queue(work).is_accepted()),
                                Ordering::SeqCst,
                            );
                        }
                        2 => {
                            removed.fetch_add(usize::from(work.cancel()), Ordering::SeqCst);
                        }
                        _ => {
                            let guard = work.disable();
                            removed
                                .fetch_add(usize::from(guard.removed_pending()), Ordering::SeqCst);
                        }
                    }
                }
            });
        }
    });
    wq.flush().unwrap();
    assert_eq!(
        accepted.load(Ordering::SeqCst),
        runs.load(Ordering::SeqCst) + removed.load(Ordering::SeqCst),
        "each accepted instance runs once or is reported cancelled"
    );
}

#[test]
fn enable_and_queue_queues_with_the_last_reason_gone() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("enable and queue", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let work = counting(&runs);
    let (first, second) = (work.disable(), work.disable());
    assert!(
        !wq.enable_and_queue(first).is_accepted(),
        "one reason is left"
    );
    assert!(!work.is_pending());
    assert!(wq.enable_and_queue(second).is_accepted());
    wq.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
