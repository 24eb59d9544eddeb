//! A worker steals: as a guest of another pool it runs that pool's items, as its own workers do, in
//! batches if the items are short.
//!
//! A guest is not counted among the victim's workers, so a steal changes nothing for those. In its
//! own pool the thief counts as away.
#![forbid(unsafe_code)]

use super::batch::Claims;
use crate::pool::balance::thieves::Neighbours;
use crate::pool::state::member;
use crate::pool::state::pool::Pool;
use crate::pool::state::worker::{WorkerHandle, WorkerSlot, WorkerState};
use std::sync::Arc;

/// How many items or batches a thief takes before it looks at its own pool again.
const VISIT: u32 = if cfg!(cmwq_loom) { 1 } else { 32 };

/// What a worker needs to steal.
pub(in crate::pool) struct Stealing {
    handle: Arc<WorkerHandle>,
    neighbours: Neighbours,
    claims: Claims,
}

impl Stealing {
    pub(in crate::pool) fn new(pool: &Pool, handle: &Arc<WorkerHandle>) -> Self {
        Stealing {
            handle: handle.clone(),
            neighbours: Neighbours::new(),
            claims: Claims::up_to(pool.attrs.batch),
        }
    }

    /// It has seen which neighbours its pool has.
    #[cfg(all(test, not(cmwq_loom)))]
    pub(in crate::pool) fn knows(&mut self, pool: &Pool) -> &Self {
        self.neighbours.of(pool);
        self
    }

    /// Whether there is a victim.
    pub(in crate::pool) fn finds(&self, pool: &Pool) -> bool {
        pool.has_victims() && self.neighbours.want_thieves(pool)
    }
}

impl Pool {
    /// Steals from the nearest victim. The caller's own pool must count the worker as away. Returns
    /// `false` if there was nothing to steal.
    pub(in crate::pool) fn steal(self: &Arc<Self>, thief: &mut Stealing) -> bool {
        for neighbour in thief.neighbours.of(self) {
            let Some(victim) = neighbour.pool.upgrade() else {
                continue;
            };
            if neighbour.wants_thief()
                && member::as_guest_of(&victim, || {
                    victim.host(self, &thief.handle, &mut thief.claims)
                })
            {
                return true;
            }
        }
        false
    }

    /// Lets a worker of `home` run items of this pool, until none waits, its own pool needs it, or
    /// it has taken enough. Returns `false` if none waited.
    fn host(
        self: &Arc<Self>,
        home: &Pool,
        handle: &Arc<WorkerHandle>,
        claims: &mut Claims,
    ) -> bool {
        claims.in_pool(self.attrs.position.is_far(home.attrs.position));
        let mut guard = self.lock_beside_batches();
        let slot = WorkerSlot::new(handle.clone(), WorkerState::Guest);
        let id = guard.workers.insert(slot);
        guard.guests += 1;
        // Under a limit over all pools a thief uses a slot of its own pool, where the monitor
        // watches how long its items take.
        let most = if guard.is_limited() { 1 } else { VISIT };
        let mut taken = 0;
        while taken < most && !home.needs_its_workers() && !handle.ends() {
            guard = self.pause_below_quota(guard);
            let Some(next) = guard.take_next(id, claims) else {
                if guard.left > 0 {
                    break;
                }
                guard = self.lock_again_beside_batches(guard);
                continue;
            };
            let (pwq, items) = next.taken();
            guard.begin(id, pwq);
            guard.stats.stolen += items;
            guard.pwqs[pwq].stats.stolen += items;
            drop(guard);
            guard = self.run(next, id, handle, claims);
            taken += 1;
        }
        guard.workers.remove(id);
        guard.guests -= 1;
        let none_left = !guard.something_waits();
        drop(guard);
        if none_left {
            self.set_wants_thieves(false);
        }
        taken > 0
    }

