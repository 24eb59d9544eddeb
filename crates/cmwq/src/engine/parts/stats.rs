//! The counts of an engine.
#![forbid(unsafe_code)]

use crate::pool::PoolStats;

/// What an engine has counted. The difference of two is what was counted between them.
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
    /// Idle workers picked and woken, for any reason: to run an item, to steal one, or to exit.
    pub wakeups: u64,
    /// Items that workers of other pools stole and ran.
    pub helps: u64,
    /// Items started.
    pub started: u64,
    /// Items completed.
    pub completed: u64,
    /// Items whose function panicked.
    pub panics: u64,
    /// Workers that the monitor found blocked without a declaration.
    pub blocked_seen: u64,
    /// Items of per-CPU workqueues that were CPU hogs.
    pub cpu_intensive: u64,
    /// Times another worker took over because an item blocked.
    pub cm_wakeups: u64,
    /// Calls for a rescuer.
    pub mayday: u64,
    /// Items that a rescuer ran.
    pub rescued: u64,
    /// Items run by threads that waited for them.
    pub waiter_runs: u64,
    /// Times that a pod took credits from, or gave them back to, the store that it shares with others.
    pub limit_visits: u64,
    /// Times that a thread had to wait for a pool's lock.
    pub lock_waits: u64,
    /// CPU time of items, in ns, as far as it was [accounted](crate::Engine::account_cpu_time).
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
