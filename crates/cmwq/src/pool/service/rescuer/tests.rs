//! Turns, calls, and threads of rescuers.

use super::*;
use crate::Engine;
use crate::item::Work;
use crate::pool::{Traits, silent, stubs};
use crate::sys::forced_unwind::end_item;
use std::sync::Mutex;

#[test]
fn a_turn_is_of_17_items_while_others_wait_and_calls_are_answered_in_order() {
    for calls_meanwhile in [true, false] {
        turns(None, calls_meanwhile);
        // Two of the pools have no running slot.
        turns(Some(1), calls_meanwhile);
    }
}

/// `calls_meanwhile`: during each turn the pool calls again, so one more call waits at its end. If
/// not, the rescuer itself has to come back for what is left.
fn turns(limit: Option<u32>, calls_meanwhile: bool) {
    let rescuer = Rescuer::new(CpuSet::new());
    let log: Arc<Mutex<Vec<u32>>> = Arc::default();
    let params = Arc::default();
    let pools = [1, 2, 3].map(|id| stubs::pool_of(&params, id));
    let mut items = Vec::new();
    for pool in &pools {
        let pwq = silent::add_pwq(pool, Traits::default(), 100, Some(rescuer.clone()));
        for _ in 0..40 {
            let (log, pool_there) = (log.clone(), Arc::downgrade(pool));
            let item = Work::new(move || {
                log.lock().unwrap().push(pool_there.upgrade().unwrap().id);
                // As the service thread does periodically.
                if calls_meanwhile {
                    assert!(pool_there.upgrade().unwrap().mayday());
                }
            });
            stubs::queue(pool, pwq, &item);
            items.push(item);
        }
        assert!(pool.mayday(), "a worker was asked for and does not come");
        assert!(pool.mayday());
        assert_eq!(pool.lock().stats().1.mayday, 1, "it has called already");
    }
    params.slots.set_limit(limit);
    pools.iter().for_each(Pool::follow_limit);
    // It ends after all its calls.
    rescuer.stop();
    let thread = std::thread::spawn({
        let rescuer = rescuer.clone();
        move || rescuer.run()
    });
    thread.join().unwrap();
    let log = log.lock().unwrap();
    let turns: Vec<(u32, usize)> = log
        .chunk_by(|a, b| a == b)
        .map(|turn| (turn[0], turn.len()))
        .collect();
    let expected = [17, 17, 6].map(|len| [1, 2, 3].map(|pool| (pool, len)));
    assert_eq!(turns, expected.concat());
    for pool in &pools {
        assert_eq!(pool.lock().stats().1.rescued, 40);
    }
}

#[test]
fn items_that_wait_where_those_of_the_caller_did_are_not_the_rescuers() {
    let (pool, rescuer) = (stubs::pool(1, u64::MAX), Rescuer::new(CpuSet::new()));
    let gone = silent::add_pwq(&pool, Traits::default(), 1, Some(rescuer.clone()));
    stubs::queue(&pool, gone, &Work::new(|| ()));
    assert!(pool.mayday(), "a worker was asked for and does not come");
    stubs::run_all(&pool);
    assert!(pool.lock().retire_pwq(gone));
    let other = stubs::add_pwq(&pool, Traits::default(), 1);
    assert_eq!(other.index, gone.index, "its index is used again");
    let item = Work::new(|| ());
    stubs::queue(&pool, other, &item);
    assert!(pool.mayday(), "a worker is needed again");
    rescuer.stop();
    let thread = std::thread::spawn(move || rescuer.run());
    thread.join().unwrap();
    assert!(item.is_pending(), "another queue's rescuer has run it");
    stubs::run_all(&pool);
}

/// The first of three items ends its thread. Returns the threads of the items, and the one that
/// is the rescuer afterwards.
fn threads_after_one_is_ended(next_thread: WorkerThreads) -> ([i32; 3], i32) {
    let engine = Engine::builder().build().unwrap();
    let rescuer = Rescuer::new(thread::current_binding().unwrap());
    let pool = stubs::pool(1, 0);
    let pwq = silent::add_pwq(&pool, Traits::default(), 3, Some(rescuer.clone()));
    let tids: Arc<Mutex<Vec<i32>>> = Arc::default();
    let items = [0, 1, 2].map(|number| {
        let tids = tids.clone();
        Work::new(move || {
            tids.lock().unwrap().push(thread::current_tid());
            if number == 0 {
                end_item();
            }
        })
    });
    items.iter().for_each(|item| stubs::queue(&pool, pwq, item));
    assert!(pool.mayday(), "a worker was asked for and does not come");
    let first = rescuer.clone();
    let speaker = engine.service().speaker();
    let like_the_next = ThreadOf {
        queue: "q".to_owned(),
        wishes: Some(next_thread),
        params: Arc::default(),
    };
    threads::spawn(None, &like_the_next.params.clone(), "first", move || {
        first.live(&like_the_next, "first", speaker);
    })
    .unwrap();
    stubs::eventually(|| pool.lock().stats().1.rescued == 3);
    // It answers one more call: by then it has its last thread.
    rescuer.call(pool.clone(), pwq);
    stubs::eventually(|| !rescuer.others_wait());
    let last = rescuer.tid();
    rescuer.stop();
    let tids = tids.lock().unwrap().clone();
    (tids.try_into().expect("each ran once"), last)
}

#[test]
fn after_an_item_that_ended_its_thread_the_rescuer_has_a_new_one() {
    let (tids, last) = threads_after_one_is_ended(WorkerThreads::new());
    assert_eq!(tids[1..], [last, last]);
    assert_ne!(tids[0], last);
}

#[test]
fn if_no_thread_can_be_created_the_rescuer_goes_on_on_the_one_that_was_ended() {
    let too_large = WorkerThreads::new().stack_size(1 << 60);
    let (tids, last) = threads_after_one_is_ended(too_large);
    assert_eq!(tids, [last; 3]);
}

#[test]
fn a_thread_that_got_the_id_of_a_rescuer_that_is_gone_is_left_alone() {
    let all = thread::current_binding().unwrap();
    let rescuer = Rescuer::new(all.clone());
    // The calling thread is the stranger.
    let tid = thread::current_tid() as u32;
    rescuer.tid.store(tid, Ordering::Relaxed);
    rescuer.stop();
    rescuer.move_to(&CpuSet::from_iter(all.first()));
    assert_eq!(thread::current_binding().unwrap(), all);
}

/// A rescuer that looked for it there would look until the run ends.
#[test]
fn an_item_that_waits_behind_a_run_of_itself_is_not_taken_for_one_on_the_worklist() {
    let pool = stubs::pool(1, 0);
    let pwq = stubs::add_pwq(&pool, Traits::default(), 3);
    let item = Work::new(|| ());
    let next = || pool.lock().next_task(Executor::worker());
    let is_on_worklist = || pool.lock_accepting().has_on_worklist(pwq.index);
    stubs::queue(&pool, pwq, &item);
    let Task { started, run } = next().expect("one waits");
    assert!(!is_on_worklist(), "it runs");
    stubs::queue(&pool, pwq, &item);
    assert!(is_on_worklist(), "no thread has looked at it yet");
    assert!(next().is_none(), "it waits for its run");
    assert!(!is_on_worklist(), "the thread that runs it goes on with it");
    let panicked = call(started, run.current);
    let behind = pool.lock().end_task(run, panicked);
    let Task { started, run } = behind.expect("it comes after its run");
    let panicked = call(started, run.current);
    assert!(pool.lock().end_task(run, panicked).is_none());
}
