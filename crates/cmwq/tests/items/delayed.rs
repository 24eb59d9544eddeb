//! Delayed work: never early, modified, cancelled, flushed, in any number.

use crate::harness::{Deadline, engine};
use cmwq::{Completion, DelayedWork, WorkerThreads, Workqueue};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(3600);

/// A queue, and the time that `test` may take.
fn queue(test: &'static str) -> (Workqueue, Deadline) {
    let engine = engine("l3:1 core:2 pu:1");
    let deadline = Deadline::new(test, &engine);
    let queue = engine.workqueue("delayed").build().expect("a queue");
    (queue, deadline)
}

fn counter() -> (Arc<AtomicUsize>, DelayedWork) {
    let runs = Arc::new(AtomicUsize::new(0));
    let work = DelayedWork::new({
        let runs = runs.clone();
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
        }
    });
    (runs, work)
}

#[test]
fn a_delayed_item_runs_and_never_early() {
    let (wq, _deadline) = queue("never early");
    for delay_us in [1, 50, 900, 1_000, 1_049, 1_500, 3_000, 20_000] {
        let delay = Duration::from_micros(delay_us);
        let (started, done) = (Arc::new(Mutex::new(None)), Arc::new(Completion::new()));
        let work = DelayedWork::new({
            let (started, done) = (started.clone(), done.clone());
            move || {
                *started.lock().unwrap() = Some(Instant::now());
                done.complete();
            }
        });
        let queued = Instant::now();
        assert!(wq.queue_delayed(&work, delay).is_accepted());
        done.wait();
        let after = started.lock().unwrap().unwrap() - queued;
        assert!(
            after >= delay,
            "{after:?} after being queued with a delay of {delay:?}"
        );
    }
}

#[test]
fn a_zero_delay_queues_at_once() {
    let (wq, _deadline) = queue("no delay");
    let (runs, work) = counter();
    assert!(wq.queue_delayed(&work, Duration::ZERO).is_accepted());
    // A flush does not see timers: it saw this one because there was none.
    wq.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn an_armed_item_is_invisible_to_flush_and_can_be_cancelled() {
    let (wq, _deadline) = queue("an armed item");
    let (runs, work) = counter();
    assert!(wq.queue_delayed(&work, LONG).is_accepted());
    assert!(
        !wq.queue_delayed(&work, Duration::ZERO).is_accepted(),
        "pending while its timer runs"
    );
    wq.flush().unwrap();
    assert!(work.is_pending());
    assert!(work.cancel());
    assert!(!work.cancel());
    assert!(!work.cancel_sync());
    assert!(!work.is_pending());
    assert!(wq.queue_delayed(&work, Duration::ZERO).is_accepted());
    wq.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn flush_of_an_armed_item_runs_it_now() {
    let (wq, _deadline) = queue("flush");
    let (runs, work) = counter();
    assert!(!work.flush().unwrap(), "never queued");
    assert!(wq.queue_delayed(&work, LONG).is_accepted());
    assert_eq!(work.flush(), Ok(true));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(work.flush(), Ok(false));
}

#[test]
fn a_million_timers_are_armed_and_cancelled() {
    let (wq, _deadline) = queue("a million timers");
    let items: Vec<DelayedWork> = (0..1_000_000).map(|_| DelayedWork::new(|| {})).collect();
    for (n, work) in items.iter().enumerate() {
        assert!(
            wq.queue_delayed(
                work,
                LONG + Duration::from_millis(n as u64 * 37 % 1_000_000)
            )
            .is_accepted()
        );
    }
    for work in &items {
        assert!(work.cancel());
    }
    wq.flush().unwrap();
    assert!(items.iter().all(|work| !work.is_pending()));
}

/// Says on which thread it is dropped.
struct Dropped(mpsc::Sender<Option<String>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let name = std::thread::current().name().map(str::to_owned);
        self.0.send(name).expect("the test waits");
    }
}

/// All timers would wait for a hook's destructor.
#[test]
fn the_timer_thread_does_not_drop_a_queue_of_which_its_timer_is_left() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("what is left", &engine);
    let mut soon = Duration::from_millis(50);
    loop {
        let (sender, dropped) = mpsc::channel();
        let said = Dropped(sender);
        let threads = WorkerThreads::new().on_start(move |_| {
            let _ = &said;
        });
        let wq = engine.workqueue("gone").worker_threads(threads).build();
        let wq = wq.expect("a queue");
        let (runs, work) = counter();
        assert!(wq.queue_delayed(&work, soon).is_accepted());
        drop(wq);
        let on = dropped.recv().expect("it is dropped");
        assert_ne!(on.as_deref(), Some("cmwq-timer"));
        if runs.load(Ordering::SeqCst) == 0 {
            break;
        }
        // On a busy machine it has run before its queue was dropped: once more, with more time.
        soon *= 4;
    }
}
