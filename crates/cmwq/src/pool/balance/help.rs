//! Work stealing between pods: idle workers run items of a pool that has more than its own CPUs will get to soon.
//!
//! This moves the work, where the kernel moves the worker. The monitor picks victims and wakes thieves in neighbours, nearest first. A worker looks
//! for victims only when its own pool has nothing; otherwise it reads one shared counter, which is zero while there is no victim. A thief returns to
//! its own pool after every item.

use crate::pool::state::group::{Group, Thief};
use crate::pool::state::pool::{Inner, Pool};
use crate::pool::task::call::run_item;
use crate::pool::task::run::Task;
use crate::sys::atomic::Ordering;
use std::sync::{Arc, Weak};

impl Group<Pool> {
    /// All members but `pool`: first those that have no CPU in common with it, nearest first. Pods of several scopes overlap, and a worker of an
    /// overlapping pod may get only CPUs that are busy.
    pub(in crate::pool) fn neighbours_of(&self, pool: &Pool) -> Vec<Arc<Pool>> {
        let mut others: Vec<Arc<Pool>> = self
            .members
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        others.retain(|other| other.id != pool.id);
        others.sort_by_key(|other| {
            let overlaps = other.attrs.cpus.intersects(&pool.attrs.cpus);
            (overlaps, pool.attrs.place.distance(other.attrs.place))
        });
        others
    }

    /// Those neighbours whose workers may run on CPUs that `pool` has not.
    pub(in crate::pool) fn thieves_for(&self, pool: &Pool) -> Vec<Arc<Pool>> {
        let mut others = self.neighbours_of(pool);
        others.retain(|other| !other.attrs.cpus.is_subset(&pool.attrs.cpus));
        others
    }
}

/// A worker's copy of its pool's neighbours, renewed when the group has changed.
pub(in crate::pool) struct Neighbours {
    version: u64,
    nearest_first: Vec<Weak<Pool>>,
}

impl Neighbours {
    pub(in crate::pool) fn new() -> Self {
        Neighbours {
            version: 0,
            nearest_first: Vec::new(),
        }
    }

    fn of(&mut self, pool: &Pool) -> &[Weak<Pool>] {
        let version = pool.group.version.load(Ordering::Acquire);
        if version != self.version {
            self.nearest_first = pool
                .group
                .neighbours_of(pool)
                .iter()
                .map(Arc::downgrade)
                .collect();
            self.version = version;
        }
        &self.nearest_first
    }
}

impl Pool {
    /// Steals and runs one item of the nearest victim. The caller's own pool must count the worker as away.
    pub(in crate::pool) fn help(self: &Arc<Self>, neighbours: &mut Neighbours) -> bool {
        for other in neighbours.of(self) {
            let Some(other) = other.upgrade() else {
                continue;
            };
            if !other.help_wanted.load(Ordering::Relaxed) {
                continue;
            }
            let mut task = other.lock().task_for_helper();
            if task.is_none() {
                other.set_help_wanted(false);
                continue;
            }
            while let Some(Task { started, run }) = task {
                let panicked = run_item(started, run);
                task = other.lock().end_task(run, panicked);
            }
            return true;
        }
        false
    }

    /// Wakes an idle worker of this pool as a thief, if the pool has a CPU to spare. If no worker is idle, a new one will steal.
    pub(in crate::pool) fn send_help(self: &Arc<Self>) -> bool {
        let mut guard = self.lock_beside_batches();
        guard.calls_no_thief = true;
        // A searching worker steals by itself. Hogs use CPUs too.
        let computing = guard.running() + guard.hogs.workers;
        let cpus = guard.target().saturating_sub(guard.hogs.extra);
        if guard.dying || guard.searching() > 0 {
            return false;
        }
        if computing >= cpus && !guard.borrow_slot_to_help() {
            return false;
        }
        if !guard.wake_idle() {
            guard.want_worker();
        }
        true
    }

    /// Calls a thief from the nearest neighbour that has a CPU to spare.
    #[cold]
    pub(in crate::pool) fn call_thief(self: &Arc<Self>) {
        self.set_help_wanted(true);
        let neighbours = self.group().thieves_for(self);
        if !neighbours.iter().any(|other| other.send_help()) {
            self.lock_beside_batches().thief = Thief::NoneIdle;
        }
    }
}

