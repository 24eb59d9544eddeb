//! The builder of an engine.
#![forbid(unsafe_code)]

use crate::engine::parts::limit::CpuLimit;
use crate::pool::WorkerThreads;
use crate::topology::{CpuSet, Topology};
use cmwq_topology::affinity::AffinityScope;
use std::time::Duration;

/// Sets up an [`Engine`](crate::Engine): the machine that it assumes, its limits and its
/// thresholds.
///
/// What the program does not set comes from the environment (`CMWQ_TOPOLOGY`, and the variables of
/// [`Engine::parameter_settings`](crate::Engine::parameter_settings)), otherwise from the machine
/// and the kernel's defaults.
///
/// ```
/// use cmwq::Engine;
/// use std::time::Duration;
///
/// // An engine for tests, apart from the process's own.
/// let engine = Engine::builder()
///     .cache_shard_size(4)
///     .watchdog_threshold(Duration::from_secs(5))
///     .build()?;
/// let queue = engine.workqueue("under test").build()?;
/// assert_eq!(queue.spawn(|| 6 * 7).join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct EngineBuilder {
    pub(in crate::engine) topology: Option<Topology>,
    pub(in crate::engine) shard_size: Option<usize>,
    pub(in crate::engine) default_scope: Option<AffinityScope>,
    pub(in crate::engine) idle_timeout: Option<Duration>,
    pub(in crate::engine) power_efficient: Option<bool>,
    pub(in crate::engine) force_rr: Option<bool>,
    pub(in crate::engine) watchdog: Option<Duration>,
    pub(in crate::engine) cpu_limit: Option<CpuLimit>,
    pub(in crate::engine) mix_core_kinds: Option<bool>,
    pub(in crate::engine) cpu_intensive: Option<Duration>,
    pub(in crate::engine) cpu_intensive_warnings: Option<u32>,
    pub(in crate::engine) unbound_cpus: Option<CpuSet>,
    pub(in crate::engine) panic_on_stall: Option<u32>,
    pub(in crate::engine) panic_on_stall_time: Option<Duration>,
    pub(in crate::engine) threads: Option<WorkerThreads>,
}

