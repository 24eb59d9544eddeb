//! Wake placement: on which CPU a woken worker begins.
//!
//! The system chooses, and mostly well. But a virtual machine whose idle CPUs halt takes them for CPUs that its host has given to others, and puts
//! the woken thread on the waker's own CPU, where it preempts the waker. If the waker is about to wait, that is the best CPU. If not, because it
//! queues one item after the other, or is a worker that has an item to run, then a CPU idles: a window of items in flight is run one by one, or two
//! workers share a CPU while the other one halts and the issuer waits for the item of the preempted worker.
//!
//! So a worker whose waker goes on running notes whether it began on the same CPU. If that is the habit, and the process leaves CPUs unused, workers
//! of unbound pools have preferred CPUs, dealt out over the pod's CPUs in turn. Before it parks, a worker binds itself to its preferred CPU, so that
//! it wakes up there; then to its pod again, before it runs anything. No item sees it, and while a worker runs the system moves it as ever. A waker
//! that goes on picks a worker that prefers another CPU; a waker about to wait, one that prefers the waker's CPU.
//!
//! An issuer goes on if it has not slept of its own accord since it last called a worker.
#![forbid(unsafe_code)]

use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicBool, AtomicU32, AtomicU64};
use crate::sys::local::thread_local;
use crate::sys::{clock, cpu, thread};
use std::cell::Cell;

/// A habit is so many more wake-ups on the waker's CPU than elsewhere; the difference is counted up to `MOST`.
const HABIT: u32 = 4;
const MOST: u32 = 16;
/// Every so many times no preferred CPUs are used, to see what the system does. Odd: several pools may take turns.
const PROBE_EVERY: u32 = 31;
/// Before there is a habit, an issuer is checked for going on at every so many calls: it costs a system call.
const ASK_EVERY: u32 = 8;
/// How often the process's use of CPUs is measured, in ns; the shares, in percent, below which CPUs are to spare, and above which they are not any
/// more.
const LOOK_EVERY_NS: u64 = 4_000_000;
const SPARE_BELOW: u64 = 90;
const BUSY_ABOVE: u64 = 97;

/// Where workers have begun lately. Shared by threads: a lost update only delays the learning.
pub(in crate::pool) struct Placement {
    habit: AtomicU32,
    turn: AtomicU32,
    asked: AtomicU32,
    spare: AtomicBool,
    /// When the process's CPU time was last read, and its value.
    looked_ns: AtomicU64,
    used_ns: AtomicU64,
}

impl Placement {
    pub(in crate::pool) const fn new() -> Self {
        Placement {
            habit: AtomicU32::new(0),
            turn: AtomicU32::new(0),
            asked: AtomicU32::new(0),
            spare: AtomicBool::new(false),
            looked_ns: AtomicU64::new(0),
            used_ns: AtomicU64::new(0),
        }
    }

    /// A worker has begun, on its waker's CPU or not.
    pub(in crate::pool) fn saw(&self, same: bool) {
        let habit = self.habit.load(Ordering::Relaxed);
        let now = match same {
            true => (habit + 1).min(MOST),
            false => habit.saturating_sub(1),
        };
        if now != habit {
            self.habit.store(now, Ordering::Relaxed);
        }
    }

    /// Whether to find out if an issuer goes on.
    pub(in crate::pool) fn is_of_interest(&self) -> bool {
        self.habit.load(Ordering::Relaxed) > 0
            || self
                .asked
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(ASK_EVERY)
    }

    pub(in crate::pool) fn is_habit(&self) -> bool {
        self.spare.load(Ordering::Relaxed)
            && self.habit.load(Ordering::Relaxed) >= HABIT
            && !self
                .turn
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(PROBE_EVERY)
    }

    /// Measures whether the process leaves CPUs unused, if that is due.
    pub(in crate::pool) fn look_around(&self) {
        let now_ns = clock::now_ns();
        let passed_ns = now_ns - self.looked_ns.load(Ordering::Relaxed).min(now_ns);
        if passed_ns < LOOK_EVERY_NS {
            return;
        }
        self.looked_ns.store(now_ns, Ordering::Relaxed);
        let used_ns = clock::process_cpu_ns();
        let before_ns = self.used_ns.swap(used_ns, Ordering::Relaxed);
        self.judge(
            used_ns.saturating_sub(before_ns),
            passed_ns * cpu::available(),
        );
    }

    /// The process used `used_ns` of CPU time, out of `might_ns`.
    fn judge(&self, used_ns: u64, might_ns: u64) {
        let percent = used_ns * 100 / might_ns.max(1);
        if percent < SPARE_BELOW {
            self.spare.store(true, Ordering::Relaxed);
        } else if percent > BUSY_ABOVE {
            self.spare.store(false, Ordering::Relaxed);
        }
    }
}

