//! Culls idle workers, as the kernel does: at least two stay, and up to a quarter as many as are busy.
#![forbid(unsafe_code)]

use crate::pool::state::pool::Pool;
use crate::pool::state::worker::WorkerState;
use std::sync::Arc;

impl Pool {
    /// Culls workers that have been idle for long, oldest first, while too many are idle. A worker
    /// that was picked to be woken is not on the idle list, so it is never culled. Returns the time
    /// of the next check.
    pub(in crate::pool) fn cull(self: &Arc<Self>, now: u64) -> Option<u64> {
        let mut guard = self.lock();
        while guard.too_many_idle() {
            let oldest = guard.idle()[0];
            let WorkerState::Idle { since_ns } = guard.workers[oldest].state else {
                unreachable!("a worker on the idle list is idle")
            };
            let deadline = since_ns.saturating_add(self.attrs.idle_timeout_ns);
            if deadline > now {
                return Some(deadline);
            }
            guard.workers[oldest].die = true;
            guard.leaving += 1;
            guard.wake_at(0);
        }
        guard.cull_armed = false;
        None
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::pool::state::worker::Busy;
    use crate::pool::stubs;

    const SECOND: u64 = 1_000_000_000;
    const TIMEOUT: u64 = 300 * SECOND;

    /// A pool with `busy` workers at work and `idle` others, each of which went idle a second after
    /// the one before.
    fn pool(busy: usize, idle: u64) -> (Arc<Pool>, Vec<u32>) {
        let pool = stubs::pool(1, TIMEOUT);
        for _ in 0..busy {
            let (id, _) = pool.enroll();
            // A worker that declares a block counts as busy too.
            pool.lock().workers[id].state = WorkerState::Busy(Busy::Blocked);
        }
        let idle = (1..=idle).map(|second| stubs::idle(&pool, second * SECOND).0);
        let ids = idle.collect();
        (pool, ids)
    }

    fn culled(pool: &Arc<Pool>) -> Vec<u32> {
        let guard = pool.lock();
        let workers = guard.workers.iter();
        let dying = workers.filter(|(_, worker)| worker.die);
        dying.map(|(id, _)| id).collect()
    }

    #[test]
    fn the_oldest_go_first_each_when_its_time_has_come() {
        let (pool, ids) = pool(0, 6);
        assert_eq!(pool.cull(TIMEOUT), Some(TIMEOUT + SECOND));
        assert_eq!(culled(&pool), [0_u32; 0]);
        assert_eq!(pool.cull(TIMEOUT + SECOND), Some(TIMEOUT + 2 * SECOND));
        assert_eq!(culled(&pool), ids[..1]);
        assert_eq!(pool.cull(TIMEOUT + 2 * SECOND), Some(TIMEOUT + 3 * SECOND));
        assert_eq!(culled(&pool), ids[..2]);
        // The two most recently idle stay, however long.
        assert_eq!(pool.cull(1000 * TIMEOUT), None);
        assert_eq!(culled(&pool), ids[..4]);
        assert_eq!(*pool.lock().idle(), ids[4..]);
    }

    #[test]
    fn a_quarter_as_many_as_are_busy_may_be_idle_besides_two() {
        for (busy, stay) in [(0, 2), (1, 2), (4, 2), (5, 3), (8, 3), (9, 4), (40, 11)] {
            let (pool, ids) = pool(busy, 20);
            assert_eq!(pool.cull(1000 * TIMEOUT), None);
            assert_eq!(*pool.lock().idle(), ids[20 - stay..], "{busy} are busy");
        }
    }

    #[test]
    fn a_timeout_without_end_keeps_all() {
        let pool = stubs::pool(1, u64::MAX);
        for _ in 0..5 {
            stubs::idle(&pool, SECOND);
        }
        assert_eq!(pool.cull(1000 * TIMEOUT), Some(u64::MAX));
        assert_eq!(culled(&pool), [0_u32; 0]);
    }
}
