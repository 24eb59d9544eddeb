//! Aborting what has not begun, and waits that end by their deadlines.

use crate::harness::{
    Alive, Deadline, Door, block_on, counting, engine, eventually, hold, quiet_panic,
};
use cmwq::types::FlushError;
use cmwq::{JoinError, Workqueue};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3_000);

struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Queues on which nothing begins before the door is opened.
fn held(engine: &cmwq::Engine) -> (Workqueue, Arc<Door>) {
    let wq = engine.workqueue("t").max_active(1).build().unwrap();
    let door = hold(&wq, 1);
    (wq, door)
}

#[test]
fn what_has_not_begun_is_aborted_and_dropped_once() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("aborting", &engine);
    let (alive, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // A few alone, and a flood of which some stay bare closures until a call needs them as items.
    for count in [3, 1_000] {
        let (wq, door) = held(&engine);
        let handles: Vec<_> = (0..count)
            .map(|_| {
                let (alive, ran) = (Alive::new(&alive), ran.clone());
                wq.spawn(move || {
                    let _alive = alive;
                    ran.fetch_add(1, Ordering::SeqCst)
                })
            })
            .collect();
        for handle in handles.iter().step_by(2) {
            assert!(handle.abort());
            assert!(handle.is_finished() && !handle.abort());
        }
        assert_eq!(alive.load(Ordering::SeqCst), count / 2);
        door.open.complete();
        for (index, handle) in handles.into_iter().enumerate() {
            match handle.join() {
                Ok(_) => assert_eq!(index % 2, 1),
                Err(error) => assert!(matches!(error, JoinError::Aborted) && index % 2 == 0),
            }
        }
        wq.flush().unwrap();
        assert_eq!(ran.swap(0, Ordering::SeqCst), count / 2);
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn what_has_begun_runs_to_its_end() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("begun", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let door = Door::new();
    let handle = wq.spawn({
        let door = door.clone();
        move || {
            door.pass();
            7
        }
    });
    door.wait_for(1);
    assert!(!handle.abort());
    door.open.complete();
    assert_eq!(handle.join().unwrap(), 7);
    let handle = wq.spawn(|| 8);
    eventually(|| handle.is_finished());
    assert!(!handle.abort());
    assert_eq!(handle.join().unwrap(), 8);
}

#[test]
fn aborting_wakes_who_awaits_and_once() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a waker", &engine);
    let (wq, door) = held(&engine);
    let wakes = Arc::new(Wakes(AtomicUsize::new(0)));
    let waker = Waker::from(wakes.clone());
    let mut context = Context::from_waker(&waker);
    let mut handle = pin!(wq.spawn(|| ()));
    for _ in 0..3 {
        assert!(handle.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
    assert!(handle.abort());
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert!(matches!(block_on(handle), Err(JoinError::Aborted)));
    // A result wakes once as well.
    let mut handle = pin!(wq.spawn(|| 5));
    assert!(handle.as_mut().poll(&mut context).is_pending());
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!(wakes.0.load(Ordering::SeqCst), 2);
    assert_eq!(block_on(handle).unwrap(), 5);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 2);
}

#[test]
fn a_handle_that_is_dropped_detaches_its_item_or_aborts_it() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("drops", &engine);
    let (wq, door) = held(&engine);
    let ran = Arc::new(AtomicUsize::new(0));
    let spawn = |amount: usize| {
        let ran = ran.clone();
        wq.spawn(move || ran.fetch_add(amount, Ordering::SeqCst))
    };
    drop(spawn(1));
    drop(spawn(10).abort_on_drop());
    let kept = spawn(100).abort_on_drop();
    door.open.complete();
    block_on(kept).unwrap();
    wq.flush().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 101);
}

#[test]
fn a_join_with_a_deadline_ends_and_can_be_repeated() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("joins", &engine);
    let (wq, door) = held(&engine);
    let mut handle = wq.spawn(|| 7);
    for wait in [Duration::ZERO, Duration::from_millis(2)] {
        assert!(handle.join_timeout(wait).is_none());
    }
    door.open.complete();
    assert_eq!(handle.join_timeout(LONG).unwrap().unwrap(), 7);
    let taken = handle.join_timeout(LONG);
    assert!(matches!(taken, Some(Err(JoinError::Taken))));
    // Also an item in the thread's caller slot.
    for n in 0..200 {
        let mut handle = wq.spawn(move || n);
        match n {
            100.. => assert_eq!(handle.join_timeout(LONG).unwrap().unwrap(), n),
            _ => assert_eq!(handle.join().unwrap(), n),
        }
    }
}

#[test]
fn a_flush_of_an_item_with_a_deadline_ends_and_can_be_repeated() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("flushes", &engine);
    let (wq, door) = held(&engine);
    let count = Arc::new(AtomicUsize::new(0));
    let work = counting(&count);
    assert_eq!(work.flush_timeout(LONG), Ok(false), "there is nothing");
    assert!(wq.queue(&work).is_accepted());
    for wait in [Duration::ZERO, Duration::from_millis(2)] {
        assert_eq!(work.flush_timeout(wait), Err(FlushError::TimedOut));
    }
    door.open.complete();
    let flushed = work.flush_timeout(LONG);
    assert!(flushed.is_ok());
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

/// Says that its destructor has begun, and stays there until the door is open.
struct SlowDrop(Arc<Door>);

impl Drop for SlowDrop {
    fn drop(&mut self) {
        self.0.pass();
    }
}

#[test]
fn of_two_threads_that_abort_one_handle_the_second_does_not_wait() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("two aborts", &engine);
    let (wq, door) = held(&engine);
    let drops = Door::new();
    let slow = SlowDrop(drops.clone());
    let handle = wq.spawn(move || drop(slow));
    std::thread::scope(|threads| {
        let first = threads.spawn(|| handle.abort());
        drops.wait_for(1);
        assert!(!handle.abort(), "the other thread has taken it back");
        assert!(!handle.is_finished());
        drops.open.complete();
        assert!(first.join().unwrap());
    });
    assert!(matches!(handle.join(), Err(JoinError::Aborted)));
    door.open.complete();
}

/// Its destructor panics.
struct PanickingDrop;

impl Drop for PanickingDrop {
    fn drop(&mut self) {
        quiet_panic();
    }
}

#[test]
fn a_closure_whose_destructor_panics_completes_its_handle_with_that_panic() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a destructor", &engine);
    let (wq, door) = held(&engine);
    let spawn = || {
        let panics = PanickingDrop;
        wq.spawn(move || drop(panics))
    };
    let handle = spawn();
    assert!(handle.abort());
    assert!(matches!(handle.join(), Err(JoinError::Panicked(_))));
    drop(spawn().abort_on_drop());
    std::thread::scope(|threads| {
        let drain = threads.spawn(|| wq.drain().unwrap());
        while wq.execute(|| {}).is_ok() {
            std::thread::yield_now();
        }
        assert!(matches!(spawn().join(), Err(JoinError::Panicked(_))));
        door.open.complete();
        drain.join().unwrap();
    });
}
