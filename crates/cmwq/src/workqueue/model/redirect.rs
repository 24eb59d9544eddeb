//! One item and two pools: the item never runs on both at the same time, and no instance is lost.

use super::*;

/// Queues an item as a queue does whose slot points to `pwq`. Returns whether a new instance was
/// accepted.
fn queue_from(wq: &Arc<Queue>, pwq: &Pwq, pools: &[Arc<Pool>], item: &Item) -> bool {
    let Ok(pending) = item.claim() else {
        return false;
    };
    let find = |id| pools.iter().find(|pool| pool.id == id);
    pwq.publish(pending, wq.id(), find, &Sampler::new(), None);
    true
}

/// Queues the item on each of the pools `first` in turn and, with `second_issuer`, from another
/// thread on the second pool. The first pool has `workers` workers.
fn model(preemptions: usize, workers: usize, first: &'static [usize], second_issuer: bool) {
    explore(preemptions, move || {
        let wq = Queue::new(8);
        let pools = [pool(1, workers), pool(2, 1)];
        let pwqs = pools.each_ref().map(|pool| wq.pwq(pool));
        let of_first = (0..workers).map(|_| start(&pools[0])).collect();
        let workers = [
            (pools[0].clone(), of_first),
            (pools[1].clone(), vec![start(&pools[1])]),
        ];
        let done = Arc::new(Parker::new());
        let item = Item::new(&Touched::new(), Some(&done));
        let other = second_issuer.then(|| {
            let (wq, pwq, pools, item) = (wq.clone(), pwqs[1].clone(), pools.clone(), item.clone());
            thread::spawn(move || queue_from(&wq, &pwq, &pools, &item))
        });
        let mut accepted = 0;
        for &to in first {
            accepted += usize::from(queue_from(&wq, &pwqs[to], &pools, &item));
        }
        accepted += other.map_or(0, |other| usize::from(other.join().unwrap()));
        wait(&item, accepted, &done);
        wq.finish(workers);
        assert_eq!(item.runs(), accepted);
    });
}

#[test]
fn an_item_queued_from_another_pod_while_it_runs_waits_for_its_run() {
    model(3, 1, &[0, 1], false);
}

#[test]
fn an_item_that_two_pods_queue_at_once_never_runs_on_both() {
    model(2, 1, &[0], true);
}

#[test]
fn an_item_sent_to_the_pool_that_runs_it_is_handed_to_the_worker_that_does() {
    model(2, 2, &[0, 1], false);
}

/// Its run is in an open batch, and not in the busy table.
#[test]
fn an_item_queued_from_another_pod_while_its_batch_is_open_waits_for_its_run() {
    explore(2, || {
        let wq = Queue::new(8);
        let pools = [batching_pool(1, 1), pool(2, 1)];
        let pwqs = pools.each_ref().map(|pool| wq.pwq(pool));
        let done = Arc::new(Parker::new());
        let [again, behind] = items(&done);
        for item in [&again, &behind] {
            assert!(queue_from(&wq, &pwqs[0], &pools, item));
        }
        let workers = pools
            .each_ref()
            .map(|pool| (pool.clone(), vec![start(pool)]));
        let accepted = 1 + usize::from(queue_from(&wq, &pwqs[1], &pools, &again));
        wait(&again, accepted, &done);
        wait(&behind, 1, &done);
        wq.finish(workers);
        assert_eq!((again.runs(), behind.runs()), (accepted, 1));
    });
}

/// The thread that closes the batch enters the run in the busy table first.
#[test]
fn an_item_whose_batch_is_closed_meanwhile_is_not_taken_for_one_that_has_ended() {
    explore(3, || {
        let wq = Queue::new(8);
        let pools = [batching_pool(1, 1)];
        let pwq = wq.pwq(&pools[0]);
        let (touched, done) = (Touched::new(), Arc::new(Parker::new()));
        let again = Item::new(&touched, Some(&done));
        let behind = Item::new(&Touched::new(), None);
        for item in [&again, &behind] {
            assert!(queue_from(&wq, &pwq, &pools, item));
        }
        let worker = start(&pools[0]);
        let closer = thread::spawn({
            let pool = pools[0].clone();
            move || drop(pool.lock())
        });
        let mut accepted = 1;
        if let Ok(pending) = again.claim() {
            match pools[0].publish_if_it_runs(pending, wq.id()) {
                Ok(()) => accepted += 1,
                Err(item) => {
                    touched.touch();
                    item.release();
                }
            }
        }
        closer.join().unwrap();
        wait(&again, accepted, &done);
        let [pool] = pools;
        wq.finish([(pool, vec![worker])]);
        assert_eq!((again.runs(), behind.runs()), (accepted, 1));
    });
}
