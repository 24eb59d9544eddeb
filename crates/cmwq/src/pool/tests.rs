//! The pool's bookkeeping, step by step, on pools of real engines whose lock the test holds: one
//! thread sets up a state that is rare by chance, and checks the next step. Each test failed with
//! its line broken: see `SABOTAGES.md`.

use super::lock::guard::PoolGuard;
use super::state::pool::Pool;
use super::state::worker::{Busy, WorkerState};
use crate::engine::{Registry, epochs};
use crate::item::{ListKind, RawWork};
use crate::pool::lock::later::{defers_wakes, wake_deferred};
use crate::pool::queue::pwq::Traits;
use crate::pool::run::block::BlockGuard;
use crate::pool::state::group::Group;
use crate::pool::state::hogs::Computing;
use crate::pool::state::member::{self, Membership};
use crate::pool::state::worker::WorkerSlot;
use crate::pool::stubs;
use crate::pool::wake::deferred::has_backlog;
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::thread;
use crate::topology::Topology;
use crate::trace::Foreign;
use crate::{Engine, Work, Workqueue};
pub(super) use raw::claim;
use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

/// An engine of so many CPUs in one pod, whose watchdog does not accept items behind the test's back.
pub(super) fn engine(cpus: usize) -> Engine {
    let topology = format!("l3:1 core:{cpus} pu:1");
    let topology = Topology::from_synthetic(&topology).expect("a valid description");
    Engine::builder()
        .topology(topology)
        .watchdog_threshold(Duration::ZERO)
        .build()
        .expect("an engine")
}

/// Such an engine, and a queue on it that has run nothing yet.
pub(super) fn queue(cpus: usize, max_active: usize) -> (Engine, Workqueue, Arc<Pool>) {
    let engine = engine(cpus);
    let queue = engine.workqueue("t").max_active(max_active).build();
    let pool = pool_of(&engine);
    (engine, queue.expect("a queue"), pool)
}

/// The only pool of the engine.
pub(super) fn pool_of(engine: &Engine) -> Arc<Pool> {
    let pools = engine.pool_states();
    assert_eq!(pools.len(), 1);
    let pin = epochs().pin(0);
    let found = Registry::process().find(pools[0].id, &pin);
    found.expect("the engine has it").clone()
}

/// The only pool workqueue of the pool.
pub(super) fn only_pwq(guard: &PoolGuard<'_>) -> u32 {
    let mut indices = guard.pwqs.iter().map(|(index, _)| index);
    let only = indices.next().expect("the queue has one");
    assert!(indices.next().is_none(), "and no other");
    only
}

/// The id of the worker that the calling thread is, in `pool`.
fn own_id(pool: &Arc<Pool>) -> u32 {
    let tid = thread::current_tid() as u32;
    let guard = pool.lock();
    let own = |worker: &WorkerSlot| worker.handle.tid.load(Ordering::Relaxed) == tid;
    let found = guard.workers.iter().find(|(_, worker)| own(worker));
    found.expect("it is a worker of the pool").0
}

/// Calls `test` in an item, on a worker of the pool.
fn in_item(wq: &Workqueue, pool: &Arc<Pool>, test: impl FnOnce(&Arc<Pool>) + Send + 'static) {
    // Its two workers sleep first, the spare too: a worker that finds nothing to do performs the
    // deferred wake-ups.
    wq.execute(|| ()).expect("it is accepted");
    stubs::eventually(|| pool.lock().idle().len() == 2);
    let pool = pool.clone();
    // Not by a wait that could run the item on this thread.
    let ran = wq.spawn_on(0, move || test(&pool)).expect("a CPU");
    stubs::eventually(|| ran.is_finished());
    ran.join().expect("the test in the item has passed");
}

