//! The answer to `state`: engines, pools, workers and workqueues as they are at one moment.

use cmwq::counters;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A structure with the counters of a workqueue, a pool or an engine behind the fields that it has
/// itself. Those that another version of the library does not have are 0.
macro_rules! counted {
    (
        {
            with $from:ident $(#[$about:meta])*
            pub struct $name:ident {$($(#[$doc:meta])* pub $own:ident: $type:ty,)*}
        }
        $($field:ident: ($what:literal
            $(, $of:ident $kind:ident $metric:literal)? $(, $more:literal)?),)*
    ) => {
        $(#[$about])*
        pub struct $name {
            $($(#[$doc])* pub $own: $type,)*
            $(#[doc = concat!($what, ".")] #[serde(default)] pub $field: u64,)*
        }

        impl $name {
            /// Nothing but the counters.
            pub(crate) fn counted(stats: &cmwq::observe::$from) -> Self {
                $name { $($field: stats.$field,)* ..$name::default() }
            }
        }
    };
}

/// Everything about the workqueues of a process at one moment: the answer to `state`, from
/// [`Client::state`](crate::Client::state), and what `cmwq dump --format json` prints.
///
/// ```
/// use cmwq_control::protocol::State;
///
/// # let control = cmwq_control::serve()?;
/// # let answer = cmwq_control::Client::connect_to(control.path())?.state()?;
/// # let dump = serde_json::to_string(&answer)?;
/// let state: State = serde_json::from_str(&dump)?; // what `cmwq dump --format json` has printed
/// println!("process {} ({}) has {} engines", state.pid, state.name, state.engines.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// When, in ns on the monotonic clock: for rates.
    pub at_ns: u64,
    /// Each engine with its pools and queues.
    pub engines: Vec<Engine>,
    /// The limits that several queues share, the oldest first.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// Counters of the program's own, the oldest first.
    #[serde(default)]
    pub counters: Vec<Counter>,
}

/// A counter of the program's own, as a client sees what [`Counter::show`](crate::Counter::show)
/// has added: a part of a [`State`].
///
/// ```
/// let _shown = cmwq_control::Counter::show("requests", "Requests answered", || 7)?;
/// let control = cmwq_control::serve()?; // in the process that is watched
/// let state = cmwq_control::Client::connect_to(control.path())?.state()?;
/// let counter = &state.counters[0];
/// assert_eq!((counter.name.as_str(), counter.value), ("requests", 7));
/// # Ok::<(), cmwq_control::ControlError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub help: String,
    /// How many so far.
    pub value: u64,
}

/// A limit that several queues share, of one engine or of several: a part of a [`State`].
///
/// ```
/// let disks = cmwq::ConcurrencyGroup::new("disks", 2);
/// let _queue = cmwq::Workqueue::builder("io").group(&disks).build()?;
/// let control = cmwq_control::serve()?; // in the process that is watched
/// let state = cmwq_control::Client::connect_to(control.path())?.state()?;
/// let group = &state.groups[0];
/// assert_eq!((group.name.as_str(), group.max_active), ("disks", 2));
/// assert_eq!(group.queues, ["io"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its number in the process.
    pub serial: u64,
    /// Its name; other groups may have the same.
    pub name: String,
    /// How many items of its queues may be active.
    pub max_active: usize,
    /// Credits that its queues hold: those of active items, and some kept for the next items while
    /// no queue waits.
    pub held: usize,
    /// Waiters for a credit: queues, an unbound one once for each node where it waits.
    pub waiting: usize,
    /// The keys of its queues.
    pub queues: Vec<String>,
}

/// One engine with its parameters, pools and workqueues: a part of a [`State`].
///
/// ```
/// # let _queue = cmwq::Workqueue::builder("io").build()?;
/// let control = cmwq_control::serve()?; // in the process that is watched
/// let state = cmwq_control::Client::connect_to(control.path())?.state()?;
/// for engine in &state.engines {
///     println!("engine {} has {} workqueues", engine.serial, engine.queues.len());
///     println!("its cpu_limit is {}", engine.parameters["cpu_limit"]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Engine {
    /// Its number in the process.
    pub serial: u64,
    /// The CPUs that there can be, as a list such as `0-3,8`. All CPUs here are of the engine's topology.
    pub possible: String,
    /// Those of them that there are.
    pub cpus: String,
    /// The nodes and their CPUs.
    pub nodes: Vec<(u32, String)>,
    /// All parameters, as the kernel's files show them.
    pub parameters: BTreeMap<String, String>,
    /// The pods of every scope.
    pub scopes: Vec<Scope>,
    /// The pools.
    pub pools: Vec<Pool>,
    /// The queues.
    pub queues: Vec<Queue>,
    /// What the engine has counted, pools that are gone included.
    pub totals: Totals,
}

counters! { engine counted { with EngineStats
    /// What an engine has counted since it was built: a part of an [`Engine`]. Two answers give a
    /// rate.
    ///
    /// ```
    /// # let _queue = cmwq::Workqueue::builder("io").build()?;
    /// let control = cmwq_control::serve()?; // in the process that is watched
    /// let mut client = cmwq_control::Client::connect_to(control.path())?;
    /// let (before, after) = (client.state()?, client.state()?);
    /// let completed = [&before, &after].map(|state| state.engines[0].totals.completed);
    /// let ns = after.at_ns - before.at_ns;
    /// println!("{} items ended in {ns} ns", completed[1] - completed[0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Totals {
        /// Workers that exist.
        pub workers: u64,
    }
}}

/// How an affinity scope divides the CPUs into pods: a part of an [`Engine`].
///
/// ```
/// # let _queue = cmwq::Workqueue::builder("io").build()?;
/// let control = cmwq_control::serve()?; // in the process that is watched
/// let state = cmwq_control::Client::connect_to(control.path())?.state()?;
/// for scope in &state.engines[0].scopes {
///     for (cpus, _node) in &scope.pods {
///         println!("{}: CPUs {cpus} are one pod", scope.name);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// The scope's name.
    pub name: String,
    /// Each pod's CPUs, and its node.
    pub pods: Vec<(String, Option<u32>)>,
    /// By CPU number: an index into `pods`.
    pub cpu_pod: Vec<Option<usize>>,
}

counters! { pool counted { with PoolCounts
    /// A worker pool, with its workers and what they run: a part of an [`Engine`].
    ///
    /// ```
    /// # let _queue = cmwq::Workqueue::builder("io").build()?;
    /// let control = cmwq_control::serve()?; // in the process that is watched
    /// let state = cmwq_control::Client::connect_to(control.path())?.state()?;
    /// for pool in &state.engines[0].pools {
    ///     let (running, target) = (pool.running, pool.target);
    ///     println!("pool {}: {running} of {target} run, {} items wait", pool.id, pool.waiting);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Pool {
        /// Its number.
        pub id: u32,
        /// `unbound`, `percpu` or `bh`.
        pub kind: String,
        /// The CPU that it is for, if it is for one.
        pub cpu: Option<usize>,
        /// As the kernel's: 1 BH, 2 a worker is being created, 4 not bound to one CPU.
        #[serde(default)]
        pub flags: u32,
        /// The thread that creates a worker, while one is being created; 0: it has not begun.
        #[serde(default)]
        pub manager: Option<i32>,
        /// For how long, in ns, nothing has been started while something waits.
        #[serde(default)]
        pub hung_ns: Option<u64>,
        /// Shares of queues in it.
        pub users: usize,
        /// The nice level asked for.
        pub nice: i32,
        /// The nice level that its workers have.
        pub effective_nice: Option<i32>,
        /// The pod.
        pub pod_cpus: String,
        /// Where its items may run at all.
        pub cpus: String,
        /// Whether items stay in the pod.
        pub strict: bool,
        /// The node.
        pub node: Option<u32>,
        /// The real CPUs that its workers are bound to.
        pub binding: String,
        /// How many workers may run at a time, and how many do.
        pub target: usize,
        /// See `target`.
        pub running: usize,
        /// Items ready to run.
        pub waiting: usize,
        /// Its workers.
        pub workers: Vec<Worker>,
        /// What they run.
        pub runs: Vec<Run>,
    }
}}

/// A worker thread and what it does: a part of a [`Pool`].
///
/// ```
/// # let _queue = cmwq::Workqueue::builder("io").build()?;
/// let control = cmwq_control::serve()?; // in the process that is watched
/// let state = cmwq_control::Client::connect_to(control.path())?.state()?;
/// let pools = &state.engines[0].pools;
/// let workers = pools.iter().flat_map(|pool| &pool.workers);
/// let blocked = workers.filter(|worker| worker.doing == "blocked");
/// println!("{} workers are blocked", blocked.count());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// Its number in the pool.
    pub id: u32,
    /// Its thread.
    pub tid: i32,
    /// `starting`, `idle`, `searching`, `running`, `blocked`, `cpu_intensive` or `stealing`.
    pub doing: String,
}

