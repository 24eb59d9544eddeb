//! Building an engine, and the global one.

use super::all;
use super::builder::EngineBuilder;
use super::core::{Engine, EngineCore, PoolTable};
use super::parameters::read_variables;
use crate::engine::parts::cpus::{Cpus, Set};
use crate::engine::parts::limit::{CpuLimit, Limit};
use crate::engine::parts::watchdog::{self, Watchdog};
use crate::error::Error;
use crate::pool::{Maintenance, Params, Service, WorkerThreads};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicU32, AtomicU64};
use crate::sys::epoch::Shared;
use crate::sys::fork::{self, ProcessLock, ProcessMutex};
use crate::sys::sync::Mutex;
use crate::sys::{clock, cpu};
#[cfg(not(cmwq_sim))]
use crate::sys::{fork::Side, thread};
use crate::topology::{CpuSet, Topology};
use crate::trace::{warn, warn_once};
use cmwq_topology::affinity::{AffinityScope, DEFAULT_SHARD_SIZE, effective_shard_size};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a worker may be idle before it may be culled.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// Warns, once in a process as the kernel does, that the engine sends unbound items to all CPUs in
/// turn.
pub(crate) fn warn_of_force_rr() {
    warn_once!(
        "debug_force_rr_cpu is on: items that name no CPU are spread over all, expect to lose speed"
    );
}

impl EngineBuilder {
    /// Makes the engine. No thread is started before its first workqueue is built.
    ///
    /// ```
    /// let engine = cmwq::Engine::builder().build()?;
    /// let queue = engine.workqueue("io").build()?;
    /// assert_eq!(queue.spawn(|| 6 * 7).join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Error::Topology`] if the description of the machine cannot be read or parsed;
    /// [`Error::Variable`] if an environment variable has a value that is not allowed;
    /// [`Error::DefaultScope`] if the default scope was set to `default`; [`Error::ThreadName`].
    pub fn build(self) -> Result<Engine, Error> {
        let engine = self.assemble()?;
        engine.warn_of_parameters();
        Ok(engine)
    }

    /// Builds the engine without warning, because the caller may hold a lock that the handler of
    /// warnings needs.
    pub(in crate::engine) fn assemble(mut self) -> Result<Engine, Error> {
        // From here on a fork waits for threads of the library that begin or end. This has to be
        // so before the first thread begins.
        #[cfg(not(cmwq_sim))]
        hold_threads_during_forks();
        self.threads.as_ref().map_or(Ok(()), WorkerThreads::check)?;
        let mut topology = match self.topology.take() {
            Some(topology) => topology,
            None => Topology::detect()?,
        };
        read_variables(&mut self)?;
        let mix_core_kinds = self.mix_core_kinds.unwrap_or(false);
        if mix_core_kinds {
            topology = topology.mixing_core_kinds();
        }
        let shard_size = self.shard_size.unwrap_or(DEFAULT_SHARD_SIZE);
        let default_scope = self.default_scope.unwrap_or(AffinityScope::INITIAL_DEFAULT);
        if default_scope == AffinityScope::Default {
            return Err(Error::DefaultScope);
        }
        let mut warnings = Vec::new();
        if shard_size == 0 {
            warnings.push("cache_shard_size 0 is not possible: 1 is used".to_owned());
        }
        let unbound_cpus = match &self.unbound_cpus {
            Some(wanted) => unbound_of(wanted, &topology, &mut warnings),
            None => topology.cpus().clone(),
        };
        let usable = usable_cpus(&topology);
        let set = Set {
            real: usable.clone(),
            requested: unbound_cpus,
            force_round_robin: self.force_rr.unwrap_or(false),
        };
        let cpus = Cpus::new(&topology, set);
        let (limit, params) = limited(self.cpu_limit.unwrap_or_default(), usable.len());
        let service = Service::new(service_cpus(&topology, usable));
        static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);
        let core = Arc::new(EngineCore {
            serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
            born: fork::generation(),
            cpus: Shared::new(Arc::new(cpus)),
            cpus_change: Mutex::new(()),
            shard_size: effective_shard_size(shard_size),
            warnings: warnings.into_boxed_slice(),
            default_scope: AtomicU32::new(default_scope.index() as u32),
            pods: Default::default(),
            pools: Mutex::new(PoolTable::default()),
            queues: Mutex::new(Vec::new()),
            default_scope_change: Mutex::new(()),
            service: service.clone(),
            params: Arc::new(params),
            limit: Mutex::new(limit),
            power_efficient: self.power_efficient.unwrap_or(false),
            mix_core_kinds,
            frozen: Mutex::new(false),
            watchdog: Watchdog::new(self.watchdog.unwrap_or(watchdog::THRESHOLD)),
            idle_timeout_ns: clock::saturated_ns(self.idle_timeout.unwrap_or(IDLE_TIMEOUT)),
            threads: self.threads,
            topology,
        });
        let maintenance: Weak<dyn Maintenance> = Arc::<EngineCore>::downgrade(&core);
        service.set_maintenance(maintenance);
        all::enter(&core);
        let engine = Engine(core);
        if let Some(threshold) = self.cpu_intensive {
            engine.set_cpu_intensive_threshold(threshold);
        }
        if let Some(count) = self.cpu_intensive_warnings {
            engine.set_cpu_intensive_warning_threshold(count);
        }
        engine.set_panic_on_stall(self.panic_on_stall.unwrap_or(0));
        engine.set_panic_on_stall_time(self.panic_on_stall_time.unwrap_or_default());
        Ok(engine)
    }

    /// Makes the engine and installs it as the process's [global](Engine::global) one. This sets
    /// `cache_shard_size` or a topology for the whole process, before first use.
    ///
    /// ```
    /// use cmwq::Engine;
    ///
    /// // In `main`, before the first workqueue:
    /// Engine::builder().cache_shard_size(16).build_global()?;
    /// assert_eq!(Engine::global()?.cache_shard_size(), 16);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    /// Begins an engine of its own, apart from the global one.
    ///
    /// ```
    /// let engine = cmwq::Engine::builder().build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> EngineBuilder {
        EngineBuilder::new()
    }

    /// Returns the process's engine, which is built at the first call: for this machine, or for the
    /// one that `CMWQ_TOPOLOGY` describes.
    ///
    /// ```
    /// println!("{} CPUs", cmwq::Engine::global()?.topology().cpus().len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`EngineBuilder::build`]. After an error the next call tries again.
    pub fn global() -> Result<Engine, Error> {
        global()
    }

    fn warn_of_parameters(&self) {
        self.0.warnings.iter().for_each(|text| warn(text));
        if self.debug_force_rr_cpu() {
            warn_of_force_rr();
        }
    }
}

