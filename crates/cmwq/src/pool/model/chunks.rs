//! Chunks: what is published together runs once, is seen by each thread that must see all that was
//! published, and is never lost between the uses of a chunk. Under the model checker a chunk has
//! four entries, and a thread's second item in a row begins one.

use super::*;
use crate::item::closure::Small;
use crate::item::{Callable, Pending};
use crate::pool::queue::pwq_chunks::PwqChunks;
use crate::pool::queue::times::Sampler;
use crate::pool::submit::producer::{
    Issuer, claim_and_publish_again, publish_closure_again, wait_begins,
};
use crate::pool::task::busy::Executor;
use crate::pool::task::call::call;
use crate::sys::epoch::epoch;
use std::sync::atomic::AtomicUsize;

/// A pool whose workers take all that they find, with a pool workqueue and its chunks.
pub(super) fn pool_with_chunks(cpus: usize) -> (Arc<Pool>, PwqKey, Arc<PwqChunks>) {
    let pool = batching_pool(1, cpus);
    let pwq = add_pwq(&pool, None);
    let chunks = Arc::new(PwqChunks::new(
        pool.id,
        pwq.index,
        &pool.oldest_batch,
        &pool.chunk_numbers,
    ));
    (pool, pwq, chunks)
}

/// The threads of these models queue from nowhere else.
const ISSUER: Issuer = Issuer {
    queue: 1,
    cpu: 0,
    declared: 0,
};

/// Publishes an item whose destination is set, and caches the route.
fn publish_by(pool: &Arc<Pool>, chunks: &PwqChunks, item: Pending) {
    pool.publish(item, Some(chunks), &Sampler::new(), Some((ISSUER, epoch())));
}

/// As a queue does it; epoch pins and pool workqueues have models of their own.
fn publish(pool: &Arc<Pool>, pwq: PwqKey, chunks: &PwqChunks, item: &Arc<Item>) -> bool {
    let claimed = match claim_and_publish_again(ISSUER, || item.claim()) {
        Some(Ok(Ok(()))) => return true,
        Some(Ok(Err(pending))) => Ok(pending),
        Some(Err(why_not)) => Err(why_not),
        None => item.claim(),
    };
    let Ok(mut pending) = claimed else {
        return false;
    };
    pending.set_destination(pool.id, pwq.index);
    publish_by(pool, chunks, pending);
    true
}

/// Publishes them one after the other.
pub(super) fn publish_all(pool: &Arc<Pool>, pwq: PwqKey, chunks: &PwqChunks, items: &[Arc<Item>]) {
    for item in items {
        assert!(publish(pool, pwq, chunks, item));
    }
}

#[test]
fn what_one_thread_publishes_together_runs_once_each() {
    explore(3, || {
        let (pool, pwq, chunks) = pool_with_chunks(1);
        let done = Arc::new(Parker::new());
        let items = items::<4>(&done);
        let worker = start(&pool);
        publish_all(&pool, pwq, &chunks, &items);
        wait_all(&items, &done);
        finish(&pool, [worker]);
        assert_eq!(items.map(|item| item.runs()), [1; 4]);
        let (stats, _) = pool.lock().stats();
        assert_eq!((stats.started, stats.completed), (4, 4));
        assert_eq!(pool.lock().in_flight(pwq), 0);
    });
}

#[test]
fn what_two_threads_publish_together_runs_once_each() {
    explore(2, || {
        let (pool, pwq, chunks) = pool_with_chunks(1);
        let done = Arc::new(Parker::new());
        let (mine, others) = (items::<3>(&done), items::<2>(&done));
        let other = thread::spawn({
            let (pool, chunks, others) = (pool.clone(), chunks.clone(), others.clone());
            move || publish_all(&pool, pwq, &chunks, &others)
        });
        publish_all(&pool, pwq, &chunks, &mine);
        let worker = start(&pool);
        wait_all(mine.iter().chain(&others), &done);
        other.join().unwrap();
        finish(&pool, [worker]);
        assert_eq!(mine.map(|item| item.runs()), [1; 3]);
        assert_eq!(others.map(|item| item.runs()), [1; 2]);
    });
}

/// Accepts what was published, and compares its order with that of `items`.
pub(super) fn assert_accepted_in_order(pool: &Arc<Pool>, items: &[Arc<Item>]) {
    let mut guard = pool.lock();
    guard.drain();
    let accepted = guard.worklist.iter().map(RawWork::address);
    let published = items.iter().map(|item| item.raw().address());
    assert!(accepted.eq(published));
}