impl EngineBuilder {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets the machine to assume, for tests and benchmarks. It may be larger than the real one:
    /// its CPUs are then mapped onto the real CPUs in equal blocks.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Sets about how many cores make up a cache shard, the default pod: 8 if it is not set. 0
    /// becomes 1 with a warning, as in the kernel.
    ///
    /// ```
    /// let engine = cmwq::Engine::builder().cache_shard_size(4).build()?;
    /// assert_eq!(engine.cache_shard_size(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cache_shard_size(mut self, cores: usize) -> Self {
        self.shard_size = Some(cores);
        self
    }

    /// Sets whether a cache shard may hold cores of several kinds, such as fast and slow ones, on a
    /// machine that has them ([`Topology::core_kinds`]). The kernel's shards may. By default this
    /// library's may not, so that an item takes equally long on each core of a shard.
    ///
    /// ```
    /// let engine = cmwq::Engine::builder().mix_core_kinds(true).build()?;
    /// assert!(engine.mixes_core_kinds());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mix_core_kinds(mut self, on: bool) -> Self {
        self.mix_core_kinds = Some(on);
        self
    }

    /// Sets the affinity scope of queues that choose none: `cache_shard` if it is not set.
    ///
    /// ```
    /// use cmwq::{Engine, affinity::AffinityScope};
    ///
    /// let engine = Engine::builder().default_affinity_scope(AffinityScope::Numa).build()?;
    /// assert_eq!(engine.default_affinity_scope(), AffinityScope::Numa);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn default_affinity_scope(mut self, scope: AffinityScope) -> Self {
        self.default_scope = Some(scope);
        self
    }

    /// Sets how long a worker may be idle before its thread may end: 300 s by default, as in the
    /// kernel. A time of more than 146 years is cut to 146 years.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let engine = cmwq::Engine::builder().idle_timeout(Duration::from_secs(10)).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// Makes workqueues that are marked [power efficient](crate::WorkqueueBuilder::power_efficient)
    /// unbound instead of per-CPU. They are per-CPU by default.
    ///
    /// ```
    /// let engine = cmwq::Engine::builder().power_efficient(true).build()?;
    /// assert!(engine.is_power_efficient());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn power_efficient(mut self, on: bool) -> Self {
        self.power_efficient = Some(on);
        self
    }

    /// Sends items of unbound workqueues that name no CPU to all CPUs in turn. This finds code that
    /// wrongly assumes that its items run near the CPU that they were queued from. It is off by
    /// default; as in the kernel, the engine warns when it is on.
    ///
    /// ```
    /// let engine = cmwq::Engine::builder().debug_force_rr_cpu(true).build()?;
    /// assert!(engine.debug_force_rr_cpu());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn debug_force_rr_cpu(mut self, on: bool) -> Self {
        self.force_rr = Some(on);
        self
    }

    /// Sets for how long a pool may have work waiting and start none of it before the engine
    /// reports the pool. Items that wait that long because of `max_active` are reported as well.
    /// Zero turns the reports off. The default is 30 s.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let engine = cmwq::Engine::builder().watchdog_threshold(Duration::from_secs(5)).build()?;
    /// assert_eq!(engine.watchdog_threshold(), Duration::from_secs(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watchdog_threshold(mut self, threshold: Duration) -> Self {
        self.watchdog = Some(threshold);
        self
    }

    /// Sets how many workers may run at once, over all pools. By default that is the CPU quota of
    /// the process's cgroup, if it is below the number of the process's CPUs.
    /// [`Engine::set_cpu_limit`](crate::Engine::set_cpu_limit) changes it.
    ///
    /// ```
    /// use cmwq::Engine;
    /// use cmwq::types::CpuLimit;
    ///
    /// let engine = Engine::builder().cpu_limit(CpuLimit::None).build()?; // ignores a CPU quota
    /// assert_eq!(engine.cpu_limit(), CpuLimit::None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cpu_limit(mut self, limit: CpuLimit) -> Self {
        self.cpu_limit = Some(limit);
        self
    }

    /// Sets how long an item may use the CPU before the pool starts others beside it. Zero means
    /// that the pool never does. The default is 10 ms. See
    /// [`Engine::cpu_intensive_threshold`](crate::Engine::cpu_intensive_threshold).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let engine = cmwq::Engine::builder().cpu_intensive_threshold(Duration::from_millis(2)).build()?;
    /// assert_eq!(engine.cpu_intensive_threshold(), Duration::from_millis(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cpu_intensive_threshold(mut self, threshold: Duration) -> Self {
        self.cpu_intensive = Some(threshold);
        self
    }

    /// Sets how often items of one function may use the CPU for longer than the
    /// [threshold](Self::cpu_intensive_threshold) before the engine reports the function. With 0 it
    /// never reports one. The default is 4. See
    /// [`Engine::cpu_intensive_warning_threshold`](crate::Engine::cpu_intensive_warning_threshold).
    ///
    /// ```
    /// let engine = cmwq::Engine::builder().cpu_intensive_warning_threshold(0).build()?; // no reports
    /// assert_eq!(engine.cpu_intensive_warning_threshold(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cpu_intensive_warning_threshold(mut self, count: u32) -> Self {
        self.cpu_intensive_warnings = Some(count);
        self
    }

    /// Sets the CPUs on which items of unbound workqueues may run at first, in the topology's
    /// numbers: all by default. If the topology has none of them, the engine warns and uses all.
    /// [`Engine::set_unbound_cpumask`](crate::Engine::set_unbound_cpumask) changes it.
    ///
    /// ```
    /// use cmwq::{Engine, topology::CpuSet};
    ///
    /// let cpus: CpuSet = "0".parse()?;
    /// let engine = Engine::builder().unbound_cpus(cpus.clone()).build()?;
    /// assert_eq!(engine.requested_unbound_cpumask(), cpus);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unbound_cpus(mut self, cpus: CpuSet) -> Self {
        self.unbound_cpus = Some(cpus);
        self
    }

    /// Sets at which report of a stalled pool (one that has work waiting and starts none of it) the
    /// process is aborted, counted from 1: see
    /// [`Engine::panic_on_stall`](crate::Engine::panic_on_stall). With 0, the default, it never is.
    ///
    /// ```
    /// let engine = cmwq::Engine::builder().panic_on_stall(3).build()?;
    /// assert_eq!(engine.panic_on_stall(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn panic_on_stall(mut self, reports: u32) -> Self {
        self.panic_on_stall = Some(reports);
        self
    }

    /// Sets for how long a pool may be stalled, that is, have work waiting and start none of it,
    /// before the process is aborted: see
    /// [`Engine::panic_on_stall_time`](crate::Engine::panic_on_stall_time). With zero, the default,
    /// it never is.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let engine = cmwq::Engine::builder().panic_on_stall_time(Duration::from_secs(600)).build()?;
    /// assert_eq!(engine.panic_on_stall_time(), Duration::from_secs(600));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn panic_on_stall_time(mut self, time: Duration) -> Self {
        self.panic_on_stall_time = Some(time);
        self
    }

    /// Sets hooks, names and stacks of the threads that run items. Workqueues that were
    /// [given](crate::WorkqueueBuilder::worker_threads) other settings use those.
    ///
    /// ```
    /// use cmwq::{Engine, WorkerThreads};
    ///
    /// let threads = WorkerThreads::new().stack_size(512 << 10);
    /// let engine = Engine::builder().worker_threads(threads).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn worker_threads(mut self, threads: WorkerThreads) -> Self {
        self.threads = Some(threads);
        self
    }
}
