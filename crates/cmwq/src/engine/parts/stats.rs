//! What an engine counts.
#![forbid(unsafe_code)]

use crate::pool::PoolStats;

/// What an engine has counted. Take two and subtract to learn about a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineStats {
    /// Worker pools that exist now.
    pub pools: u64,
    /// Worker threads that exist now.
    pub workers: u64,
    /// Worker threads created.
    pub workers_created: u64,
    /// Attempts to create a worker that failed.
    pub create_failures: u64,
    /// Idle workers picked and woken, for whatever reason: to run an item, to help a neighbour, or to exit.
    pub wakeups: u64,
    /// Items that a pool's neighbours ran for it.
    pub helps: u64,
    /// Items started.
    pub started: u64,
    /// Items completed.
    pub completed: u64,
    /// Items whose function panicked.
    pub panics: u64,
    /// Workers found blocked that had not said so.
    pub blocked_seen: u64,
    /// Items of per-CPU workqueues that used the CPU for too long.
    pub cpu_intensive: u64,
    /// Times another worker took over because an item blocked.
    pub cm_wakeups: u64,
    /// Calls for a rescuer.
    pub mayday: u64,
    /// Items that a rescuer ran.
    pub rescued: u64,
    /// Items run by threads that waited for them.
    pub waiter_runs: u64,
    /// Times that a pod took active places from, or gave them back to, the store that it shares with others.
    pub limit_visits: u64,
    /// Times that somebody had to wait for a pool's lock.
    pub lock_waits: u64,
    /// CPU time of items, in ns, as far as it was [charged](crate::Engine::account_cpu_time).
    pub cpu_ns: u64,
}

impl EngineStats {
    pub(crate) fn new(sum: &PoolStats, pools: u64, workers: u64) -> Self {
        EngineStats {
            pools,
            workers,
            workers_created: sum.workers_created,
            create_failures: sum.create_failures,
            wakeups: sum.wakeups,
            helps: sum.helps,
            started: sum.pwqs.started,
            completed: sum.pwqs.completed,
            panics: sum.panics,
            blocked_seen: sum.blocked_seen,
            cpu_intensive: sum.pwqs.cpu_intensive,
            cm_wakeups: sum.pwqs.cm_wakeups,
            mayday: sum.pwqs.mayday,
            rescued: sum.pwqs.rescued,
            waiter_runs: sum.pwqs.waiter_runs,
            limit_visits: sum.pwqs.limit_visits,
            lock_waits: sum.lock_waits,
            cpu_ns: sum.pwqs.cpu_ns,
        }
    }
}
