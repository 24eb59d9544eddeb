//! The deadlines of the service thread. They read no clock and know no pool, so the tests run in
//! virtual time.
#![forbid(unsafe_code)]

use super::deadlines::Deadlines;

/// How long after a worker was asked for the rescuers are called if it has not come, and, below,
/// how often afterwards (the kernel's values).
const MAYDAY_INITIAL_NS: u64 = 10_000_000;
const MAYDAY_INTERVAL_NS: u64 = 100_000_000;

pub(in crate::pool) struct PoolTimers<P> {
    maydays: Deadlines<P>,
    culls: Deadlines<P>,
    /// When the CPUs are checked, and when the watchdog examines all pools.
    pub(in crate::pool) cpu_check: Option<u64>,
    pub(in crate::pool) watchdog: Option<u64>,
    /// When the pools in line for running slots are served.
    pub(in crate::pool) slots: Option<u64>,
}

impl<P> Default for PoolTimers<P> {
    fn default() -> Self {
        PoolTimers {
            maydays: Deadlines::default(),
            culls: Deadlines::default(),
            cpu_check: None,
            watchdog: None,
            slots: None,
        }
    }
}

/// When the service thread has to be awake again after a worker was asked for.
pub(in crate::pool) const fn mayday_after(asked_ns: u64) -> u64 {
    asked_ns + MAYDAY_INITIAL_NS
}

impl<P: PartialEq> PoolTimers<P> {
    /// Notes requests of pools: in `create` those that need a worker, each with the time since
    /// when; in `cull` those whose idle workers are to be checked, each with the time when.
    pub(in crate::pool) fn asked(&mut self, create: Vec<(P, u64)>, cull: Vec<(P, u64)>) {
        for (pool, asked_ns) in create {
            // The worker that it asked for earlier has come, or it would not have asked again.
            self.maydays.set(mayday_after(asked_ns), pool);
        }
        for (pool, at) in cull {
            self.culls.set(at, pool);
        }
    }

    /// Does what is due, except for the engine's own deadlines. `mayday` calls a pool's rescuers
    /// and returns `false` if a worker has come. `cull` culls workers that have been idle for long,
    /// and returns the time of the next check, if any.
    pub(in crate::pool) fn expire(
        &mut self,
        now: u64,
        mut mayday: impl FnMut(&P) -> bool,
        mut cull: impl FnMut(&P) -> Option<u64>,
    ) {
        for pool in self.maydays.take_due(now) {
            if mayday(&pool) {
                self.maydays.set(now + MAYDAY_INTERVAL_NS, pool);
            }
        }
        for pool in self.culls.take_due(now) {
            if let Some(next) = cull(&pool) {
                self.culls.set(next, pool);
            }
        }
    }

