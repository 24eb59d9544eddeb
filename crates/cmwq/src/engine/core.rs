//! The engine itself: its machine, its pools by their keys, and its workqueues.

use crate::engine::parts::cpus::Cpus;
use crate::engine::parts::key::PoolKey;
use crate::engine::parts::limit::Limit;
use crate::engine::parts::registry::{Registry, epochs};
use crate::engine::parts::stats::EngineStats;
use crate::engine::parts::watchdog::Watchdog;
use crate::error::Error;
use crate::item::MOST_IN_BATCH;
use crate::pool::{Group, Params, Pool, PoolAttrs, PoolFor, Position, Service, WorkerThreads};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;
use crate::sys::epoch::{EpochPin, Shared};
use crate::sys::fork;
use crate::sys::map::HashMap;
use crate::sys::sync::Mutex;
use crate::topology::{CpuSet, Topology};
use cmwq_topology::affinity::{AffinityScope, Pods};
use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};

/// Owns the worker pools of one machine and the threads beside them. Most programs never name it:
/// [`Workqueue::builder`](crate::Workqueue::builder) uses the [global](Engine::global) engine.
/// Programs that assume another machine, such as tests and benchmarks, build their own. Engines
/// share nothing, not even pools of equal attributes.
///
/// Cloning gives another handle. The threads end when the last workqueue of an engine is destroyed and its last handle dropped.
///
/// ```
/// use cmwq::{Engine, Workqueue};
///
/// let queue = Workqueue::builder("io").build()?; // on the global engine
/// println!("{:?}", Engine::global()?.stats());
/// let apart = Engine::builder().build()?; // for a test: its own pools and threads
/// assert_eq!(apart.workqueue("test").build()?.spawn(|| 1).join()?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<EngineCore>);

// All issuers read it, and it is hardly ever written: no written data may share its cache lines.
#[repr(align(128))]
pub(crate) struct EngineCore {
    pub(in crate::engine) serial: u64,
    pub(in crate::engine) topology: Topology,
    /// The fork generation of the process that built it.
    pub(in crate::engine) born: u32,
    pub(in crate::engine) cpus: Shared<Cpus>,
    /// Serialises changes of `cpus`.
    pub(in crate::engine) cpus_change: Mutex<()>,
    pub(in crate::engine) shard_size: usize,
    /// Warnings about its parameters, for once it is in place.
    pub(in crate::engine) warnings: Box<[String]>,
    /// The [index](AffinityScope::index) of a scope that is not `default`.
    pub(in crate::engine) default_scope: AtomicU32,
    /// By the scope's index.
    pub(in crate::engine) pods: [OnceLock<Pods>; AffinityScope::ALL.len()],
    pub(in crate::engine) pools: Mutex<PoolTable>,
    pub(in crate::engine) queues: Mutex<Vec<Weak<dyn Queue>>>,
    /// Serialises changes of the default scope.
    pub(in crate::engine) default_scope_change: Mutex<()>,
    pub(in crate::engine) service: Arc<Service>,
    pub(in crate::engine) params: Arc<Params>,
    /// The limit on the workers that run at once.
    pub(in crate::engine) limit: Mutex<Limit>,
    /// Per-CPU queues marked power efficient are unbound.
    pub(in crate::engine) power_efficient: bool,
    /// Cache shards may hold cores of several kinds.
    pub(in crate::engine) mix_core_kinds: bool,
    /// Freezable queues start nothing new. Locked while queues are notified.
    pub(in crate::engine) frozen: Mutex<bool>,
    pub(in crate::engine) watchdog: Watchdog,
    pub(in crate::engine) idle_timeout_ns: u64,
    /// The settings of threads of queues that have none of their own.
    pub(in crate::engine) threads: Option<WorkerThreads>,
}

/// What the engine needs of its workqueues.
pub(crate) trait Queue: Send + Sync {
    /// The identity of the workqueue, for comparing only.
    fn id(&self) -> usize;
    fn name(&self) -> &str;
    /// For the front end, which knows the concrete type.
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    /// The default scope has changed.
    fn follow_default_scope(self: Arc<Self>);
    /// CPUs have come or gone, or the unbound mask has changed.
    fn follow_cpus(self: Arc<Self>);
    /// Only freezable queues react.
    fn set_frozen(&self, frozen: bool);
    /// Freezable, and some of its items are active.
    fn is_freezing(&self) -> bool;
}

/// What the pools of a group have in common: nice level, CPUs, and the settings of their threads.
/// These by their address, since an entry whose pools are gone is removed under the table's lock,
/// where no destructor of the program's may run. A group that exists has pools, which keep the
/// address from being reused.
pub(in crate::engine) type GroupName = (i32, CpuSet, Option<usize>);

#[derive(Default)]
pub(in crate::engine) struct PoolTable {
    pub(in crate::engine) pools: HashMap<PoolKey, PoolEntry>,
    pub(in crate::engine) groups: HashMap<GroupName, Weak<Group<Pool>>>,
    /// The counts of pools that are gone.
    pub(in crate::engine) retired: EngineStats,
}

