//! Threads that run what they wait for.

use crate::Work;
use crate::item::Completion;
use crate::pool::lock::guard::PoolGuard;
use crate::pool::queue::pwq::{PwqKey, Traits};
use crate::pool::run::batch::{Claims, Next};
use crate::pool::run::waiter::Waiter;
use crate::pool::state::group::Group;
use crate::pool::state::pool::Pool;
use crate::pool::state::worker::Busy;
use crate::pool::stubs;
use crate::pool::task::busy::Executor;
use crate::pool::task::call::call;
use crate::pool::task::run::Task;
use crate::pool::wake::deferred::has_backlog;
use crate::pool::wake::placement::Place;
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::thread;
use std::sync::Arc;

/// A pool of the CPUs on which this thread may run, and an item that notes how many threads run there.
fn pool_and_observer(number: u32) -> (Arc<Pool>, PwqKey, Work, Arc<AtomicU32>) {
    let cpus: Vec<usize> = thread::current_binding().unwrap().iter().collect();
    let pool = stubs::pool_on(&Group::new(), number, &cpus);
    let traits = Traits {
        waiters_run: true,
        ..Traits::default()
    };
    let pwq = stubs::add_pwq(&pool, traits, 8);
    let seen = Arc::new(AtomicU32::new(0));
    let (of_item, its_pool) = (seen.clone(), pool.clone());
    let work = Work::new(move || {
        let running = its_pool.lock_beside_batches().running();
        of_item.store(running, Ordering::Relaxed);
    });
    (pool, pwq, work, seen)
}

#[test]
fn a_waiter_that_pauses_below_a_quota_accounts_first_for_what_it_ran() {
    // On whichever CPU the test runs.
    let cpus: Vec<usize> = thread::current_binding().unwrap().iter().collect();
    let pool = stubs::pool_on(&Group::new(), 903, &cpus);
    let traits = Traits {
        waiters_run: true,
        ..Traits::default()
    };
    let pwq = stubs::add_pwq(&pool, traits, 8);
    let works = [(); 2].map(|()| Work::new(|| ()));
    for work in &works {
        stubs::queue(&pool, pwq, work);
    }
    let busy = || pool.lock().busy.iter().count();
    let found = pool.clone();
    let find = move |_| Some(found.clone());
    let mut waiter = Waiter::default();
    assert!(waiter.run(works[0].as_raw(), &find));
    assert_eq!(busy(), 1, "it accounts for it when it takes the next");
    pool.attrs.params.cpu_budget.use_up();
    let has_ended = works[0].as_raw();
    assert!(
        !Waiter::default().run(has_ended, &find),
        "nor does it pause"
    );
    let second = works[1].clone();
    let waits = std::thread::spawn(move || waiter.run(second.as_raw(), &find));
    stubs::eventually(|| busy() == 0);
    assert!(!waits.is_finished(), "it pauses");
    pool.attrs.params.cpu_budget.refill();
    assert!(waits.join().expect("it ran"));
}

#[test]
fn a_waiter_counts_while_it_runs_an_item_and_leaves_it_to_workers_where_much_waits() {
    let (pool, pwq, work, seen) = pool_and_observer(904);
    let running = || pool.lock().running();
    stubs::queue(&pool, pwq, &work);
    assert!(pool.run_only(work.as_raw(), None));
    assert_eq!((seen.load(Ordering::Relaxed), running()), (1, 0));
    // All CPUs are taken: it runs the item that it waits for all the same.
    stubs::queue(&pool, pwq, &work);
    let target = pool.lock().target();
    pool.lock().counts.set_running(target);
    let found = pool.clone();
    let find = move |_| Some(found.clone());
    let mut waiter = Waiter::default();
    assert!(waiter.run_or_wait(work.as_raw(), &find, &Completion::new(), || true));
    drop(waiter);
    assert_eq!(seen.load(Ordering::Relaxed), target + 1);
    pool.lock().counts.set_running(0);
}

