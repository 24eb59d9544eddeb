//! The builder of an engine.
#![forbid(unsafe_code)]

use crate::engine::parts::limit::CpuLimit;
use crate::pool::WorkerThreads;
use crate::topology::{CpuSet, Topology};
use cmwq_topology::affinity::AffinityScope;
use std::time::Duration;

/// Builds an [`Engine`](crate::Engine). What the program does not set comes from the environment (`CMWQ_TOPOLOGY`, and the variables of
/// [`Engine::parameter_settings`](crate::Engine::parameter_settings)), otherwise from the machine and the kernel's defaults.
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

    /// The machine to assume. An injected topology may be larger than the real machine: its CPUs are then mapped onto the real CPUs in equal blocks.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Cores per cache shard, 8 by default. 0 becomes 1 with a warning, as in the kernel.
    pub fn cache_shard_size(mut self, cores: usize) -> Self {
        self.shard_size = Some(cores);
        self
    }

    /// Whether a cache shard may hold cores of several kinds on a machine that has them ([`Topology::core_kinds`]), as the kernel's do. Off by
    /// default: an item then takes as long on each core of a shard.
    pub fn mix_core_kinds(mut self, on: bool) -> Self {
        self.mix_core_kinds = Some(on);
        self
    }

    /// What scope `default` means at first: `cache_shard` by default.
    pub fn default_affinity_scope(mut self, scope: AffinityScope) -> Self {
        self.default_scope = Some(scope);
        self
    }

    /// How long a worker may be idle before it may be culled: 300 s by default, as in the kernel. More than 146 years count as 146.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// Makes per-CPU workqueues that are marked power efficient unbound. Off by default.
    pub fn power_efficient(mut self, on: bool) -> Self {
        self.power_efficient = Some(on);
        self
    }

    /// Finds code that wrongly assumes that its items run near it: items of unbound workqueues that name no CPU go round all CPUs. Off by default;
    /// warns when on, as in the kernel.
    pub fn debug_force_rr_cpu(mut self, on: bool) -> Self {
        self.force_rr = Some(on);
        self
    }

    /// A pool that has work waiting and starts none of it for this long is reported. So are items that wait for `max_active` for as long. Zero:
    /// never. 30 s by default.
    pub fn watchdog_threshold(mut self, threshold: Duration) -> Self {
        self.watchdog = Some(threshold);
        self
    }

    /// How many workers may run at once, over all pools. By default the CPU quota of the process's cgroup, if that is below its CPUs.
    /// [`Engine::set_cpu_limit`](crate::Engine::set_cpu_limit) changes it.
    pub fn cpu_limit(mut self, limit: CpuLimit) -> Self {
        self.cpu_limit = Some(limit);
        self
    }

    /// How long an item may use the CPU before others are started beside it; zero: never. 10 ms by default. See
    /// [`Engine::cpu_intensive_threshold`](crate::Engine::cpu_intensive_threshold).
    pub fn cpu_intensive_threshold(mut self, threshold: Duration) -> Self {
        self.cpu_intensive = Some(threshold);
        self
    }

    /// How often a function is a CPU hog before it is reported; 0: never. 4 by default. See
    /// [`Engine::cpu_intensive_warning_threshold`](crate::Engine::cpu_intensive_warning_threshold).
    pub fn cpu_intensive_warning_threshold(mut self, count: u32) -> Self {
        self.cpu_intensive_warnings = Some(count);
        self
    }

    /// The CPUs on which items of unbound workqueues may run at first, in the topology's numbers: all by default. If the topology has none of them,
    /// the engine warns and uses all. [`Engine::set_unbound_cpumask`](crate::Engine::set_unbound_cpumask) changes it.
    pub fn unbound_cpus(mut self, cpus: CpuSet) -> Self {
        self.unbound_cpus = Some(cpus);
        self
    }

    /// Aborts the process at the report with this number of a pool that starts nothing: see
    /// [`Engine::panic_on_stall`](crate::Engine::panic_on_stall). 0, never, by default.
    pub fn panic_on_stall(mut self, reports: u32) -> Self {
        self.panic_on_stall = Some(reports);
        self
    }

    /// Aborts the process when a pool has started nothing for this long: see [`Engine::panic_on_stall_time`](crate::Engine::panic_on_stall_time).
    /// Zero, never, by default.
    pub fn panic_on_stall_time(mut self, time: Duration) -> Self {
        self.panic_on_stall_time = Some(time);
        self
    }

    /// Hooks, names and stacks of the threads that run items. Workqueues that were [given](crate::WorkqueueBuilder::worker_threads) other settings
    /// use those.
    pub fn worker_threads(mut self, threads: WorkerThreads) -> Self {
        self.threads = Some(threads);
        self
    }
}