#[test]
fn who_declares_that_it_blocks_wakes_first_whom_it_was_to_wake_later() {
    let (_engine, wq, pool) = queue(1, 8);
    in_item(&wq, &pool, |pool| {
        // As at the monitor's tick: much waits, and items end often. Nothing else samples this pool.
        drop(pool.pending_wakeups.allow(400, 200, 2_000_000));
        let word = AtomicU32::new(1);
        assert!(Pool::defer_wakeup(&word), "it may be woken later");
        assert!(pool.pending_wakeups.is_any());
        let blocked = BlockGuard::enter();
        let left = pool.pending_wakeups.entered();
        drop(blocked);
        drop(pool.pending_wakeups.forbid());
        assert!(left.is_empty(), "it may be what the worker waits for");
    });
}

#[test]
fn who_was_found_awake_in_a_section_that_it_declared_to_block_is_counted_once() {
    let (_engine, wq, pool) = queue(1, 8);
    in_item(&wq, &pool, |pool| {
        let id = own_id(pool);
        let state = || {
            let guard = pool.lock();
            (guard.running(), guard.workers[id].state)
        };
        let before = state();
        assert_eq!(before, (1, WorkerState::Busy(Busy::Running)));
        for found_awake in [false, true] {
            let blocked = BlockGuard::enter();
            assert_eq!(state(), (0, WorkerState::Busy(Busy::Blocked)));
            if found_awake {
                // As the monitor does with a worker whose CPU clock moves.
                let mut guard = pool.lock();
                guard.workers[id].state = WorkerState::Busy(Busy::Running);
                let running = guard.running();
                guard.counts.set_running(running + 1);
            }
            drop(blocked);
            assert_eq!(state(), before, "found awake: {found_awake}");
        }
    });
}

/// Below a limit over all pools, where a worker that steals counts at home.
#[test]
fn a_thief_that_declares_that_it_blocks_does_not_count_at_home_any_more() {
    let (_engine, wq, pool) = queue(1, 8);
    in_item(&wq, &pool, |pool| {
        let id = own_id(pool);
        // As if its item were of another pool.
        pool.lock().workers[id].state = WorkerState::Away { counts: true };
        assert_eq!(pool.lock().running(), 1);
        let blocks = BlockGuard::enter();
        assert_eq!(pool.lock().running(), 0);
        drop(blocks);
        assert_eq!(pool.lock().running(), 0, "it has no place to come back to");
        let mut guard = pool.lock();
        let state = guard.workers[id].state;
        assert_eq!(state, WorkerState::Away { counts: false });
        guard.workers[id].state = WorkerState::Busy(Busy::Running);
        guard.counts.set_running(1);
    });
}

#[test]
fn a_worker_that_has_waited_in_a_declared_section_has_not_computed_there() {
    let (_engine, wq, pool) = queue(1, 8);
    in_item(&wq, &pool, |pool| {
        let id = own_id(pool);
        // As the monitor measures it.
        pool.lock().workers[id].computing = Computing::restart(7);
        let blocks = BlockGuard::enter();
        assert_eq!(pool.lock().workers[id].computing, Computing::restart(7));
        drop(blocks);
        assert_eq!(pool.lock().workers[id].computing, Computing::default());
    });
}

#[test]
fn a_section_inside_a_section_changes_nothing() {
    let (_engine, wq, pool) = queue(1, 8);
    in_item(&wq, &pool, |pool| {
        let running = || pool.lock().running();
        let outer = BlockGuard::enter();
        let inner = BlockGuard::enter();
        assert_eq!(running(), 0);
        drop(inner);
        assert_eq!(running(), 0, "it is still in the outer one");
        drop(outer);
        assert_eq!(running(), 1);
    });
}

#[test]
fn a_worker_that_finds_nothing_more_to_do_wakes_whom_it_was_to_wake_later() {
    let (_engine, wq, pool) = queue(1, 8);
    static WORD: AtomicU32 = AtomicU32::new(1);
    in_item(&wq, &pool, |pool| {
        // Nothing else samples this pool.
        drop(pool.pending_wakeups.allow(400, 200, 2_000_000));
        assert!(Pool::defer_wakeup(&WORD));
    });
    // It goes to sleep, and wakes whom it has not woken yet.
    stubs::eventually(|| !pool.pending_wakeups.is_any());
    drop(pool.pending_wakeups.forbid());
}