/// The worker has just ended an item, which has woken the thread, and waits for the CPU.
#[test]
fn a_waiter_on_the_cpu_of_an_awake_worker_does_not_count_beside_it() {
    let (pool, pwq, work, seen) = pool_and_observer(905);
    let here = thread::current_binding().unwrap().first();
    let runs = |waiter: &mut Waiter| {
        stubs::queue(&pool, pwq, &work);
        assert!(waiter.run_at(&pool, work.as_raw(), here));
        seen.load(Ordering::Relaxed)
    };
    let mut waiter = Waiter::default();
    assert_eq!(runs(&mut waiter), 1);
    let mut worker = Place::default();
    pool.lock().occupied.enter(&mut worker, here);
    assert_eq!(runs(&mut waiter), 0, "it counts no more");
    pool.lock().occupied.leave(&mut worker);
    assert_eq!(runs(&mut waiter), 1);
    drop(waiter);
    assert_eq!(pool.lock().running(), 0);
}

/// That one is to be a worker, which takes many items at once.
#[test]
fn a_waiter_does_not_count_where_the_lock_can_serve_one_thread_only() {
    let (pool, pwq, work, seen) = pool_and_observer(934);
    let mut waiter = Waiter::default();
    let mut runs = || {
        stubs::queue(&pool, pwq, &work);
        assert!(waiter.run_at(&pool, work.as_raw(), None));
        seen.load(Ordering::Relaxed)
    };
    let limit_to_one_less_than = |running| {
        let mut guard = pool.lock();
        while !guard.crowding.note(true) {}
        let changes = guard.crowding.judge(running, 3, 100);
        assert!(changes, "many waited for the lock");
    };
    limit_to_one_less_than(3);
    assert_eq!(runs(), 1);
    limit_to_one_less_than(2);
    assert_eq!(runs(), 0);
    assert!(pool.lock().crowding.tick(0), "no item ends");
    assert_eq!(runs(), 1);
}

/// At that time the monitor still allows deferring, and its next tick is some milliseconds away.
#[test]
fn a_waiter_need_not_park_at_once_as_soon_as_what_waited_has_begun() {
    let pool = stubs::saturated(&Group::new(), 941, &[0, 1], 8);
    let tells = || {
        drop(pool.lock());
        has_backlog(pool.id)
    };
    pool.lock().pace.note(20_000);
    assert!(tells(), "8 times 20 us, for two CPUs");
    drop(pool.pending_wakeups.allow(400, 200, 2_000_000));
    pool.lock().pace.note(2_000);
    assert!(!tells(), "short items");
    pool.lock().pace.note(20_000);
    pool.lock().pace.note(20_000);
    assert!(tells());
    stubs::run_all(&pool);
    assert!(!tells() && pool.pending_wakeups.may_defer());
    drop(pool.pending_wakeups.forbid());
}

/// A pool of two CPUs, whose items are short, on a system that wakes workers on used CPUs.
fn pool_of_two(number: u32) -> (Arc<Pool>, PwqKey) {
    let pool = stubs::pool_on(&Group::new(), number, &[0, 1]);
    let traits = Traits {
        waiters_run: true,
        ..Traits::default()
    };
    let pwq = stubs::add_pwq(&pool, traits, 8);
    let mut guard = pool.lock();
    guard.pace.note(5_000);
    guard.occupied.note_that_it_packs();
    drop(guard);
    (pool, pwq)
}

/// The thread that has queued the items runs on the other CPU.
#[test]
fn where_threads_run_what_they_wait_for_the_first_worker_leaves_one_cpu_to_them() {
    let (pool, pwq) = pool_of_two(942);
    let (id, _handle) = stubs::searching(&pool);
    let joins = |guard: &mut PoolGuard<'_>| {
        let joiner = guard.counts.enter_joiner(false);
        guard.counts.leave_joiner(joiner);
    };
    // How many count when a worker has begun the first item.
    let begins = |guard: &mut PoolGuard<'_>| {
        guard.begin(id, pwq.index);
        guard.first_has_begun();
        guard.running()
    };
    let mut guard = pool.lock();
    assert_eq!(begins(&mut guard), 1, "no thread has run an item");
    guard.end(id);
    joins(&mut guard);
    assert_eq!(begins(&mut guard), 2);
    guard.end(id);
    assert_eq!(guard.running(), 0);
    assert_eq!(begins(&mut guard), 1, "none has since then");
    guard.end(id);
    joins(&mut guard);
    assert_eq!(begins(&mut guard), 2);
    let joiner = guard.counts.enter_joiner(false);
    assert_eq!(guard.running(), 2, "it came");
    guard.counts.leave_joiner(joiner);
    guard.end(id);
    joins(&mut guard);
    assert_eq!(begins(&mut guard), 2);
    guard.step_out(id, Busy::Blocked);
    assert_eq!(guard.running(), 0, "the worker sees nothing soon");
    guard.end(id);
    joins(&mut guard);
    assert_eq!(begins(&mut guard), 2);
    guard.counts.lapse_joiners();
    assert_eq!(guard.running(), 1, "the monitor's tick");
    guard.end(id);
    joins(&mut guard);
    guard.pace.note(1_000_000);
    guard.pace.note(1_000_000);
    assert_eq!(begins(&mut guard), 1, "long items");
    guard.end(id);
}

