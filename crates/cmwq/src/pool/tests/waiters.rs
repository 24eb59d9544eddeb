//! Threads that run what they wait for.

use crate::Work;
use crate::item::Completion;
use crate::pool::queue::pwq::{PwqKey, Traits};
use crate::pool::run::waiter::Waiter;
use crate::pool::state::group::Group;
use crate::pool::state::pool::Pool;
use crate::pool::stubs;
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
        let changes = guard.crowding.judge(running, 3, 500);
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
    drop(pool.pending_wakeups.allow(pool.id, 400, 200, 2_000_000));
    pool.lock().pace.note(2_000);
    assert!(!tells(), "short items");
    pool.lock().pace.note(20_000);
    pool.lock().pace.note(20_000);
    assert!(tells());
    stubs::run_all(&pool);
    assert!(!tells() && pool.pending_wakeups.may_defer());
    drop(pool.pending_wakeups.forbid(pool.id));
}
