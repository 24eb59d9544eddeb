//! A worker's first item, its moves, and its sleeps.

use super::*;
use crate::Work;
use crate::pool::queue::pwq::Traits;
use crate::pool::state::group::Group;
use crate::pool::stubs;
use crate::sys::slice;
use std::sync::atomic::AtomicU64;

/// What an item starts inherits the CPUs of its thread.
#[test]
fn a_worker_that_was_moved_runs_no_item_before_it_has_all_cpus_of_its_pod() {
    let own: Vec<usize> = thread::current_binding().unwrap().iter().collect();
    let [here, there, ..] = own[..] else {
        // There is no CPU to move it to.
        return;
    };
    let pool = stubs::pool_on(&Group::new(), 1022, &[here, there]);
    let pwq = stubs::add_pwq(&pool, Traits::default(), 1);
    let seen = Arc::new(AtomicU64::new(0));
    let of_item = seen.clone();
    let work = Work::new(move || {
        let cpus = thread::current_binding().unwrap();
        of_item.store(cpus.len() as u64, Ordering::Relaxed);
    });
    stubs::queue(&pool, pwq, &work);
    let (id, handle) = stubs::searching(&pool);
    let its_pool = pool.clone();
    let worker = std::thread::spawn(move || {
        let _membership = Membership::enter(&its_pool, id);
        let mut worker = Worker::new(&its_pool, id, &handle);
        handle
            .tid
            .store(thread::current_tid() as u32, Ordering::Relaxed);
        let mut guard = its_pool.lock();
        // It searches on this CPU, where an issuer runs, and has not slept.
        let inner: &mut Inner = &mut guard;
        let place = &mut inner.workers[id].place;
        inner.occupied.enter(place, Some(here));
        guard.move_any_searcher(here);
        assert!(guard.workers[id].place.is_bound(), "it was moved");
        worker.run_what_waits(guard);
    });
    worker.join().expect("it was moved, and ran the item");
    assert_eq!(seen.load(Ordering::Relaxed), 2, "CPUs that the item has");
}

#[test]
fn a_worker_is_counted_before_it_runs_an_item() {
    let pool = stubs::pool(1023, 0);
    let pwq = stubs::add_pwq(&pool, Traits::default(), 1);
    let counted = Arc::new(AtomicU64::new(0));
    let (of_item, its_pool) = (counted.clone(), pool.clone());
    let work = Work::new(move || {
        let created = its_pool.lock_beside_batches().stats.workers_created;
        of_item.store(created, Ordering::Relaxed);
    });
    stubs::queue(&pool, pwq, &work);
    let its_pool = pool.clone();
    let worker = std::thread::spawn(move || {
        let (id, handle) = its_pool.enroll();
        let _membership = Membership::enter(&its_pool, id);
        its_pool.work(id, &handle);
    });
    stubs::eventually(|| pool.lock().pwqs[pwq.index].stats.completed == 1);
    assert_eq!(counted.load(Ordering::Relaxed), 1);
    // It sleeps, and makes system calls while no other thread needs what it holds.
    stubs::eventually(|| pool.lock().idle().len() == 1);
    pool.shut_down();
    stubs::eventually(|| worker.is_finished());
    worker.join().expect("it has ended by itself");
}

/// It has slept for long and computed for little. An event would cost it two allocations, and be
/// done only when it has taken an item.
#[test]
fn a_worker_that_was_woken_gives_itself_the_slice_that_it_is_to_have() {
    let pool = stubs::pool(1024, 0);
    let (id, handle) = stubs::searching(&pool);
    let its_pool = pool.clone();
    let worker = std::thread::spawn(move || {
        let _membership = Membership::enter(&its_pool, id);
        let mut worker = Worker::new(&its_pool, id, &handle);
        let tid = thread::current_tid();
        handle.tid.store(tid as u32, Ordering::Relaxed);
        let supported = slice::set(tid, false).is_ok();
        worker.slept_cpu_ns = thread::cpu_time_of_current_ns();
        let mut guard = its_pool.lock();
        let brief = (0..64).any(|_| guard.occupied.note_wake_up(0));
        assert!(brief, "workers are woken for little");
        let guard = worker.sleep(guard);
        assert!(guard.rest.is_none(), "nothing is left to be done");
        assert!(!worker.slice.is_to_change(true));
        drop(guard);
        supported.then(|| slice::of(tid)).flatten()
    });
    stubs::eventually(|| {
        let mut guard = pool.lock();
        guard.idle().len() == 1 && guard.wake_idle()
    });
    let slice_ns = worker.join().expect("it was woken");
    assert!(slice_ns.is_none_or(|ns| ns < 1_000_000), "{slice_ns:?}");
}
