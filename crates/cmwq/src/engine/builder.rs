//! Building an engine, and the global one.

use super::watchdog::{self, Watchdog};
use super::{Cpus, Engine, EngineCore, PoolTable, state};
use crate::affinity::{AffinityScope, DEFAULT_SHARD_SIZE, effective_shard_size};
use crate::error::Error;
use crate::observe::warn;
use crate::pool::{Caretaker, Params, Service};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicU32, AtomicU64};
use crate::sys::fork::{self, ProcessLock, ProcessMutex};
use crate::sys::gate::Shared;
use crate::sys::sync::Mutex;
use crate::topology::{CpuSet, Topology, process_cpus};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a worker may be idle before it may be let go.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
const SHARD_SIZE_VARIABLE: &str = "CMWQ_CACHE_SHARD_SIZE";
const DEFAULT_SCOPE_VARIABLE: &str = "CMWQ_DEFAULT_AFFINITY_SCOPE";
const POWER_EFFICIENT_VARIABLE: &str = "CMWQ_POWER_EFFICIENT";
const FORCE_RR_VARIABLE: &str = "CMWQ_DEBUG_FORCE_RR_CPU";
pub(super) const FORCE_RR_WARNING: &str =
    "debug_force_rr_cpu is on: items that name no CPU are spread over all, expect to lose speed";
const WATCHDOG_VARIABLE: &str = "CMWQ_WATCHDOG_THRESH";

/// Builds an [`Engine`]. What is not set comes from the environment (`CMWQ_TOPOLOGY`, `CMWQ_CACHE_SHARD_SIZE`,
/// `CMWQ_DEFAULT_AFFINITY_SCOPE`, `CMWQ_POWER_EFFICIENT`, `CMWQ_DEBUG_FORCE_RR_CPU`, `CMWQ_WATCHDOG_THRESH`), and what is not there
/// either from the machine and the kernel's defaults.
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct EngineBuilder {
    topology: Option<Topology>,
    shard_size: Option<usize>,
    default_scope: Option<AffinityScope>,
    wake_under_lock: bool,
    idle_timeout: Option<Duration>,
    power_efficient: Option<bool>,
    force_rr: Option<bool>,
    watchdog: Option<Duration>,
}

impl EngineBuilder {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// The machine to assume. An injected one may be larger than the real one: its CPUs are then mapped onto the real CPUs
    /// in equal blocks.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Cores per cache shard, 8 by default. 0 becomes 1 with a warning, as in the kernel.
    pub fn cache_shard_size(mut self, cores: usize) -> Self {
        self.shard_size = Some(cores);
        self
    }

    /// What scope `default` means at first: `cache_shard` unless said otherwise.
    pub fn default_affinity_scope(mut self, scope: AffinityScope) -> Self {
        self.default_scope = Some(scope);
        self
    }

    /// For comparison only: wake workers while the pool's lock is held, as kernels before 7.3 did.
    pub fn wake_under_lock(mut self, under_lock: bool) -> Self {
        self.wake_under_lock = under_lock;
        self
    }

    /// How long a worker may be idle before it may be let go: 300 s by default, as in the kernel.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// Makes per-CPU workqueues that are marked power efficient unbound ones. Off by default.
    pub fn power_efficient(mut self, on: bool) -> Self {
        self.power_efficient = Some(on);
        self
    }

    /// For finding code that wrongly assumes that its items run near it: items of unbound workqueues that name no CPU go
    /// round all of them. Off by default; said in a warning when on, as in the kernel.
    pub fn debug_force_rr_cpu(mut self, on: bool) -> Self {
        self.force_rr = Some(on);
        self
    }

    /// A pool that has work waiting and starts none of it for this long is reported; zero: never. 30 s by default.
    pub fn watchdog_threshold(mut self, threshold: Duration) -> Self {
        self.watchdog = Some(threshold);
        self
    }

    /// Builds the engine. No thread is started before its first workqueue is built.
    ///
    /// # Errors
    /// A topology that cannot be read or parsed; an environment variable that holds something else than what it may;
    /// `default` as the default scope.
    pub fn build(self) -> Result<Engine, Error> {
        let engine = self.assemble()?;
        engine.warn_of_parameters();
        Ok(engine)
    }

