//! Homes: on which CPU a worker begins that is woken.
//!
//! Where it begins is the system's choice, and mostly a good one. But a virtual machine whose idle CPUs halt takes them for CPUs that its
//! host has given to others, and puts the woken thread on the waker's own CPU, where it preempts the waker. If the waker is about to wait,
//! that is the best place there is. If not, because it queues one item after the other, or is a worker with an item in its hands, then
//! a CPU idles: a window of items in flight is run one by one, or two workers share a CPU while the other one halts and the issuer waits
//! for the item of the one that was preempted.
//!
//! So a worker that was woken by somebody who goes on notes whether it began on the same CPU. Where that is the habit, and the process leaves
//! CPUs unused, workers of unbound pools have homes, dealt out over the pod's CPUs in turn: before it sleeps, a worker binds itself to its
//! home, so that it wakes up there, and then to its pod again, before it runs anything. No item sees it, and what moves a worker
//! while it runs is the system, as ever. Who goes on wakes a worker whose home is elsewhere; who does not, one at home where he is.
//!
//! A publisher goes on if it has not slept of its own accord since it last called a worker.
#![forbid(unsafe_code)]

use super::{Pool, PoolGuard, PoolKind, WorkerHandle};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicBool, AtomicU32, AtomicU64};
use crate::sys::{clock, cpu, thread};
use std::cell::Cell;
use std::sync::Arc;

/// So many more wake-ups that ended on the waker's CPU than elsewhere are a habit; more than the most are forgotten.
const HABIT: u32 = 4;
const MOST: u32 = 16;
/// Every so many times no homes are used, to see what the system does. Odd: those who ask may take turns.
const PROBE_EVERY: u32 = 31;
/// Before there is a habit, every so many calls a publisher is asked whether it goes on, which costs a system call.
const ASK_EVERY: u32 = 8;
/// How often the process's use of CPUs is looked at, in ns, and the shares of it, in percent, below which CPUs are to spare, and above which
/// they are not any more.
const LOOK_EVERY_NS: u64 = 4_000_000;
const SPARE_BELOW: u64 = 90;
const BUSY_ABOVE: u64 = 97;

/// What is known of where workers begin. Shared by threads: a lost update only delays the learning.
pub(super) struct Placing {
    habit: AtomicU32,
    turn: AtomicU32,
    asked: AtomicU32,
    spare: AtomicBool,
    /// When the process's CPU time was last looked at, and what it was.
    looked_ns: AtomicU64,
    used_ns: AtomicU64,
}

impl Placing {
    pub(super) const fn new() -> Self {
        Placing {
            habit: AtomicU32::new(0),
            turn: AtomicU32::new(0),
            asked: AtomicU32::new(0),
            spare: AtomicBool::new(false),
            looked_ns: AtomicU64::new(0),
            used_ns: AtomicU64::new(0),
        }
    }

    /// A worker has begun, on its waker's CPU or not.
    fn saw(&self, same: bool) {
        let habit = self.habit.load(Ordering::Relaxed);
        let now = match same {
            true => (habit + 1).min(MOST),
            false => habit.saturating_sub(1),
        };
        if now != habit {
            self.habit.store(now, Ordering::Relaxed);
        }
    }

    /// Whether to find out if a publisher goes on.
    fn is_of_interest(&self) -> bool {
        self.habit.load(Ordering::Relaxed) > 0
            || self
                .asked
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(ASK_EVERY)
    }

    fn is_habit(&self) -> bool {
        self.spare.load(Ordering::Relaxed)
            && self.habit.load(Ordering::Relaxed) >= HABIT
            && !self
                .turn
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(PROBE_EVERY)
    }

    /// Looks whether the process leaves CPUs unused, if it is time to.
    fn look_around(&self) {
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

    /// The process used so much of what it might have used.
    fn judge(&self, used_ns: u64, might_ns: u64) {
        let percent = used_ns * 100 / might_ns.max(1);
        if percent < SPARE_BELOW {
            self.spare.store(true, Ordering::Relaxed);
        } else if percent > BUSY_ABOVE {
            self.spare.store(false, Ordering::Relaxed);
        }
    }
}

/// Whether the calling thread has not slept of its own accord since it was asked last.
fn goes_on() -> bool {
    thread_local! {
        static SLEPT: Cell<i64> = const { Cell::new(-1) };
    }
    let slept = thread::voluntary_switches();
    SLEPT.replace(slept) == slept
}

/// In the place of the CPU that a worker was woken from: that is not of interest.
pub(super) const NOT_ASKED: u32 = u32::MAX;

impl WorkerHandle {
    /// Wakes it. Where it begins matters if its waker goes on.
    pub(super) fn wake(&self, goes_on: bool) {
        let from = match goes_on {
            true => cpu::current().map_or(NOT_ASKED, |cpu| cpu as u32),
            false => NOT_ASKED,
        };
        self.woken_from.store(from, Ordering::Relaxed);
        self.parker.unpark();
    }
}

impl Pool {
    /// Whether a publisher that is about to call a worker will go on instead of going to sleep.
    pub(super) fn publisher_goes_on(&self) -> bool {
        !cfg!(cmwq_loom)
            && self.attrs.kind == PoolKind::Unbound
            && self.placing.is_of_interest()
            && goes_on()
    }

