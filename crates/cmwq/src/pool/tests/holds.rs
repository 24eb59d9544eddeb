//! What is done in one holding of a pool's lock, counted: see `HOLDS.md`.
#![allow(unsafe_code, reason = "claims items")]

use crate::item::{MOST_IN_BATCH, OpenChunk, Pending, RawWork, touched};
use crate::pool::lock::guard::PoolGuard;
use crate::pool::lock::holds::counted::longest;
use crate::pool::queue::pwq::{PwqKey, Traits};
use crate::pool::queue::pwq_chunks::PwqChunks;
use crate::pool::report::snapshot::MOST_LISTED;
use crate::pool::run::batch::{Claims, Next};
use crate::pool::run::waiter::Waiter;
use crate::pool::service::rescuer::Rescuer;
use crate::pool::state::pool::Pool;
use crate::pool::task::busy::Executor;
use crate::pool::{silent, stubs};
use crate::topology::CpuSet;
use std::sync::Arc;
use std::thread;

/// A staged node is touched when it is turned, when it is let go and when it is entered in a list:
/// 256 of them at most; besides there may be the items of one chunk.
const BOUND: usize = 3 * 256 + 3 * MOST_IN_BATCH;

/// The backlog: far beyond the bound.
const BACKLOG: usize = 50_000;

/// How the backlog is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Published {
    Alone,
    InChunks,
}
use Published::{Alone, InChunks};

/// A pool without threads, with a backlog of one queue, and another queue.
struct Backlog {
    pool: Arc<Pool>,
    pwqs: [PwqKey; 2],
    items: Vec<RawWork>,
    other: Box<RawWork>,
}

fn claim(item: &RawWork, pool: &Pool, pwq: PwqKey) -> Pending {
    // SAFETY: the item exists until the end of the test.
    let claimed = unsafe { Pending::claim(std::ptr::NonNull::from(item)) };
    let mut pending = claimed.expect("it is idle");
    pending.set_destination(pool.id, pwq.index);
    pending
}

impl Backlog {
    /// So many of the items may be active.
    fn new(published: Published, limit: i32, rescuer: Option<&Arc<Rescuer>>) -> Self {
        let made = silent::Made {
            batch: MOST_IN_BATCH,
            ..silent::Made::default()
        };
        let pool = made.pool(1);
        let rescue = rescuer.map(|own| own.clone() as Arc<dyn crate::pool::Rescue>);
        let pwqs = [
            silent::add_pwq(&pool, Traits::default(), limit, None),
            silent::add_pwq(
                &pool,
                Traits {
                    waiters_run: true,
                    ..Traits::default()
                },
                10,
                rescue,
            ),
        ];
        let backlog = Backlog {
            items: (0..BACKLOG).map(|_| RawWork::new(stubs::nothing)).collect(),
            other: Box::new(RawWork::new(stubs::nothing)),
            pool,
            pwqs,
        };
        backlog.publish(published);
        backlog
    }

    fn publish(&self, published: Published) {
        let (pool, pwq) = (&self.pool, self.pwqs[0]);
        let numbers = &pool.chunk_numbers;
        let chunks = PwqChunks::new(pool.id, pwq.index, &pool.oldest_batch, numbers);
        let open = OpenChunk::none();
        for item in &self.items {
            let pending = claim(item, pool, pwq);
            let alone = match published {
                Alone => Some(pending),
                InChunks => open.add_item(chunks.items.serial(), pending).err(),
            };
            let Some(pending) = alone else { continue };
            let _ = match published {
                Alone => pool.inbox.push(pending),
                InChunks => pool
                    .inbox
                    .push_in_chunk(pending, &chunks.items, &open, usize::MAX),
            };
        }
        open.leave();
        let _ = pool.inbox.push(claim(&self.other, pool, self.pwqs[1]));
    }

    /// Nothing of it is pending any more.
    fn end(self) {
        for item in self.items.iter().chain([&*self.other]) {
            if let Some((pending, _)) = self.pool.cancel(item) {
                pending.release();
            }
            assert!(!item.is_pending());
        }
    }
}

/// Calls `f` with a backlog of each kind; `limit` of its items may be active.
fn with_backlogs(limit: i32, f: impl Fn(&Backlog)) {
    for published in [Alone, InChunks] {
        let backlog = Backlog::new(published, limit, None);
        let ((), most) = longest(|| f(&backlog));
        assert!(most <= BOUND, "{published:?}: {most} in one holding");
        backlog.end();
    }
}