#[test]
fn what_one_thread_publishes_is_accepted_in_that_order() {
    explore(2, || {
        let (pool, pwq, chunks) = pool_with_chunks(1);
        let items = items::<6>(&Arc::new(Parker::new()));
        // Alone, in a chunk, and then alone again, though the chunk has free entries.
        publish_all(&pool, pwq, &chunks, &items[..2]);
        wait_begins();
        publish_all(&pool, pwq, &chunks, &items[2..]);
        assert_accepted_in_order(&pool, &items);
        let worker = start(&pool);
        finish(&pool, [worker]);
        assert_eq!(items.map(|item| item.runs()), [1; 6]);
    });
}

#[test]
fn who_drains_sees_what_was_published_together_before() {
    explore(3, || {
        let (pool, pwq, chunks) = pool_with_chunks(1);
        let done = Arc::new(Parker::new());
        let items = items::<3>(&done);
        let told = Arc::new(AtomicUsize::new(0));
        let publisher = thread::spawn({
            let (pool, chunks, items, told) =
                (pool.clone(), chunks.clone(), items.clone(), told.clone());
            move || {
                for item in &items {
                    assert!(publish(&pool, pwq, &chunks, item));
                    // The models' own book-keeping; loom switches threads only when the item is published.
                    told.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let in_flight = {
            let before = told.load(Ordering::Relaxed);
            let mut guard = pool.lock();
            guard.drain();
            let in_flight = guard.in_flight(pwq) as usize;
            assert!(in_flight >= before, "{in_flight} of {before} were seen");
            in_flight
        };
        assert!(in_flight <= 3);
        publisher.join().unwrap();
        let worker = start(&pool);
        wait_all(&items, &done);
        finish(&pool, [worker]);
        assert_eq!(items.map(|item| item.runs()), [1; 3]);
    });
}

#[test]
fn a_chunk_is_not_used_again_while_its_maker_may_write_to_it() {
    explore(2, || {
        let (pool, pwq, chunks) = pool_with_chunks(1);
        let done = Arc::new(Parker::new());
        let (mine, others) = (items::<4>(&done), items::<3>(&done));
        // Takes what is there, and makes a chunk.
        let other = thread::spawn({
            let (pool, chunks, others) = (pool.clone(), chunks.clone(), others.clone());
            move || {
                pool.lock().drain();
                publish_all(&pool, pwq, &chunks, &others);
            }
        });
        // The chunk may be emptied before the last ones are added.
        publish_all(&pool, pwq, &chunks, &mine);
        other.join().unwrap();
        let worker = start(&pool);
        wait_all(mine.iter().chain(&others), &done);
        finish(&pool, [worker]);
        assert_eq!(mine.map(|item| item.runs()), [1; 4]);
        assert_eq!(others.map(|item| item.runs()), [1; 3]);
    });
}

#[test]
fn an_item_that_runs_in_an_open_batch_is_not_published_in_a_chunk() {
    explore(2, || {
        let (pool, pwq, chunks) = pool_with_chunks(2);
        let (begun, go_on) = (Arc::new(Parker::new()), Arc::new(Parker::new()));
        let done = Arc::new(Parker::new());
        let again = Item::waiting(&Touched::new(), &begun, &go_on);
        let [alone, behind, one, two, three, four, before] = items::<7>(&done);
        publish_all(&pool, pwq, &chunks, &[alone.clone(), again.clone()]);
        let first = start(&pool);
        // Enrolled now, since that closes batches.
        let (id, handle) = pool.enroll();
        begun.park();
        // This gets an entry of the chunk that is run.
        assert!(publish(&pool, pwq, &chunks, &behind));
        let second = thread::spawn({
            let pool = pool.clone();
            move || pool.work(id, &handle)
        });
        // A batch that ends while the other one is open.
        for item in [&one, &two] {
            assert!(queue(&pool, pwq, item));
        }
        wait(&two, 1, &done);
        // As many as are accepted at once: a chunk behind them may be taken as a whole.
        for item in [&three, &four] {
            assert!(queue(&pool, pwq, item));
        }
        // In an open chunk, if no worker takes it at once.
        assert!(publish(&pool, pwq, &chunks, &before));
        assert!(publish(&pool, pwq, &chunks, &again));
        wait(&four, 1, &done);
        go_on.unpark();
        begun.park();
        go_on.unpark();
        finish(&pool, [first, second]);
        let runs = [alone, again, behind, one, two, three, four, before].map(|item| item.runs());
        assert_eq!(runs, [1, 2, 1, 1, 1, 1, 1, 1]);
    });
}

#[test]
fn an_item_that_comes_again_goes_behind_what_is_left_of_its_batch() {
    explore(2, || {
        let (pool, pwq, chunks) = pool_with_chunks(2);
        let (begun, go_on) = (Arc::new(Parker::new()), Arc::new(Parker::new()));
        let blocked = Item::waiting(&Touched::new(), &begun, &go_on);
        let [alone, again, left] = items::<3>(&Arc::new(Parker::new()));
        let items = [alone, again.clone(), blocked, left.clone()];
        publish_all(&pool, pwq, &chunks, &items);
        let worker = start(&pool);
        begun.park();
        assert!(queue(&pool, pwq, &again));
        // As a worker does that takes single items.
        let mut guard = pool.lock_beside_batches();
        assert!(!guard.batches.is_empty());
        let task = guard.next_task(Executor::worker()).expect("it waits");
        drop(guard);
        assert_eq!(task.started.address(), left.raw().address());
        let run = task.run;
        let panicked = call(task.started, run.current);
        pool.lock().end_only_task(run, panicked);
        go_on.unpark();
        finish(&pool, [worker]);
        assert_eq!(items.map(|item| item.runs()), [1, 2, 1, 1]);
    });
}

#[test]
fn what_is_behind_a_blocked_item_of_a_chunk_runs_when_the_monitor_has_looked() {
    explore(2, || {
        let (pool, pwq, chunks) = pool_with_chunks(2);
        let (begun, last_done) = (Arc::new(Parker::new()), Arc::new(Parker::new()));
        let done = Arc::new(Parker::new());
        let first = Item::new(&Touched::new(), Some(&done));
        let blocked = Item::waiting(&Touched::new(), &begun, &last_done);
        let last = Item::new(&Touched::new(), Some(&last_done));
        let items = [first, blocked, last];
        let workers = [start(&pool), start(&pool)];
        publish_all(&pool, pwq, &chunks, &items);
        begun.park();
        // As the monitor does.
        drop(pool.lock());
        finish(&pool, workers);
        assert_eq!(items.map(|item| item.runs()), [1; 3]);
    });
}

/// Where closures count their runs.
struct Called {
    times: AtomicUsize,
    done: Parker,
}

fn closure(touched: &Arc<Touched>, called: &Arc<Called>) -> Small {
    let (touched, called) = (touched.clone(), called.clone());
    let small = Small::of(move || {
        touched.touch();
        // The models' own book-keeping.
        called.times.fetch_add(1, Ordering::Relaxed);
        called.done.unpark();
    });
    small.unwrap_or_else(|_| unreachable!("two words are small"))
}

/// Publishes it in a chunk, or as an item.
fn execute(pool: &Arc<Pool>, pwq: PwqKey, chunks: &PwqChunks, closure: Small) {
    if publish_closure_again(ISSUER, &closure) {
        return;
    }
    if !pool.publish_closure(&closure, chunks, Some((ISSUER, epoch()))) {
        let mut item = closure.into_item();
        item.set_destination(pool.id, pwq.index);
        publish_by(pool, chunks, item);
    }
}

#[test]
fn closures_are_called_once_whoever_takes_them() {
    explore(2, || {
        let (pool, pwq, chunks) = pool_with_chunks(1);
        let called = Arc::new(Called {
            times: AtomicUsize::new(0),
            done: Parker::new(),
        });
        let touched: [Arc<Touched>; 4] = std::array::from_fn(|_| Touched::new());
        let worker = start(&pool);
        // Turns closures that are not begun into items.
        let drainer = thread::spawn({
            let pool = pool.clone();
            move || pool.lock().drain()
        });
        for touched in &touched {
            execute(&pool, pwq, &chunks, closure(touched, &called));
        }
        drainer.join().unwrap();
        while called.times.load(Ordering::Relaxed) < 4 {
            called.done.park();
        }
        finish(&pool, [worker]);
        for touched in touched {
            assert_eq!(touched.touch(), 1, "it was called once");
        }
        assert_eq!(pool.lock().in_flight(pwq), 0);
    });
}
