//! Items that are queued again while others of their batch wait.

use super::*;
use crate::Work;
use crate::pool::lock::holds::most_in_a_hold;
use crate::pool::queue::pwq::Traits;
use crate::pool::stubs;
use std::sync::OnceLock;

/// A worker that finds it among the published items closes the batch first, so that the one behind
/// it goes first. Neither is lost, whichever holding of the lock meets it.
#[test]
fn an_item_that_is_queued_again_goes_behind_the_rest_of_its_batch() {
    again_before(0);
    again_before(most_in_a_hold());
}

/// So many items are queued behind it.
fn again_before(behind: usize) {
    let (_engine, wq, pool) = queue(1, 1000);
    let wq = Arc::new(wq);
    let others: Arc<Vec<Work>> = Arc::new((0..behind).map(|_| Work::new(|| ())).collect());
    let ran = Arc::new(Mutex::new(Vec::new()));
    let own: Arc<OnceLock<Work>> = Arc::default();
    let first = Work::new({
        let (wq, pool, ran, own) = (wq.clone(), pool.clone(), ran.clone(), own.clone());
        let others = others.clone();
        move || {
            let again = ran.lock().expect("no panic").contains(&"first");
            ran.lock().expect("no panic").push("first");
            if again {
                return;
            }
            assert!(wq.queue(own.get().expect("set")).is_accepted());
            for other in others.iter() {
                assert!(wq.queue(other).is_accepted());
            }
            // The calling thread takes an item as another worker would.
            let take = || pool.lock_beside_batches().next_task(Executor::worker());
            let Some(Task { started, run }) = take().or_else(take) else {
                return;
            };
            let panicked = call::call(started, run.current);
            let came_again = pool.lock_beside_batches().end_task(run, panicked);
            assert!(came_again.is_none());
        }
    });
    own.set(first.clone()).expect("once");
    let second = Work::new({
        let ran = ran.clone();
        move || ran.lock().expect("no panic").push("second")
    });
    let mut hand = Hand::new(&pool);
    let mut guard = pool.lock();
    // The monitor would close the batch.
    guard.watched = true;
    let index = only_pwq(&guard);
    for work in [&first, &second] {
        let mut item = work.claim().expect("idle");
        item.set_destination(pool.id, index);
        guard.accept_item(item);
    }
    let (next, taken) = hand.take(&mut guard);
    drop(guard);
    let mut guard = hand.run_and_lock(next, &pool);
    guard.workers.remove(hand.id);
    guard.watched = false;
    drop(guard);
    let flushed = wq.flush_timeout(Duration::from_secs(60));
    assert_eq!((taken, flushed), (2, Ok(())));
    assert_eq!(*ran.lock().expect("no panic"), ["first", "second", "first"]);
}

/// It ran on a thread that runs nothing else for the pool, or that has ended.
#[test]
fn an_item_that_came_again_while_a_thread_ran_only_it_is_left_to_a_worker() {
    let pool = stubs::pool(1, 0);
    let pwq = stubs::add_pwq(&pool, Traits::default(), 8);
    let ran = Arc::new(AtomicUsize::new(0));
    let work = Work::new({
        let ran = ran.clone();
        move || {
            ran.fetch_add(1, Ordering::SeqCst);
        }
    });
    stubs::queue(&pool, pwq, &work);
    let task = pool.lock().next_task(Executor::worker());
    let Task { started, run } = task.expect("it waits");
    let panicked = call::call(started, run.current);
    stubs::queue(&pool, pwq, &work);
    let other = pool.lock().next_task(Executor::worker());
    assert!(other.is_none(), "it may not run twice at a time");
    pool.lock().end_only_task(run, panicked);
    stubs::run_all(&pool);
    assert_eq!((ran.load(Ordering::SeqCst), work.is_pending()), (2, false));
}

/// It waits beside the run before it, where no list has it.
#[test]
fn an_item_that_came_again_while_it_ran_gives_its_room_back_when_it_starts() {
    let engine = engine(1);
    let wq = engine.workqueue("t").max_waiting(1).build().expect("legal");
    let pool = pool_of(&engine);
    let work = Work::new(|| ());
    // The calling thread is a worker, which has the only CPU.
    let running = pool.lock().running();
    pool.lock().counts.set_running(running + 1);
    assert!(wq.queue(&work).is_accepted());
    let task = pool.lock_beside_batches().next_task(Executor::worker());
    let Task { started, run } = task.expect("it waits");
    let panicked = call::call(started, run.current);
    assert!(wq.queue(&work).is_accepted());
    let other = pool.lock_beside_batches().next_task(Executor::worker());
    assert!(other.is_none(), "it may not run twice at a time");
    let again = pool.lock_beside_batches().end_task(run, panicked);
    let Task { started, run } = again.expect("it came again");
    let panicked = call::call(started, run.current);
    let none = pool.lock_beside_batches().end_task(run, panicked);
    let waiting = engine.queue_states()[0].room.map(|room| room.waiting);
    let running = pool.lock().running();
    pool.lock().counts.set_running(running - 1);
    assert_eq!((none.is_none(), waiting), (true, Some(0)));
}