impl PoolTable {
    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        let entries = self.pools.values();
        entries.map(|entry| entry.pool.clone()).collect()
    }

    /// The pools that steal from each other, for a new pool of `key` to join.
    fn group_of(&mut self, key: &PoolKey) -> Arc<Group<Pool>> {
        let Some(effective) = &key.effective else {
            return Group::new();
        };
        let threads = key.threads.as_ref().map(WorkerThreads::address);
        let name = (key.nice, effective.clone(), threads);
        if let Some(group) = self.groups.get(&name).and_then(Weak::upgrade) {
            return group;
        }
        let group = Group::new();
        self.groups.retain(|_, group| group.strong_count() > 0);
        self.groups.insert(name, Arc::downgrade(&group));
        group
    }
}

pub(in crate::engine) struct PoolEntry {
    pub(in crate::engine) pool: Arc<Pool>,
    /// How many pool workqueues use the pool.
    pub(in crate::engine) users: usize,
}

impl Drop for EngineCore {
    fn drop(&mut self) {
        // In a fork's child the service thread is gone; its lock may be held for ever.
        if self.born != fork::generation() {
            return;
        }
        self.service.stop();
    }
}

impl Engine {
    /// Returns the description of the machine that the engine assumes.
    ///
    /// ```
    /// println!("{} CPUs", cmwq::Engine::global()?.topology().cpus().len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn topology(&self) -> &Topology {
        &self.0.topology
    }

    /// About how many cores make up a cache shard (the kernel's `cache_shard_size`). It is fixed
    /// when the engine is built.
    ///
    /// ```
    /// assert!(cmwq::Engine::global()?.cache_shard_size() >= 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cache_shard_size(&self) -> usize {
        self.0.shard_size
    }

    /// Whether cache shards may hold cores of several kinds. Fixed when the engine is built.
    pub fn mixes_core_kinds(&self) -> bool {
        self.0.mix_core_kinds
    }

    /// The scope that stands for [`AffinityScope::Default`] now.
    pub fn default_affinity_scope(&self) -> AffinityScope {
        AffinityScope::ALL[self.0.default_scope.load(Ordering::Relaxed) as usize]
    }

    /// Changes the default scope. Unordered workqueues whose scope is `default` follow at once: queued items finish on the old pools, later ones go
    /// to the new pools. Other workqueues are not touched.
    ///
    /// ```
    /// use cmwq::{Engine, affinity::AffinityScope};
    ///
    /// let engine = Engine::builder().build()?;
    /// engine.set_default_affinity_scope(AffinityScope::Numa)?;
    /// assert_eq!(engine.default_affinity_scope(), AffinityScope::Numa);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DefaultScope`] if `scope` is itself `default`, as in the kernel; [`Error::Forked`].
    pub fn set_default_affinity_scope(&self, scope: AffinityScope) -> Result<(), Error> {
        self.must_be_ours()?;
        if scope == AffinityScope::Default {
            return Err(Error::DefaultScope);
        }
        let _one_at_a_time = self.0.default_scope_change.lock();
        self.0
            .default_scope
            .store(scope.index() as u32, Ordering::Relaxed);
        for queue in self.queues() {
            queue.follow_default_scope();
        }
        Ok(())
    }

    pub(crate) fn queues(&self) -> Vec<Arc<dyn Queue>> {
        let queues = self.0.queues.lock();
        queues.iter().filter_map(Weak::upgrade).collect()
    }

    /// The name of the queue with this id.
    pub(crate) fn queue_name(&self, id: usize) -> String {
        let queues = self.queues();
        let queue = queues.iter().find(|queue| queue.id() == id);
        queue.map_or_else(
            || "of another engine".to_owned(),
            |queue| queue.name().to_owned(),
        )
    }

    /// Returns the groups of CPUs that share a worker pool under a scope; `Default` is resolved
    /// now.
    ///
    /// ```
    /// use cmwq::{Engine, affinity::AffinityScope};
    ///
    /// for pod in Engine::global()?.pods(AffinityScope::Cache).pods() {
    ///     println!("{pod:?}"); // CPUs that share a worker pool
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pods(&self, scope: AffinityScope) -> &Pods {
        let scope = scope.or_default(self.default_affinity_scope());
        self.0.pods[scope.index()]
            .get_or_init(|| Pods::build(&self.0.topology, scope, self.0.shard_size))
    }

    /// Returns what the engine has counted since it was built. In the child of a fork: zeros, since
    /// the counts are the parent's.
    ///
    /// ```
    /// println!("{:?}", cmwq::Engine::global()?.stats());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> EngineStats {
        if self.is_inherited() {
            return EngineStats::default();
        }
        // In one section: a pool released in between would be in neither.
        let (mut sum, pools) = {
            let table = self.0.pools.lock();
            (table.retired, table.pools())
        };
        sum.pools = pools.len() as u64;
        for pool in &pools {
            let guard = pool.lock();
            sum.add(guard.stats());
            sum.workers += guard.nr_workers() as u64;
        }
        sum
    }

    /// Whether this process is a fork's child of the one that built this engine.
    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.0.born != fork::generation()
    }

    /// In a fork's child the engine is only memory, and its locks may be held for ever.
    pub(crate) fn must_be_ours(&self) -> Result<(), Error> {
        if self.is_inherited() {
            Err(Error::Forked)
        } else {
            Ok(())
        }
    }

    /// All pools, by their numbers.
    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        let mut pools = self.0.pools.lock().pools();
        pools.sort_by_key(|pool| pool.id);
        pools
    }

    /// All pools, by their numbers, each with the CPUs that its group may use (if it is in a group) and the number of its pool workqueues.
    pub(crate) fn pools_and_users(&self) -> Vec<(Arc<Pool>, Option<CpuSet>, usize)> {
        let mut pools: Vec<(Arc<Pool>, Option<CpuSet>, usize)> = {
            let table = self.0.pools.lock();
            let entries = table.pools.iter();
            entries
                .map(|(key, entry)| (entry.pool.clone(), key.effective.clone(), entry.users))
                .collect()
        };
        pools.sort_by_key(|(pool, ..)| pool.id);
        pools
    }

    pub(crate) fn service(&self) -> &Arc<Service> {
        &self.0.service
    }

    /// The CPUs as they are now, valid while the epoch is pinned.
    #[inline]
    pub(crate) fn cpus<'g>(&self, pin: &'g EpochPin<'_>) -> &'g Cpus {
        self.0.cpus.load(pin)
    }

    /// The CPUs as they are now, for callers off the fast path.
    pub(crate) fn cpus_now(&self) -> Arc<Cpus> {
        self.0.cpus.get(&epochs().pin(0))
    }

    /// The settings of threads of queues that have none of their own.
    pub(crate) fn params(&self) -> &Arc<Params> {
        &self.0.params
    }

    pub(crate) fn worker_threads(&self) -> Option<&WorkerThreads> {
        self.0.threads.as_ref()
    }

    /// Whether per-CPU workqueues that are marked power efficient are unbound.
    pub fn is_power_efficient(&self) -> bool {
        self.0.power_efficient
    }

    /// The pool for `key`, made if there is none yet. The caller uses it until it calls [`release_pool`](Self::release_pool).
    pub(crate) fn acquire_pool(&self, key: &PoolKey) -> Arc<Pool> {
        let mut table = self.0.pools.lock();
        if let Some(entry) = table.pools.get_mut(key) {
            entry.users += 1;
            return entry.pool.clone();
        }
        let group = table.group_of(key);
        let first_cpu = key.pod.first().unwrap_or(0);
        let attrs = PoolAttrs {
            kind: key.kind,
            nice: key.nice,
            strict: key.is_strict(),
            cpus: key.pod.clone(),
            position: Position {
                llc: self.0.topology.llc_of(first_cpu).unwrap_or(0),
                node: self.0.topology.node_of(first_cpu),
                first_cpu,
            },
            batch: match key.kind {
                // One by one, within the worker's budget.
                PoolFor::Bh(_) => 1,
                _ => MOST_IN_BATCH,
            },
            idle_timeout_ns: self.0.idle_timeout_ns,
            params: self.0.params.clone(),
            threads: key.threads.clone(),
        };
        let service = self.0.service.clone();
        // Under the table's lock: the thread that changes the CPUs finds the pool in the table, or the pool is made for the new CPUs.
        let binding = self.cpus_now().binding(key);
        let pool =
            Registry::process().add(|id| Pool::new(id, attrs, binding, service, group.clone()));
        group.join(&pool);
        table.pools.insert(
            key.clone(),
            PoolEntry {
                pool: pool.clone(),
                users: 1,
            },
        );
        pool
    }

    /// Ends a use of a pool. With its last use the pool goes: its workers exit.
    pub(crate) fn release_pool(&self, pool: &Arc<Pool>) {
        let mut table = self.0.pools.lock();
        let Some((key, entry)) = table
            .pools
            .iter_mut()
            .find(|(_, entry)| entry.pool.id == pool.id)
        else {
            return;
        };
        entry.users -= 1;
        if entry.users > 0 {
            return;
        }
        let key = key.clone();
        table.pools.remove(&key);
        let stats = pool.lock().stats();
        table.retired.add(stats);
        drop(table);
        pool.group().leave(pool);
        Registry::process().remove(pool);
        pool.shut_down();
    }

    /// From now on the queue is notified of changes.
    pub(crate) fn add_queue(&self, queue: &Arc<dyn Queue>) {
        // A queue made while frozen starts frozen.
        let frozen = self.0.frozen.lock();
        {
            let mut queues = self.0.queues.lock();
            queues.retain(|queue| queue.strong_count() > 0);
            queues.push(Arc::downgrade(queue));
        }
        if *frozen {
            queue.set_frozen(true);
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("cpus", &self.topology().cpus().to_string())
            .field("default_affinity_scope", &self.default_affinity_scope())
            .field("cache_shard_size", &self.cache_shard_size())
            .finish_non_exhaustive()
    }
}