static GLOBAL: ProcessMutex<Option<Engine>> =
    ProcessMutex::new(ProcessLock::GlobalEngine, None, || GLOBAL.hold());

pub(crate) fn global() -> Result<Engine, Error> {
    let engine = {
        let mut global = GLOBAL.lock();
        // In the child of a fork the global engine is the parent's, so the child builds its own.
        if let Some(engine) = global.as_ref().filter(|engine| !engine.is_inherited()) {
            return Ok(engine.clone());
        }
        global.insert(EngineBuilder::new().assemble()?).clone()
    };
    // The lock is released first, because the handler of warnings may use the engine.
    engine.warn_of_parameters();
    Ok(engine)
}

#[cfg(not(cmwq_sim))]
fn hold_threads_during_forks() {
    fork::hold_during_forks(ProcessLock::Threads, || {
        let resume = thread::hold_during_fork();
        Box::new(|side| resume(side == Side::Child))
    });
}

/// Returns the limit for a process that may use `cpus` CPUs, and the parameters of pools that obey
/// that limit.
fn limited(cpu_limit: CpuLimit, cpus: usize) -> (Limit, Params) {
    let (limit, params) = (Limit::new(cpu_limit), Params::default());
    params.cpu_budget.set(limit.share(cpus));
    params.slots.set_limit(limit.workers(cpus));
    (limit, params)
}

/// Returns all CPUs that the process could ever use. The service thread is bound to them, so that
/// its own mask shows when CPUs come back.
fn service_cpus(topology: &Topology, usable: CpuSet) -> CpuSet {
    match topology.is_injected() {
        true => usable,
        false => usable.union(&topology.possible().difference(topology.online())),
    }
}

/// The real CPUs that threads of this process can be bound to, whichever thread calls.
fn usable_cpus(topology: &Topology) -> CpuSet {
    if !topology.is_injected() {
        return topology.allowed().intersection(topology.online());
    }
    match cpu::process_cpus() {
        Ok(cpus) if !cpus.is_empty() => cpus,
        _ => CpuSet::from_iter([0]),
    }
}

/// Returns the CPUs on which unbound items may run at first. As in the kernel, a mask without any
/// CPU of the topology is ignored.
fn unbound_of(wanted: &CpuSet, topology: &Topology, warnings: &mut Vec<String>) -> CpuSet {
    let all = topology.cpus();
    let left = wanted.intersection(all);
    if left.is_empty() {
        warnings.push(format!(
            "unbound_cpus {wanted} has none of the CPUs {all} and is ignored"
        ));
        return all.clone();
    }
    left
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_times_are_the_kernels_unless_said_otherwise() {
        let core = EngineBuilder::new().assemble().unwrap().0;
        assert_eq!(core.idle_timeout_ns, 300_000_000_000);
        let engine = Engine(core);
        assert_eq!(engine.watchdog_threshold(), Duration::from_secs(30));
        assert_eq!(engine.panic_on_stall(), 0);
        assert_eq!(engine.panic_on_stall_time(), Duration::ZERO);
    }
}

#[cfg(all(test, not(cmwq_loom), not(cmwq_sim)))]
mod transit {
    #![allow(unsafe_code, reason = "a fork")]

    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    #[test]
    fn a_fork_waits_for_threads_that_begin_or_end() {
        let _engine = EngineBuilder::new().build().unwrap();
        let (transit, is_over) = (thread::Transit::begin(), Arc::new(AtomicBool::new(false)));
        let forks = std::thread::spawn({
            let is_over = is_over.clone();
            move || {
                let begun = Instant::now();
                // SAFETY: the child ends at once.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: as above.
                    unsafe { libc::_exit(0) };
                }
                let waited =
                    is_over.load(Ordering::SeqCst) || begun.elapsed() >= thread::LONGEST_TRANSIT;
                // SAFETY: the child is the caller's.
                let ended = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
                assert_eq!(ended, child);
                waited
            }
        });
        // A fork that does not wait for the thread in transit would have ended by then.
        (0..1000).for_each(|_| std::thread::yield_now());
        is_over.store(true, Ordering::SeqCst);
        drop(transit);
        assert!(forks.join().unwrap());
    }
}
