//! CPU hogs: how long an item may compute before it is one, and room for other items beside hogs.
#![forbid(unsafe_code)]

use crate::pool::attrs::kind::PoolFor;
use crate::pool::state::pool::{Inner, Pool};
use crate::pool::state::worker::WorkerState;
use crate::sys::atomic::Ordering;
use std::sync::Arc;

/// Under a limit over all pools, items of an unbound pool become hogs only after this many times
/// the threshold: if more workers run than there are slots, the process's cgroup is only throttled.
/// For the same reason there are then only as many extra slots as hogs, unless no item ends for
/// long.
const LATER_IF_LIMITED: u64 = 10;

impl Pool {
    /// The CPU time, in ns, after which an item of this pool is a hog; `None`: never.
    pub(in crate::pool) fn hog_threshold_ns(&self) -> Option<u64> {
        let threshold = self.attrs.params.cpu_intensive_ns.load(Ordering::Relaxed);
        let slow = self.attrs.kind == PoolFor::Unbound && self.attrs.params.slots.is_limited();
        let threshold = threshold.saturating_mul(if slow { LATER_IF_LIMITED } else { 1 });
        // A BH pool runs one item at a time, whatever its items do.
        (threshold != 0 && !self.attrs.is_bh()).then_some(threshold)
    }

    /// Whether the monitor samples the pool for hogs even while nothing waits: those of per-CPU
    /// pools are counted and reported.
    pub(in crate::pool) fn counts_all_hogs(&self) -> bool {
        matches!(self.attrs.kind, PoolFor::PerCpu(_)) && self.hog_threshold_ns().is_some()
    }

    /// At a tick of the monitor: `completed` items have ended since the last one, `passed_ns` ago.
    pub(in crate::pool) fn make_room_beside_hogs(self: &Arc<Self>, completed: u64, passed_ns: u64) {
        if self.attrs.kind != PoolFor::Unbound {
            return;
        }
        let mut guard = self.lock();
        // If items end often, the worklist moves on anyway, and more workers would only share the CPUs.
        let stuck = completed <= u64::from(guard.running());
        if guard.hogs.workers == 0 || !guard.has_waiting() || !stuck {
            guard.hogs.moves_on();
            return;
        }
        let waiting = u32::try_from(guard.waiting()).unwrap_or(u32::MAX);
        let most = match guard.is_limited() && !guard.hogs.steps_beyond_limit(passed_ns) {
            true => guard.hogs.workers,
            false => guard.running().saturating_add(waiting),
        };
        guard.hogs.grow(most);
        guard.retarget();
        // All are woken at once: each has to wait for a CPU beside the hogs before it could wake
        // the next one.
        let short = guard.short_beside_hogs();
        guard.wake_or_want(short);
    }

    /// Whether the creator should create another worker at once: new ones, too, wait for a CPU
    /// beside the hogs.
    pub(in crate::pool) fn is_short_beside_hogs(self: &Arc<Self>) -> bool {
        let guard = self.lock_beside_batches();
        !guard.dying && guard.idle().is_empty() && guard.short_beside_hogs() > 0
    }
}

