//! The deadlines of the service thread. They read no clock and know no pool, so the tests run in virtual time.
#![forbid(unsafe_code)]

use super::deadlines::{Deadlines, PoolRef};

/// When a needed worker has not come, the rescuers are called: first after this, then every so often (the kernel's values).
const MAYDAY_INITIAL_NS: u64 = 10_000_000;
const MAYDAY_INTERVAL_NS: u64 = 100_000_000;

/// What the timers need of a pool.
pub(in crate::pool) trait TimedPool: Clone + PartialEq {
    /// Calls the rescuers if a worker is still needed. `false`: a worker has come.
    fn mayday(&self) -> bool;
    /// Culls workers that have been idle for long. Returns the time of the next check, if any.
    fn cull(&self, now: u64) -> Option<u64>;
    fn idle_timeout_ns(&self) -> u64;
}

impl TimedPool for PoolRef {
    fn mayday(&self) -> bool {
        self.get().is_some_and(|pool| pool.mayday())
    }

    fn cull(&self, now: u64) -> Option<u64> {
        self.get()?.cull(now)
    }

    fn idle_timeout_ns(&self) -> u64 {
        self.get().map_or(0, |pool| pool.attrs.idle_timeout_ns)
    }
}

pub(in crate::pool) struct Timers<P> {
    maydays: Deadlines<P>,
    culls: Deadlines<P>,
    /// When the CPUs are checked, and when the watchdog examines all pools.
    pub(in crate::pool) cpu_check: Option<u64>,
    pub(in crate::pool) watchdog: Option<u64>,
    /// When the pools in line for running slots are served.
    pub(in crate::pool) slots: Option<u64>,
}