/// A task whose waker takes its pool's lock, as a waker that queues an item does.
struct Locks {
    pool: Arc<Pool>,
    woken: AtomicU32,
}

impl Wake for Locks {
    fn wake(self: Arc<Self>) {
        drop(self.pool.lock());
        self.woken.fetch_add(1, Ordering::Release);
    }
}

fn await_wake(task: &Locks) {
    stubs::eventually(|| task.woken.load(Ordering::Acquire) != 0);
}

fn boxed(waker: Waker) -> Box<Foreign<Waker>> {
    Box::new(Foreign::new(waker))
}

fn task_of(pool: &Arc<Pool>) -> (Arc<Locks>, Waker) {
    let task = Arc::new(Locks {
        pool: pool.clone(),
        woken: AtomicU32::new(0),
    });
    let waker = Waker::from(task.clone());
    (task, waker)
}

#[test]
fn a_waker_is_called_after_the_item_and_not_in_a_block_that_the_item_declares() {
    let (_engine, wq, pool) = queue(1, 8);
    let (task, waker) = task_of(&pool);
    let entered = task.clone();
    in_item(&wq, &pool, move |pool| {
        drop(pool.pending_wakeups.allow(400, 200, 2_000_000));
        Pool::wake_task(boxed(waker));
        drop(BlockGuard::enter());
        assert_eq!(entered.woken.load(Ordering::Relaxed), 0);
        assert!(pool.pending_wakeups.is_any());
    });
    await_wake(&task);
    drop(pool.pending_wakeups.forbid());
    assert_eq!(task.woken.load(Ordering::Relaxed), 1);
    assert_eq!(
        Arc::strong_count(&task),
        1,
        "the waker is dropped after the call"
    );
}

#[test]
fn a_waker_that_an_item_hands_over_is_deferred_behind_a_backlog_only() {
    let (_engine, wq, pool) = queue(1, 8);
    let (task, waker) = task_of(&pool);
    let woken = |task: &Locks| task.woken.load(Ordering::Relaxed);
    // On no worker.
    drop(pool.pending_wakeups.allow(400, 200, 2_000_000));
    assert!(!defers_wakes());
    wake_deferred(waker.clone());
    assert_eq!(woken(&task), 1);
    drop(pool.pending_wakeups.forbid());
    let entered = task.clone();
    in_item(&wq, &pool, move |pool| {
        assert!(!defers_wakes(), "there is no backlog");
        wake_deferred(waker.clone());
        assert_eq!(woken(&entered), 2);
        drop(pool.pending_wakeups.allow(400, 200, 2_000_000));
        assert!(defers_wakes());
        wake_deferred(waker);
        assert_eq!(woken(&entered), 2, "the item goes on first");
        entered.woken.store(0, Ordering::Relaxed);
    });
    await_wake(&task);
    drop(pool.pending_wakeups.forbid());
    assert_eq!(woken(&task), 1);
}

#[test]
fn the_monitor_calls_the_waker_of_an_item_that_does_not_end_and_holds_no_lock() {
    let (_engine, wq, pool) = queue(1, 8);
    let wq = Arc::new(wq);
    let (task, waker) = task_of(&pool);
    let (entered, another) = (task.clone(), wq.clone());
    in_item(&wq, &pool, move |pool| {
        drop(pool.pending_wakeups.allow(400, 200, 2_000_000));
        Pool::wake_task(boxed(waker));
        // It waits, as the pool has one CPU: so the monitor samples the pool.
        another.execute(|| ()).expect("it is accepted");
        await_wake(&entered);
    });
    assert_eq!(task.woken.load(Ordering::Relaxed), 1);
}

