//! What becomes of an item that its thread keeps to itself.

use super::engine;
use super::raw::queue_by;
use crate::pool::spawn_history::{earn, keeps_one};
use crate::raw::WorkqueueHandle;
use crate::{CompletionQueue, Engine, JoinError, JoinHandle, Workqueue};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

/// On an engine of one CPU, on which the calling thread is while it has the last value.
fn queue(max_active: usize) -> (Engine, Arc<Workqueue>, impl Sized) {
    let engine = engine(1);
    let wq = engine.workqueue("t").max_active(max_active).build();
    let here = engine.become_issuer(0).unwrap();
    (engine, Arc::new(wq.unwrap()), here)
}

/// The thread has earned a caller slot, which takes this item.
fn spawn_to_keep<T: Send + 'static>(
    wq: &Workqueue,
    func: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    wq.spawn(|| ()).join().unwrap();
    // Its place is free again.
    wq.flush().unwrap();
    earn();
    let handle = wq.spawn(func);
    assert!(keeps_one());
    handle
}

/// Queues an item in some way.
type Way = fn(&Workqueue, WorkqueueHandle);

/// What it queues next comes after that item.
#[test]
fn an_item_that_a_thread_keeps_is_published_before_whatever_it_queues_next() {
    let ways: [(&str, Way); 4] = [
        ("large closure", |wq, _| {
            let large = [2_u64; 64];
            wq.execute(move || _ = std::hint::black_box(large)).unwrap();
        }),
        ("completion queue", |wq, _| {
            let done = CompletionQueue::new();
            done.submit_as(wq, 0, 0, || ()).unwrap();
        }),
        ("handle", |_, handle| queue_by(handle, None)),
        ("handle, on a CPU", |_, handle| queue_by(handle, Some(0))),
    ];
    let (_engine, wq, _here) = queue(8);
    let handle = WorkqueueHandle::new(wq.clone()).unwrap();
    for (way, queue) in ways {
        let first = spawn_to_keep(&wq, || ());
        queue(&wq, handle);
        assert!(!keeps_one(), "{way}");
        first.join().unwrap();
        wq.flush().unwrap();
    }
    handle.destroy().unwrap();
}

/// Otherwise the item would wait for the monitor's next tick.
#[test]
fn an_item_that_a_thread_keeps_is_published_before_the_thread_goes_to_await() {
    let (_engine, wq, _here) = queue(8);
    let done = CompletionQueue::<()>::new();
    let first = spawn_to_keep(&wq, || ());
    let polled = done.poll_next(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    assert!(!keeps_one());
    first.join().unwrap();
}

/// While its thread runs it, it is in no table of runs.
#[test]
fn an_item_that_a_thread_has_kept_has_a_place_for_which_others_wait() {
    let (_engine, wq, _here) = queue(1);
    let inner = wq.clone();
    let first = spawn_to_keep(&wq, move || {
        let mut needs_the_place = inner.spawn(|| ());
        needs_the_place.join_timeout(Duration::from_secs(10))
    });
    let told = first.join().unwrap();
    assert!(matches!(told, Some(Err(JoinError::OwnItem))), "{told:?}");
}