    /// The earliest deadline; `other`: one from elsewhere.
    pub(in crate::pool) fn earliest(&self, other: Option<u64>) -> Option<u64> {
        let all = [
            other,
            self.maydays.earliest(),
            self.culls.earliest(),
            self.cpu_check,
            self.watchdog,
            self.slots,
        ];
        all.into_iter().flatten().min()
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const START: u64 = 1_000_000 * MS;
    const IDLE_NS: u64 = 300_000 * MS;
    const POOL: u32 = 7;

    /// A pool, and when it was called, in ms.
    #[derive(Default)]
    struct Fake {
        /// Until when it needs a worker.
        needs_until: u64,
        maydays: Vec<u64>,
        culls: Vec<u64>,
        next_cull: Option<u64>,
    }

    /// Advances time from `from` to `end` ms in single milliseconds; runs what is due.
    fn pass(timers: &mut PoolTimers<u32>, pool: &mut Fake, from: u64, end: u64) {
        for ms in from..=end {
            let now = START + ms * MS;
            // It sleeps until its deadline.
            if timers.earliest(None).is_none_or(|at| at > now) {
                continue;
            }
            let mayday = |_: &u32| {
                let needed = now < pool.needs_until;
                pool.maydays.extend(needed.then_some(ms));
                needed
            };
            let cull = |_: &u32| {
                pool.culls.push(ms);
                pool.next_cull.take()
            };
            timers.expire(now, mayday, cull);
        }
    }

    fn needs_worker(timers: &mut PoolTimers<u32>, since_ns: u64) {
        timers.asked(vec![(POOL, since_ns)], Vec::new());
    }

    #[test]
    fn rescuers_are_called_10_ms_after_a_worker_is_needed_and_then_every_100_ms() {
        let (mut timers, mut pool) = (PoolTimers::default(), Fake::default());
        pool.needs_until = START + 400 * MS;
        needs_worker(&mut timers, START);
        assert_eq!(timers.earliest(None), Some(START + 10 * MS));
        pass(&mut timers, &mut pool, 0, 1000);
        assert_eq!(pool.maydays, [10, 110, 210, 310]);
        assert_eq!(timers.earliest(None), None, "a worker has come");
    }

    /// The service thread was busy when the worker was asked for.
    #[test]
    fn the_10_ms_begin_when_the_worker_is_needed_and_not_when_the_service_thread_is_told() {
        let (mut timers, mut pool) = (PoolTimers::default(), Fake::default());
        pool.needs_until = START + 40 * MS;
        needs_worker(&mut timers, START);
        pass(&mut timers, &mut pool, 7, 1000);
        assert_eq!(pool.maydays, [10]);
        // It is told even later than that.
        pool.needs_until = START + 2000 * MS;
        needs_worker(&mut timers, START + 1000 * MS);
        pass(&mut timers, &mut pool, 1030, 1120);
        assert_eq!(pool.maydays, [10, 1030]);
    }

    #[test]
    fn workers_that_may_be_idle_for_ever_are_not_looked_at() {
        let (mut timers, mut pool) = (PoolTimers::default(), Fake::default());
        timers.asked(Vec::new(), vec![(POOL, u64::MAX)]);
        pass(&mut timers, &mut pool, 0, 1000);
        assert_eq!(pool.culls, [0; 0]);
        assert_eq!(timers.earliest(None), Some(u64::MAX));
    }

    #[test]
    fn a_worker_that_comes_in_time_calls_nobody_and_the_next_one_has_its_own_10_ms() {
        let (mut timers, mut pool) = (PoolTimers::default(), Fake::default());
        needs_worker(&mut timers, START);
        // One came at 3 ms; the next one is asked for at 8 ms, and comes at 30.
        pass(&mut timers, &mut pool, 0, 8);
        pool.needs_until = START + 30 * MS;
        needs_worker(&mut timers, START + 8 * MS);
        pass(&mut timers, &mut pool, 8, 1000);
        assert_eq!(pool.maydays, [18]);
    }

    #[test]
    fn idle_workers_are_looked_at_when_the_last_one_may_go_and_then_when_they_say() {
        let (mut timers, mut pool) = (PoolTimers::default(), Fake::default());
        timers.asked(Vec::new(), vec![(POOL, START + IDLE_NS)]);
        pool.next_cull = Some(START + 300_500 * MS);
        pass(&mut timers, &mut pool, 0, 400_000);
        assert_eq!(pool.culls, [300_000, 300_500]);
        assert_eq!(timers.earliest(None), None);
    }

    #[test]
    fn the_earliest_of_all_is_next() {
        let mut timers = PoolTimers::default();
        assert_eq!(timers.earliest(Some(7)), Some(7));
        timers.watchdog = Some(6);
        assert_eq!(timers.earliest(Some(7)), Some(6));
        timers.cpu_check = Some(5);
        assert_eq!(timers.earliest(Some(7)), Some(5));
        needs_worker(&mut timers, START);
        timers.asked(Vec::new(), vec![(POOL, START + IDLE_NS)]);
        assert_eq!(timers.earliest(None), Some(5));
    }
}
