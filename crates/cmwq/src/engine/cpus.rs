//! Which CPUs there are to run on, which CPU an issuer queues from, and which real CPU stands behind a CPU of the topology.
//!
//! All of it can change while the process runs: CPUs go offline and come back, a cpuset shrinks, somebody calls `taskset`.
//! So it is one immutable value that is replaced as a whole.

use super::{Engine, PoolKey};
use crate::error::Error;
use crate::pool::{Binding, PoolKind};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicBool;
use crate::sys::{cpu, thread};
use crate::topology::{CpuSet, Topology};
use std::cell::Cell;
use std::marker::PhantomData;

/// Between the CPU numbers of the topology and those of the machine that the process runs on. The same, unless the
/// topology was injected: then the topology's CPUs are spread over the real ones in blocks, neighbours staying neighbours.
struct CpuMap {
    /// By CPU of the topology.
    real: Vec<Option<usize>>,
    /// By real CPU: the first CPU of the topology that it stands for. `None`: the numbers are the same.
    back: Option<Vec<Option<usize>>>,
}

impl CpuMap {
    fn new(topology: &Topology, usable: &CpuSet) -> CpuMap {
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
    fn binding(&self, cpus: &CpuSet) -> CpuSet {
        cpus.iter().filter_map(|cpu| self.real(cpu)).collect()
    }

    fn real(&self, cpu: usize) -> Option<usize> {
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

/// The CPUs as they are now.
// All issuers read it, and it is hardly ever written: nothing that is may lie on its lines.
#[repr(align(128))]
pub(crate) struct Cpus {
    map: CpuMap,
    /// CPUs of the machine that the process may use.
    real: CpuSet,
    /// CPUs of the topology that may be used.
    usable: CpuSet,
    /// Where unbound items may run, as it was asked for.
    requested: CpuSet,
    /// Where unbound items may run: what was asked for as far as it is usable, or all that is.
    unbound: CpuSet,
    /// Unbound items that name no CPU go round.
    force_round_robin: bool,
}

impl Cpus {
    /// `real`: CPUs of the machine that the process may use.
    pub(super) fn new(
        topology: &Topology,
        real: CpuSet,
        requested: CpuSet,
        force_round_robin: bool,
    ) -> Cpus {
        let usable = if topology.is_injected() {
            topology.allowed().intersection(topology.online())
        } else {
            topology.cpus().intersection(&real)
        };
        let wanted = requested.intersection(&usable);
        Cpus {
            map: CpuMap::new(topology, &real),
            real,
            unbound: if wanted.is_empty() {
                usable.clone()
            } else {
                wanted
            },
            usable,
            requested,
            force_round_robin,
        }
    }

    /// The same, with other real CPUs.
    pub(super) fn on(&self, topology: &Topology, real: CpuSet) -> Cpus {
        Cpus::new(
            topology,
            real,
            self.requested.clone(),
            self.force_round_robin,
        )
    }

    /// The same, with another unbound mask.
    pub(super) fn for_unbound(&self, topology: &Topology, requested: CpuSet) -> Cpus {
        Cpus::new(
            topology,
            self.real.clone(),
            requested,
            self.force_round_robin,
        )
    }

    /// The same, with unbound items that name no CPU going round or not.
    pub(super) fn forcing(&self, topology: &Topology, force_round_robin: bool) -> Cpus {
        Cpus::new(
            topology,
            self.real.clone(),
            self.requested.clone(),
            force_round_robin,
        )
    }

    pub(super) fn forces_round_robin(&self) -> bool {
        self.force_round_robin
    }

    pub(super) fn real(&self) -> &CpuSet {
        &self.real
    }

    pub(crate) fn unbound(&self) -> &CpuSet {
        &self.unbound
    }

    /// CPUs of the topology that may be used now.
    pub(crate) fn usable(&self) -> &CpuSet {
        &self.usable
    }

    pub(super) fn requested(&self) -> &CpuSet {
        &self.requested
    }

    /// Where the workers of a pool run, and how many at a time. The pool of a CPU that may not be used goes on elsewhere, as an
    /// unbound one.
    pub(super) fn binding(&self, key: &PoolKey) -> Binding {
        let cpus = match key.kind {
            PoolKind::PerCpu(cpu) | PoolKind::Bh(cpu) if !self.usable.contains(cpu) => {
                &self.unbound
            }
            _ => &key.pod,
        };
        let target = match key.kind {
            PoolKind::Bh(_) => 1,
            _ => cpus.len() as u32,
        };
        Binding {
            cpus: self.map.binding(cpus),
            target,
        }
    }

    /// The real CPUs behind those where unbound items may run.
    pub(super) fn resting_place(&self) -> CpuSet {
        self.map.binding(&self.unbound)
    }

    /// The CPU that an issuer on `real` queues from, who names none. `bound`: it may be any CPU; otherwise an issuer on one where
    /// unbound items may not run spreads its items over those where they may.
    #[inline]
    pub(crate) fn issuing(&self, real: usize, bound: bool) -> usize {
        let here = self.standing(real);
        match here {
            Some(here) if bound || self.stays_at(here) => here,
            None if bound => self.usable.first().unwrap_or(0),
            _ => self.next_round_robin(),
        }
    }

    /// Whether unbound items of the calling thread, on `real`, go where it is: otherwise the next one may go elsewhere.
    #[inline]
    pub(crate) fn stays(&self, real: usize) -> bool {
        self.standing(real).is_some_and(|here| self.stays_at(here))
    }

    #[inline]
    fn stays_at(&self, here: usize) -> bool {
        self.unbound.contains(here) && !self.force_round_robin
    }

    /// The CPU that the calling thread, on `real`, is or says it is on.
    #[inline]
    fn standing(&self, real: usize) -> Option<usize> {
        match declared() {
            0 => self.map.of_real(real),
            declared => Some(declared - 1),
        }
    }

    /// Each thread goes round by itself, so that nothing is shared.
    fn next_round_robin(&self) -> usize {
        thread_local! {
            static TURN: Cell<usize> = const { Cell::new(0) };
        }
        let turn = TURN.replace(TURN.get().wrapping_add(1));
        self.unbound
            .iter()
            .nth(turn % self.unbound.len().max(1))
            .unwrap_or(0)
    }
}

/// Whether any thread has ever declared anything: a look at a thread's own memory is dear in a shared library.
static ANY_DECLARED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The CPU that this thread said it queues from (its number plus one; 0: it said nothing).
    static DECLARED: Cell<usize> = const { Cell::new(0) };
}

/// What the calling thread has declared of the CPU that it queues from: for comparing only.
#[inline]
pub(crate) fn declared() -> usize {
    // Relaxed: a thread that has declared something has seen to it itself.
    match ANY_DECLARED.load(Ordering::Relaxed) {
        true => DECLARED.get(),
        false => 0,
    }
}

/// The real CPU that the calling thread is on.
#[inline]
pub(crate) fn here() -> usize {
    cpu::current().unwrap_or(0)
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
            .cpus_now()
            .map
            .real(cpu)
            .ok_or_else(|| self.no_such_cpu(cpu))?;
        let before = thread::current_binding().ok();
        thread::bind_current(&CpuSet::from_iter([real]))
            .map_err(|source| Error::Binding { cpu, source })?;
        ANY_DECLARED.store(true, Ordering::Relaxed);
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