    /// Builds without warning: the caller may hold a lock.
    fn assemble(self) -> Result<Engine, Error> {
        let topology = match self.topology {
            Some(topology) => topology,
            None => Topology::detect()?,
        };
        let shard_size = match self.shard_size {
            Some(size) => size,
            None => variable(SHARD_SIZE_VARIABLE, "a whole number of cores", whole_number)?
                .unwrap_or(DEFAULT_SHARD_SIZE),
        };
        let default_scope = match self.default_scope {
            Some(scope) => scope,
            None => variable(
                DEFAULT_SCOPE_VARIABLE,
                "cpu, smt, cache, cache_shard, numa, system",
                |text| {
                    text.parse()
                        .ok()
                        .filter(|&scope| scope != AffinityScope::Default)
                },
            )?
            .unwrap_or(AffinityScope::INITIAL_DEFAULT),
        };
        let default_scope = AffinityScope::CONCRETE
            .iter()
            .position(|&s| s == default_scope)
            .ok_or(Error::DefaultScope)?;
        let power_efficient = match self.power_efficient {
            Some(on) => on,
            None => variable(POWER_EFFICIENT_VARIABLE, "0, 1", switch)?.unwrap_or(false),
        };
        let force_rr = match self.force_rr {
            Some(on) => on,
            None => variable(FORCE_RR_VARIABLE, "0, 1", switch)?.unwrap_or(false),
        };
        let watchdog = match self.watchdog {
            Some(threshold) => threshold,
            None => variable(WATCHDOG_VARIABLE, "a whole number of seconds", whole_number)?
                .map_or(watchdog::THRESHOLD, |seconds| {
                    Duration::from_secs(seconds as u64)
                }),
        };
        let usable = usable_cpus(&topology);
        let cpus = Cpus::new(&topology, usable.clone(), topology.cpus().clone(), force_rr);
        // The service thread may run wherever the process could, so that it sees CPUs come back.
        let service = Service::new(match topology.is_injected() {
            true => usable,
            false => usable.union(&topology.possible().difference(topology.online())),
        });
        static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);
        let core = Arc::new(EngineCore {
            serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
            born: fork::generation(),
            cpus: Shared::new(Arc::new(cpus)),
            cpus_change: Mutex::new(()),
            shard_size: effective_shard_size(shard_size),
            shard_size_was_0: shard_size == 0,
            default_scope: AtomicU32::new(default_scope as u32),
            pods: Default::default(),
            pools: Mutex::new(PoolTable::default()),
            queues: Mutex::new(Vec::new()),
            default_scope_change: Mutex::new(()),
            service: service.clone(),
            params: Arc::new(Params::default()),
            power_efficient,
            frozen: Mutex::new(false),
            watchdog: Watchdog::new(watchdog),
            wake_under_lock: self.wake_under_lock,
            idle_timeout_ns: u64::try_from(self.idle_timeout.unwrap_or(IDLE_TIMEOUT).as_nanos())
                .unwrap_or(u64::MAX / 2),
            topology,
        });
        let caretaker: Weak<dyn Caretaker> = Arc::<EngineCore>::downgrade(&core);
        service.set_caretaker(caretaker);
        state::enter(&core);
        Ok(Engine(core))
    }

    /// Builds the engine and makes it the process's [global](Engine::global) one: the way to set `cache_shard_size` or
    /// a topology for the whole process, before first use.
    ///
    /// # Errors
    /// As [`build`](Self::build), and [`Error::AlreadyInUse`] if the global engine exists.
    pub fn build_global(self) -> Result<Engine, Error> {
        let engine = {
            let mut global = GLOBAL.lock();
            if global.as_ref().is_some_and(|engine| !engine.is_inherited()) {
                return Err(Error::AlreadyInUse);
            }
            global.insert(self.assemble()?).clone()
        };
        engine.warn_of_parameters();
        Ok(engine)
    }
}

impl Engine {
    fn warn_of_parameters(&self) {
        if self.0.shard_size_was_0 {
            warn("cache_shard_size 0 is not possible: 1 is used");
        }
        if self.debug_force_rr_cpu() {
            warn(FORCE_RR_WARNING);
        }
    }
}

static GLOBAL: ProcessMutex<Option<Engine>> =
    ProcessMutex::new(ProcessLock::GlobalEngine, None, || GLOBAL.hold());

pub(super) fn global() -> Result<Engine, Error> {
    let engine = {
        let mut global = GLOBAL.lock();
        // A fork's child gets one of its own.
        if let Some(engine) = global.as_ref().filter(|engine| !engine.is_inherited()) {
            return Ok(engine.clone());
        }
        global.insert(EngineBuilder::new().assemble()?).clone()
    };
    // The handler of warnings may use the engine.
    engine.warn_of_parameters();
    Ok(engine)
}

/// Real CPUs that threads of this process can be bound to, whichever thread asks.
fn usable_cpus(topology: &Topology) -> CpuSet {
    if !topology.is_injected() {
        return topology.allowed().intersection(topology.online());
    }
    match process_cpus() {
        Ok(cpus) if !cpus.is_empty() => cpus,
        _ => CpuSet::from_iter([0]),
    }
}

/// Digits only: no sign, no blank.
fn whole_number(text: &str) -> Option<usize> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn variable<T>(
    name: &'static str,
    allowed: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Error> {
    // Empty counts as unset.
    let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let text = value.to_str();
    match text.and_then(parse) {
        Some(value) => Ok(Some(value)),
        None => Err(Error::Variable {
            name,
            value: value.to_string_lossy().into_owned(),
            allowed,
        }),
    }
}