#[test]
fn a_cancelled_item_is_found_without_accepting_the_backlog() {
    with_backlogs(1, |backlog| {
        let pool = &backlog.pool;
        let cancel = |item: &RawWork| {
            let before = touched::so_far();
            let removed = pool.cancel(item).expect("it is pending");
            removed.0.release();
            touched::so_far() - before
        };
        cancel(&backlog.other);
        // The others were before it. All is turned after this.
        assert!(pool.find(&backlog.other, |_| None::<()>).1.is_none());
        for at in [0, 1, 200, BACKLOG / 2, BACKLOG / 2 + 1, BACKLOG - 1] {
            let steps = cancel(&backlog.items[at]);
            assert!(steps <= 3 * MOST_IN_BATCH, "{steps} steps for item {at}");
        }
        assert_eq!(
            pool.lock().in_flight(backlog.pwqs[0]),
            0,
            "none is accepted"
        );
        assert!(pool.cancel(&backlog.items[200]).is_none(), "it is idle");
    });
}

#[test]
fn what_is_left_of_a_backlog_keeps_its_order_when_items_are_cancelled() {
    for published in [Alone, InChunks] {
        let backlog = Backlog::new(published, BACKLOG as i32, None);
        let pool = &backlog.pool;
        // Some of the oldest chunk are taken already.
        let taken = loop {
            let task = pool.lock().next_task(Executor::worker());
            if let Some(task) = task {
                break task;
            }
        };
        let gone = [1, 5, 127, 128, 300, 301, 40_000, BACKLOG - 1];
        for at in gone {
            pool.cancel(&backlog.items[at])
                .expect("it waits")
                .0
                .release();
        }
        let left = (1..BACKLOG).filter(|at| !gone.contains(at));
        let left = left.map(|at| backlog.items[at].address());
        let left: Vec<usize> = left.chain([backlog.other.address()]).collect();
        let guard = pool.lock_accepting();
        let waits: Vec<usize> = guard.worklist.iter().map(RawWork::address).collect();
        assert!(waits == left, "{published:?}");
        drop(guard);
        let run = taken.run;
        let panicked = crate::pool::task::call::call(taken.started, run.current);
        assert!(pool.lock().end_task(run, panicked).is_none());
        backlog.end();
    }
}

#[test]
fn who_waits_for_an_item_finds_it_without_accepting_the_backlog() {
    with_backlogs(1, |backlog| {
        for item in [&*backlog.other, &backlog.items[BACKLOG / 2]] {
            let find = |guard: &mut PoolGuard<'_>| guard.await_pending(1, item);
            let done = backlog.pool.find(item, find).1.expect("it is pending");
            assert!(!done.is_done());
            assert!(backlog.pool.front_of(item).is_some());
            backlog.pool.cancel(item).expect("it waits").0.release();
            assert!(done.is_done());
        }
    });
}

#[test]
fn who_must_see_all_accepts_it_in_several_holdings() {
    with_backlogs(1, |backlog| {
        let guard = backlog.pool.lock_accepting();
        assert_eq!(guard.pwqs[backlog.pwqs[0].index].nr_in_flight(), BACKLOG);
    });
    with_backlogs(1, |backlog| {
        assert!(backlog.pool.has_inactive(backlog.pwqs[0]));
    });
    for published in [Alone, InChunks] {
        let backlog = Backlog::new(published, 1, None);
        let (state, most) = longest(|| backlog.pool.snapshot());
        assert_eq!(state.pwqs[0].nr_inactive, BACKLOG - 1);
        // The worklist, and one list of what waits for credits.
        let bound = BOUND + 2 * MOST_LISTED;
        assert!(most <= bound, "{published:?}: {most} in one holding");
        backlog.end();
    }
    with_backlogs(1, |backlog| {
        assert_eq!(backlog.pool.lock_accepting().waits().len(), 2);
    });
}

/// How many queues share a pool is the program's choice, as how many items wait is.
#[test]
fn a_snapshot_describes_many_pool_workqueues_in_several_holdings() {
    let pool = stubs::pool(1, 0);
    let many = 3 * BOUND;
    for _ in 0..many {
        stubs::add_pwq(&pool, Traits::default(), 10);
    }
    let (seen, most) = longest(|| pool.snapshot());
    assert_eq!(seen.pwqs.len(), many);
    assert!(most <= BOUND, "{most} in one holding");
}

#[test]
fn a_joiner_that_may_run_an_item_looks_for_it_in_several_holdings() {
    with_backlogs(1, |backlog| {
        assert!(backlog.pool.run_only(&backlog.other, None));
        Waiter::default().settle();
    });
}