    /// Whether an item was published here, or threads wait to be woken.
    fn needs_its_workers(&self) -> bool {
        self.inbox.has_news() || self.pending_wakeups.is_any()
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::Work;
    use crate::pool::balance::thieves;
    use crate::pool::queue::pwq::{PwqKey, Traits};
    use crate::pool::run::block::BlockGuard;
    use crate::pool::silent::Made;
    use crate::pool::state::group::Group;
    use crate::pool::state::member::Membership;
    use crate::pool::stubs;
    use crate::sys::atomic::Ordering;
    use crate::sys::sync::Mutex;
    use crate::topology::CpuSet;
    use std::sync::atomic::AtomicUsize;

    /// Notes the pools whose items have run.
    type Ran = Arc<Mutex<Vec<u32>>>;

    /// Pods of one CPU each: their numbers and CPUs.
    fn pods<const N: usize>(group: &Arc<Group<Pool>>, pods: [(u32, usize); N]) -> [Arc<Pool>; N] {
        pods.map(|(id, cpu)| stubs::pool_on(group, id, &[cpu]))
    }

    fn queue(pool: &Arc<Pool>, pwq: PwqKey, run: impl Fn() + Send + Sync + 'static) {
        stubs::queue(pool, pwq, &Work::new(run));
    }

    /// The pool wants thieves for so many items.
    fn wants_thieves(pool: &Arc<Pool>, items: usize, ran: &Ran) {
        let pwq = stubs::add_pwq(pool, Traits::default(), 100);
        for _ in 0..items {
            let (id, ran) = (pool.id, ran.clone());
            queue(pool, pwq, move || ran.lock().push(id));
        }
        pool.set_wants_thieves(true);
    }

    /// A worker of `pool` that steals on the calling thread: `f` gets it.
    fn as_thief<R>(pool: &Arc<Pool>, f: impl FnOnce(&mut Stealing) -> R) -> R {
        let (id, handle) = stubs::searching(pool);
        let _membership = Membership::enter(pool, id);
        let mut result = None;
        thieves::away(pool, id, || {
            result = Some(f(&mut Stealing::new(pool, &handle)));
            true
        });
        result.expect("it was called")
    }

    #[test]
    fn a_thief_takes_from_the_nearest_victim_that_wants_help_and_from_the_next_when_that_has_nothing()
     {
        let group = Group::new();
        let pools = pods(&group, [(1, 4), (2, 5), (3, 6), (4, 0), (5, 3)]);
        let ran = Ran::default();
        // The nearest of all wants none. Of two that are as far the one that came first is nearer.
        for (victim, items) in [(3, 2), (2, 1), (4, 1)] {
            wants_thieves(&pools[victim], items, &ran);
        }
        wants_thieves(&pools[1], 1, &ran);
        pools[1].set_wants_thieves(false);
        let wanted = || group.wanted.load(Ordering::Relaxed);
        as_thief(&pools[0], |thief| {
            for (expected, left) in [([5].as_slice(), 2), (&[5, 3], 1), (&[5, 3, 4, 4], 0)] {
                assert!(pools[0].steal(thief));
                assert_eq!(*ran.lock(), expected);
                assert_eq!(wanted(), left);
            }
            assert!(!pools[0].steal(thief), "nothing is left");
        });
        let mut unasked = pools[1].lock();
        unasked.drain();
        assert_eq!(unasked.waiting(), 1, "it wanted none");
    }

    #[test]
    fn a_thief_sees_neighbours_that_come_and_go() {
        let group = Group::new();
        let [own] = pods(&group, [(1, 0)]);
        let ran = Ran::default();
        as_thief(&own, |thief| {
            assert!(!own.steal(thief));
            let [other] = pods(&group, [(2, 1)]);
            wants_thieves(&other, 1, &ran);
            assert!(own.steal(thief));
            wants_thieves(&other, 1, &ran);
            group.leave(&other);
            assert!(!own.steal(thief), "it is no neighbour any more");
            assert_eq!(*ran.lock(), [2]);
            stubs::run_all(&other);
        });
    }

    /// Their pods overlap: it would never find anything there, and never sleep.
    #[test]
    fn a_worker_sleeps_though_a_pool_that_is_no_neighbour_wants_help() {
        let group = Group::new();
        let [one] = pods(&group, [(1, 0)]);
        let both = stubs::pool_on(&group, 2, &[0, 1]);
        both.set_wants_thieves(true);
        one.start_worker().expect("a thread");
        stubs::eventually(|| one.lock().idle().len() == 1);
        let mut guard = one.lock();
        guard.dying = true;
        guard.wake_idle();
        drop(guard);
        stubs::eventually(|| one.lock().workers.len() == 0);
    }

    #[test]
    fn a_guest_is_seen_in_its_own_pool_only() {
        let group = Group::new();
        let [own, victim] = pods(&group, [(1, 0), (2, 1)]);
        let pwq = stubs::add_pwq(&victim, Traits::default(), 100);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let look = {
            let (own, victim, seen) = (own.clone(), victim.clone(), seen.clone());
            move || {
                for pool in [&own, &victim] {
                    let of = pool.snapshot();
                    let doing = of.state.workers.iter().map(|worker| worker.doing);
                    let guard = pool.lock();
                    let counts = (guard.nr_workers(), guard.running(), guard.searching());
                    let runs = of.runs.len();
                    seen.lock().push((
                        doing.collect::<Vec<_>>(),
                        counts,
                        guard.counts.away(),
                        runs,
                    ));
                }
            }
        };
        queue(&victim, pwq, look);
        victim.set_wants_thieves(true);
        as_thief(&own, |thief| assert!(own.steal(thief)));
        let expected = [
            (vec!["stealing"], (1, 0, 0), 1, 0),
            (vec![], (0, 0, 0), 0, 1),
        ];
        assert_eq!(*seen.lock(), expected);
        assert_eq!(victim.lock().workers.len(), 0, "it has left");
        assert_eq!(victim.lock().nr_workers(), 0);
        assert_eq!(own.lock().counts.away(), 0);
        let stats = victim.lock().stats;
        assert_eq!((stats.stolen, stats.completed), (1, 1));
        assert_eq!(victim.lock().pwqs[pwq.index].stats.stolen, 1);
    }

    #[test]
    fn a_thief_goes_home_when_something_is_published_there() {
        let group = Group::new();
        let [own, victim] = pods(&group, [(1, 0), (2, 1)]);
        let ran = Ran::default();
        let at_home = stubs::add_pwq(&own, Traits::default(), 100);
        let pwq = stubs::add_pwq(&victim, Traits::default(), 100);
        queue(&victim, pwq, {
            let (own, ran) = (own.clone(), ran.clone());
            move || {
                let ran = ran.clone();
                queue(&own, at_home, move || ran.lock().push(1));
            }
        });
        wants_thieves(&victim, 3, &ran);
        as_thief(&own, |thief| {
            assert!(own.steal(thief));
            assert_eq!(*ran.lock(), [0; 0], "its own pool has an item");
            let wants = victim.wants_thieves.load(Ordering::Relaxed);
            assert!(wants, "more waits there");
            stubs::run_all(&own);
            assert!(own.steal(thief));
        });
        assert_eq!(*ran.lock(), [1, 2, 2, 2]);
    }

    #[test]
    fn a_thief_that_has_taken_enough_leaves_the_wish_for_others() {
        let group = Group::new();
        let [own, victim] = pods(&group, [(1, 0), (2, 1)]);
        let ran = Ran::default();
        let most = VISIT as usize;
        wants_thieves(&victim, 2 * most, &ran);
        let wants = || victim.wants_thieves.load(Ordering::Relaxed);
        as_thief(&own, |thief| {
            assert!(own.steal(thief));
            assert_eq!((ran.lock().len(), wants()), (most, true));
            // It learns that nothing is left only when it comes again.
            while own.steal(thief) {}
            assert_eq!((ran.lock().len(), wants()), (2 * most, false));
        });
    }

    /// Else they would wait for an item that may wait for them.
    #[test]
    fn what_a_thief_has_taken_goes_back_when_its_item_blocks() {
        let group = Group::new();
        let [victim] = pods(&group, [(2, 1)]);
        let thieves_batches = Made {
            batch: 64,
            strict: false,
            group: group.clone(),
            cpus: CpuSet::from_iter([0]),
            ..Made::default()
        };
        let own = thieves_batches.pool(1);
        let waiting = Arc::new(Mutex::new(None));
        let pwq = stubs::add_pwq(&victim, Traits::default(), 1_000);
        // As many as are staged in one holding of the lock, so that all are counted. The first are
        // short, until the thief takes several at once. Then one blocks.
        let begun = Arc::new(AtomicUsize::new(0));
        let (short, all) = (100, 250);
        for _ in 0..all {
            let (victim, begun, waiting) = (victim.clone(), begun.clone(), waiting.clone());
            queue(&victim.clone(), pwq, move || {
                let begun = begun.fetch_add(1, Ordering::Relaxed) + 1;
                if begun <= short || waiting.lock().is_some() {
                    return;
                }
                let before = victim.lock_beside_batches().waiting();
                if begun + before < all {
                    let _blocked = BlockGuard::enter();
                    *waiting.lock() = Some((begun, victim.lock_beside_batches().waiting()));
                }
            });
        }
        victim.set_wants_thieves(true);
        as_thief(&own, |thief| while own.steal(thief) {});
        assert_eq!(begun.load(Ordering::Relaxed), all);
        let (begun, waits) = waiting.lock().expect("a batch was open");
        assert_eq!(begun + waits, all, "the others wait in the pool");
    }
}
