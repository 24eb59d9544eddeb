//! What the monitor finds at workers that run an item, which are a thread of the test.

use super::*;
use crate::pool::queue::pwq::Traits;
use crate::pool::stubs;
use std::sync::mpsc;

/// A thread that computes for a moment each time it is asked to, and sleeps in between.
struct Thread {
    tid: i32,
    ask: mpsc::Sender<()>,
    done: mpsc::Receiver<i32>,
}

impl Thread {
    fn new() -> Self {
        let ((ask, asked), (tell, done)) = (mpsc::channel(), mpsc::channel());
        std::thread::spawn(move || {
            let tid = thread::current_tid();
            while tell.send(tid).is_ok() && asked.recv().is_ok() {
                let until = thread::cpu_time_of_current_ns() + 2 * ASLEEP_BELOW_NS;
                while thread::cpu_time_of_current_ns() < until {}
            }
        });
        let tid = done.recv().expect("it has begun");
        let own = Thread { tid, ask, done };
        own.falls_asleep();
        own
    }

    fn falls_asleep(&self) {
        let asleep = |_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            thread::state_of(self.tid) == thread::ThreadState::Asleep
        };
        assert!((0..60_000).any(asleep), "it waits to be asked");
    }

    fn computes(&self) {
        self.ask.send(()).expect("it is there");
        self.done.recv().expect("it has computed");
        self.falls_asleep();
    }
}

/// A pool with one worker, which runs an item; to the monitor it is this thread.
fn runs_on(thread: &Thread, id: u32) -> (Arc<Pool>, u32, Arc<WorkerHandle>) {
    let pool = stubs::pool(id, 0);
    let pwq = stubs::add_pwq(&pool, Traits::default(), 10);
    let (id, handle) = stubs::searching(&pool);
    handle.tid.store(thread.tid as u32, Ordering::Relaxed);
    handle.in_item.store(true, Ordering::Relaxed);
    pool.lock().begin(id, pwq.index);
    (pool, id, handle)
}

/// What the monitor has read of the worker: it runs one item, which has computed for a second.
fn suspect(thread: &Thread, id: u32, handle: &Arc<WorkerHandle>, computing: Computing) -> Suspect {
    Suspect {
        id,
        handle: handle.clone(),
        runs: 1,
        seen_runs: 1,
        seen_cpu_ns: 0,
        seen_counted: true,
        computing,
        busy: Busy::Running,
        tid: thread.tid,
        cpu_ns: 1_000_000_000,
    }
}

#[test]
fn an_item_that_has_waited_while_the_monitor_looked_at_it_is_no_hog() {
    let thread = Thread::new();
    let (pool, id, handle) = runs_on(&thread, 55);
    // It has not slept since the measurement began, and has computed for a second.
    let sleeps = thread::voluntary_switches_of(thread.tid);
    let mut computing = Computing::restart(0);
    assert!(!computing.exceeds(0, 0, || sleeps));
    let judged = || {
        pool.judge(suspect(&thread, id, &handle, computing), false);
        pool.lock().workers[id].state
    };
    // A declared wait ends.
    pool.lock().workers[id].computing = Computing::default();
    assert_eq!(judged(), WorkerState::Busy(Busy::Running));
    let now = pool.lock().workers[id].computing;
    assert_eq!(now, Computing::default(), "the measurement begins anew");
    pool.lock().workers[id].computing = computing;
    assert_eq!(judged(), WorkerState::Busy(Busy::CpuIntensive));
}

#[test]
fn a_blocked_worker_counts_again_when_its_clock_has_moved_between_two_looks_and_it_is_awake() {
    let thread = Thread::new();
    let (pool, id, handle) = runs_on(&thread, 54);
    let mut next_suspect = 0;
    let mut running = || {
        pool.sample_busy(pool.lock(), &mut next_suspect);
        pool.lock().running()
    };
    assert_eq!(running(), 1);
    // Outside an item a worker is awake, as far as the monitor sees.
    let seems_awake = |awake: bool| handle.in_item.store(!awake, Ordering::Relaxed);
    seems_awake(true);
    thread.computes();
    pool.lock().step_out(id, Busy::Blocked);
    assert_eq!(running(), 0, "it may have computed before it blocked");
    seems_awake(false);
    thread.computes();
    assert_eq!(running(), 0, "it has computed, and sleeps again");
    seems_awake(true);
    assert_eq!(running(), 0, "it stands still");
    thread.computes();
    assert_eq!(running(), 1);
}

/// Otherwise it would be taken out of the number of running workers twice.
#[test]
fn a_worker_that_counts_otherwise_since_it_was_looked_at_stays_as_it_is() {
    let thread = Thread::new();
    for (number, now) in [Busy::Blocked, Busy::CpuIntensive].into_iter().enumerate() {
        let (pool, id, handle) = runs_on(&thread, 56 + number as u32);
        let suspect = suspect(&thread, id, &handle, Computing::restart(0));
        pool.lock().step_out(id, now);
        pool.judge(suspect, true);
        assert_eq!(pool.lock().workers[id].state, WorkerState::Busy(now));
        assert_eq!(pool.lock().running(), 0);
    }
}