impl<P> Default for Timers<P> {
    fn default() -> Self {
        Timers {
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

impl<P: TimedPool> Timers<P> {
    /// What pools have asked for by `now`: `create`, a worker, each since when; `cull`, a look at their idle workers.
    pub(in crate::pool) fn asked(&mut self, create: Vec<(P, u64)>, cull: Vec<P>, now: u64) {
        for (pool, asked_ns) in create {
            self.worker_needed(pool, asked_ns);
        }
        for pool in cull {
            self.cull_later(pool, now);
        }
    }

    /// A worker of `pool` was asked for. The one before has come, or the pool would not have asked again.
    fn worker_needed(&mut self, pool: P, asked_ns: u64) {
        self.maydays.set(mayday_after(asked_ns), pool);
    }

    /// Too many workers of `pool` are idle, the last one since `now`.
    fn cull_later(&mut self, pool: P, now: u64) {
        let at = now.saturating_add(pool.idle_timeout_ns());
        self.culls.set(at, pool);
    }

    /// Does what is due, except for the engine's own deadlines.
    pub(in crate::pool) fn expire(&mut self, now: u64) {
        for pool in self.maydays.take_due(now) {
            if pool.mayday() {
                self.maydays.set(now + MAYDAY_INTERVAL_NS, pool);
            }
        }
        for pool in self.culls.take_due(now) {
            if let Some(next) = pool.cull(now) {
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
    use std::cell::RefCell;
    use std::rc::Rc;

    const MS: u64 = 1_000_000;
    const START: u64 = 1_000_000 * MS;

    /// A pool that records its calls.
    #[derive(Clone)]
    struct Fake(Rc<State>);

    #[derive(Default)]
    struct State {
        now: RefCell<u64>,
        /// Until when it needs a worker.
        needs_until: RefCell<u64>,
        maydays: RefCell<Vec<u64>>,
        culls: RefCell<Vec<u64>>,
        next_cull: RefCell<Option<u64>>,
        /// Beyond the usual one.
        idles_longer: RefCell<u64>,
    }

    impl PartialEq for Fake {
        fn eq(&self, other: &Self) -> bool {
            Rc::ptr_eq(&self.0, &other.0)
        }
    }

    impl TimedPool for Fake {
        fn mayday(&self) -> bool {
            let now = *self.0.now.borrow();
            let needed = now < *self.0.needs_until.borrow();
            if needed {
                self.0.maydays.borrow_mut().push((now - START) / MS);
            }
            needed
        }

        fn cull(&self, now: u64) -> Option<u64> {
            self.0.culls.borrow_mut().push((now - START) / MS);
            self.0.next_cull.borrow_mut().take()
        }

        fn idle_timeout_ns(&self) -> u64 {
            300_000 * MS + *self.0.idles_longer.borrow()
        }
    }

    fn fake() -> Fake {
        Fake(Rc::default())
    }

    /// Advances time from `from` to `end` ms in single milliseconds; runs what is due.
    fn pass(timers: &mut Timers<Fake>, pool: &Fake, from: u64, end: u64) {
        for ms in from..=end {
            let now = START + ms * MS;
            // It sleeps until its deadline.
            if timers.earliest(None).is_some_and(|at| at <= now) {
                *pool.0.now.borrow_mut() = now;
                timers.expire(now);
            }
        }
    }

    #[test]
    fn rescuers_are_called_10_ms_after_a_worker_is_needed_and_then_every_100_ms() {
        let (mut timers, pool) = (Timers::default(), fake());
        *pool.0.needs_until.borrow_mut() = START + 400 * MS;
        timers.worker_needed(pool.clone(), START);
        assert_eq!(timers.earliest(None), Some(START + 10 * MS));
        pass(&mut timers, &pool, 0, 1000);
        assert_eq!(*pool.0.maydays.borrow(), [10, 110, 210, 310]);
        assert_eq!(timers.earliest(None), None, "a worker has come");
    }

    /// The service thread was busy when the worker was asked for.
    #[test]
    fn the_10_ms_begin_when_the_worker_is_needed_and_not_when_the_service_thread_is_told() {
        let (mut timers, pool) = (Timers::default(), fake());
        *pool.0.needs_until.borrow_mut() = START + 40 * MS;
        timers.asked(vec![(pool.clone(), START)], Vec::new(), START + 7 * MS);
        pass(&mut timers, &pool, 7, 1000);
        assert_eq!(*pool.0.maydays.borrow(), [10]);
        // It is told even later than that.
        *pool.0.needs_until.borrow_mut() = START + 2000 * MS;
        timers.asked(
            vec![(pool.clone(), START + 1000 * MS)],
            Vec::new(),
            START + 1030 * MS,
        );
        pass(&mut timers, &pool, 1030, 1120);
        assert_eq!(*pool.0.maydays.borrow(), [10, 1030]);
    }

    #[test]
    fn workers_that_may_be_idle_for_ever_are_not_looked_at() {
        let (mut timers, pool) = (Timers::default(), fake());
        *pool.0.idles_longer.borrow_mut() = u64::MAX - 300_000 * MS;
        timers.asked(Vec::new(), vec![pool.clone()], START);
        pass(&mut timers, &pool, 0, 1000);
        assert_eq!(*pool.0.culls.borrow(), [0; 0]);
        assert_eq!(timers.earliest(None), Some(u64::MAX));
    }

    #[test]
    fn a_worker_that_comes_in_time_calls_nobody_and_the_next_one_has_its_own_10_ms() {
        let (mut timers, pool) = (Timers::default(), fake());
        timers.worker_needed(pool.clone(), START);
        // One came at 3 ms; the next one is asked for at 8 ms, and comes at 30.
        pass(&mut timers, &pool, 0, 8);
        *pool.0.needs_until.borrow_mut() = START + 30 * MS;
        timers.worker_needed(pool.clone(), START + 8 * MS);
        pass(&mut timers, &pool, 8, 1000);
        assert_eq!(*pool.0.maydays.borrow(), [18]);
    }

    #[test]
    fn idle_workers_are_looked_at_when_the_last_one_may_go_and_then_when_they_say() {
        let (mut timers, pool) = (Timers::default(), fake());
        timers.cull_later(pool.clone(), START);
        *pool.0.next_cull.borrow_mut() = Some(START + 300_500 * MS);
        pass(&mut timers, &pool, 0, 400_000);
        assert_eq!(*pool.0.culls.borrow(), [300_000, 300_500]);
        assert_eq!(timers.earliest(None), None);
    }

    #[test]
    fn the_earliest_of_all_is_next() {
        let (mut timers, pool) = (Timers::default(), fake());
        assert_eq!(timers.earliest(Some(7)), Some(7));
        timers.watchdog = Some(6);
        assert_eq!(timers.earliest(Some(7)), Some(6));
        timers.cpu_check = Some(5);
        assert_eq!(timers.earliest(Some(7)), Some(5));
        timers.worker_needed(pool.clone(), START);
        timers.cull_later(pool, START);
        assert_eq!(timers.earliest(None), Some(5));
    }
}
