//! What the original's own tests leave open.

use std::sync::{Arc, Mutex};
use threadpool::ThreadPool;

#[test]
fn a_pool_of_one_keeps_the_order() {
    let pool = ThreadPool::new(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    for i in 0..1000 {
        let order = order.clone();
        pool.execute(move || order.lock().expect("no panic").push(i));
    }
    pool.join();
    assert_eq!(*order.lock().expect("no panic"), Vec::from_iter(0..1000));
}

#[test]
fn the_name_of_a_pool_may_hold_percent_signs() {
    let pool = ThreadPool::with_name("100%p".into(), 2);
    let (sender, receiver) = std::sync::mpsc::channel();
    pool.execute(move || {
        let name = std::thread::current().name().map(str::to_owned);
        sender.send(name).expect("the test waits");
    });
    assert_eq!(receiver.recv().expect("a name").as_deref(), Some("100%p"));
}

#[test]
fn panics_are_counted_and_the_pool_goes_on() {
    let pool = ThreadPool::new(2);
    for i in 0..10 {
        pool.execute(move || assert!(i % 2 == 0, "a panic that the test wants"));
    }
    pool.join();
    assert_eq!(pool.panic_count(), 5);
    assert_eq!((pool.queued_count(), pool.active_count()), (0, 0));
}
