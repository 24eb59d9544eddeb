//! The thread that waits for an item runs it, or a worker runs it, or another thread removes it.
//! For each instance exactly one of these happens.

use super::*;
use crate::workqueue::task::control::remove;

#[test]
fn a_worker_or_the_waiter_runs_an_item_and_not_both() {
    explore(3, || {
        let (wq, pool) = (Queue::new(8), pool(1, 1));
        let (pwq, worker) = (wq.pwq(&pool), start(&pool));
        let (touched, done) = (Touched::new(), Arc::new(Parker::new()));
        let item = Item::new(&touched, Some(&done));
        queue(&pwq, &item).unwrap();
        if !pool.run_only(item.raw(), None) {
            wait(&item, 1, &done);
        }
        assert_eq!(item.runs(), 1);
        wq.flush.run(|| wq.members());
        assert_eq!(touched.touch(), 1);
        wq.finish([(pool, vec![worker])]);
    });
}

#[test]
fn what_is_queued_again_while_the_waiter_runs_it_runs_after_it() {
    explore(2, || {
        let (wq, pool) = (Queue::new(8), pool(1, 1));
        let (pwq, worker) = (wq.pwq(&pool), start(&pool));
        let item = Item::new(&Touched::new(), None);
        queue(&pwq, &item).unwrap();
        let again = thread::spawn({
            let (pwq, item) = (pwq.clone(), item.clone());
            move || queue(&pwq, &item).is_ok()
        });
        pool.run_only(item.raw(), None);
        // The runs touch the same memory, so two of them never overlap.
        let accepted = 1 + usize::from(again.join().unwrap());
        wq.flush.run(|| wq.members());
        assert_eq!(item.runs(), accepted);
        wq.finish([(pool, vec![worker])]);
    });
}

#[test]
fn a_waiter_and_one_who_cancels_do_not_both_have_the_item() {
    explore(3, || {
        let (wq, pool) = (Queue::new(8), pool(1, 1));
        let (pwq, worker) = (wq.pwq(&pool), start(&pool));
        let item = Item::new(&Touched::new(), None);
        queue(&pwq, &item).unwrap();
        let cancels = thread::spawn({
            let (pool, item) = (pool.clone(), item.clone());
            move || remove(item.raw(), &|_| Some(pool.clone()))
        });
        pool.run_only(item.raw(), None);
        let removed = cancels.join().unwrap();
        wq.flush.run(|| wq.members());
        assert_eq!(item.runs() + usize::from(removed), 1);
        wq.finish([(pool, vec![worker])]);
    });
}

#[test]
fn a_place_that_a_waiter_leaves_goes_to_who_waits_for_one() {
    explore(2, || {
        let wq = Queue::new(1);
        let pool = pool(1, 2);
        let (pwq, worker) = (wq.pwq(&pool), start(&pool));
        let touched = Touched::new();
        let items = [(); 2].map(|()| Item::new(&touched, None));
        for item in &items {
            queue(&pwq, item).unwrap();
        }
        // The second item is inactive until the first has ended. Whichever threads run them, their
        // runs never overlap.
        pool.run_only(items[0].raw(), None);
        pool.run_only(items[1].raw(), None);
        wq.flush.run(|| wq.members());
        assert!(items.iter().all(|item| item.runs() == 1));
        wq.finish([(pool, vec![worker])]);
    });
}