#[test]
fn who_polls_a_handle_calls_the_wakers_that_are_deferred() {
    let (_engine, wq, pool) = queue(1, 8);
    let wq = Arc::new(wq);
    let (task, waker) = task_of(&pool);
    let (entered, another) = (task.clone(), wq.clone());
    in_item(&wq, &pool, move |pool| {
        drop(pool.pending_wakeups.allow(400, 200, 2_000_000));
        Pool::wake_task(boxed(waker));
        // It waits, as the pool has one CPU, and for long.
        let handle = RefCell::new(another.spawn(|| ()));
        pool.lock().pace.note(100_000);
        // The pool of another test may use the same entry of the table of backlogs, and clear it. Then
        // this thread polls again.
        stubs::eventually(|| {
            pool.lock().drain();
            let mut handle = handle.borrow_mut();
            let polled = Pin::new(&mut *handle).poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
            let is_woken = entered.woken.load(Ordering::Relaxed) == 1;
            assert!(
                is_woken || !has_backlog(pool.id),
                "the poll calls the waker"
            );
            is_woken
        });
    });
    drop(pool.pending_wakeups.forbid());
    assert_eq!(task.woken.load(Ordering::Relaxed), 1);
}

#[test]
fn a_waker_that_panics_ends_no_worker() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose, in a waker");
        }
    }
    let (_engine, wq, pool) = queue(1, 8);
    let worker = Arc::new(AtomicU32::new(0));
    let first = worker.clone();
    in_item(&wq, &pool, move |pool| {
        drop(pool.pending_wakeups.allow(400, 200, 2_000_000));
        Pool::wake_task(boxed(Waker::from(Arc::new(Panics))));
        first.store(thread::current_tid() as u32, Ordering::Relaxed);
    });
    in_item(&wq, &pool, |pool| drop(pool.pending_wakeups.forbid()));
    let guard = pool.lock();
    let worker = worker.load(Ordering::Relaxed);
    let alive = |slot: &WorkerSlot| slot.handle.tid.load(Ordering::Relaxed) == worker;
    assert!(guard.workers.iter().any(|(_, slot)| alive(slot)));
}

#[test]
fn the_monitor_looks_at_a_pool_with_a_caller_slot() {
    let (_engine, _wq, pool) = queue(1, 8);
    let mut guard = pool.lock();
    let index = only_pwq(&guard);
    let key = guard.key_of(index);
    assert!(!guard.watched);
    let caller_slot = guard
        .open_caller_slot(key)
        .expect("nobody else wants its place");
    drop(guard);
    // Else the item in the slot is never found.
    assert!(pool.lock_beside_batches().watched);
    pool.close_caller_slot(key, &caller_slot);
}

#[test]
fn there_is_no_caller_slot_on_the_way_out_of_a_pool() {
    let [item] = stubs::raw_items();
    let (_engine, wq, pool) = queue(1, 8);
    let mut guard = pool.lock();
    let index = only_pwq(&guard);
    let key = guard.key_of(index);
    guard.accept_item(claim(&item, pool.id, index));
    assert!(!guard.retire_pwq(key), "it has an item");
    assert!(guard.open_caller_slot(key).is_none());
    drop(guard);
    // Waits for the item.
    drop(wq);
}

#[test]
fn who_waits_in_line_takes_no_credit_past_it() {
    let items = stubs::raw_items();
    let [active, cancelled, late] = &items;
    let (_engine, wq, pool) = queue(1, 1);
    {
        let mut guard = pool.lock();
        let index = only_pwq(&guard);
        let limit = guard.pwqs[index].limit.clone();
        let accept = |guard: &mut PoolGuard<'_>, item: &RawWork| {
            guard.accept_item(claim(item, pool.id, index));
            item.location().list
        };
        assert_eq!(accept(&mut guard, active), ListKind::Worklist);
        assert_eq!(accept(&mut guard, cancelled), ListKind::Inactive);
        // It stays in line, though what it waited with is gone.
        let taken = guard.take_out(pool.id, cancelled);
        taken.expect("it waits").0.release();
        // As when the limit is raised: the credit is for the first in line, in whatever pool.
        limit.give(1);
        assert_eq!(accept(&mut guard, late), ListKind::Inactive);
        limit.give(-1);
    }
    wq.flush().expect("not from an item");
    assert_eq!(wq.counts(), (2, 2), "each had its turn");
    let guard = pool.lock();
    let limit = &guard.pwqs[only_pwq(&guard)].limit;
    assert!(!limit.someone_waits(), "all have got what they waited for");
}

