//! Queueing against disabling, enabling and cancelling: for each instance exactly one thing happens
//! once. It runs, or it is removed, or it is refused.

use super::*;
use crate::workqueue::task::control::{disable, remove, wait_for_end};

/// A pool with one worker, and an item.
struct One {
    wq: Arc<Queue>,
    pool: Arc<Pool>,
    pwq: Arc<Pwq>,
    worker: thread::JoinHandle<()>,
    touched: Arc<Touched>,
    done: Arc<Parker>,
    item: Arc<Item>,
}

impl One {
    fn new() -> One {
        let (wq, pool) = (Queue::new(8), pool(1, 1));
        let (pwq, worker) = (wq.pwq(&pool), start(&pool));
        let (touched, done) = (Touched::new(), Arc::new(Parker::new()));
        let item = Item::new(&touched, Some(&done));
        One {
            wq,
            pool,
            pwq,
            worker,
            touched,
            done,
            item,
        }
    }

    /// Starts a thread that queues the item.
    fn issuer(&self) -> thread::JoinHandle<Result<(), Unclaimed>> {
        let (pwq, item) = (self.pwq.clone(), self.item.clone());
        thread::spawn(move || queue(&pwq, &item))
    }

    fn finish(self) {
        self.wq.finish([(self.pool, vec![self.worker])]);
    }
}

/// Returns a function that finds a pool by its number, as the registry does for the whole process.
fn find(pool: &Arc<Pool>) -> impl Fn(u32) -> Option<Arc<Pool>> {
    let pool = pool.clone();
    move |id| (id == pool.id).then(|| pool.clone())
}

#[test]
fn a_disabled_item_neither_waits_nor_runs_and_its_instance_went_one_way() {
    explore(3, || {
        let one = One::new();
        let issuer = one.issuer();
        let removed = disable(one.item.raw(), &find(&one.pool));
        wait_for_end(one.item.raw(), &find(&one.pool));
        assert!(!one.item.raw().is_pending());
        // This touch is ordered after the run, if there was one, and no run comes after it.
        let ran = one.touched.touch();
        let queued = issuer.join().unwrap();
        assert!(!one.item.raw().is_pending());
        let item = one.item.clone();
        one.finish();
        assert_eq!(item.runs(), ran);
        match queued {
            Ok(()) => assert_eq!(ran + usize::from(removed), 1, "it ran or was removed"),
            Err(why) => {
                assert_eq!(why, Unclaimed::Disabled, "nobody else queued it");
                assert_eq!((ran, removed), (0, false));
            }
        }
    });
}

#[test]
fn a_disabled_item_of_a_batch_does_not_run_any_more() {
    explore(3, || {
        let (wq, pool) = (Queue::new(8), batching_pool(1, 1));
        let pwq = wq.pwq(&pool);
        let touched = Touched::new();
        let items = [
            Item::new(&Touched::new(), None),
            Item::new(&touched, None),
            Item::new(&Touched::new(), None),
        ];
        for item in &items {
            queue(&pwq, item).unwrap();
        }
        let worker = start(&pool);
        let removed = disable(items[1].raw(), &find(&pool));
        wait_for_end(items[1].raw(), &find(&pool));
        // This touch is ordered after the run, if there was one, and no run comes after it.
        assert_eq!(touched.touch() + usize::from(removed), 1);
        wq.flush.run(|| wq.members());
        wq.finish([(pool, vec![worker])]);
        assert_eq!(items.map(|item| item.runs()), [1, usize::from(!removed), 1]);
    });
}

#[test]
fn of_two_that_cancel_and_a_worker_one_has_the_instance() {
    explore(3, || {
        let one = One::new();
        queue(&one.pwq, &one.item).unwrap();
        let other = thread::spawn({
            let (pool, item) = (one.pool.clone(), one.item.clone());
            move || remove(item.raw(), &find(&pool))
        });
        let mine = remove(one.item.raw(), &find(&one.pool));
        let removed = [mine, other.join().unwrap()].map(usize::from);
        let item = one.item.clone();
        one.finish();
        assert_eq!(removed[0] + removed[1] + item.runs(), 1);
    });
}

#[test]
fn what_is_queued_after_enabling_runs_though_another_was_just_refused() {
    explore(3, || {
        let one = One::new();
        disable(one.item.raw(), &find(&one.pool));
        let issuer = one.issuer();
        assert_eq!(one.item.raw().shallower(), Some(true));
        // Whether this call queues the item or finds it pending, a run begins after it.
        let before = one.item.runs();
        let mine = queue(&one.pwq, &one.item);
        let others = issuer.join().unwrap();
        let accepted = usize::from(mine.is_ok()) + usize::from(others.is_ok());
        assert!(accepted > 0, "pending, and yet nobody queued it");
        wait(&one.item, accepted, &one.done);
        let item = one.item.clone();
        one.finish();
        assert_eq!(item.runs(), accepted);
        assert!(mine.is_ok() || item.runs() > before);
    });
}

#[test]
fn cancelling_an_idle_item_does_not_make_it_look_pending() {
    explore(3, || {
        let one = One::new();
        let issuer = one.issuer();
        let removed = remove(one.item.raw(), &find(&one.pool));
        assert_eq!(issuer.join().unwrap(), Ok(()), "nobody else queued it");
        wait(&one.item, usize::from(!removed), &one.done);
        let item = one.item.clone();
        one.finish();
        assert_eq!(item.runs() + usize::from(removed), 1);
    });
}