/// Otherwise the thread would always wait for the item that the worker has just begun.
#[test]
fn a_worker_leaves_the_first_items_to_a_thread_that_joins_them_in_order_but_once() {
    let (pool, pwq) = pool_of_two(943);
    let (id, _handle) = stubs::searching(&pool);
    // The order in which one worker takes four items, whose names are their numbers.
    let order = |in_order: Option<bool>| {
        let works = [(); 4].map(|()| Work::new(|| ()));
        works.iter().for_each(|work| stubs::queue(&pool, pwq, work));
        let mut guard = pool.lock();
        guard.drain();
        let joiner = in_order.map(|in_order| guard.counts.enter_joiner(in_order));
        let mut claims = Claims::up_to(1);
        let mut taken = Vec::new();
        while let Some(Next::One(task)) = guard.take_next(id, &mut claims) {
            drop(guard);
            let Task { started, run } = task;
            taken.extend(works.iter().position(|work| run.current.is(work.as_raw())));
            let panicked = call(started, run.current);
            guard = pool.lock();
            assert!(guard.end_task(run, panicked).is_none());
        }
        joiner
            .into_iter()
            .for_each(|one| guard.counts.leave_joiner(one));
        taken
    };
    assert_eq!(order(None), [0, 1, 2, 3]);
    assert_eq!(order(Some(false)), [0, 1, 2, 3], "newest first");
    // The last one is not left: nothing else waits.
    assert_eq!(order(Some(true)), [1, 0, 3, 2]);
}

#[test]
fn a_thread_that_spins_for_a_short_item_counts_and_one_that_joins_is_expected_again() {
    let (pool, pwq) = pool_of_two(944);
    let work = Work::new(|| ());
    stubs::queue(&pool, pwq, &work);
    let next = pool.lock().next_task(Executor::worker());
    let Some(Task { started, run }) = next else {
        panic!("it waits")
    };
    pool.lock().counts.set_running(1);
    let running = || pool.lock_beside_batches().running();
    let waits = |waiter: &mut Waiter| assert!(!waiter.run_at(&pool, work.as_raw(), None));
    let mut waiter = Waiter::default();
    waits(&mut waiter);
    assert_eq!(running(), 2);
    waiter.settle();
    assert_eq!(running(), 1);
    let mut waiter = Waiter::in_order();
    waits(&mut waiter);
    drop(waiter);
    assert_eq!(running(), 2, "it joins the next one");
    // It comes, and spins. Then the items have become long.
    let become_long = || (0..2).for_each(|_| pool.lock().pace.note(1_000_000));
    let mut waiter = Waiter::in_order();
    waits(&mut waiter);
    assert_eq!(running(), 2);
    become_long();
    waits(&mut waiter);
    assert_eq!(running(), 1);
    drop(waiter);
    // One that was expected finds that it has to wait for a long item.
    (0..2).for_each(|_| pool.lock().pace.note(5_000));
    let mut waiter = Waiter::in_order();
    waits(&mut waiter);
    drop(waiter);
    assert_eq!(running(), 2);
    become_long();
    waits(&mut Waiter::in_order());
    assert_eq!(running(), 1);
    let panicked = call(started, run.current);
    assert!(pool.lock().end_task(run, panicked).is_none());
    pool.lock().counts.set_running(0);
}
