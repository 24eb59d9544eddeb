//! The engine itself: its machine, its pools by their keys, and its workqueues.

use crate::engine::parts::cpus::Cpus;
use crate::engine::parts::key::PoolKey;
use crate::engine::parts::limit::Limit;
use crate::engine::parts::registry::{Registry, epochs};
use crate::engine::parts::watchdog::Watchdog;
use crate::error::Error;
use crate::item::MOST_IN_BATCH;
use crate::pool::{
    EngineStats, Group, Params, Pool, PoolAttrs, PoolFor, Position, Service, WorkerThreads,
};
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
/// Cloning gives another handle. The threads end when the last workqueue of an engine is destroyed
/// and its last handle dropped.
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

// Every issuer reads this, and it is hardly ever written. Data that is written often must not share
// its cache lines.
#[repr(align(128))]
pub(crate) struct EngineCore {
    pub(in crate::engine) serial: u64,
    pub(in crate::engine) topology: Topology,
    /// The fork generation of the process that built the engine: a number that differs between a
    /// process and the children that it forks.
    pub(in crate::engine) born: u32,
    pub(in crate::engine) cpus: Shared<Cpus>,
    /// Serialises changes of `cpus`.
    pub(in crate::engine) cpus_change: Mutex<()>,
    pub(in crate::engine) shard_size: usize,
    /// The warnings about the engine's parameters. They are delivered when the engine is complete.
    pub(in crate::engine) warnings: Box<[String]>,
    /// The [index](AffinityScope::index) of the scope that stands for `default`. It is never that
    /// of `default` itself.
    pub(in crate::engine) default_scope: AtomicU32,
    /// The pods of each scope, indexed as the scopes are.
    pub(in crate::engine) pods: [OnceLock<Pods>; AffinityScope::ALL.len()],
    pub(in crate::engine) pools: Mutex<PoolTable>,
    pub(in crate::engine) queues: Mutex<Vec<Weak<dyn Queue>>>,
    /// Serialises changes of the default scope.
    pub(in crate::engine) default_scope_change: Mutex<()>,
    pub(in crate::engine) service: Arc<Service>,
    pub(in crate::engine) params: Arc<Params>,
    /// The limit on the workers that run at once.
    pub(in crate::engine) limit: Mutex<Limit>,
    /// Whether per-CPU queues that are marked power efficient are unbound.
    pub(in crate::engine) power_efficient: bool,
    /// Whether cache shards may hold cores of several kinds.
    pub(in crate::engine) mix_core_kinds: bool,
    /// Whether freezable queues start nothing new. The lock is held while the queues are notified.
    pub(in crate::engine) frozen: Mutex<bool>,
    pub(in crate::engine) watchdog: Watchdog,
    pub(in crate::engine) idle_timeout_ns: u64,
    /// The thread settings of queues that have none of their own.
    pub(in crate::engine) threads: Option<WorkerThreads>,
}

/// What the engine needs of its workqueues.
pub(crate) trait Queue: Send + Sync {
    /// The identity of the workqueue, for comparing only.
    fn id(&self) -> usize;
    fn name(&self) -> &str;
    /// Returns the queue as a value of any type, for the front end (`workqueue/`), which knows the
    /// concrete type.
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    /// The engine calls this when the default scope has changed.
    fn follow_default_scope(self: Arc<Self>);
    /// The engine calls this when CPUs have come or gone, or the unbound mask has changed.
    fn follow_cpus(self: Arc<Self>);
    /// Freezes or thaws the queue. Queues that are not freezable ignore the call.
    fn set_frozen(&self, frozen: bool);
    /// Whether the queue is freezable and some of its items are active.
    fn is_freezing(&self) -> bool;
}

/// What the pools of a group have in common: the nice level, the CPUs, and the settings of their
/// threads. The name holds the settings by their address: a name that owned them would drop them
/// when the table removes the entry of a group without pools, and a destructor of the program's
/// must not run under the table's lock. Another value cannot get the same address while the group
/// exists, because the pools of the group own the settings.
pub(in crate::engine) type GroupName = (i32, CpuSet, Option<usize>);

