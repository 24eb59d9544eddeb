//! Workers that are awake and look for work, and those who take their CPU.

use crate::Work;
use crate::item::Completion;
use crate::pool::lock::guard::PoolGuard;
use crate::pool::queue::pwq::Traits;
use crate::pool::state::group::Group;
use crate::pool::state::member::Membership;
use crate::pool::state::pool::Pool;
use crate::pool::stubs;
use crate::pool::wake::deferred::entry_of_waker;
use crate::pool::wake::placement::Place;
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::{cpu, thread};
use crate::topology::CpuSet;
use crate::trace::Foreign;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

/// Binds the calling thread to a CPU, and returns it with the next one, which the machine need not have.
fn here_and_there() -> [usize; 2] {
    let here = cpu::current().expect("the system tells");
    thread::bind_current(&CpuSet::from_iter([here])).expect("it runs there");
    [here, here + 1]
}

#[test]
fn a_searching_worker_is_moved_as_soon_as_there_is_a_free_cpu() {
    let [here, there] = here_and_there();
    let pool = stubs::pool_on(&Group::new(), 906, &[here, there]);
    let (id, _handle) = stubs::searching(&pool);
    let mut runs = Place::default();
    let place_of = |guard: &PoolGuard<'_>| guard.workers[id].place.expected();
    {
        let mut guard = pool.lock();
        let inner = &mut *guard;
        inner
            .occupied
            .enter(&mut inner.workers[id].place, Some(here));
        inner.occupied.enter(&mut runs, Some(there));
    }
    pool.inbox.expect_searcher(id, Some(here));
    pool.lock().move_searcher();
    assert_eq!(place_of(&pool.lock()), Some(here), "no CPU is free");
    pool.lock().occupied.leave(&mut runs);
    pool.lock().move_searcher();
    assert_eq!(place_of(&pool.lock()), Some(there));
    assert!(!pool.inbox.has_searcher());
}

/// The system leaves a worker on a CPU for milliseconds, although others become idle. A pool notes
/// only the last worker that was woken.
#[test]
fn a_joiner_moves_a_searching_worker_that_waits_for_its_cpu() {
    let [here, there] = here_and_there();
    for runs_items in [false, true] {
        let pool = stubs::pool_on(&Group::new(), 934, &[here, there]);
        let (id, _handle) = stubs::searching(&pool);
        let traits = Traits {
            waiters_run: true,
            ..Traits::default()
        };
        let pwq = stubs::add_pwq(&pool, traits, 1);
        let work = Work::new(|| ());
        stubs::queue(&pool, pwq, &work);
        {
            let mut guard = pool.lock();
            let inner = &mut *guard;
            inner
                .occupied
                .enter(&mut inner.workers[id].place, Some(here));
        }
        assert!(!pool.inbox.has_searcher(), "another one was woken since");
        if runs_items {
            assert!(pool.run_only(work.as_raw(), Some(here)));
        }
        let expected = if runs_items { there } else { here };
        let place = pool.lock().workers[id].place.expected();
        assert_eq!(place, Some(expected));
    }
}

/// Called by a worker that has nothing to do: how many workers search at that time, and whether
/// issuers know of this one.
struct Sees {
    pool: Arc<Pool>,
    searching: AtomicU32,
    known: AtomicU32,
    done: Completion,
}

impl Wake for Sees {
    fn wake(self: Arc<Self>) {
        let searching = self.pool.lock_beside_batches().searching();
        self.searching.store(searching, Ordering::Relaxed);
        let known = u32::from(self.pool.inbox.has_searcher());
        self.known.store(known, Ordering::Relaxed);
        self.done.complete();
    }
}

/// What a waker sees that a worker calls which has nothing to do, beside so many workers that search.
fn seen_beside(others: usize, number: u32) -> [u32; 2] {
    let [here, there] = here_and_there();
    let pool = stubs::pool_on(&Group::new(), number, &[here, there]);
    let sees = Arc::new(Sees {
        pool: pool.clone(),
        searching: AtomicU32::new(u32::MAX),
        known: AtomicU32::new(u32::MAX),
        done: Completion::new(),
    });
    drop(pool.pending_wakeups.allow(400, 200, 2_000_000));
    let waker = Waker::from(sees.clone());
    let entry = entry_of_waker(Box::new(Foreign::new(waker)));
    assert!(pool.pending_wakeups.enter_waker(entry));
    let others: Vec<u32> = (0..others).map(|_| stubs::searching(&pool).0).collect();
    let its_pool = pool.clone();
    let worker = std::thread::spawn(move || {
        let (id, handle) = its_pool.enroll();
        let _membership = Membership::enter(&its_pool, id);
        its_pool.work(id, &handle);
    });
    assert!(sees.done.wait_timeout(Duration::from_secs(60)));
    for other in others {
        let mut guard = pool.lock();
        let slot = guard.workers.remove(other);
        guard.counts.transition_searching_to_gone(slot);
    }
    pool.shut_down();
    stubs::eventually(|| worker.is_finished());
    [&sees.searching, &sees.known].map(|seen| seen.load(Ordering::Relaxed))
}

/// Who is woken may preempt the worker, and queue: another worker is woken then, or it is moved.
#[test]
fn a_worker_that_wakes_others_does_not_pass_for_one_that_will_find_what_they_queue() {
    let [searching, _] = seen_beside(1, 907);
    assert_eq!(searching, 1, "only the other one");
    assert_eq!(seen_beside(0, 908), [1, 1]);
}

/// A thread picks a worker, and another one takes the CPU before it can wake that worker.
#[test]
fn a_worker_is_woken_by_the_thread_that_has_preempted_its_waker() {
    let [here, there] = here_and_there();
    let pool = stubs::pool_on(&Group::new(), 933, &[here, there]);
    let its_pool = pool.clone();
    let worker = std::thread::spawn(move || {
        let (id, handle) = its_pool.enroll();
        let _membership = Membership::enter(&its_pool, id);
        its_pool.work(id, &handle);
    });
    let is_idle = || pool.lock_beside_batches().idle().len() == 1;
    let pwq = stubs::add_pwq(&pool, Traits::default(), 1);
    let ran = Arc::new(AtomicU32::new(0));
    let counts = ran.clone();
    let work = Work::new(move || _ = counts.fetch_add(1, Ordering::Relaxed));
    stubs::eventually(is_idle);
    let late = {
        let mut guard = pool.lock();
        assert!(guard.wake_idle());
        guard.wake.take().expect("it was picked")
    };
    stubs::queue(&pool, pwq, &work);
    stubs::eventually(|| ran.load(Ordering::Relaxed) == 1);
    // The first thread wakes it again, and nothing waits: it stays on the list of idle workers.
    stubs::eventually(is_idle);
    late.wake(&pool.inbox);
    stubs::eventually(|| {
        let guard = pool.lock_beside_batches();
        guard
            .workers
            .iter()
            .all(|(_, slot)| slot.handle.is_parked())
    });
    assert!(is_idle());
    stubs::queue(&pool, pwq, &work);
    stubs::eventually(|| ran.load(Ordering::Relaxed) == 2);
    stubs::eventually(is_idle);
    pool.shut_down();
    stubs::eventually(|| worker.is_finished());
}
