//! Threads that declare from which CPU they queue.

use super::core::Engine;
use super::parts::cpus;
use crate::error::Error;
use crate::sys::thread;
use crate::topology::CpuSet;
use std::marker::PhantomData;

/// Keeps the calling thread on one CPU, from which it queues, as long as the guard exists: see
/// [`Engine::become_issuer`].
///
/// ```
/// let engine = cmwq::Engine::global()?;
/// let queue = engine.workqueue("io").build()?;
/// let cpu = engine.usable_cpus().iter().next().expect("there is one");
/// let guard = engine.become_issuer(cpu)?;
/// queue.spawn(|| ()).join()?; // queued from that CPU
/// drop(guard); // the thread may use its other CPUs again
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the thread is an issuer of the CPU only while the guard lives"]
pub struct IssuerGuard {
    before: Option<CpuSet>,
    declared_before: usize,
    /// Keeps the guard on its thread: only that thread can restore its own binding.
    _not_send: PhantomData<*const ()>,
}

impl Engine {
    /// Binds the calling thread to the real CPU behind `cpu` and declares that it queues from
    /// `cpu`. Dropping the guard restores the earlier binding. This is for benchmarks, and for
    /// topologies that differ from the real machine.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the topology has no such CPU; [`Error::Binding`] if the system refuses.
    #[doc(hidden)]
    pub fn become_issuer(&self, cpu: usize) -> Result<IssuerGuard, Error> {
        let real = self
            .cpus_now()
            .real_of(cpu)
            .ok_or_else(|| self.no_such_cpu(cpu))?;
        let before = thread::current_binding().ok();
        thread::bind_current(&CpuSet::from_iter([real]))
            .map_err(|source| Error::Binding { cpu, source })?;
        let declared_before = cpus::declare(cpu + 1);
        Ok(IssuerGuard {
            before,
            declared_before,
            _not_send: PhantomData,
        })
    }

    pub(crate) fn no_such_cpu(&self, cpu: usize) -> Error {
        Error::NoSuchCpu {
            cpu,
            allowed: self.topology().cpus().to_string(),
        }
    }
}

impl Drop for IssuerGuard {
    fn drop(&mut self) {
        cpus::declare(self.declared_before);
        if let Some(before) = &self.before {
            // If the process may not use those CPUs any more, the thread stays where it is.
            let _ = thread::bind_current(before);
        }
    }
}

impl std::fmt::Debug for IssuerGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuerGuard").finish_non_exhaustive()
    }
}