/// While away, the worker does not count as searching in its own pool; as running only under a limit over all pools.
pub(in crate::pool) fn away(pool: &Arc<Pool>, id: u32, f: impl FnOnce() -> bool) -> bool {
    {
        let mut guard = pool.lock();
        // It uses a slot of its own pool.
        let counts = guard.is_limited();
        let inner: &mut Inner = &mut guard;
        let worker = &mut inner.workers[id];
        inner.counts.transition_searching_to_away(worker, counts);
    }
    let helped = f();
    let mut guard = pool.lock();
    let inner: &mut Inner = &mut guard;
    let worker = &mut inner.workers[id];
    inner.counts.transition_away_to_searching(worker);
    helped
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::Work;
    use crate::pool::queue::pwq::Traits;
    use crate::pool::state::worker::Busy;
    use crate::pool::stubs;
    use crate::sys::sync::Mutex;

    #[test]
    fn a_thief_comes_from_cpus_that_the_pool_has_not() {
        let group = Group::new();
        let all = stubs::pool_on(&group, 1, &[0, 1, 2]);
        let ones = [(2, 0), (3, 0), (4, 1), (5, 2)];
        let pods = ones.map(|(id, cpu)| stubs::pool_on(&group, id, &[cpu]));
        let ids = |pools: Vec<Arc<Pool>>| pools.iter().map(|pool| pool.id).collect::<Vec<_>>();
        assert_eq!(ids(group.thieves_for(&pods[0])), [4, 5, 1]);
        assert_eq!(ids(group.thieves_for(&all)), [0; 0]);
        assert_eq!(ids(group.neighbours_of(&all)), [2, 3, 4, 5]);
    }

    /// A pool that wants help with so many items, each of which notes the pool's number.
    fn wants_help(pool: &Arc<Pool>, items: usize, ran: &Arc<Mutex<Vec<u32>>>) {
        let pwq = stubs::add_pwq(pool, Traits::default(), 100);
        for _ in 0..items {
            let (id, ran) = (pool.id, ran.clone());
            let work = Work::new(move || ran.lock().push(id));
            stubs::queue(pool, pwq, &work);
        }
        pool.set_help_wanted(true);
    }

    #[test]
    fn a_thief_takes_from_the_nearest_victim_that_wants_help_and_from_the_next_when_that_has_nothing()
     {
        let group = Group::new();
        let pods = [(1, 4), (2, 5), (3, 6), (4, 0), (5, 3)];
        let pools = pods.map(|(id, cpu)| stubs::pool_on(&group, id, &[cpu]));
        let ran = Arc::new(Mutex::new(Vec::new()));
        // The nearest of all wants none. Of two that are as far the one that came first is nearer.
        for (victim, items) in [(3, 2), (2, 1), (4, 1)] {
            wants_help(&pools[victim], items, &ran);
        }
        wants_help(&pools[1], 1, &ran);
        pools[1].set_help_wanted(false);
        let mut neighbours = Neighbours::new();
        let wanted = || group.wanted.load(Ordering::Relaxed);
        assert_eq!(wanted(), 3);
        for (expected, left) in [([5].as_slice(), 3), (&[5, 3], 2), (&[5, 3, 4], 1)] {
            assert!(pools[0].help(&mut neighbours));
            assert_eq!(*ran.lock(), expected);
            assert_eq!(wanted(), left);
        }
        // One item at a time: it looks for work of its own in between.
        assert!(pools[0].help(&mut neighbours));
        assert_eq!(*ran.lock(), [5, 3, 4, 4]);
        assert!(!pools[0].help(&mut neighbours), "nothing is left");
        assert_eq!(wanted(), 0);
        let mut unasked = pools[1].lock();
        unasked.drain();
        assert_eq!(unasked.waiting(), 1, "it wanted none");
    }

    #[test]
    fn a_thief_sees_neighbours_that_come_and_go() {
        let group = Group::new();
        let own = stubs::pool_on(&group, 1, &[0]);
        let mut neighbours = Neighbours::new();
        assert!(!own.help(&mut neighbours));
        let other = stubs::pool_on(&group, 2, &[1]);
        let ran = Arc::new(Mutex::new(Vec::new()));
        wants_help(&other, 2, &ran);
        assert!(own.help(&mut neighbours));
        group.leave(&other);
        assert!(!own.help(&mut neighbours), "it is no neighbour any more");
        assert_eq!(*ran.lock(), [2]);
    }

    #[test]
    fn a_neighbour_sends_a_thief_if_it_has_a_cpu_to_spare_and_no_worker_searches() {
        let pool = |prepare: fn(&mut Inner, u32)| {
            let pool = stubs::pool_on(&Group::new(), 9, &[0, 1]);
            let pwq = stubs::add_pwq(&pool, Traits::default(), 10);
            let (id, _) = stubs::searching(&pool);
            let mut guard = pool.lock();
            guard.begin(id, pwq.place, false);
            prepare(&mut guard, id);
            drop(guard);
            pool
        };
        let sends = |pool: &Arc<Pool>| (pool.send_help(), pool.lock().creating);
        assert_eq!(sends(&pool(|_, _| ())), (true, true));
        let blocked = pool(|inner, id| inner.step_out(id, Busy::Blocked));
        assert_eq!(sends(&blocked), (true, true));
        // A CPU for each hog, and none more because of the slots beside them.
        let hog = |inner: &mut Inner, id| {
            inner.step_out(id, Busy::CpuIntensive);
            inner.hogs.grow(6);
            inner.hogs.grow(6);
            inner.retarget();
        };
        assert_eq!(sends(&pool(hog)), (true, true));
        let full = pool(hog);
        full.lock().counts.set_running(1);
        assert_eq!(sends(&full), (false, false));
        let searches = pool(|inner, id| inner.end(id));
        assert_eq!(sends(&searches), (false, false));
        let dying = pool(|inner, _| inner.dying = true);
        assert_eq!(sends(&dying), (false, false));
    }

    #[test]
    fn a_pool_that_is_found_busy_looks_for_no_thief_in_turn() {
        let group = Group::new();
        // Each has a backlog that is worth a steal, and no CPU to spare.
        let pods: [(u32, &[usize]); 2] = [(7, &[0, 1]), (8, &[2, 3])];
        let pools = pods.map(|(id, cpus)| {
            let pool = stubs::saturated(&group, id, cpus, 1);
            let mut guard = pool.lock();
            guard.calls_no_thief = true;
            guard.pace.note(1_000_000);
            drop(guard);
            pool
        });
        pools[0].call_thief();
        let thief = |pool: &Arc<Pool>| {
            let mut guard = pool.lock();
            guard.calls_no_thief = true;
            guard.thief
        };
        assert_eq!(thief(&pools[0]), Thief::NoneIdle);
        assert_eq!(thief(&pools[1]), Thief::None);
    }
}
