//! Building an engine, and the global one.

use super::{CpuMap, Engine, EngineCore, PoolTable, gates};
use crate::affinity::{AffinityScope, DEFAULT_SHARD_SIZE, effective_shard_size};
use crate::error::Error;
use crate::observe::warn;
use crate::pool::Service;
use crate::sys::atomic::plain::AtomicU32;
use crate::sys::fork;
use crate::sys::sync::Mutex;
use crate::topology::{CpuSet, Topology, process_cpus};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How long a worker may be idle before it may be let go.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
const SHARD_SIZE_VARIABLE: &str = "CMWQ_CACHE_SHARD_SIZE";
const DEFAULT_SCOPE_VARIABLE: &str = "CMWQ_DEFAULT_AFFINITY_SCOPE";

/// Builds an [`Engine`]. What is not set comes from the environment (`CMWQ_TOPOLOGY`, `CMWQ_CACHE_SHARD_SIZE`,
/// `CMWQ_DEFAULT_AFFINITY_SCOPE`), and what is not there either from the machine and the kernel's defaults.
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct EngineBuilder {
    topology: Option<Topology>,
    shard_size: Option<usize>,
    default_scope: Option<AffinityScope>,
    wake_under_lock: bool,
    idle_timeout: Option<Duration>,
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
        let usable = usable_cpus(&topology);
        let unbound = topology.allowed().intersection(topology.online());
        fork::watch(|| gates().reset());
        Ok(Engine(Arc::new(EngineCore {
            born: fork::generation(),
            cpus: CpuMap::new(&topology, &usable),
            unbound,
            shard_size: effective_shard_size(shard_size),
            shard_size_was_0: shard_size == 0,
            default_scope: AtomicU32::new(default_scope as u32),
            pods: Default::default(),
            pools: Mutex::new(PoolTable::default()),
            queues: Mutex::new(Vec::new()),
            default_scope_change: Mutex::new(()),
            service: Service::new(usable),
            wake_under_lock: self.wake_under_lock,
            idle_timeout_ns: u64::try_from(self.idle_timeout.unwrap_or(IDLE_TIMEOUT).as_nanos())
                .unwrap_or(u64::MAX / 2),
            topology,
        })))
    }

    /// Builds the engine and makes it the process's [global](Engine::global) one: the way to set `cache_shard_size` or
    /// a topology for the whole process, before first use.
    ///
    /// # Errors
    /// As [`build`](Self::build), and [`Error::AlreadyInUse`] if the global engine exists.
    pub fn build_global(self) -> Result<Engine, Error> {
        let engine = {
            let mut global = GLOBAL.lock().unwrap_or_else(PoisonError::into_inner);
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
    }
}

static GLOBAL: std::sync::Mutex<Option<Engine>> = std::sync::Mutex::new(None);

pub(super) fn global() -> Result<Engine, Error> {
    let engine = {
        let mut global = GLOBAL.lock().unwrap_or_else(PoisonError::into_inner);
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
        return topology.allowed().clone();
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