#[derive(Default)]
pub(in crate::engine) struct PoolTable {
    pub(in crate::engine) pools: HashMap<PoolKey, PoolEntry>,
    pub(in crate::engine) groups: HashMap<GroupName, Weak<Group<Pool>>>,
    /// The summed counts of pools that do not exist any more.
    pub(in crate::engine) retired: EngineStats,
}

impl PoolTable {
    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        let entries = self.pools.values();
        entries.map(|entry| entry.pool.clone()).collect()
    }

    /// Returns the group, the pools that steal from each other, that a new pool of `key` joins.
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
        // In the child of a fork there is no service thread to stop, and another thread of the
        // parent may have held the lock at the fork.
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

    /// Returns about how many cores make up a cache shard (the kernel's `cache_shard_size`). It is
    /// fixed when the engine is built.
    ///
    /// ```
    /// assert!(cmwq::Engine::global()?.cache_shard_size() >= 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cache_shard_size(&self) -> usize {
        self.0.shard_size
    }

    /// Whether cache shards may hold cores of several kinds. It is fixed when the engine is built.
    pub fn mixes_core_kinds(&self) -> bool {
        self.0.mix_core_kinds
    }

    /// The scope that stands for [`AffinityScope::Default`] now.
    pub fn default_affinity_scope(&self) -> AffinityScope {
        AffinityScope::ALL[self.0.default_scope.load(Ordering::Relaxed) as usize]
    }

    /// Changes the default scope. Unordered workqueues whose scope is `default` follow at once:
    /// queued items finish on the old pools, later ones go to the new pools. Other workqueues are
    /// not touched.
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

    /// Returns the name of the queue with this id.
    pub(crate) fn queue_name(&self, id: usize) -> String {
        let queues = self.queues();
        let queue = queues.iter().find(|queue| queue.id() == id);
        queue.map_or_else(
            || "of another engine".to_owned(),
            |queue| queue.name().to_owned(),
        )
    }

    /// Returns the pods of a scope: the groups of CPUs that share a worker pool. `Default` stands
    /// for the scope that is the default at the time of the call.
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
        // Both are read in one critical section: a pool that is released between two sections would
        // be counted in neither.
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

    /// Returns an error in the child of a fork: there the engine has no threads, and its locks may
    /// be held for ever.
    pub(crate) fn must_be_ours(&self) -> Result<(), Error> {
        if self.is_inherited() {
            Err(Error::Forked)
        } else {
            Ok(())
        }
    }

    /// Returns all pools in the order of their numbers.
    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        let mut pools = self.0.pools.lock().pools();
        pools.sort_by_key(|pool| pool.id);
        pools
    }

    /// Returns all pools in the order of their numbers, each with the CPUs that its group may use
    /// (if it is in a group) and with the number of pool workqueues that use it.
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

    /// Returns the CPUs as they are now. The reference is valid while the epoch is pinned.
    #[inline]
    pub(crate) fn cpus<'g>(&self, pin: &'g EpochPin<'_>) -> &'g Cpus {
        self.0.cpus.load(pin)
    }

    /// The CPUs as they are now, for callers off the fast path.
    pub(crate) fn cpus_now(&self) -> Arc<Cpus> {
        self.0.cpus.get(&epochs().pin(0))
    }

    /// Returns the parameters that all pools of the engine share.
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

    /// Returns the pool for `key`, and makes it if there is none. The caller uses the pool until it
    /// calls [`release_pool`](Self::release_pool).
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
                // A BH pool runs its items one by one.
                PoolFor::Bh(_) => 1,
                _ => MOST_IN_BATCH,
            },
            idle_timeout_ns: self.0.idle_timeout_ns,
            params: self.0.params.clone(),
            threads: key.threads.clone(),
        };
        let service = self.0.service.clone();
        // The binding is read under the lock of the table of pools. A thread that changes the CPUs
        // needs that lock too: either it finds the new pool in the table, or the pool is already
        // made for the new CPUs.
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

    /// Ends one use of a pool. When the last user has released the pool, it is removed from the
    /// table and its workers exit.
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

    /// Registers the queue: from now on the engine notifies it of changes.
    pub(crate) fn add_queue(&self, queue: &Arc<dyn Queue>) {
        // The lock keeps the state from changing here, so a queue that is made while the engine is
        // frozen starts frozen.
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
