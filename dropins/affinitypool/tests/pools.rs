//! What the original's own tests leave out.

use affinitypool::{Builder, Error, MAX_THREADS, Threadpool, spawn, spawn_local};
use futures_lite::future::{block_on, poll_once};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

#[test]
fn as_many_closures_as_threads_are_active_and_no_more() {
    let pool = Threadpool::new(3);
    let [active, most] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let (ended, ends) = channel();
    let futures: Vec<_> = (0..3)
        .map(|_| {
            let (active, most, ended) = (active.clone(), most.clone(), ended.clone());
            pool.spawn(move || {
                let now = active.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                // All three have to be there for it to go on.
                while most.load(Ordering::SeqCst) < 3 {
                    thread::yield_now();
                }
                active.fetch_sub(1, Ordering::SeqCst);
                let _ = ended.send(());
            })
        })
        .collect();
    (0..3).for_each(|_| ends.recv().expect("a closure ends"));
    drop(futures);
    let (active, most) = (active.clone(), Arc::new(AtomicUsize::new(0)));
    let many: Vec<_> = (0..100)
        .map(|_| {
            let (active, most) = (active.clone(), most.clone());
            pool.spawn(move || {
                let now = active.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                thread::yield_now();
                active.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    block_on(async {
        for future in many {
            future.await;
        }
    });
    assert!((1..=3).contains(&most.load(Ordering::SeqCst)));
}

#[test]
fn a_closure_that_has_not_begun_is_cancelled_with_its_future() {
    let pool = Threadpool::new(1);
    let (go, wait) = channel::<()>();
    let first = pool.spawn(move || wait.recv().expect("it is told"));
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = ran.clone();
    drop(pool.spawn(move || counter.fetch_add(1, Ordering::SeqCst)));
    go.send(()).expect("it waits");
    block_on(first);
    assert_eq!(block_on(pool.spawn(|| 7)), 7);
    drop(pool);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert_eq!(Arc::strong_count(&ran), 1);
}

#[test]
fn the_future_of_a_closure_that_borrows_waits_in_its_destructor() {
    let pool = Threadpool::new(2);
    let ended = AtomicUsize::new(0);
    let (begun, begins) = channel();
    // SAFETY: it is dropped here.
    let mut future = unsafe {
        pool.spawn_local(|| {
            begun.send(()).expect("it is waited for");
            for _ in 0..1000 {
                thread::yield_now();
            }
            ended.store(1, Ordering::SeqCst);
        })
    };
    assert!(block_on(poll_once(&mut future)).is_none());
    begins.recv().expect("it begins");
    drop(future);
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    // One that was never polled does nothing.
    // SAFETY: as above.
    drop(unsafe { pool.spawn_local(|| ended.store(2, Ordering::SeqCst)) });
    assert_eq!(ended.load(Ordering::SeqCst), 1);
}

#[test]
fn the_global_pool_is_made_once_and_without_it_closures_run_at_once() {
    let here = thread::current().id();
    let id = || thread::current().id();
    assert_eq!(block_on(spawn(id)), here);
    // SAFETY: it is awaited at once.
    assert_eq!(block_on(unsafe { spawn_local(id) }), here);
    let pool = || Builder::new().thread_name("100 %p").build();
    pool().build_global().expect("the first");
    let error = pool().build_global().expect_err("the second");
    assert!(matches!(error, Error::GlobalThreadpoolExists));
    let name = || thread::current().name().map(str::to_owned);
    assert_eq!(block_on(spawn(name)).as_deref(), Some("100 %p"));
    // SAFETY: it is awaited at once.
    assert_ne!(block_on(unsafe { spawn_local(id) }), here);
}

#[test]
fn numbers_of_threads_are_cut_to_what_there_can_be() {
    for (asked, given) in [(0, 1), (7, 7), (MAX_THREADS + 1, MAX_THREADS)] {
        let pool = Threadpool::new(asked);
        assert_eq!((pool.num_threads(), pool.thread_count()), (given, given));
    }
    assert_eq!(Builder::new().shards(3).build().num_threads(), 2);
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let each = Builder::new().thread_per_core(true).build();
    assert_eq!(each.num_threads(), cpus.min(MAX_THREADS));
}
