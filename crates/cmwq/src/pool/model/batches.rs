//! Batches: the items that a worker has taken together run once each, never two instances of one at
//! a time, and a thread that takes the ordinary lock sees what is true.

use super::*;

/// A pool whose workers take all that they find, with a pool workqueue.
fn batching(cpus: usize) -> (Arc<Pool>, PwqKey) {
    let pool = batching_pool(1, cpus);
    let pwq = add_pwq(&pool, None);
    (pool, pwq)
}

#[test]
fn who_looks_while_a_batch_is_run_sees_what_has_run() {
    explore(3, || {
        let (pool, pwq) = batching(1);
        let touched = [Touched::new(), Touched::new()];
        let done = Arc::new(Parker::new());
        let items = [
            Item::new(&touched[0], None),
            Item::new(&touched[1], Some(&done)),
        ];
        for item in &items {
            assert!(queue(&pool, pwq, item));
        }
        let worker = start(&pool);
        // An item that is not in flight has run, and its effect is seen; an item in flight may have run.
        let in_flight = {
            let mut guard = pool.lock();
            guard.drain();
            guard.in_flight(pwq)
        };
        assert!(in_flight <= 2);
        if in_flight < 2 {
            assert_eq!(touched[0].touch(), 1, "it is over and has not run");
        }
        if in_flight == 0 {
            assert_eq!(touched[1].touch(), 1, "it is over and has not run");
        }
        wait(&items[1], 1, &done);
        finish(&pool, [worker]);
        let (stats, _) = pool.lock().stats();
        assert_eq!((stats.started, stats.completed), (2, 2));
        assert_eq!(items.map(|item| item.runs()), [1, 1]);
    });
}

#[test]
fn an_item_queued_again_while_its_batch_is_open_never_runs_twice_at_once() {
    explore(2, || {
        let (pool, pwq) = batching(2);
        let done = Arc::new(Parker::new());
        let again = Item::new(&Touched::new(), Some(&done));
        let behind = Item::new(&Touched::new(), None);
        assert!(queue(&pool, pwq, &again));
        assert!(queue(&pool, pwq, &behind));
        let workers = [start(&pool), start(&pool)];
        let accepted = 1 + usize::from(queue(&pool, pwq, &again));
        wait(&again, accepted, &done);
        finish(&pool, workers);
        assert_eq!((again.runs(), behind.runs()), (accepted, 1));
    });
}

#[test]
fn what_is_behind_a_blocked_item_runs_when_the_monitor_has_looked() {
    explore(3, || {
        let (pool, pwq) = batching(2);
        let (begun, second_done) = (Arc::new(Parker::new()), Arc::new(Parker::new()));
        // The first item ends only when the second has run.
        let first = Item::waiting(&Touched::new(), &begun, &second_done);
        let second = Item::new(&Touched::new(), Some(&second_done));
        // One may be parked when the other takes both.
        let workers = [start(&pool), start(&pool)];
        assert!(queue(&pool, pwq, &first));
        assert!(queue(&pool, pwq, &second));
        begun.park();
        // As the monitor does.
        drop(pool.lock());
        finish(&pool, workers);
        assert_eq!((first.runs(), second.runs()), (1, 1));
    });
}

#[test]
fn an_item_is_taken_out_of_a_batch_or_runs() {
    explore(3, || {
        let (pool, pwq) = batching(1);
        let done = Arc::new(Parker::new());
        let items = items::<2>(&done);
        for item in &items {
            assert!(queue(&pool, pwq, item));
        }
        let worker = start(&pool);
        let taken = pool.lock().take_out(pool.id, items[1].raw());
        let taken = taken.map(|(pending, _)| pending.release()).is_some();
        wait(&items[0], 1, &done);
        wait(&items[1], usize::from(!taken), &done);
        finish(&pool, [worker]);
        assert_eq!(items.map(|item| item.runs()), [1, usize::from(!taken)]);
        assert_eq!(pool.lock().in_flight(pwq), 0);
    });
}

#[test]
fn two_workers_share_what_was_queued() {
    explore(2, || {
        let (pool, pwq) = batching(2);
        let done = Arc::new(Parker::new());
        let items = items::<3>(&done);
        for item in &items {
            assert!(queue(&pool, pwq, item));
        }
        let workers = [start(&pool), start(&pool)];
        wait_all(&items, &done);
        finish(&pool, workers);
        assert_eq!(items.map(|item| item.runs()), [1, 1, 1]);
    });
}
