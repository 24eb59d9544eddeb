//! What pools and pool workqueues count.
#![forbid(unsafe_code)]

/// What one pool workqueue has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PwqStats {
    pub(crate) started: u64,
    pub(crate) completed: u64,
    /// Items that became CPU hogs.
    pub(crate) cpu_intensive: u64,
    /// Times another worker took over because an item blocked.
    pub(crate) cm_wakeups: u64,
    /// Calls for the rescuer, and items that it ran.
    pub(crate) mayday: u64,
    pub(crate) rescued: u64,
    /// Items run by threads that waited for them.
    pub(crate) waiter_runs: u64,
    /// Visits to the store of credits that all pods of a node share.
    pub(crate) limit_visits: u64,
    /// Items that a thief of another pool ran.
    pub(crate) helps: u64,
    /// Workers that were woken up and then ran an item of it first.
    pub(crate) wakeups: u64,
    /// CPU time of workers that were found running its items: see [`Pool::account_cpu_time`](crate::pool::Pool::account_cpu_time).
    pub(crate) cpu_ns: u64,
}

impl PwqStats {
    pub(crate) fn add(&mut self, other: &PwqStats) {
        self.started += other.started;
        self.completed += other.completed;
        self.cpu_intensive += other.cpu_intensive;
        self.cm_wakeups += other.cm_wakeups;
        self.mayday += other.mayday;
        self.rescued += other.rescued;
        self.waiter_runs += other.waiter_runs;
        self.limit_visits += other.limit_visits;
        self.helps += other.helps;
        self.wakeups += other.wakeups;
        self.cpu_ns += other.cpu_ns;
    }
}

/// Monotone counts of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolStats {
    pub(crate) workers_created: u64,
    pub(crate) create_failures: u64,
    pub(crate) wakeups: u64,
    pub(crate) helps: u64,
    pub(crate) started: u64,
    /// Those of them that overtook what waits: a rescuer or a waiting thread took its own items from the middle of the worklist.
    pub(crate) overtook: u64,
    pub(crate) completed: u64,
    pub(crate) panics: u64,
    pub(crate) blocked_seen: u64,
    /// How often a thread had to wait for the pool's lock.
    pub(crate) lock_waits: u64,
    /// The counts of pool workqueues that are gone.
    pub(crate) pwqs: PwqStats,
}

impl PoolStats {
    /// Items that were started in turn: while this stands still, the first of the worklist waits.
    pub(crate) fn started_in_turn(&self) -> u64 {
        self.started - self.overtook
    }

    pub(crate) fn add(&mut self, other: &PoolStats) {
        self.workers_created += other.workers_created;
        self.create_failures += other.create_failures;
        self.wakeups += other.wakeups;
        self.helps += other.helps;
        self.started += other.started;
        self.overtook += other.overtook;
        self.completed += other.completed;
        self.panics += other.panics;
        self.blocked_seen += other.blocked_seen;
        self.lock_waits += other.lock_waits;
        self.pwqs.add(&other.pwqs);
    }
}
