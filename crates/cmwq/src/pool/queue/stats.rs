//! What pools, pool workqueues and engines count: one table, from which the statistics of the
//! library take their fields, and the control protocol and the metrics too (`cmwq-control`).
#![forbid(unsafe_code)]

/// The table of counters. A row has a field, what it counts, and its metric, if it has one: whose
/// it is, how it is shown, its name. Then it may have what Rust's documentation says besides. There
/// are four blocks: of a workqueue, what its engine sums up and what it does not show or has from
/// its pools; then the same of a pool.
///
/// `counters!(OF MACRO {...})` calls the macro with the braces and some of the rows behind them:
/// all of a `queue` or a `pool`, those that `add_queue` and `add_pool` add to the engine's, the
/// `engine`'s own, or `all`.
/// It has to be imported, since it calls itself by its name.
#[doc(hidden)]
#[macro_export]
macro_rules! counters {
    (@take queue $then:ident $given:tt {$($row:tt)*} {$($only:tt)*} $_pool:tt $_pool_only:tt) => {
        $then! { $given $($row)* $($only)* }
    };
    (@take pool $then:ident $given:tt $_queue:tt $_queue_only:tt {$($row:tt)*} {$($only:tt)*}) => {
        $then! { $given $($only)* $($row)* }
    };
    (@take add_queue $then:ident $given:tt {$($row:tt)*} $($_other:tt)*) => {
        $then! { $given $($row)* }
    };
    (@take add_pool $then:ident $given:tt $_queue:tt $_only:tt {$($row:tt)*} $_pool_only:tt) => {
        $then! { $given $($row)* }
    };
    (@take engine $then:ident $given:tt {$($queue:tt)*} $_only:tt {$($pool:tt)*} $_other:tt) => {
        $then! { $given $($queue)* $($pool)* }
    };
    (@take all $then:ident $given:tt $({$($row:tt)*})*) => {
        $then! { $given $($($row)*)* }
    };
    ($of:ident $then:ident $given:tt) => {
        counters! {
            @take $of $then $given
            {
                started: ("Items started", queue Count "queue_items_started"),
                completed: ("Items completed", queue Count "queue_items_completed"),
                cpu_ns: ("CPU time of items, by sampling", queue Seconds "queue_cpu",
                    "In ns, as far as it was accounted (`Engine::account_cpu_time`)."),
                cpu_intensive: ("Items that used the CPU for too long",
                    queue Count "queue_cpu_intensive_items",
                    "Longer than `Engine::cpu_intensive_threshold`. Of unbound workqueues only those \
                     are counted that were found so while other items waited."),
                cm_wakeups: ("Times another worker took over because an item blocked",
                    queue Count "queue_cm_wakeups"),
                mayday: ("Calls for the rescuer", queue Count "queue_maydays"),
                rescued: ("Items that the rescuer ran", queue Count "queue_rescued_items"),
                waiter_runs: ("Items that threads ran which waited for them",
                    queue Count "queue_waiter_run_items"),
                limit_visits: ("Visits to the store of places that pods share",
                    queue Count "queue_limit_visits",
                    "A pod takes places there, each of which lets one item be active, or gives \
                     some back."),
            }
            {
                stolen: ("Items that workers of other pods stole and ran",
                    queue Count "queue_stolen_items"),
                wakeups: ("Workers woken that then ran an item of the queue",
                    queue Count "queue_wakeups"),
                refused: ("Attempts to queue that found no room", queue Count "queue_refused_items",
                    "See `WorkqueueBuilder::max_waiting`."),
                lock_waits: ("Times that the locks of its pools were waited for",
                    "Those are the pools that it uses now; any queue of theirs may have waited."),
            }
            {
                lock_waits: ("Times that the lock was waited for", pool Count "pool_lock_waits"),
                wakeups: ("Idle workers woken", pool Count "pool_wakeups",
                    "For any reason: to run an item, to steal one, or to exit."),
                stolen: ("Items that workers of other pods stole and ran",
                    pool Count "pool_stolen_items"),
                workers_created: ("Worker threads created", engine Count "engine_workers_created"),
                create_failures: ("Attempts to create a worker that failed",
                    engine Count "engine_create_failures"),
                blocked_seen: ("Workers found blocked that had not said so",
                    engine Count "engine_blocked_seen"),
                panics: ("Items whose function panicked", engine Count "engine_panics"),
            }
            {
                started: ("Items started", pool Count "pool_items_started"),
                completed: ("Items completed"),
            }
        }
    };
}

/// A structure with the counters of a workqueue, a pool or an engine behind the fields that it has
/// itself.
macro_rules! counted {
    (
        {$(#[$about:meta])* pub struct $name:ident {$($(#[$doc:meta])* pub $own:ident: u64,)*}}
        $($field:ident: ($what:literal
            $(, $of:ident $kind:ident $metric:literal)? $(, $more:literal)?),)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        #[repr(C)]
        pub struct $name {
            $($(#[$doc])* pub $own: u64,)*
            $(#[doc = concat!($what, ".")] $(#[doc = concat!("\n", $more)])? pub $field: u64,)*
        }
    };
}

counters! { queue counted {
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
    pub struct QueueStats {}
}}

counters! { pool counted {
    /// The counters of one pool: a part of a [`PoolState`](crate::observe::PoolState).
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("io").build()?;
    /// queue.spawn(|| ()).join()?;
    /// let engine = cmwq::Engine::global()?;
    /// for pool in engine.pool_states() {
    ///     let (ended, stolen) = (pool.stats.completed, pool.stats.stolen);
    ///     println!("pool {}: {ended} items ended, {stolen} stolen", pool.id);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub struct PoolCounts {}
}}

counters! { engine counted {
    /// The counters of an engine, from [`Engine::stats`](crate::Engine::stats). The difference of
    /// two values is what was counted between them.
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("io").build()?;
    /// queue.spawn(|| ()).join()?;
    /// let engine = cmwq::Engine::global()?;
    /// println!("{} items have ended", engine.stats().completed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub struct EngineStats {
        /// Worker pools that exist now.
        pub pools: u64,
        /// Worker threads that exist now.
        pub workers: u64,
    }
}}

/// The function that adds rows of one structure to another's.
macro_rules! sum {
    ({$to:ident $add:ident $from:ident} $($field:ident: $about:tt,)*) => {
        impl $to {
            pub(crate) fn $add(&mut self, other: &$from) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

counters!(queue sum {QueueStats add QueueStats});
counters!(add_queue sum {EngineStats add_queue QueueStats});
counters!(add_pool sum {EngineStats add_pool PoolCounts});

impl EngineStats {
    /// Adds the counts of a pool and those of its pool workqueues.
    pub(crate) fn add(&mut self, (pool, queues): (PoolCounts, QueueStats)) {
        self.add_pool(&pool);
        self.add_queue(&queues);
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
