//! A thread that has a caller slot, against threads that close the slot. Each item runs once, the
//! closing thread waits for it, and the limit is kept.

use super::*;
use crate::pool::{CallerSlot, Current};

/// A queue with one worker, on which one thread has a caller slot.
struct Biased {
    wq: Arc<Queue>,
    pool: Arc<Pool>,
    pwq: Arc<Pwq>,
    caller_slot: Arc<CallerSlot>,
    worker: thread::JoinHandle<()>,
}

impl Biased {
    fn new(max_active: i32) -> Biased {
        let (wq, pool) = (Queue::new(max_active), pool(1, 1));
        let pwq = wq.pwq(&pool);
        let caller_slot = pool
            .lock()
            .open_caller_slot(pwq.key)
            .expect("nobody else wants its place");
        let worker = start(&pool);
        Biased {
            wq,
            pool,
            pwq,
            caller_slot,
            worker,
        }
    }

    /// Spawns the item, into the caller slot if that is open.
    fn put(&self, item: &Item) -> bool {
        let mut pending = item.claim().unwrap();
        pending.set_destination(self.pool.id, self.pwq.key.index);
        match self.caller_slot.item_slot.put(pending) {
            Ok(()) => true,
            Err(pending) => {
                publish(&self.pwq, pending);
                false
            }
        }
    }

    /// Joins the item.
    fn join(&self, item: &Item) {
        let Some(pending) = self.caller_slot.item_slot.take(item.raw()) else {
            return;
        };
        let (panicked, closed) = self.caller_slot.run(pending.start(), Current::default());
        assert!(!panicked, "a work function failed");
        if closed {
            self.pool
                .end_caller_slot_run(self.pwq.key, &self.caller_slot);
        }
    }

    fn finish(self) {
        self.wq.flush.run(|| self.wq.members());
        let stats = self.pool.lock().pwq_stats(self.pwq.key);
        assert_eq!(stats.started, stats.completed);
        self.wq.finish([(self.pool, vec![self.worker])]);
    }
}

#[test]
fn a_flush_waits_for_what_is_in_a_caller_slot() {
    explore(3, || {
        let biased = Biased::new(8);
        let touched = Touched::new();
        let item = Item::new(&touched, None);
        biased.put(&item);
        let flusher = thread::spawn({
            let (wq, touched) = (biased.wq.clone(), touched.clone());
            move || {
                wq.flush.run(|| wq.members());
                assert_eq!(touched.touch(), 1, "the flush returned too early");
            }
        });
        biased.join(&item);
        flusher.join().unwrap();
        assert_eq!(item.runs(), 1);
        biased.finish();
    });
}

#[test]
fn what_goes_to_a_caller_slot_while_it_is_closed_runs_once() {
    explore(3, || {
        let biased = Biased::new(8);
        let closer = thread::spawn({
            let (pool, key) = (biased.pool.clone(), biased.pwq.key);
            move || pool.lock().close_all_caller_slots(key)
        });
        // These items may be queued after the closing thread began. It finds them only through the
        // caller slot.
        let items = [(); 2].map(|()| Item::new(&Touched::new(), None));
        for item in &items {
            biased.put(item);
            biased.join(item);
        }
        closer.join().unwrap();
        biased.wq.flush.run(|| biased.wq.members());
        assert!(items.iter().all(|item| item.runs() == 1));
        let stats = biased.pool.lock().pwq_stats(biased.pwq.key);
        assert_eq!((stats.started, stats.completed), (2, 2));
        biased.finish();
    });
}

#[test]
fn who_needs_the_place_of_a_caller_slot_gets_it_when_its_item_has_run() {
    explore(3, || {
        let biased = Biased::new(1);
        let touched = Touched::new();
        let [own, others] = [(); 2].map(|()| Item::new(&touched, None));
        biased.put(&own);
        let issuer = thread::spawn({
            let (pwq, others) = (biased.pwq.clone(), others.clone());
            move || queue(&pwq, &others).unwrap()
        });
        // The two items never run at the same time, because they touch the same memory.
        biased.join(&own);
        issuer.join().unwrap();
        biased.wq.flush.run(|| biased.wq.members());
        assert_eq!((own.runs(), others.runs()), (1, 1));
        biased.finish();
    });
}

#[test]
fn an_item_in_a_caller_slot_that_another_thread_waits_for_runs_once() {
    explore(3, || {
        let biased = Biased::new(8);
        let (touched, item) = {
            let touched = Touched::new();
            (touched.clone(), Item::new(&touched, None))
        };
        biased.put(&item);
        let other = thread::spawn({
            let (pool, item) = (biased.pool.clone(), item.clone());
            move || pool.run_only(item.raw(), None)
        });
        // The thread that spawned the item does not join it.
        assert!(other.join().unwrap(), "the waiter runs it");
        biased.wq.flush.run(|| biased.wq.members());
        assert_eq!(touched.touch(), 1);
        biased.finish();
    });
}
