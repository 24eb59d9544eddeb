//! Sets of closures whose results are taken as they end, and completion queues that are awaited.

use crate::harness::{Deadline, Door, block_on, engine, eventually, quiet_panic};
use cmwq::{CompletionQueue, JoinError, JoinSet, Refused};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn results_come_as_the_closures_end_and_each_once() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("join sets", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let mut set = JoinSet::new(&wq);
    let door = Door::new();
    let slow = set.spawn({
        let door = door.clone();
        move || {
            door.pass();
            "slow"
        }
    });
    let quick = set.spawn(|| "quick");
    let panics = set.spawn(|| quiet_panic());
    assert_eq!((slow, quick, panics, set.len()), (0, 1, 2, 3));
    let mut first: Vec<_> = (0..2)
        .map(|_| block_on(set.join_next()).expect("three are left"))
        .collect();
    first.sort_by_key(|ended| ended.token);
    assert_eq!(first.remove(0).result.unwrap(), "quick");
    let error = first.remove(0).result.unwrap_err();
    assert!(error.is_panic() && !error.is_aborted());
    assert!(error.into_panic().is::<&str>());
    assert!(set.try_join_next().is_none() && set.len() == 1);
    assert!(set.wait_next_timeout(Duration::from_millis(1)).is_none());
    door.open.complete();
    let last = set.wait_next().expect("one is left");
    assert_eq!((last.token, last.result.unwrap()), (slow, "slow"));
    assert!(set.is_empty() && set.wait_next().is_none());
    assert!(block_on(set.join_next()).is_none());
}

#[test]
fn what_has_not_begun_is_aborted_by_request_and_with_the_set() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("aborted sets", &engine);
    let wq = engine.workqueue("t").ordered().build().unwrap();
    let door = Door::new();
    let held = |door: &Arc<Door>| {
        let door = door.clone();
        move || door.pass()
    };
    let ran = Arc::new(AtomicUsize::new(0));
    let counts = |ran: &Arc<AtomicUsize>| {
        let ran = ran.clone();
        move || {
            ran.fetch_add(1, Ordering::SeqCst);
        }
    };
    let mut set = JoinSet::new(&wq);
    set.spawn(held(&door));
    door.wait_for(1);
    set.spawn(counts(&ran));
    set.abort_all();
    let later = set.spawn(counts(&ran));
    door.open.complete();
    let results: Vec<_> = std::iter::from_fn(|| set.wait_next()).collect();
    assert!(results[0].result.is_ok(), "it had begun");
    let aborted = results[1].result.as_ref().unwrap_err();
    assert!(aborted.is_aborted() && !aborted.is_panic());
    assert_eq!((results[2].token, ran.load(Ordering::SeqCst)), (later, 1));
    // With the set.
    let door = Door::new();
    let mut set = JoinSet::new(&wq);
    set.spawn(held(&door));
    door.wait_for(1);
    set.spawn(counts(&ran));
    drop(set);
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[test]
fn a_closure_that_the_queue_refuses_has_a_result_too() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("refused sets", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let mut set = JoinSet::new(&wq);
    wq.shutdown().wait().unwrap();
    set.spawn(|| 1);
    let ended = block_on(set.join_next()).expect("one is left");
    let refused = ended.result.unwrap_err();
    assert!(matches!(refused, JoinError::Refused(Refused::Draining)));
    assert!(refused.try_into_panic().is_err());
}

/// A panic of the destructor is nobody's: the caller learns from the set that the closure was refused.
#[test]
fn a_refused_closure_whose_destructor_panics_is_joined_as_refused() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("dropped"));
        }
    }
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("refused destructors", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let mut set = JoinSet::new(&wq);
    set.spawn(|| 1);
    wq.shutdown().wait().unwrap();
    let panics = Panics;
    let refused = set.spawn(move || {
        let _panics = &panics;
        2
    });
    assert_eq!(set.len(), 2);
    let ended = [(); 2].map(|()| set.wait_next().expect("two were spawned"));
    let of = |token| ended.iter().find(|one| one.token == token).expect("it");
    assert!(matches!(
        of(refused).result,
        Err(JoinError::Refused(Refused::Draining))
    ));
    assert!(set.wait_next().is_none());
}

/// The futures of several owners are polled and dropped in turn: no entry is lost, and no owner
/// sleeps beside one.
#[test]
fn owners_that_await_entries_share_them() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("awaited entries", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let done = CompletionQueue::new();
    let taken = AtomicUsize::new(0);
    const ENTRIES: usize = 20_000;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (own, taken) = (done.clone(), &taken);
            scope.spawn(move || {
                while block_on(own.next()).result.unwrap() {
                    taken.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for n in 0..ENTRIES {
            done.submit(&wq, n as u64, || true).unwrap();
        }
        eventually(|| taken.load(Ordering::SeqCst) == ENTRIES);
        // One for each owner.
        done.post(0, false).unwrap();
        done.post(0, false).unwrap();
    });
    assert_eq!(taken.load(Ordering::SeqCst), ENTRIES);
}
