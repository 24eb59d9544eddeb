//! How many items a worker takes at once, and which.

use super::*;
use crate::item::closure::Small;
use crate::item::{ChunkStore, OpenChunk, RawWork, WorkFn};
use crate::pool::state::worker::{Busy, WorkerState};
use crate::pool::stubs::{nothing, raw_items};
use crate::pool::task::call;
use crate::pool::tests::{claim, engine, only_pwq, pool_of, queue};
use crate::sys::atomic::Ordering;
use crate::types::WorkqueueAttrs;
use crate::{ConcurrencyGroup, Engine, WorkqueueBuilder};
use std::io::Write;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

mod again;
mod searches;

#[test]
fn a_worker_takes_its_share_but_neither_so_few_that_the_lock_costs_more_nor_overdue_ones() {
    let sizes = |item_ns| [0, 8, 1_000].map(|share| size(item_ns, share, 128, OVERDUE_NS));
    assert_eq!(sizes(0), [1; 3], "nothing is known");
    assert_eq!(sizes(10), [128; 3]);
    assert_eq!(sizes(100), [60, 60, 128]);
    assert_eq!(sizes(1_000), [6, 8, 16]);
    assert_eq!(sizes(5_000), [1, 3, 3]);
    assert_eq!(sizes(WORTH_NS + 1), [1, 2, 2]);
    assert_eq!(sizes(OVERDUE_NS / 2 + 1), [1; 3]);
    assert_eq!(sizes(u64::MAX), [1; 3]);
    assert_eq!(
        size(10, 1_000, 1, OVERDUE_NS),
        1,
        "a pool that takes single items"
    );
}

/// Such a guest moves many cache lines for each claim. Its batches may take four times as long as those
/// of other workers before they are overdue.
#[test]
fn a_guest_from_another_cache_takes_up_to_four_times_as_many() {
    let items = raw_items::<40>();
    let (_engine, wq, pool) = queue(1, 100);
    let mut hand = Hand::new(&pool);
    let mut guard = pool.lock();
    accept(&mut guard, &items);
    (0..2).for_each(|_| guard.pace.note(OVERDUE_NS));
    let mut claims = Claims::up_to(128);
    let sizes = [true, false].map(|far| {
        claims.in_pool(far);
        guard.size_of_claim(&claims)
    });
    hand.claims.in_pool(true);
    let before_ns = clock::now_ns();
    let (next, taken) = hand.take(&mut guard);
    let batch = guard.workers[hand.id].batch.as_ref();
    let due_ns = batch.map_or(0, |batch| batch.due_ns);
    drop(guard);
    hand.run(next);
    wq.flush().expect("not from an item");
    assert_eq!((sizes, taken), ([4, 1], 4));
    assert!(
        due_ns >= before_ns + OVERDUE_FAR_NS,
        "it is not overdue yet"
    );
}

/// Workers divide what waits among all that may run, and the guests.
#[test]
fn idle_workers_have_a_share_too() {
    let items = raw_items::<40>();
    let (_engine, wq, pool) = queue(4, 100);
    let mut guard = pool.lock();
    accept(&mut guard, &items);
    guard.pace.note(1_000);
    let sizes = [0, 1].map(|guests| {
        guard.guests += guests;
        guard.size_of_claim(&Claims::up_to(128))
    });
    guard.guests -= 1;
    let single = guard.size_of_claim(&Claims::up_to(1));
    drop(guard);
    wq.flush().expect("not from an item");
    assert_eq!((sizes, single), ([10, 8], 1));
}