#[test]
fn an_item_that_runs_elsewhere_is_sent_there_behind_the_backlog() {
    with_backlogs(1, |backlog| {
        let (pool, pwq) = (&backlog.pool, backlog.pwqs[1]);
        let item = RawWork::new(stubs::nothing);
        let front = pool.lock().pwqs[pwq.index].front_id();
        let task = {
            let mut guard = pool.lock();
            guard.accept_item(claim(&item, pool, pwq));
            guard.next_task(Executor::worker()).expect("it is active")
        };
        let again = claim_running(&item);
        assert!(pool.publish_if_it_runs(again, front).is_ok());
        let order: Vec<usize> = {
            let guard = pool.lock();
            guard.worklist.iter().map(RawWork::address).collect()
        };
        // What was published before comes before it.
        assert!(order.ends_with(&[backlog.other.address(), item.address()]));
        let panicked = crate::pool::task::call::call(task.started, task.run.current);
        assert!(pool.lock().end_task(task.run, panicked).is_none());
        pool.cancel(&item).expect("it waits").0.release();
    });
}

#[test]
fn whether_an_item_has_ended_on_its_last_pool_is_seen_without_that_lock() {
    let pool = stubs::pool(1024, 0);
    let pwq = stubs::add_pwq(&pool, Traits::default(), 10);
    let item = Arc::new(RawWork::new(stubs::nothing));
    let front = pool.lock().pwqs[pwq.index].front_id();
    pool.lock().accept_item(claim(&item, &pool, pwq));
    assert!(stubs::run_one(&pool));
    let held = pool.lock();
    let issuer = thread::spawn({
        let (pool, item) = (pool.clone(), item.clone());
        move || {
            let again = pool.publish_if_it_runs(claim_running(&item), front);
            again.expect_err("it has ended").release();
        }
    });
    stubs::eventually(|| issuer.is_finished());
    drop(held);
    issuer.join().expect("no panic");
}

fn claim_running(item: &RawWork) -> Pending {
    // SAFETY: the item exists until the end of the test.
    unsafe { Pending::claim(std::ptr::NonNull::from(item)) }.expect("it runs, and is not pending")
}

#[test]
fn a_worker_passes_a_backlog_that_may_not_run_in_several_holdings() {
    with_backlogs(0, |backlog| {
        let pool = &backlog.pool;
        let (id, _) = stubs::searching(pool);
        let mut claims = Claims::up_to(MOST_IN_BATCH);
        let next = loop {
            let mut guard = pool.lock_beside_batches();
            match guard.take_next(id, &mut claims) {
                Some(next) => break next,
                None => assert_eq!(guard.left, 0, "something waits"),
            }
        };
        let Next::One(task) = next else {
            panic!("it is alone");
        };
        let panicked = crate::pool::task::call::call(task.started, task.run.current);
        let mut guard = pool.lock();
        assert!(guard.end_task(task.run, panicked).is_none());
        let worker = guard.workers.remove(id);
        guard.counts.transition_searching_to_gone(worker);
    });
}

#[test]
fn a_rescuer_finds_its_item_behind_a_backlog_in_several_holdings() {
    for published in [Alone, InChunks] {
        let rescuer = Rescuer::new(CpuSet::new());
        let backlog = Backlog::new(published, BACKLOG as i32, Some(&rescuer));
        // It settles: a worker is wanted.
        drop(backlog.pool.lock());
        let ((), most) = longest(|| {
            assert!(backlog.pool.mayday(), "a worker was asked for");
            rescuer.stop();
            rescuer.run();
        });
        assert!(most <= BOUND, "{published:?}: {most} in one holding");
        assert!(!backlog.other.is_pending(), "it was rescued");
        assert_eq!(backlog.pool.lock().stats().1.rescued, 1);
        backlog.end();
    }
}

#[test]
fn unused_chunks_are_freed_with_the_lock_free() {
    let backlog = Backlog::new(Alone, BACKLOG as i32, None);
    let pool = &backlog.pool;
    let key = backlog.pwqs[1];
    let chunks = pool.lock().allow_chunks(key, pool).expect("it exists");
    let nothing = || {
        let small = crate::item::closure::Small::of(|| {});
        small.unwrap_or_else(|_| unreachable!("it has no size at all"))
    };
    let open = OpenChunk::none();
    for _ in 0..5_000 {
        let _ = pool
            .inbox
            .push_in_chunk(&nothing(), &chunks.closures, &open, usize::MAX);
    }
    open.leave();
    drop(pool.lock_accepting());
    stubs::run_all(pool);
    // The first call only looks how many are used.
    pool.trim_chunks();
    let before = touched::so_far();
    let ((), most) = longest(|| pool.trim_chunks());
    let freed = touched::so_far() - before;
    assert!(freed > 4_900, "{freed} were freed");
    assert_eq!(most, 0, "with the lock held");
    backlog.end();
}
