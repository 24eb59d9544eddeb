//! Work stealing between pods: idle workers run items of a pool that has more than its own CPUs
//! will get to soon.
//!
//! This moves the work, where the kernel moves the worker. The monitor picks victims and wakes
//! thieves in neighbours, nearest first. A worker looks for victims only when its own pool has
//! nothing; otherwise it reads one shared counter, which is zero while there is no victim. How a
//! thief works: `run/steal.rs`.

use crate::pool::state::group::Group;
use crate::pool::state::pool::{Inner, Pool};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicBool;
use std::sync::{Arc, Weak};

impl Group<Pool> {
    /// The members that have no CPU in common with `pool`, nearest first. Pods of different scopes
    /// overlap, and a worker of an overlapping pod would take a CPU from the pool's own workers.
    pub(in crate::pool) fn neighbours_of(&self, pool: &Pool) -> Vec<Arc<Pool>> {
        let mut others: Vec<Arc<Pool>> = self
            .members
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        others.retain(|other| !other.attrs.cpus.intersects(&pool.attrs.cpus));
        others.sort_by_key(|other| pool.attrs.position.distance(other.attrs.position));
        others
    }
}

/// A worker's copy of its pool's neighbours, renewed when the group has changed.
pub(in crate::pool) struct Neighbours {
    version: u64,
    nearest_first: Vec<Neighbour>,
}

pub(in crate::pool) struct Neighbour {
    pub(in crate::pool) pool: Weak<Pool>,
    wants: Arc<AtomicBool>,
    /// If it is far: whether it wants near thieves only.
    only_near: Option<Arc<AtomicBool>>,
}

impl Neighbour {
    fn of(one: &Arc<Pool>, thief: &Pool) -> Self {
        let is_far = one.attrs.position.is_far(thief.attrs.position);
        Neighbour {
            pool: Arc::downgrade(one),
            wants: one.wants_thieves.clone(),
            only_near: is_far.then(|| one.only_near.clone()),
        }
    }

    /// Whether it wants this thief. Relaxed: hints, as all that is known of another pool without its lock.
    pub(in crate::pool) fn wants_thief(&self) -> bool {
        let refuses = |only: &Arc<AtomicBool>| only.load(Ordering::Relaxed);
        self.wants.load(Ordering::Relaxed) && !self.only_near.as_ref().is_some_and(refuses)
    }
}

impl Neighbours {
    pub(in crate::pool) fn new() -> Self {
        Neighbours {
            version: 0,
            nearest_first: Vec::new(),
        }
    }

    pub(in crate::pool) fn of(&mut self, pool: &Pool) -> &[Neighbour] {
        // Relaxed, here and below: the members are read under their lock, which the thread that has
        // changed them and the version after it has released before.
        let version = pool.group.version.load(Ordering::Relaxed);
        if version != self.version {
            let neighbours = pool.group.neighbours_of(pool);
            let of = |one| Neighbour::of(one, pool);
            self.nearest_first = neighbours.iter().map(of).collect();
            self.version = version;
        }
        &self.nearest_first
    }

    /// Whether a neighbour wants thieves, or the group has changed, so that there may be other
    /// neighbours. The shared counter alone does not tell, because it also counts pools with
    /// overlapping pods. It drops no pool, so a pool's lock may be held.
    pub(in crate::pool) fn want_thieves(&self, pool: &Pool) -> bool {
        pool.group.version.load(Ordering::Relaxed) != self.version
            || self.nearest_first.iter().any(Neighbour::wants_thief)
    }
}

impl Pool {
    /// Wakes up to `most` idle workers of this pool as thieves, as far as it has CPUs to spare. If
    /// no worker is idle, a new one will steal. Returns how many come.
    pub(in crate::pool) fn send_thieves(self: &Arc<Self>, most: u32) -> u32 {
        let mut guard = self.lock_beside_batches();
        if guard.dying {
            return 0;
        }
        // A searching worker steals by itself, so it counts as coming.
        let coming = guard.searching().min(most);
        let free = guard.spare_cpus().saturating_sub(guard.searching());
        let mut more = (most - coming).min(free);
        if guard.is_limited() {
            // Each thief needs a running slot.
            more = more.min(1);
        }
        if coming == 0 && more == 0 && guard.borrow_slot_to_steal() {
            more = 1;
        }
        guard.wake_or_want(more as usize);
        coming + more
    }