    /// Lets the calling worker sleep until it is woken: at home, if it has one.
    pub(super) fn sleep(self: &Arc<Self>, home: Option<usize>, handle: &WorkerHandle) {
        let at_home = home.is_some_and(|home| thread::bind_current_to(home).is_ok());
        handle.parker.park();
        if at_home {
            self.bind_to_pod();
        }
        let from = handle.woken_from.load(Ordering::Relaxed);
        if !at_home && from == NOT_ASKED {
            return;
        }
        self.placing.look_around();
        if !at_home {
            let here = cpu::current().map(|cpu| cpu as u32);
            self.placing.saw(here == Some(from));
        }
    }

    /// Binds the calling worker to the pool's CPUs.
    pub(super) fn bind_to_pod(self: &Arc<Self>) {
        let mut binding = self.lock_beside_batches().binding.clone();
        loop {
            // Refused when none of the CPUs is allowed any more (a cpuset that has shrunk): better to run elsewhere than not.
            let _ = thread::bind_current(&binding);
            let guard = self.lock_beside_batches();
            if guard.binding == binding {
                return;
            }
            // It has changed, and who changed it may have bound this thread before it bound itself to what was.
            binding = guard.binding.clone();
        }
    }
}

impl PoolGuard<'_> {
    /// Whether workers sleep at home, and are chosen by that. Where items block, many workers take turns on each CPU, and the system
    /// places them as they wake up in their items: there homes only cost.
    fn has_homes(&self) -> bool {
        !cfg!(cmwq_loom)
            && self.kind() == PoolKind::Unbound
            && self.sleepers == 0
            && self.binding.len() > 1
            && self.nobody_is_blocked()
            && self.placing().is_habit()
    }

    fn nobody_is_blocked(&self) -> bool {
        // One that is on its way out counts as searching until it is gone.
        let awake = self.running - self.lent.places() + self.searching;
        self.workers.len() == self.idle.len() + awake as usize
    }

    /// The home of the worker `id`, if it is to sleep there.
    pub(super) fn home_of(&self, id: u32) -> Option<usize> {
        self.has_homes().then(|| self.home_cpu(id)).flatten()
    }

    fn home_cpu(&self, id: u32) -> Option<usize> {
        self.binding.iter().nth(id as usize % self.binding.len())
    }

    /// Which of the idle workers to wake: the most recently idle one that is at home where the calling thread is, or, if that thread
    /// goes on, where it is not; and if there is none, or there are no homes, the most recently idle one.
    pub(super) fn choose_idle(&self) -> Option<usize> {
        let last = self.idle.len().checked_sub(1)?;
        if last == 0 || !self.has_homes() {
            return Some(last);
        }
        let here = cpu::current();
        let fits = |&id: &u32| (self.home_cpu(id) == here) != self.goes_on();
        Some(self.idle.iter().rposition(fits).unwrap_or(last))
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::engine::{Registry, gates};
    use crate::{Engine, affinity::AffinityScope};

    #[test]
    fn it_takes_more_than_a_few_wake_ups_on_the_wakers_cpu_and_cpus_to_spare() {
        let placing = Placing::new();
        let habit = |placing: &Placing| (0..PROBE_EVERY).filter(|_| placing.is_habit()).count();
        for _ in 0..HABIT - 1 {
            placing.saw(true);
        }
        placing.judge(50, 100);
        assert_eq!(habit(&placing), 0);
        placing.saw(true);
        // All but the one that is a probe.
        assert_eq!(habit(&placing), PROBE_EVERY as usize - 1);
        placing.judge(SPARE_BELOW + 1, 100);
        assert_eq!(
            habit(&placing),
            PROBE_EVERY as usize - 1,
            "between the bounds nothing changes"
        );
        placing.judge(BUSY_ABOVE + 1, 100);
        assert_eq!(habit(&placing), 0);
        placing.judge(SPARE_BELOW, 100);
        assert_eq!(habit(&placing), 0);
        placing.judge(0, 100);
        placing.saw(false);
        assert_eq!(habit(&placing), 0);
    }

    #[test]
    fn a_habit_is_forgotten() {
        let placing = Placing::new();
        for _ in 0..1000 {
            placing.saw(true);
        }
        for _ in 0..MOST {
            placing.saw(false);
        }
        placing.judge(0, 100);
        assert!(!placing.is_habit() && !placing.is_habit());
    }

    /// The only pool that an engine of one queue has.
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
        let at_home = || {
            let tids: Vec<i32> = {
                let guard = pool.lock();
                let idle = guard.idle.iter();
                let tid = |id: &u32| guard.workers[*id].handle.tid.load(Ordering::Relaxed) as i32;
                idle.map(tid).collect()
            };
            let alone = |&tid: &i32| thread::binding_of(tid).is_ok_and(|cpus| cpus.len() == 1);
            tids.iter().any(alone)
        };
        let mut homes = 0;
        while homes < 100 {
            pool.placing.judge(0, 100);
            (0..MOST).for_each(|_| pool.placing.saw(true));
            let seen = queue.spawn(|| thread::current_binding().unwrap());
            assert_eq!(seen.join().unwrap(), *pod);
            homes += u32::from(at_home());
        }
    }
}