/// An item that is running: a part of a [`Pool`].
///
/// ```
/// # let _queue = cmwq::Workqueue::builder("io").build()?;
/// let control = cmwq_control::serve()?; // in the process that is watched
/// let state = cmwq_control::Client::connect_to(control.path())?.state()?;
/// let runs = state.engines[0].pools.iter().flat_map(|pool| &pool.runs);
/// if let Some(run) = runs.max_by_key(|run| run.for_ns) {
///     println!("{} of {} has run for {} ns", run.function, run.queue, run.for_ns);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The thread that runs it.
    pub tid: i32,
    /// Whether that is a rescuer.
    pub rescuer: bool,
    /// The queue's name.
    pub queue: String,
    /// The function.
    pub function: String,
    /// The item's own description; otherwise the queue's name.
    #[serde(default)]
    pub description: String,
    /// For how long, in ns.
    pub for_ns: u64,
    /// What runs next on the same worker.
    pub behind_it: Vec<String>,
}

counters! { queue counted { with QueueStats
    /// A workqueue: its attributes, its limit, and what it has counted: a part of an [`Engine`].
    ///
    /// ```
    /// # let _queue = cmwq::Workqueue::builder("io").build()?;
    /// let control = cmwq_control::serve()?; // in the process that is watched
    /// let state = cmwq_control::Client::connect_to(control.path())?.state()?;
    /// let mut queues = state.engines[0].queues.iter();
    /// let queue = queues.find(|queue| queue.key == "io").expect("it exists");
    /// println!("{} items ended; nice is {}", queue.completed, queue.attributes["nice"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub struct Queue {
        /// Its number in the process.
        pub serial: u64,
        /// Its name.
        pub name: String,
        /// What commands take: the name, with `#serial` behind it where others have the same.
        pub key: String,
        /// `percpu`, `unbound`, `ordered` or `bh`.
        pub kind: String,
        /// The kind and the flags.
        pub flags: String,
        /// The attributes, as the kernel's files show them.
        pub attributes: BTreeMap<String, String>,
        /// The least that may be active on each node.
        pub min_active: usize,
        /// The limit.
        pub max_active: usize,
        /// The pool of each CPU, by number.
        pub cpu_pool: Vec<Option<u32>>,
        /// The pool of CPUs that have no pod.
        pub default_pool: Option<u32>,
        /// Node, active items, limit.
        pub nodes: Vec<(Option<u32>, usize, usize)>,
        /// The shares of pools: pool, active, inactive items.
        pub pwqs: Vec<(u32, usize, usize)>,
        /// The number of the group whose limit it shares.
        #[serde(default)]
        pub group: Option<u64>,
        /// The rescuer's thread and its CPUs.
        pub rescuer: Option<(i32, String)>,
        /// Calls of `queue()` that were timed.
        pub enqueue_timed: u64,
        /// Their median, in ns.
        pub enqueue_p50_ns: Option<u64>,
        /// 99 of 100 took no longer, in ns.
        pub enqueue_p99_ns: Option<u64>,
        /// How long its items wait and run.
        #[serde(default)]
        pub times: Times,
        /// How many of its items are queued and not started, and how many may be, if that is bounded.
        #[serde(default)]
        pub room: Option<(usize, usize)>,
    }
}}

/// How long items of a workqueue wait (from the call that queued them to their start) and run (to
/// their end), in ns, of a sample of them.
///
/// ```
/// # let _queue = cmwq::Workqueue::builder("io").build()?;
/// let control = cmwq_control::serve()?; // in the process that is watched
/// let state = cmwq_control::Client::connect_to(control.path())?.state()?;
/// for queue in &state.engines[0].queues {
///     if let Some(ns) = queue.times.wait_p99_ns {
///         println!("{}: 99 of 100 items waited no longer than {ns} ns", queue.key);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// Waits that were measured.
    pub waits: u64,
    /// Half of them took no longer.
    pub wait_p50_ns: Option<u64>,
    /// 99 of 100 took no longer.
    pub wait_p99_ns: Option<u64>,
    /// For how long the oldest of the sampled items that wait now has waited.
    pub longest_waiting_ns: Option<u64>,
    /// Runs that were measured.
    pub runs: u64,
    /// Half of them took no longer.
    pub run_p50_ns: Option<u64>,
    /// 99 of 100 took no longer.
    pub run_p99_ns: Option<u64>,
    /// For how long the oldest of the items that run now has run.
    pub longest_running_ns: Option<u64>,
}