    /// Asks the neighbours, nearest first, for thieves. Returns how many come.
    pub(in crate::pool) fn ask_neighbours(self: &Arc<Self>, most: u32) -> u32 {
        let mut neighbours = self.group().neighbours_of(self);
        if self.only_near.load(Ordering::Relaxed) {
            neighbours.retain(|other| !other.attrs.position.is_far(self.attrs.position));
        }
        let left = neighbours.iter().try_fold(most, |left, other| {
            (left > 0).then(|| left - other.send_thieves(left).min(left))
        });
        most - left.unwrap_or(0)
    }
}

impl Inner {
    /// On how many of the pod's CPUs the pool has neither a running item nor a CPU hog, nor the
    /// place of a worker that steals elsewhere. Only so many more workers may steal: a thief
    /// computes too, and thieves without a bound would sleep for their victim's lock, by the
    /// hundred.
    pub(in crate::pool) fn spare_cpus(&self) -> u32 {
        let cpus = self.counts.target().saturating_sub(self.hogs.extra);
        cpus.saturating_sub(self.counts.running() + self.counts.away() + self.hogs.workers)
    }
}

/// Calls `f`, in which the worker steals. Meanwhile it does not count as searching in its own pool,
/// and as running only under a limit over all pools.
pub(in crate::pool) fn away(pool: &Arc<Pool>, id: u32, f: impl FnOnce() -> bool) -> bool {
    {
        let mut guard = pool.lock();
        // Under a limit it uses a slot of its own pool, and so counts.
        let counts = guard.is_limited();
        let inner: &mut Inner = &mut guard;
        let worker = &mut inner.workers[id];
        inner.counts.transition_searching_to_away(worker, counts);
    }
    let stole = f();
    let mut guard = pool.lock();
    let inner: &mut Inner = &mut guard;
    let worker = &mut inner.workers[id];
    inner.counts.transition_away_to_searching(worker);
    stole
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::pool::queue::pwq::Traits;
    use crate::pool::run::steal::Stealing;
    use crate::pool::state::group::LONG_ENOUGH_FAR_NS;
    use crate::pool::state::worker::Busy;
    use crate::pool::stubs;

    #[test]
    fn neighbours_have_no_cpu_in_common_with_the_pool() {
        let group = Group::new();
        let all = stubs::pool_on(&group, 1, &[0, 1, 2]);
        let ones = [(2, 0), (3, 0), (4, 1), (5, 2)];
        let pods = ones.map(|(id, cpu)| stubs::pool_on(&group, id, &[cpu]));
        let ids = |pools: Vec<Arc<Pool>>| pools.iter().map(|pool| pool.id).collect::<Vec<_>>();
        assert_eq!(ids(group.neighbours_of(&pods[0])), [4, 5]);
        assert_eq!(ids(group.neighbours_of(&all)), [0; 0]);
    }

    #[test]
    fn a_neighbour_sends_a_thief_if_it_has_a_cpu_to_spare_and_no_worker_searches() {
        let pool = |prepare: fn(&mut Inner, u32)| {
            let pool = stubs::pool_on(&Group::new(), 9, &[0, 1]);
            let pwq = stubs::add_pwq(&pool, Traits::default(), 10);
            let (id, _) = stubs::searching(&pool);
            let mut guard = pool.lock();
            guard.begin(id, pwq.index);
            prepare(&mut guard, id);
            drop(guard);
            pool
        };
        let sends = |pool: &Arc<Pool>| (pool.send_thieves(1), pool.lock().creating);
        assert_eq!(sends(&pool(|_, _| ())), (1, true));
        let blocked = pool(|inner, id| inner.step_out(id, Busy::Blocked));
        assert_eq!(sends(&blocked), (1, true));
        // A CPU for each hog, and none more because of the slots beside them.
        let hog = |inner: &mut Inner, id| {
            inner.step_out(id, Busy::CpuIntensive);
            inner.hogs.grow(6);
            inner.hogs.grow(6);
            inner.retarget();
        };
        assert_eq!(sends(&pool(hog)), (1, true));
        let full = pool(hog);
        full.lock().counts.set_running(1);
        assert_eq!(sends(&full), (0, false));
        let away = |inner: &mut Inner, id: u32| {
            inner.end(id);
            let worker = &mut inner.workers[id];
            inner.counts.transition_searching_to_away(worker, false);
        };
        assert_eq!(sends(&pool(away)), (1, true));
        let full = pool(away);
        full.lock().counts.set_running(1);
        assert_eq!(sends(&full), (0, false), "its other worker steals");
        let searches = pool(|inner, id| inner.end(id));
        assert_eq!(sends(&searches), (1, false), "it comes by itself");
        let dying = pool(|inner, _| inner.dying = true);
        assert_eq!(sends(&dying), (0, false));
    }

    /// Between caches it would take longer to carry them than to run them.
    #[test]
    fn short_items_are_stolen_below_the_same_cache_only() {
        for (item_ns, comes) in [(LONG_ENOUGH_FAR_NS - 1, 1), (LONG_ENOUGH_FAR_NS, 2)] {
            let group = Group::new();
            let pods = [(7, 0, [0]), (8, 0, [1]), (9, 1, [2])];
            let pools = pods.map(|(id, llc, cpus)| stubs::pool_below(&group, id, llc, &cpus));
            let [victim, near, far] = &pools;
            let mut guard = victim.lock();
            guard.pace.note(item_ns);
            drop(guard);
            victim.set_wants_thieves(true);
            victim.ask_neighbours(2);
            let created = |pool: &Arc<Pool>| u32::from(pool.lock().creating);
            assert_eq!((created(near), created(near) + created(far)), (1, comes));
            let finds = |pool: &Arc<Pool>| {
                let (_, handle) = stubs::searching(pool);
                let mut stealing = Stealing::new(pool, &handle);
                stealing.knows(pool).finds(pool)
            };
            assert!(finds(near));
            assert_eq!(finds(far), comes == 2);
        }
    }

    /// They would have no CPU to compute on, and sleep for their victim's lock.
    #[test]
    fn no_more_workers_steal_than_their_pod_has_cpus() {
        let group = Group::new();
        let pools = [(7, [0, 1]), (8, [2, 3])].map(|(id, cpus)| stubs::pool_on(&group, id, &cpus));
        let [pool, victim] = &pools;
        let pwq = stubs::add_pwq(victim, Traits::default(), 10);
        let ran = Arc::new(AtomicBool::new(false));
        let item = crate::Work::new({
            let ran = ran.clone();
            move || ran.store(true, Ordering::Relaxed)
        });
        stubs::queue(victim, pwq, &item);
        victim.set_wants_thieves(true);
        let thieves = [(); 2].map(|()| stubs::searching(pool).0);
        let mut guard = pool.lock();
        for id in thieves {
            let inner: &mut Inner = &mut guard;
            let worker = &mut inner.workers[id];
            inner.counts.transition_searching_to_away(worker, false);
        }
        assert_eq!(guard.spare_cpus(), 0);
        drop(guard);
        pool.start_worker().expect("a thread");
        stubs::eventually(|| !pool.lock().idle().is_empty());
        assert!(!ran.load(Ordering::Relaxed), "both CPUs have a thief");
        let mut guard = pool.lock();
        let inner: &mut Inner = &mut guard;
        let worker = &mut inner.workers[thieves[0]];
        inner.counts.transition_away_to_searching(worker);
        // What comes back finds nothing, and sleeps.
        inner
            .counts
            .transition_searching_to_idle(thieves[0], worker, 0);
        assert_eq!(guard.spare_cpus(), 1);
        while guard.wake_idle() {}
        drop(guard);
        stubs::eventually(|| ran.load(Ordering::Relaxed));
        let mut guard = pool.lock();
        guard.dying = true;
        while guard.wake_idle() {}
        drop(guard);
        stubs::eventually(|| pool.lock().workers.len() == thieves.len());
    }

    #[test]
    fn as_many_thieves_come_as_are_called_and_as_neighbours_have_cpus_to_spare() {
        let group = Group::new();
        let pods: [(u32, &[usize]); 3] = [(7, &[0]), (8, &[1, 2, 3]), (9, &[4, 5])];
        let pools = pods.map(|(id, cpus)| stubs::pool_on(&group, id, cpus));
        for pool in &pools[1..] {
            (0..8).for_each(|since| drop(stubs::idle(pool, since)));
        }
        let called = |most| {
            let comes = pools[0].ask_neighbours(most);
            (comes, [1, 2].map(|number| pools[number].lock().searching()))
        };
        assert_eq!(called(2), (2, [2, 0]));
        assert_eq!(
            called(4),
            (4, [3, 1]),
            "those that search come by themselves"
        );
        assert_eq!(called(99), (5, [3, 2]));
    }
}
