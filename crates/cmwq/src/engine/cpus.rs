//! Which CPU an issuer queues from, and which real CPU stands behind a CPU of the topology.

use super::Engine;
use crate::error::Error;
use crate::sys::{cpu, thread};
use crate::topology::{CpuSet, Topology};
use std::cell::Cell;
use std::marker::PhantomData;

/// Between the CPU numbers of the topology and those of the machine that the process runs on. The same, unless the
/// topology was injected: then the topology's CPUs are spread over the real ones in blocks, neighbours staying neighbours.
pub(super) struct CpuMap {
    /// By CPU of the topology.
    real: Vec<Option<usize>>,
    /// By real CPU: the first CPU of the topology that it stands for. `None`: the numbers are the same.
    back: Option<Vec<Option<usize>>>,
}

impl CpuMap {
    pub(super) fn new(topology: &Topology, usable: &CpuSet) -> CpuMap {
        let mut real = vec![None; topology.max_cpu() + 1];
        if !topology.is_injected() {
            for cpu in topology.cpus().iter() {
                real[cpu] = Some(cpu);
            }
            return CpuMap { real, back: None };
        }
        let usable: Vec<usize> = usable.iter().collect();
        let total = topology.cpus().len();
        let mut back = vec![None; usable.last().map_or(0, |last| last + 1)];
        for (index, cpu) in topology.cpus().iter().enumerate() {
            // Fewer than there are real ones: one each. More: in equal blocks.
            let at = if total <= usable.len() {
                index
            } else {
                index * usable.len() / total
            };
            let behind = usable[at];
            real[cpu] = Some(behind);
            back[behind].get_or_insert(cpu);
        }
        CpuMap {
            real,
            back: Some(back),
        }
    }

    /// The real CPUs behind `cpus`.
    pub(super) fn binding(&self, cpus: &CpuSet) -> CpuSet {
        cpus.iter().filter_map(|cpu| self.real(cpu)).collect()
    }

    pub(super) fn real(&self, cpu: usize) -> Option<usize> {
        self.real.get(cpu).copied().flatten()
    }

    #[inline]
    fn of_real(&self, real: usize) -> Option<usize> {
        match &self.back {
            None => Some(real),
            Some(back) => back.get(real).copied().flatten(),
        }
    }
}

thread_local! {
    /// The CPU that this thread said it queues from (its number plus one; 0: it said nothing).
    static DECLARED: Cell<usize> = const { Cell::new(0) };
}

/// The CPU that the calling thread queues from, in the topology's numbers, and the real one it is on.
#[inline]
pub(super) fn issuing(map: &CpuMap) -> (Option<usize>, usize) {
    let real = cpu::current().unwrap_or(0);
    match DECLARED.get() {
        0 => (map.of_real(real), real),
        declared => (Some(declared - 1), real),
    }
}

/// The calling thread queues from one CPU and is bound to it, until this is dropped.
#[must_use = "the thread is an issuer of the CPU only while the guard lives"]
pub struct IssuerGuard {
    before: Option<CpuSet>,
    declared_before: usize,
    /// Belongs to its thread.
    _not_send: PhantomData<*const ()>,
}

impl Engine {
    /// Binds the calling thread to the real CPU behind `cpu` and declares that it queues from `cpu`, until the guard is
    /// dropped; then its earlier binding is restored. For benchmarks, and for topologies that were injected.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the topology has no such CPU; [`Error::Binding`] if the system refuses.
    pub fn become_issuer(&self, cpu: usize) -> Result<IssuerGuard, Error> {
        let real = self
            .core()
            .cpus
            .real(cpu)
            .ok_or_else(|| self.no_such_cpu(cpu))?;
        let before = thread::current_binding().ok();
        thread::bind_current(&CpuSet::from_iter([real]))
            .map_err(|source| Error::Binding { cpu, source })?;
        let declared_before = DECLARED.replace(cpu + 1);
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
        DECLARED.set(self.declared_before);
        if let Some(before) = &self.before {
            // The CPUs may have been taken from the process meanwhile: then it stays where it is.
            let _ = thread::bind_current(before);
        }
    }
}

impl std::fmt::Debug for IssuerGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuerGuard").finish_non_exhaustive()
    }
}
