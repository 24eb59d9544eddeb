//! One credit for two pools. In any interleaving, an item that ends passes the credit on to a
//! waiter, and no two items have it at the same time.

use super::*;

#[test]
fn an_item_that_becomes_inactive_while_the_last_active_one_ends_gets_its_place() {
    explore(3, || {
        let wq = Queue::new(1);
        let pools = [pool(1, 1), pool(2, 1)];
        let pwqs = pools.each_ref().map(|pool| wq.pwq(pool));
        let workers = started(&pools);
        let done = Arc::new(Parker::new());
        let items = exclusive_items::<2>(&done);
        for (pwq, item) in pwqs.iter().zip(&items) {
            queue(pwq, item).unwrap();
        }
        wait_all(&items, &done);
        wq.finish(workers);
        assert!(items.iter().all(|item| item.runs() == 1));
    });
}

#[test]
fn an_item_that_becomes_inactive_while_the_limit_is_raised_becomes_active() {
    explore(3, || {
        let wq = Queue::new(0);
        let pool = pool(1, 1);
        let pwq = wq.pwq(&pool);
        let worker = start(&pool);
        let done = Arc::new(Parker::new());
        let items = exclusive_items::<2>(&done);
        for item in &items {
            queue(&pwq, item).unwrap();
        }
        // This thaws the queue.
        wq.limits.set_values(vec![1]);
        wq.limits.settle(&wq.members());
        wait_all(&items, &done);
        wq.finish([(pool, vec![worker])]);
        assert!(items.iter().all(|item| item.runs() == 1));
    });
}

/// When the queue is frozen, a worker may have taken a credit for an item of the other pool, and
/// may be at any point on the way to it.
#[test]
fn what_has_come_to_rest_below_a_limit_of_0_stays_so() {
    explore(2, || {
        let wq = Queue::new(1);
        let pools = [pool(1, 1), pool(2, 1)];
        let pwqs = pools.each_ref().map(|pool| wq.pwq(pool));
        let done = Arc::new(Parker::new());
        let items = exclusive_items::<2>(&done);
        for (pwq, item) in pwqs.iter().zip(&items) {
            queue(pwq, item).unwrap();
        }
        let workers = started(&pools);
        wq.limits.set_values(vec![0]);
        wq.limits.settle(&wq.members());
        if !wq.limits.is_any_active(&wq.members()) {
            let runs = || items.each_ref().map(|item| item.runs());
            let before = runs();
            assert!(!wq.limits.is_any_active(&wq.members()));
            assert_eq!(runs(), before);
        }
        wq.limits.set_values(vec![1]);
        wq.limits.settle(&wq.members());
        wait_all(&items, &done);
        wq.finish(workers);
    });
}

/// The queue is frozen while a thread is on its way to an item with a place: the smallest program in
/// which the order matters of what is asked.
#[test]
fn an_item_that_is_about_to_get_a_place_counts_as_active() {
    explore(3, || {
        let wq = Queue::new(0);
        // No worker ever comes.
        let pool = pool(1, 1);
        let pwq = wq.pwq(&pool);
        let item = Item::new(&Touched::new(), None);
        queue(&pwq, &item).unwrap();
        pool.lock().drain();
        wq.limits.set_values(vec![1]);
        let serves = thread::spawn({
            let wq = wq.clone();
            move || wq.limits.serve(0)
        });
        // The checker takes a thread's first step after a spawn to come before the new thread.
        let _ = wq.limits.of(0).admits();
        wq.limits.set_values(vec![0]);
        wq.limits.settle(&wq.members());
        if !wq.limits.is_any_active(&wq.members()) {
            assert!(!wq.limits.is_any_active(&wq.members()));
        }
        serves.join().unwrap();
        let removed = pool.lock().take_out(1, item.raw());
        removed.expect("nobody else takes it").0.release();
        wq.finish([(pool, Vec::new())]);
        assert_eq!(item.runs(), 0);
    });
}

#[test]
fn a_place_is_not_lost_with_a_pool_workqueue_that_goes_while_it_waits() {
    explore(3, || {
        let wq = Queue::new(1);
        let pools = [pool(1, 1), pool(2, 1)];
        let pwqs = pools.each_ref().map(|pool| wq.pwq(pool));
        let workers = [(pools[0].clone(), vec![start(&pools[0])])];
        let done = Arc::new(Parker::new());
        let items = exclusive_items::<2>(&done);
        queue(&pwqs[0], &items[0]).unwrap();
        // The pool has no worker. This thread accepts the item, removes it, and retires the pool
        // workqueue.
        let gone = Item::new(&Touched::new(), None);
        queue(&pwqs[1], &gone).unwrap();
        {
            let mut guard = pools[1].lock();
            guard.drain();
        }
        let removed = pools[1].lock().take_out(2, gone.raw());
        removed.expect("nobody else takes it").0.release();
        assert!(pools[1].lock().retire_pwq(pwqs[1].key));
        queue(&pwqs[0], &items[1]).unwrap();
        wait_all(&items, &done);
        wq.finish(workers);
        assert_eq!(gone.runs(), 0);
        assert!(!wq.limits.of(0).someone_waits(), "it is gone");
    });
}

#[test]
fn a_place_that_one_pool_workqueue_keeps_for_its_next_item_comes_to_the_other_in_the_end() {
    explore(2, || {
        let wq = Queue::new(1);
        let pools = [pool(1, 1), pool(2, 1)];
        let pwqs = pools.each_ref().map(|pool| wq.pwq(pool));
        let done = Arc::new(Parker::new());
        let items = exclusive_items::<4>(&done);
        // Before any item runs, one item is active and two wait. The credit goes from the first
        // item to the second without a visit to the store.
        for item in &items[..3] {
            queue(&pwqs[0], item).unwrap();
        }
        let workers = started(&pools);
        queue(&pwqs[1], &items[3]).unwrap();
        wait_all(&items, &done);
        wq.finish(workers);
        assert!(items.iter().all(|item| item.runs() == 1));
    });
}

#[test]
fn the_places_of_a_batch_go_to_who_waits_when_it_ends() {
    explore(2, || {
        let wq = Queue::new(2);
        let pools = [batching_pool(1, 1), pool(2, 1)];
        let pwqs = pools.each_ref().map(|pool| wq.pwq(pool));
        let done = Arc::new(Parker::new());
        let items = items::<3>(&done);
        // Two items go to one pool, which then has all credits, and one to the other pool.
        for (pwq, item) in [&pwqs[0], &pwqs[0], &pwqs[1]].into_iter().zip(&items) {
            queue(pwq, item).unwrap();
        }
        let workers = started(&pools);
        wait_all(&items, &done);
        wq.finish(workers);
        assert!(items.iter().all(|item| item.runs() == 1));
    });
}