/// Else all later batches would be too large, and be closed as well, for ever.
#[test]
fn the_time_of_a_batch_that_was_closed_counts_for_the_items_that_it_had_begun() {
    let items = raw_items::<4>();
    let (_engine, wq, pool) = queue(1, 8);
    let mut hand = Hand::new(&pool);
    let mut guard = pool.lock();
    let index = accept(&mut guard, &items);
    let (next, taken) = hand.take(&mut guard);
    guard.watched = true;
    drop(guard);
    // It has begun the first item when the batch is closed.
    drop(pool.lock());
    let mut guard = pool.lock_beside_batches();
    let noted = [90_000, 80_000].map(|took_ns| {
        guard.note_batch_time(hand.id, (index, taken as u64), took_ns);
        guard.pace.item_ns()
    });
    drop(guard);
    hand.run(next);
    pool.lock().watched = false;
    wq.flush().expect("not from an item");
    assert_eq!((taken, noted), (4, [1_000, 80_000]));
}

/// A worker that the test drives, and that takes up to four items at once.
struct Hand {
    pool: Arc<Pool>,
    id: u32,
    handle: Arc<WorkerHandle>,
    claims: Claims,
}

impl Hand {
    fn new(pool: &Arc<Pool>) -> Hand {
        let (id, handle) = pool.enroll();
        pool.lock().pace.note(1_000);
        Hand {
            pool: pool.clone(),
            id,
            handle,
            claims: Claims::up_to(4),
        }
    }

    /// What the worker does next, and how many items that is.
    fn take(&mut self, guard: &mut PoolGuard<'_>) -> (Next, usize) {
        let next = guard.take_next(self.id, &mut self.claims);
        let next = next.expect("something waits");
        let running = guard.running();
        guard.counts.set_running(running + 1);
        let slot = &mut guard.workers[self.id];
        slot.state = WorkerState::Busy(Busy::Running);
        slot.runs += 1;
        let taken = match &next {
            Next::One(_) => 1,
            Next::Batch(begun) => begun.len,
        };
        (next, taken)
    }

    /// Runs what was taken, and accounts for it.
    fn run(self, next: Next) {
        let pool = self.pool.clone();
        self.run_and_lock(next, &pool).workers.remove(self.id);
    }

    /// The same for a worker that goes on under the same lock.
    fn run_and_lock<'p>(&self, next: Next, pool: &'p Arc<Pool>) -> PoolGuard<'p> {
        let ran = match next {
            Next::One(Task { started, run }) => {
                let panicked = call::call(started, run.current);
                Ran::One { run, panicked }
            }
            Next::Batch(begun) => pool.run_batch(begun, &self.handle),
        };
        let mut guard = pool.lock_beside_batches();
        assert!(guard.end_ran(self.id, ran).is_none(), "nothing came again");
        let running = guard.running();
        guard.counts.set_running(running - 1);
        guard
    }
}

/// Accepts them all for the pool's only pool workqueue. The caller flushes its queue before it
/// drops the items.
fn accept(guard: &mut PoolGuard<'_>, items: &[RawWork]) -> u32 {
    let (pool, index) = (guard.pool.id, only_pwq(guard));
    for item in items {
        guard.accept_item(claim(item, pool, index));
    }
    index
}

#[test]
fn the_monitor_is_called_for_a_batch_behind_which_nothing_waits() {
    let items = raw_items::<3>();
    let (_engine, wq, pool) = queue(2, 8);
    let mut hand = Hand::new(&pool);
    let mut guard = pool.lock();
    accept(&mut guard, &items);
    let (next, taken) = hand.take(&mut guard);
    assert_eq!(
        (taken, guard.has_waiting(), guard.searching()),
        (3, false, 0)
    );
    assert!(!guard.watched);
    // An item that blocks, or is long, holds up those behind it, which no other thread sees.
    drop(guard);
    let watched = pool.lock_beside_batches().watched;
    hand.run(next);
    wq.flush().expect("not from an item");
    assert!(watched, "nobody would ever look");
    assert_eq!(wq.counts(), (3, 3));
}

