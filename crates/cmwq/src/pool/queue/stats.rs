//! What pools and pool workqueues count.
#![forbid(unsafe_code)]

/// Defines counters, and their sum.
macro_rules! counters {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $counter:ident: u64,)* }) => {
        $(#[$about])*
        pub struct $name { $($(#[$doc])* pub $counter: u64,)* }

        impl $name {
            pub(crate) fn add(&mut self, other: &$name) {
                $(self.$counter += other.$counter;)*
            }
        }
    };
}

counters! {
    /// The counters of one queue, the kernel's and a few more: a part of a
    /// [`QueueState`](crate::observe::QueueState).
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("io").build()?;
    /// queue.spawn(|| ()).join()?;
    /// let engine = cmwq::Engine::global()?;
    /// let states = engine.queue_states();
    /// let state = states.iter().find(|state| state.name == "io").expect("it exists");
    /// println!("{} started, {} ended", state.stats.started, state.stats.completed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct QueueStats {
        /// Items started.
        pub started: u64,
        /// Items completed.
        pub completed: u64,
        /// CPU time of its items, in ns, as [accounted](crate::Engine::account_cpu_time).
        pub cpu_ns: u64,
        /// Items that became CPU hogs.
        pub cpu_intensive: u64,
        /// Times another worker took over because one of its items blocked.
        pub cm_wakeups: u64,
        /// Calls for the rescuer.
        pub mayday: u64,
        /// Items that the rescuer ran.
        pub rescued: u64,
        /// Items that workers of other pods stole and ran.
        pub stolen: u64,
        /// Items that threads waiting for them ran (caller-runs joins).
        pub waiter_runs: u64,
        /// Wake-ups of workers whose first item afterwards was one of this queue.
        pub wakeups: u64,
        /// Attempts to queue that found [no room](crate::WorkqueueBuilder::max_waiting).
        pub refused: u64,
        /// Visits to the shared store of credits.
        pub limit_visits: u64,
        /// Times that a thread waited for the lock of one of the pools that it uses now, on behalf of
        /// any queue of these pools.
        pub lock_waits: u64,
    }
}

impl QueueStats {
    /// Adds `runs` items, which have run in caller slots.
    pub(in crate::pool) fn add_waiter_runs(&mut self, runs: u64) {
        self.started += runs;
        self.completed += runs;
        self.waiter_runs += runs;
    }
}

/// The counters of one pool: a part of a [`PoolState`](crate::observe::PoolState).
///
/// ```
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// queue.spawn(|| ()).join()?;
/// let engine = cmwq::Engine::global()?;
/// for pool in engine.pool_states() {
///     println!("pool {}: {} items ended, {} stolen", pool.id, pool.stats.completed, pool.stats.stolen);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounts {
    /// Items started.
    pub started: u64,
    /// Items completed.
    pub completed: u64,
    /// Idle workers woken, for any reason.
    pub wakeups: u64,
    /// Items that workers of other pods stole and ran.
    pub stolen: u64,
    /// Times that a thread waited for its lock.
    pub lock_waits: u64,
    /// Workers created.
    pub workers_created: u64,
    /// Failed attempts to create a worker.
    pub create_failures: u64,
    /// How often the monitor found a worker blocked that had not declared it.
    pub blocked_seen: u64,
    /// Items whose function panicked.
    pub panics: u64,
}
