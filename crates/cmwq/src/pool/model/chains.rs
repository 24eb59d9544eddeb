//! Batch submission: what an issuer publishes with one exchange runs once, wakes a parked worker,
//! and is seen by all threads that must see what was published before. Under the model checker two
//! items of one function make a chunk, which has four entries.

use super::chunks::{assert_accepted_in_order, pool_with_chunks, publish_all};
use super::*;
use crate::pool::queue::pwq_chunks::PwqChunks;
use std::sync::atomic::AtomicUsize;

/// As a queue does it; epoch pins and pool workqueues have models of their own. Returns how many
/// were accepted.
fn publish_batch(
    pool: &Arc<Pool>,
    pwq: PwqKey,
    chunks: Option<&PwqChunks>,
    items: &[Arc<Item>],
) -> usize {
    let mut accepted = 0;
    pool.publish_batch(chunks, |batch| {
        for item in items {
            if let Ok(mut pending) = item.claim() {
                pending.set_destination(pool.id, pwq.index);
                batch.add(pending);
                accepted += 1;
            }
        }
    });
    accepted
}

#[test]
fn a_batch_wakes_a_worker_that_sleeps_and_runs_once() {
    for in_chunks in [false, true] {
        explore(3, move || {
            let (pool, pwq, chunks) = pool_with_chunks(1);
            let done = Arc::new(Parker::new());
            let items = items::<3>(&done);
            let worker = start(&pool);
            let chunks = in_chunks.then_some(&*chunks);
            assert_eq!(publish_batch(&pool, pwq, chunks, &items), 3);
            wait_all(&items, &done);
            finish(&pool, [worker]);
            assert_eq!(items.map(|item| item.runs()), [1; 3]);
            assert_eq!(pool.lock().in_flight(pwq), 0);
        });
    }
}

/// Two items more fit into the chunk of the batch before, unless the worker has taken it; the last
/// one does not.
#[test]
fn a_batch_goes_on_with_the_chunk_of_the_one_before_and_runs_once() {
    explore(3, || {
        let (pool, pwq, chunks) = pool_with_chunks(1);
        let done = Arc::new(Parker::new());
        let items = items::<5>(&done);
        let worker = start(&pool);
        assert_eq!(publish_batch(&pool, pwq, Some(&chunks), &items[..2]), 2);
        assert_eq!(publish_batch(&pool, pwq, Some(&chunks), &items[2..]), 3);
        wait_all(&items, &done);
        finish(&pool, [worker]);
        assert_eq!(items.map(|item| item.runs()), [1; 5]);
        assert_eq!(pool.lock().in_flight(pwq), 0);
    });
}

#[test]
fn batches_of_two_issuers_run_once_each() {
    explore(2, || {
        let (pool, pwq, chunks) = pool_with_chunks(1);
        let done = Arc::new(Parker::new());
        let (mine, others) = (items::<3>(&done), items::<2>(&done));
        let worker = start(&pool);
        let other = thread::spawn({
            let (pool, chunks, others) = (pool.clone(), chunks.clone(), others.clone());
            move || publish_batch(&pool, pwq, Some(&chunks), &others)
        });
        assert_eq!(publish_batch(&pool, pwq, Some(&chunks), &mine), 3);
        assert_eq!(other.join().unwrap(), 2);
        wait_all(mine.iter().chain(&others), &done);
        finish(&pool, [worker]);
        assert_eq!(mine.map(|item| item.runs()), [1; 3]);
        assert_eq!(others.map(|item| item.runs()), [1; 2]);
    });
}

#[test]
fn a_batch_comes_after_what_its_issuer_has_published_before() {
    explore(2, || {
        let (pool, pwq, chunks) = pool_with_chunks(1);
        let items = items::<8>(&Arc::new(Parker::new()));
        // Alone, and in a chunk with free entries; then a batch with a chunk of its own, and one
        // item behind that.
        publish_all(&pool, pwq, &chunks, &items[..3]);
        assert_eq!(publish_batch(&pool, pwq, Some(&chunks), &items[3..7]), 4);
        publish_all(&pool, pwq, &chunks, &items[7..]);
        assert_accepted_in_order(&pool, &items);
        let worker = start(&pool);
        finish(&pool, [worker]);
        assert_eq!(items.map(|item| item.runs()), [1; 8]);
    });
}

#[test]
fn a_drain_sees_all_of_a_batch_or_nothing() {
    explore(3, || {
        let (pool, pwq, chunks) = pool_with_chunks(1);
        let done = Arc::new(Parker::new());
        let items = items::<3>(&done);
        let published = Arc::new(AtomicUsize::new(0));
        let issuer = thread::spawn({
            let (pool, chunks, items) = (pool.clone(), chunks.clone(), items.clone());
            let published = published.clone();
            move || {
                publish_batch(&pool, pwq, Some(&chunks), &items);
                // The models' own book-keeping.
                published.store(3, Ordering::Relaxed);
            }
        });
        let before = published.load(Ordering::Relaxed);
        let in_flight = {
            let mut guard = pool.lock();
            guard.drain();
            guard.in_flight(pwq) as usize
        };
        assert!(in_flight == 0 || in_flight == 3, "{in_flight} were seen");
        assert!(in_flight >= before, "it was published");
        issuer.join().unwrap();
        let worker = start(&pool);
        wait_all(&items, &done);
        finish(&pool, [worker]);
        assert_eq!(items.map(|item| item.runs()), [1; 3]);
    });
}

#[test]
fn an_item_that_runs_and_comes_again_in_a_batch_never_runs_twice_at_once() {
    explore(2, || {
        let (pool, pwq, chunks) = pool_with_chunks(2);
        let done = Arc::new(Parker::new());
        let items = items::<2>(&done);
        assert_eq!(publish_batch(&pool, pwq, Some(&chunks), &items), 2);
        let workers = [start(&pool), start(&pool)];
        let accepted = publish_batch(&pool, pwq, Some(&chunks), &items);
        let runs = || items.iter().map(|item| item.runs()).sum::<usize>();
        while runs() < 2 + accepted {
            done.park();
        }
        finish(&pool, workers);
        assert_eq!(runs(), 2 + accepted);
    });
}
