//! Portions: what is staged under several holdings of the lock is seen, run and cancelled as under
//! one. Under the model checker a holding touches four nodes.

use super::chunks::{pool_with_chunks, publish_all};
use super::*;
use std::sync::atomic::AtomicUsize;

#[test]
fn who_accepts_in_several_holdings_sees_what_was_published_before() {
    explore(2, || {
        let pool = pool(1, 1);
        let pwq = add_pwq(&pool, None);
        let done = Arc::new(Parker::new());
        let (mine, others) = (items::<5>(&done), items::<2>(&done));
        for item in &mine {
            assert!(queue(&pool, pwq, item));
        }
        let told = Arc::new(AtomicUsize::new(0));
        let publisher = thread::spawn({
            let (pool, others, told) = (pool.clone(), others.clone(), told.clone());
            move || {
                for item in &others {
                    assert!(queue(&pool, pwq, item));
                    // The models' own book-keeping.
                    told.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let before = 5 + told.load(Ordering::Relaxed);
        let seen = pool.lock_accepting().in_flight(pwq) as usize;
        assert!((before..=7).contains(&seen), "{seen} of {before} were seen");
        publisher.join().unwrap();
        let worker = start(&pool);
        wait_all(mine.iter().chain(&others), &done);
        finish(&pool, [worker]);
        assert_eq!(mine.map(|item| item.runs()), [1; 5]);
        assert_eq!(others.map(|item| item.runs()), [1; 2]);
    });
}

#[test]
fn a_worker_that_takes_what_is_staged_in_several_holdings_misses_nothing() {
    explore(1, || {
        let pool = pool(1, 1);
        let pwq = add_pwq(&pool, None);
        let done = Arc::new(Parker::new());
        let (mine, late) = (items::<5>(&done), items::<1>(&done));
        for item in &mine {
            assert!(queue(&pool, pwq, item));
        }
        let worker = start(&pool);
        assert!(queue(&pool, pwq, &late[0]));
        wait_all(mine.iter().chain(&late), &done);
        finish(&pool, [worker]);
        assert_eq!(mine.map(|item| item.runs()), [1; 5]);
        assert_eq!(late[0].runs(), 1);
    });
}

/// Cancels `item`; returns whether it was removed.
fn cancel(pool: &Arc<Pool>, item: &Item) -> usize {
    let removed = pool.cancel(item.raw());
    removed.map_or(0, |(pending, _)| {
        pending.release();
        1
    })
}

#[test]
fn an_item_that_is_cancelled_while_its_maker_adds_to_the_chunk_runs_or_is_removed() {
    explore(3, || {
        let (pool, pwq, chunks) = pool_with_chunks(1);
        let done = Arc::new(Parker::new());
        let items = items::<4>(&done);
        // The first goes alone, the second begins a chunk.
        publish_all(&pool, pwq, &chunks, &items[..2]);
        let canceller = thread::spawn({
            let (pool, items) = (pool.clone(), items.clone());
            move || [&items[2], &items[1]].map(|item| cancel(&pool, item))
        });
        publish_all(&pool, pwq, &chunks, &items[2..]);
        let [third, second] = canceller.join().unwrap();
        assert_eq!(second, 1, "it was published before, and no worker is there");
        let worker = start(&pool);
        finish(&pool, [worker]);
        assert_eq!(items.map(|item| item.runs()), [1, 0, 1 - third, 1]);
        assert_eq!(pool.lock().in_flight(pwq), 0);
    });
}

#[test]
fn an_item_that_is_cancelled_while_a_worker_empties_its_chunk_runs_or_is_removed() {
    explore(2, || {
        let (pool, pwq, chunks) = pool_with_chunks(1);
        let done = Arc::new(Parker::new());
        let items = items::<3>(&done);
        publish_all(&pool, pwq, &chunks, &items);
        let worker = start(&pool);
        let removed = cancel(&pool, &items[2]);
        finish(&pool, [worker]);
        assert_eq!(items.map(|item| item.runs()), [1, 1, 1 - removed]);
        assert_eq!(pool.lock().in_flight(pwq), 0);
    });
}