impl Inner {
    /// How many more workers could begin an item beside the hogs now, not counting those that are
    /// on their way.
    fn short_beside_hogs(&self) -> usize {
        if self.hogs.extra == 0 {
            return 0;
        }
        let workers = self.workers.iter();
        let starting = workers.filter(|(_, worker)| worker.state == WorkerState::Starting);
        let coming = self.searching() as usize + starting.count();
        let free = (self.target() as usize).saturating_sub(self.running() as usize + coming);
        free.min(self.waiting().saturating_sub(coming))
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::Work;
    use crate::pool::attrs::params::Params;
    use crate::pool::balance::monitor::Monitor;
    use crate::pool::queue::pwq::Traits;
    use crate::pool::silent::Made;
    use crate::pool::state::worker::Busy;
    use crate::pool::stubs;

    const TICK_NS: u64 = 2_000_000;

    /// A pool of two CPUs where two hogs run and `waiting` items wait.
    fn hogged(params: &Arc<Params>, waiting: usize) -> (Arc<Pool>, [u32; 2]) {
        let pool = stubs::pool_of(params, 71);
        let ids = hog_and_wait(&pool, 2, waiting);
        (pool, [ids[0], ids[1]])
    }

    fn hog_and_wait(pool: &Arc<Pool>, hogs: usize, waiting: usize) -> Vec<u32> {
        let pwq = stubs::add_pwq(pool, Traits::default(), 1000);
        for _ in 0..waiting {
            stubs::queue(pool, pwq, &Work::new(|| ()));
        }
        let ids: Vec<u32> = (0..hogs).map(|_| stubs::searching(pool).0).collect();
        let mut guard = pool.lock();
        guard.drain();
        for &id in &ids {
            guard.begin(id, pwq.index);
            guard.step_out(id, Busy::CpuIntensive);
        }
        drop(guard);
        ids
    }

    /// The targets after so many ticks at which nothing has ended.
    fn targets(pool: &Arc<Pool>, ticks: usize) -> Vec<u32> {
        let tick = |_| {
            pool.make_room_beside_hogs(0, TICK_NS);
            pool.lock().target()
        };
        (0..ticks).map(tick).collect()
    }

    #[test]
    fn room_beside_hogs_doubles_at_each_look_up_to_what_waits_and_goes_when_hogs_end() {
        let (pool, [one, other]) = hogged(&Arc::default(), 20);
        assert_eq!(pool.lock().target(), 2);
        assert_eq!(targets(&pool, 6), [4, 6, 10, 18, 22, 22]);
        pool.lock().end(one);
        assert_eq!(pool.lock().target(), 2 + 2, "at once: one hog is left");
        pool.lock().end(other);
        assert_eq!(pool.lock().target(), 2, "at once");
        assert_eq!(targets(&pool, 2), [2, 2]);
    }

    #[test]
    fn idle_workers_are_woken_together_and_the_creator_goes_on_until_there_are_enough() {
        let (pool, _) = hogged(&Arc::default(), 20);
        for _ in 0..5 {
            let (id, _) = stubs::searching(&pool);
            let mut guard = pool.lock();
            let inner: &mut Inner = &mut guard;
            let worker = &mut inner.workers[id];
            inner.counts.transition_searching_to_idle(id, worker, 0);
        }
        assert!(!pool.is_short_beside_hogs());
        // Room for 4, 6, 10: so many are on their way.
        let ticks = [4, 5, 5].map(|searching| {
            pool.make_room_beside_hogs(0, TICK_NS);
            let guard = pool.lock();
            (guard.searching(), searching)
        });
        assert!(ticks.iter().all(|(are, should)| are == should), "{ticks:?}");
        // 10 slots are free, and 5 workers on their way: the creator creates 5 more.
        let created = std::iter::repeat_with(|| pool.is_short_beside_hogs().then(|| pool.enroll()));
        assert_eq!(created.take_while(Option::is_some).count(), 5);
    }

    #[test]
    fn an_endless_item_keeps_no_room_when_nothing_waits_any_more() {
        let (pool, [one, _endless]) = hogged(&Arc::default(), 20);
        assert_eq!(targets(&pool, 6).last(), Some(&22));
        pool.lock().end(one);
        assert_eq!(targets(&pool, 1), [2 + 4]);
        stubs::run_all(&pool);
        let mut monitor = Monitor::default();
        monitor.add(Arc::downgrade(&pool));
        monitor.tick(1_000_000_000);
        monitor.tick(1_002_000_000);
        assert_eq!(pool.lock().target(), 2 + 1);
    }

    #[test]
    fn where_items_end_often_or_nothing_waits_no_room_is_made() {
        let (pool, _) = hogged(&Arc::default(), 20);
        pool.lock().counts.set_running(3);
        // Many end: the worklist moves on by itself.
        pool.make_room_beside_hogs(4, TICK_NS);
        assert_eq!(pool.lock().target(), 2);
        pool.make_room_beside_hogs(3, TICK_NS);
        assert_eq!(pool.lock().target(), 4);
        let (pool, _) = hogged(&Arc::default(), 0);
        assert_eq!(targets(&pool, 3), [2, 2, 2]);
    }

    #[test]
    fn below_a_limit_there_is_one_extra_slot_for_each_hog() {
        let params = Arc::new(Params::default());
        params.slots.set_limit(Some(2));
        let (pool, [one, other]) = hogged(&params, 20);
        let usable = || pool.lock().usable_cpus();
        assert_eq!(targets(&pool, 4), [usable() + 2; 4]);
        pool.lock().end(one);
        pool.lock().end(other);
        let guard = pool.lock();
        assert_eq!(guard.target(), guard.usable_cpus());
    }

    #[test]
    fn below_a_limit_the_extra_slots_double_when_no_item_has_ended_for_100_ms() {
        let params = Arc::new(Params::default());
        params.slots.set_limit(Some(2));
        let (pool, _) = hogged(&params, 20);
        let extra = |ms: u64, completed| {
            pool.make_room_beside_hogs(completed, ms * 1_000_000);
            pool.lock().hogs.extra
        };
        assert_eq!([extra(98, 0), extra(2, 0)], [2, 4]);
        assert_eq!([extra(98, 0), extra(2, 0)], [4, 8]);
        // Items end: the time begins anew.
        assert_eq!([extra(98, 0), extra(2, 100)], [8, 8]);
        assert_eq!([extra(98, 0), extra(2, 0)], [8, 16]);
        // The same at a tick at which no item waits.
        assert_eq!(extra(98, 0), 16);
        stubs::run_all(&pool);
        let mut monitor = Monitor::default();
        monitor.add(Arc::downgrade(&pool));
        monitor.tick(1_000_000_000);
        monitor.tick(1_002_000_000);
        assert!(!pool.lock().hogs.steps_beyond_limit(98_000_000));
        assert!(pool.lock().hogs.steps_beyond_limit(2_000_000));
    }

    #[test]
    fn a_hogged_pool_counts_as_saturated_before_its_extra_slots_are_used() {
        let (pool, _) = hogged(&Arc::default(), 20);
        assert_eq!(pool.lock().running(), 0);
        let mut monitor = Monitor::default();
        monitor.add(Arc::downgrade(&pool));
        let mut now = 1_000_000_000;
        for _ in 0..4 {
            now = monitor.tick(now).expect("it goes on");
        }
        assert!(pool.lock().target() > 6);
    }

    #[test]
    fn a_pool_of_one_cpu_makes_no_room_and_bh_items_are_no_hogs() {
        let params = Arc::new(Params::default());
        let threshold = params.cpu_intensive_ns.load(Ordering::Relaxed);
        let pool = |kind| {
            let params = params.clone();
            Made {
                kind,
                params,
                ..Made::default()
            }
            .pool(71)
        };
        let threshold_of = |kind| pool(kind).hog_threshold_ns();
        let kinds = [PoolFor::Unbound, PoolFor::PerCpu(0), PoolFor::Bh(0)];
        assert_eq!(
            kinds.map(threshold_of),
            [Some(threshold), Some(threshold), None]
        );
        // More workers than slots only get the group throttled.
        params.slots.set_limit(Some(1));
        assert_eq!(
            kinds.map(threshold_of),
            [Some(10 * threshold), Some(threshold), None]
        );
        params.slots.set_limit(None);
        params.cpu_intensive_ns.store(0, Ordering::Relaxed);
        assert_eq!(kinds.map(threshold_of), [None; 3]);

        let pool = pool(PoolFor::PerCpu(0));
        hog_and_wait(&pool, 1, 20);
        let before = pool.lock().target();
        assert_eq!(targets(&pool, 3), [before; 3]);
    }
}