/// Whether the calling thread has not slept of its own accord since the last call.
pub(in crate::pool) fn goes_on() -> bool {
    thread_local! {
        static SLEPT: Cell<i64> = const { Cell::new(-1) };
    }
    let slept = thread::voluntary_switches();
    SLEPT.replace(slept) == slept
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::Engine;
    use crate::affinity::AffinityScope;
    use crate::engine::{Registry, gates};
    use crate::pool::state::pool::Inner;
    use crate::pool::state::pool::Pool;
    use crate::pool::state::worker::{Busy, WorkerState};
    use crate::pool::stubs;
    use crate::topology::CpuSet;
    use std::sync::Arc;

    #[test]
    fn it_takes_more_than_a_few_wake_ups_on_the_wakers_cpu_and_cpus_to_spare() {
        let placement = Placement::new();
        let habit =
            |placement: &Placement| (0..PROBE_EVERY).filter(|_| placement.is_habit()).count();
        for _ in 0..HABIT - 1 {
            placement.saw(true);
        }
        placement.judge(50, 100);
        assert_eq!(habit(&placement), 0);
        placement.saw(true);
        // All except the probe.
        assert_eq!(habit(&placement), PROBE_EVERY as usize - 1);
        placement.judge(SPARE_BELOW + 1, 100);
        assert_eq!(
            habit(&placement),
            PROBE_EVERY as usize - 1,
            "between the bounds nothing changes"
        );
        placement.judge(BUSY_ABOVE + 1, 100);
        assert_eq!(habit(&placement), 0);
        placement.judge(SPARE_BELOW, 100);
        assert_eq!(habit(&placement), 0);
        placement.judge(0, 100);
        placement.saw(false);
        assert_eq!(habit(&placement), 0);
    }

    #[test]
    fn a_habit_is_forgotten() {
        let placement = Placement::new();
        for _ in 0..1000 {
            placement.saw(true);
        }
        for _ in 0..MOST {
            placement.saw(false);
        }
        placement.judge(0, 100);
        assert!(!placement.is_habit() && !placement.is_habit());
    }

    /// Whether one more worker is requested when a thread on CPU 0 that goes on wakes one: worker `idle` sleeps, and all others run.
    fn wants_worker(workers: u32, idle: u32) -> bool {
        let pool = stubs::pool(1, u64::MAX);
        pool.placement.judge(0, 100);
        (0..MOST).for_each(|_| pool.placement.saw(true));
        // The first of every so many is a probe, without preferred CPUs.
        pool.placement.is_habit();
        (0..workers).for_each(|_| drop(pool.enroll()));
        let mut guard = pool.lock();
        for id in (0..workers).filter(|&id| id != idle) {
            guard.workers[id].state = WorkerState::Busy(Busy::Running);
            let running = guard.running();
            guard.counts.set_running(running + 1);
        }
        let inner: &mut Inner = &mut guard;
        let worker = &mut inner.workers[idle];
        inner.counts.set_idle(idle, worker, 0);
        guard.will_go_on();
        assert!(guard.wake_idle());
        guard.creating
    }

    #[test]
    fn where_no_idle_worker_is_at_home_on_a_cpu_that_suits_one_more_is_created() {
        if thread::bind_current(&CpuSet::from_iter([0])).is_err() {
            println!("skipped, because CPU 0 is not allowed");
            return;
        }
        assert!(wants_worker(3, 0) && wants_worker(3, 2));
        assert!(!wants_worker(3, 1), "it sleeps on CPU 1");
        assert!(!wants_worker(4, 0), "two for each CPU are enough");
    }

    /// The pool of an engine with one queue.
    fn pool_of(engine: &Engine) -> Arc<Pool> {
        let id = engine.pool_states()[0].id;
        let gate = gates().enter(0);
        let pool = Registry::process().find(id, &gate);
        pool.expect("it is in use").clone()
    }

    #[test]
    fn no_item_sees_that_its_worker_slept_at_home() {
        let engine = Engine::builder().build().unwrap();
        let queue = engine.workqueue("t").affinity_scope(AffinityScope::System);
        let queue = queue.workers_only().build().unwrap();
        let pool = pool_of(&engine);
        let pod = pool.lock().binding.clone();
        if pod.len() < 2 {
            return;
        }
        let on_preferred = || {
            let tids: Vec<i32> = {
                let guard = pool.lock();
                let idle = guard.idle().iter();
                let tid = |id: &u32| guard.workers[*id].handle.tid.load(Ordering::Relaxed) as i32;
                idle.map(tid).collect()
            };
            let alone = |&tid: &i32| thread::binding_of(tid).is_ok_and(|cpus| cpus.len() == 1);
            tids.iter().any(alone)
        };
        let mut preferred = 0;
        while preferred < 100 {
            pool.placement.judge(0, 100);
            (0..MOST).for_each(|_| pool.placement.saw(true));
            let seen = queue.spawn(|| thread::current_binding().unwrap());
            assert_eq!(seen.join().unwrap(), *pod);
            preferred += u32::from(on_preferred());
        }
    }
}