#[test]
fn a_limit_that_is_overdrawn_gives_nothing_on() {
    // Two active, two that wait; then the limit is lowered to one.
    let items = stubs::raw_items::<4>();
    let (_engine, wq, pool) = queue(1, 2);
    {
        let mut guard = pool.lock();
        let index = only_pwq(&guard);
        let limit = guard.pwqs[index].limit.clone();
        for item in &items {
            guard.accept_item(claim(item, pool.id, index));
        }
        let seats = |items: &[RawWork; 4]| items.each_ref().map(|item| item.location().list);
        let (worklist, inactive) = (ListKind::Worklist, ListKind::Inactive);
        assert_eq!(seats(&items), [worklist, worklist, inactive, inactive]);
        limit.give(-1);
        // The first active one goes: its credit is what was overdrawn.
        let taken = guard.take_out(pool.id, &items[0]);
        taken.expect("it waits").0.release();
        assert_eq!(seats(&items)[2], inactive, "more are active than may be");
        // The credit of the next one goes to the item that waits longest.
        let taken = guard.take_out(pool.id, &items[1]);
        taken.expect("it waits").0.release();
        assert_eq!(seats(&items)[2..], [worklist, inactive]);
        limit.give(1);
    }
    wq.flush().expect("not from an item");
    assert_eq!(wq.counts(), (2, 2));
}

#[test]
fn a_worker_that_pauses_below_a_quota_performs_its_deferred_wake_ups_first() {
    // Without a monitor, which would perform them too.
    let pool = stubs::pool_on(&Group::new(), 904, &[0]);
    let pwq = stubs::add_pwq(&pool, Traits::default(), 8);
    let first = Work::new({
        let pool = pool.clone();
        move || {
            pool.attrs.params.cpu_budget.use_up();
            drop(pool.pending_wakeups.allow(400, 200, 2_000_000));
            let word = AtomicU32::new(1);
            assert!(Pool::defer_wakeup(&word), "it may be woken later");
        }
    });
    let second = Work::new(|| ());
    for work in [&first, &second] {
        stubs::queue(&pool, pwq, work);
    }
    let ended = |count| pool.lock().pwqs[pwq.index].stats.completed == count;
    let worker = std::thread::spawn({
        let pool = pool.clone();
        move || {
            let (id, handle) = pool.enroll();
            let _membership = Membership::enter(&pool, id);
            pool.work(id, &handle);
        }
    });
    stubs::eventually(|| ended(1));
    stubs::eventually(|| !pool.pending_wakeups.is_any());
    assert!(!ended(2), "the worker pauses");
    pool.attrs.params.cpu_budget.refill();
    stubs::eventually(|| ended(2));
    pool.shut_down();
    stubs::eventually(|| worker.is_finished());
    drop(pool.pending_wakeups.forbid());
}

/// There it may hold a claimed item or a lock, with which it must not call a waker.
#[test]
fn a_worker_that_runs_an_item_is_not_between_items() {
    let engine = engine(1);
    let wq = engine.workqueue("t").workers_only().build().unwrap();
    let seen = wq.spawn(|| (member::as_worker(|_, _| ()), member::is_between_items()));
    assert_eq!(seen.join().unwrap(), (Some(()), false));
}

mod flush;
mod holds;
mod kept;
mod raw;
mod retired;
mod searchers;
mod waiters;
