//! A flush returns only when all items that were queued before it have ended, and it does return.

use super::*;
use crate::workqueue::parts::flush::Awaited;
use std::task::{Wake, Waker};

/// Checks what a flush waits for: a touch after the flush is ordered after the runs.
fn touched_once(touched: &Touched) {
    assert_eq!(touched.touch(), 1, "the flush returned too early");
}

#[test]
fn a_flush_waits_for_the_earlier_item_while_another_is_queued() {
    explore(3, || {
        let wq = Queue::new(8);
        let pool = pool(1, 1);
        let pwq = wq.pwq(&pool);
        let worker = start(&pool);
        let touched = Touched::new();
        let earlier = Item::new(&touched, None);
        let other = Item::new(&Touched::new(), None);
        queue(&pwq, &earlier).unwrap();
        let issuer = thread::spawn({
            let (pwq, other) = (pwq.clone(), other.clone());
            move || queue(&pwq, &other).unwrap()
        });
        wq.flush.run(|| wq.members());
        touched_once(&touched);
        issuer.join().unwrap();
        // The items of the other issuer have this colour or the next one.
        wq.flush.run(|| wq.members());
        assert_eq!(other.runs(), 1);
        wq.finish([(pool, vec![worker])]);
    });
}

#[test]
fn a_flush_waits_for_the_batch_that_its_items_are_in() {
    explore(3, || {
        let wq = Queue::new(8);
        let pool = batching_pool(1, 1);
        let pwq = wq.pwq(&pool);
        let touched = [Touched::new(), Touched::new()];
        let items = touched.each_ref().map(|touched| Item::new(touched, None));
        for item in &items {
            queue(&pwq, item).unwrap();
        }
        let worker = start(&pool);
        wq.flush.run(|| wq.members());
        touched.iter().for_each(|touched| touched_once(touched));
        wq.finish([(pool, vec![worker])]);
    });
}

#[test]
fn a_flush_waits_for_every_pool() {
    explore(3, || {
        let wq = Queue::new(8);
        let pools = [pool(1, 1), pool(2, 1)];
        let workers = started(&pools);
        let touched = [Touched::new(), Touched::new()];
        let items = touched.each_ref().map(|touched| Item::new(touched, None));
        for (pool, item) in pools.iter().zip(&items) {
            queue(&wq.pwq(pool), item).unwrap();
        }
        wq.flush.run(|| wq.members());
        touched.iter().for_each(|touched| touched_once(touched));
        wq.finish(workers);
    });
}

#[test]
fn two_flushers_at_once_each_wait_for_what_they_queued() {
    explore(3, || {
        let wq = Queue::new(8);
        let pool = pool(1, 1);
        let pwq = wq.pwq(&pool);
        let worker = start(&pool);
        let queue_and_flush = |wq: &Queue, pwq: &Pwq| {
            let own = Item::new(&Touched::new(), None);
            queue(pwq, &own).unwrap();
            wq.flush.run(|| wq.members());
            assert_eq!(own.runs(), 1);
            own
        };
        let other = thread::spawn({
            let (wq, pwq) = (wq.clone(), pwq.clone());
            move || queue_and_flush(&wq, &pwq)
        });
        let _mine = queue_and_flush(&wq, &pwq);
        let _others = other.join().unwrap();
        wq.finish([(pool, vec![worker])]);
    });
}

/// Awaits a flush in a task, on an executor of one thread.
fn await_flush(wq: &Queue) {
    struct Unpark(Parker);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let unpark = Arc::new(Unpark(Parker::new()));
    let waker = Waker::from(unpark.clone());
    let mut awaited = Awaited::default();
    while !wq.flush.poll(&mut awaited, || wq.members(), &waker) {
        unpark.0.park();
    }
}

#[test]
fn an_awaited_flush_waits_for_the_earlier_item_beside_a_flusher() {
    explore(3, || {
        let wq = Queue::new(8);
        let pool = pool(1, 1);
        let pwq = wq.pwq(&pool);
        let worker = start(&pool);
        let touched = Touched::new();
        let earlier = Item::new(&touched, None);
        queue(&pwq, &earlier).unwrap();
        let other = thread::spawn({
            let wq = wq.clone();
            move || wq.flush.run(|| wq.members())
        });
        await_flush(&wq);
        touched_once(&touched);
        other.join().unwrap();
        wq.finish([(pool, vec![worker])]);
    });
}