/// How many of two items a worker takes at once. `called`: the rescuer was called, and has not come yet.
fn takes_of_two(build: fn(&Engine) -> WorkqueueBuilder, called: bool) -> usize {
    let items = raw_items::<2>();
    let engine = engine(1);
    let wq = build(&engine).build().expect("a queue");
    let pool = pool_of(&engine);
    let mut hand = Hand::new(&pool);
    let mut guard = pool.lock();
    let index = accept(&mut guard, &items);
    guard.pwqs[index].mayday = called;
    let (next, taken) = hand.take(&mut guard);
    guard.pwqs[index].mayday = false;
    drop(guard);
    hand.run(next);
    wq.flush().expect("not from an item");
    taken
}

#[test]
fn while_the_rescuer_is_called_items_are_taken_one_by_one() {
    let unbound = |engine: &Engine| engine.workqueue("t");
    assert_eq!(takes_of_two(unbound, false), 2);
    assert_eq!(takes_of_two(unbound, true), 1);
}

/// The end of the last item that a flush waits for is the end of the batch that it is in.
#[test]
fn items_that_a_flush_waits_for_run_in_batches() {
    let items = raw_items::<5>();
    let (_engine, wq, pool) = queue(1, 8);
    let wq = Arc::new(wq);
    let mut hand = Hand::new(&pool);
    let mut guard = pool.lock();
    // The monitor would close the batch.
    guard.watched = true;
    let index = accept(&mut guard, &items[..1]);
    let old = guard.pwqs[index].colour();
    // The worker has the pool's only CPU from here on: no other one comes.
    let (first, alone) = hand.take(&mut guard);
    accept(&mut guard, &items[1..4]);
    drop(guard);
    let flushes = std::thread::spawn({
        let wq = wq.clone();
        move || wq.flush_timeout(Duration::from_secs(60))
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    while pool.lock().pwqs[index].colour() == old {
        assert!(Instant::now() < deadline, "the flush has not begun");
        std::thread::yield_now();
    }
    let mut guard = hand.run_and_lock(first, &pool);
    // This one was queued behind the flush.
    accept(&mut guard, &items[4..]);
    let (next, taken) = hand.take(&mut guard);
    drop(guard);
    let mut guard = hand.run_and_lock(next, &pool);
    let (next, behind) = hand.take(&mut guard);
    drop(guard);
    let flushed = flushes.join().expect("no panic");
    hand.run(next);
    pool.lock().watched = false;
    wq.flush().expect("not from an item");
    assert_eq!((alone, taken, behind, flushed), (1, 3, 1, Ok(())));
}

#[test]
fn an_item_that_somebody_waits_for_runs_alone() {
    let items = raw_items::<5>();
    let (_engine, wq, pool) = queue(1, 8);
    let mut hand = Hand::new(&pool);
    let mut guard = pool.lock();
    accept(&mut guard, &items);
    guard.watched = true;
    let awaited = guard.await_pending(pool.id, &items[2]);
    let awaited = awaited.expect("it is on the worklist");
    let mut takes = Vec::new();
    for _ in 0..3 {
        let (next, taken) = hand.take(&mut guard);
        // The release of the lock under which the awaited item has ended tells who waits.
        drop(guard);
        takes.push((taken, awaited.is_done()));
        guard = hand.run_and_lock(next, &pool);
    }
    guard.workers.remove(hand.id);
    guard.watched = false;
    drop(guard);
    wq.flush().expect("not from an item");
    assert_eq!(takes, [(2, false), (1, false), (2, true)]);
}

#[test]
fn no_more_of_a_chunk_are_taken_than_may_be_active() {
    let ran = Arc::new(AtomicUsize::new(0));
    let (_engine, wq, pool) = queue(1, 2);
    let mut hand = Hand::new(&pool);
    let mut guard = pool.lock();
    let index = only_pwq(&guard);
    let chunks = ChunkStore::of_closures(pool.id, index, &pool.oldest_batch, &pool.chunk_numbers);
    let open = OpenChunk::none();
    let closure = || {
        let ran = ran.clone();
        let count = move || {
            ran.fetch_add(1, Ordering::SeqCst);
        };
        Small::of(count).unwrap_or_else(|_| unreachable!("it is small"))
    };
    pool.inbox
        .push_in_chunk(&closure(), &chunks, &open, usize::MAX);
    for _ in 1..4 {
        assert!(open.add_closure(chunks.serial(), &closure()));
    }
    open.leave();
    let (next, taken) = hand.take(&mut guard);
    // The others wait for a credit.
    let more = guard.next_task(Executor::worker());
    let key = guard.key_of(index);
    let waiting = guard.pwq_counts(key).1;
    if taken != 2 || more.is_some() || waiting != 2 {
        // These items never end, and unwinding would wait for them. Not `eprintln`: a test's output
        // is captured, and lost on abort.
        let _ = writeln!(std::io::stderr(), "{taken} taken, {waiting} wait");
        std::process::abort();
    }
    drop(guard);
    hand.run(next);
    wq.flush().expect("not from an item");
    assert_eq!(ran.load(Ordering::SeqCst), 4);
}

/// The pool workqueue that waits has collected unused credits before, and does not look again.
#[test]
fn credits_that_a_chunk_has_no_items_for_go_back_while_another_pool_workqueue_waits() {
    let (_engine, wq, pool) = queue(1, 8);
    let mut hand = Hand::new(&pool);
    let mut guard = pool.lock();
    let index = only_pwq(&guard);
    let chunks = ChunkStore::of_closures(pool.id, index, &pool.oldest_batch, &pool.chunk_numbers);
    let open = OpenChunk::none();
    let closure = || Small::of(|| ()).unwrap_or_else(|_| unreachable!("it is small"));
    pool.inbox
        .push_in_chunk(&closure(), &chunks, &open, usize::MAX);
    assert!(open.add_closure(chunks.serial(), &closure()));
    open.leave();
    let limit = guard.pwqs[index].limit.clone();
    limit.one_more_waits();
    let (next, taken) = hand.take(&mut guard);
    limit.one_less_waits();
    let unused = guard.pwqs[index].credits.unused();
    drop(guard);
    hand.run(next);
    wq.flush().expect("not from an item");
    assert_eq!((taken, unused), (2, 0));
}

/// Another pool workqueue waits for a credit. This one does not, but has items that are published
/// and not accepted: they become active with the credits of those that end, a portion in a row.
#[test]
fn what_is_not_accepted_yet_goes_on_with_the_credits_of_what_ends_and_what_is_left_goes_back() {
    // Portions of two.
    let (_engine, wq, pool) = queue(1, 8);
    let mut hand = Hand::new(&pool);
    hand.claims = Claims::up_to(1);
    let mut guard = pool.lock();
    // The monitor would accept what is published.
    guard.watched = true;
    let index = only_pwq(&guard);
    let limit = guard.pwqs[index].limit.clone();
    let chunks = ChunkStore::of_closures(pool.id, index, &pool.oldest_batch, &pool.chunk_numbers);
    let open = OpenChunk::none();
    let closure = || Small::of(|| ()).unwrap_or_else(|_| unreachable!("it is small"));
    pool.inbox
        .push_in_chunk(&closure(), &chunks, &open, usize::MAX);
    for _ in 1..3 {
        assert!(open.add_closure(chunks.serial(), &closure()));
    }
    open.leave();
    limit.one_more_waits();
    let visits = |guard: &PoolGuard<'_>| guard.pwqs[index].stats.limit_visits;
    let mut visited = Vec::new();
    for more in [true, true, false] {
        let (next, taken) = hand.take(&mut guard);
        assert_eq!(taken, 1);
        visited.push(visits(&guard));
        drop(guard);
        guard = hand.run_and_lock(next, &pool);
        assert_eq!(guard.something_waits(), more);
    }
    drop(guard);
    let mut guard = pool.lock();
    visited.push(visits(&guard));
    let unused = guard.pwqs[index].credits.unused();
    guard.workers.remove(hand.id);
    guard.watched = false;
    drop(guard);
    limit.one_less_waits();
    wq.flush().expect("not from an item");
    // The second item has taken the first one's credit. The second one's has gone back, and the
    // third item has taken another one, which nothing is left for.
    assert_eq!((visited, unused), (vec![1, 1, 3, 4], 0));
}

#[test]
fn a_waiter_gets_its_item_out_of_an_open_batch() {
    let items = raw_items::<4>();
    // One CPU, which the worker has: no other one comes.
    let (_engine, wq, pool) = queue(1, 8);
    let mut hand = Hand::new(&pool);
    let mut guard = pool.lock();
    accept(&mut guard, &items[..3]);
    let (next, taken) = hand.take(&mut guard);
    accept(&mut guard, &items[3..]);
    // A waiter closes batches that are overdue, whether or not 16 µs have passed on this machine.
    if let Some(batch) = &mut guard.workers[hand.id].batch {
        batch.due_ns = 0;
    }
    // The monitor would close the batch at its next tick.
    guard.watched = true;
    drop(guard);
    let ran = [3, 1, 0].map(|at| pool.run_only(&items[at], None));
    hand.run(next);
    pool.lock().watched = false;
    wq.flush().expect("not from an item");
    assert_eq!(taken, 3);
    assert_eq!(ran, [true, true, false], "the worker has begun the first");
    assert_eq!(wq.counts(), (4, 4));
}

/// What the second item of a batch does.
static SECOND: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

extern "C-unwind" fn second(_: NonNull<RawWork>) {
    let what = SECOND.lock().expect("no panic").take();
    what.into_iter().for_each(|what| what());
}

/// The queue enters its new pool with its members locked. Closing the batch there would give the
/// first item's credit back, and as the group's limit is overdrawn by then, all queues of the group
/// would be asked for theirs, by their members.
#[test]
fn a_queue_comes_to_a_pool_where_another_one_of_its_group_has_an_open_batch() {
    let funcs: [WorkFn; 3] = [nothing, second, nothing];
    let items = funcs.map(RawWork::new);
    let engine = engine(1);
    let group = ConcurrencyGroup::new("group", 100);
    let queue = |name, nice| {
        let builder = engine.workqueue(name).max_active(8).nice(nice);
        Arc::new(builder.group(&group).build().expect("a queue"))
    };
    let runs = queue("runs", 0);
    let pool = pool_of(&engine);
    let comes = queue("comes", 1);
    let mut hand = Hand::new(&pool);
    let mut guard = pool.lock();
    accept(&mut guard, &items);
    let (next, taken) = hand.take(&mut guard);
    // The monitor would close the batch at its next tick.
    guard.watched = true;
    drop(guard);
    let came = Arc::new(AtomicUsize::new(0));
    *SECOND.lock().expect("no panic") = Some(Box::new({
        let (runs, comes, group) = (runs.clone(), comes.clone(), group.clone());
        let came = came.clone();
        move || {
            runs.set_max_active(1).expect("it has a limit");
            // As another thread has done that lowers the limit, and has not told the queues.
            group.shared().change(1);
            let attrs = WorkqueueAttrs {
                nice: 0,
                ..comes.attrs()
            };
            comes.apply_attrs(attrs).expect("legal attributes");
            came.store(1, Ordering::SeqCst);
        }
    }));
    let ends = std::thread::spawn(move || hand.run(next));
    let until = Instant::now() + Duration::from_secs(60);
    while !ends.is_finished() {
        if Instant::now() > until {
            // Unwinding would wait for the items.
            let _ = writeln!(std::io::stderr(), "it waits for its own lock");
            std::process::abort();
        }
        std::thread::yield_now();
    }
    ends.join().expect("no panic");
    pool.lock().watched = false;
    runs.flush().expect("not from an item");
    assert_eq!((taken, runs.counts()), (3, (3, 3)));
    assert_eq!(came.load(Ordering::SeqCst), 1);
}
