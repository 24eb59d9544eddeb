//! The counts of an engine.
#![forbid(unsafe_code)]

use crate::pool::{PoolCounts, QueueStats};

/// The counters of an engine, from [`Engine::stats`](crate::Engine::stats). The difference of two
/// values is what was counted between them.
///
/// ```
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// queue.spawn(|| ()).join()?;
/// let engine = cmwq::Engine::global()?;
/// println!("{} items have ended", engine.stats().completed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    pub stolen: u64,
    /// Items started.
    pub started: u64,
    /// Items completed.
    pub completed: u64,
    /// Items whose function panicked.
    pub panics: u64,
    /// Workers that the monitor found blocked without a declaration.
    pub blocked_seen: u64,
    /// Items of per-CPU workqueues that used the CPU for longer than the
    /// [threshold](crate::Engine::cpu_intensive_threshold).
    pub cpu_intensive: u64,
    /// How often another worker took over because an item blocked.
    pub cm_wakeups: u64,
    /// Calls for a rescuer.
    pub mayday: u64,
    /// Items that a rescuer ran.
    pub rescued: u64,
    /// Items run by threads that waited for them.
    pub waiter_runs: u64,
    /// How often a pod took credits (each lets one item be active) from the store that it shares
    /// with other pods, or gave them back.
    pub limit_visits: u64,
    /// How often a thread had to wait for a pool's lock.
    pub lock_waits: u64,
    /// CPU time of items, in ns, as far as it was [accounted](crate::Engine::account_cpu_time).
    pub cpu_ns: u64,
}

impl EngineStats {
    /// Adds the counts of a pool and those of its pool workqueues.
    pub(crate) fn add(&mut self, (pool, queues): (PoolCounts, QueueStats)) {
        self.workers_created += pool.workers_created;
        self.create_failures += pool.create_failures;
        self.wakeups += pool.wakeups;
        self.stolen += pool.stolen;
        self.started += queues.started;
        self.completed += queues.completed;
        self.panics += pool.panics;
        self.blocked_seen += pool.blocked_seen;
        self.cpu_intensive += queues.cpu_intensive;
        self.cm_wakeups += queues.cm_wakeups;
        self.mayday += queues.mayday;
        self.rescued += queues.rescued;
        self.waiter_runs += queues.waiter_runs;
        self.limit_visits += queues.limit_visits;
        self.lock_waits += pool.lock_waits;
        self.cpu_ns += queues.cpu_ns;
    }
}
