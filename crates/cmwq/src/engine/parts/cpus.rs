//! The CPUs that may be used, the CPU that an issuer queues from, and the real CPU behind a CPU of
//! the topology.
//!
//! All of it can change while the process runs: CPUs go offline and come back, a cpuset shrinks, an
//! administrator calls `taskset`. So it is one immutable value that is replaced as a whole.

use super::key::PoolKey;
use crate::pool::{Binding, PoolFor};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicBool, AtomicUsize};
use crate::sys::cpu;
use crate::sys::local::thread_local;
use crate::topology::{CpuSet, Topology};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::Arc;

/// Whether the CPUs of the topology stand for those of the machine, which are others.
fn stands_for_others(topology: &Topology) -> bool {
    topology.is_injected() && !cpu::are_the_machine(topology.cpus())
}

/// Maps the CPU numbers of the topology to those of the real machine. They are the same unless the
/// topology was injected: then its CPUs are spread over the real ones in blocks, and neighbours
/// stay neighbours.
struct CpuMap {
    /// The real CPU behind each CPU of the topology, if it has one.
    real: Vec<Option<usize>>,
    /// For each real CPU, the first CPU of the topology that it stands for. `None`: the numbers are
    /// the same.
    back: Option<Vec<Option<usize>>>,
}

impl CpuMap {
    fn new(topology: &Topology, usable: &CpuSet) -> CpuMap {
        let mut real = vec![None; topology.max_cpu() + 1];
        if !stands_for_others(topology) {
            for cpu in topology.cpus().iter() {
                real[cpu] = Some(cpu);
            }
            return CpuMap { real, back: None };
        }
        let usable: Vec<usize> = usable.iter().collect();
        let total = topology.cpus().len();
        let mut back = vec![None; usable.last().map_or(0, |last| last + 1)];
        for (index, cpu) in topology.cpus().iter().enumerate() {
            // If the topology has fewer CPUs than the machine, each gets a real CPU of its own.
            // Otherwise each real CPU gets an equal block of them.
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
// Every issuer reads this, and it is hardly ever written. Data that is written often must not share
// its cache lines.
#[repr(align(128))]
pub(crate) struct Cpus {
    pub(crate) set: Set,
    map: CpuMap,
    /// CPUs of the topology that may be used.
    usable: CpuSet,
    /// Where unbound items may run: the usable CPUs of the requested mask, or all usable CPUs if
    /// the requested mask has none.
    unbound: CpuSet,
    cursors: Arc<Cursors>,
}

/// The settings of the system and of the program. All other fields of [`Cpus`] are computed from
/// them.
#[derive(Clone, PartialEq)]
pub(crate) struct Set {
    /// CPUs of the machine that the process may use.
    pub(crate) real: CpuSet,
    /// The unbound mask as it was requested.
    pub(crate) requested: CpuSet,
    /// Whether unbound items that name no CPU are sent to all CPUs in turn.
    pub(crate) force_round_robin: bool,
}

/// The round-robin cursors of unbound items that are queued from CPUs where they may not run. There
/// is one for each CPU of an issuer. It holds the CPU to which the last such item went; at first it
/// holds the issuer's own CPU.
struct Cursors(Box<[CachePadded<AtomicUsize>]>);

impl Cursors {
    fn new(topology: &Topology) -> Self {
        let cpus = 0..=topology.max_cpu();
        Cursors(
            cpus.map(|cpu| CachePadded::new(AtomicUsize::new(cpu)))
                .collect(),
        )
    }

    /// Returns the next CPU of `cpus` for an item that is queued from `here`, or `None` if `cpus`
    /// is empty.
    fn next(&self, here: usize, cpus: &CpuSet) -> Option<usize> {
        let next = |last| cpus.next_after(last).or_else(|| cpus.first());
        // A CPU that the topology does not know shares the cursor of another.
        let cursor = &self.0[here % self.0.len()];
        // Relaxed: the cursor publishes no other data. Several threads may count as being on one
        // CPU at a time.
        let last = cursor.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        last.ok().and_then(next)
    }
}

impl Cpus {
    pub(crate) fn new(topology: &Topology, set: Set) -> Cpus {
        let cursors = Arc::new(Cursors::new(topology));
        Cpus::with_cursors(topology, set, cursors)
    }

    fn with_cursors(topology: &Topology, set: Set, cursors: Arc<Cursors>) -> Cpus {
        let usable = if stands_for_others(topology) {
            topology.allowed().intersection(topology.online())
        } else {
            topology.cpus().intersection(&set.real)
        };
        let wanted = set.requested.intersection(&usable);
        Cpus {
            map: CpuMap::new(topology, &set.real),
            unbound: if wanted.is_empty() {
                usable.clone()
            } else {
                wanted
            },
            usable,
            set,
            cursors,
        }
    }

    /// Returns the CPUs that follow from `set`, with the topology's mapping and cursors of this
    /// value.
    pub(crate) fn with(&self, topology: &Topology, set: Set) -> Cpus {
        Cpus::with_cursors(topology, set, self.cursors.clone())
    }

    /// The real CPU behind a CPU of the topology.
    pub(crate) fn real_of(&self, cpu: usize) -> Option<usize> {
        self.map.real(cpu)
    }

    pub(crate) fn unbound(&self) -> &CpuSet {
        &self.unbound
    }

    /// CPUs of the topology that may be used now.
    pub(crate) fn usable(&self) -> &CpuSet {
        &self.usable
    }

    /// Returns where the workers of a pool run, and how many of them may run at a time. If a pool's
    /// CPU may not be used, its workers run on the unbound CPUs.
    pub(crate) fn binding(&self, key: &PoolKey) -> Binding {
        let cpus = match key.kind {
            PoolFor::PerCpu(cpu) | PoolFor::Bh(cpu) if !self.usable.contains(cpu) => &self.unbound,
            _ => &key.pod,
        };
        let target = match key.kind {
            PoolFor::Bh(_) => 1,
            _ => cpus.len() as u32,
        };
        let associated = match key.kind {
            PoolFor::PerCpu(cpu) | PoolFor::Bh(cpu) => self.usable.contains(cpu),
            PoolFor::Unbound => false,
        };
        Binding {
            cpus: self.map.binding(cpus),
            target,
            associated,
        }
    }

    /// The real CPUs behind the unbound mask.
    pub(crate) fn resting_place(&self) -> CpuSet {
        self.map.binding(&self.unbound)
    }

    /// Returns the CPU that an issuer on the real CPU `real` queues from if it names none. With
    /// `bound` any CPU is allowed. Without it, an issuer on a CPU where unbound items may not run
    /// spreads its items over the unbound mask.
    #[inline]
    pub(crate) fn issuing(&self, real: usize, bound: bool) -> usize {
        let here = self.standing(real);
        match here {
            Some(here) if bound || self.stays_at(here) => here,
            None if bound => self.usable.first().unwrap_or(0),
            _ => {
                let here = here.unwrap_or(real);
                self.cursors.next(here, &self.unbound).unwrap_or(here)
            }
        }
    }

    /// Whether unbound items that a thread on the real CPU `real` queues stay on the CPU of that
    /// thread. If not, each item may go to another CPU.
    #[inline]
    pub(crate) fn stays(&self, real: usize) -> bool {
        self.standing(real).is_some_and(|here| self.stays_at(here))
    }

    #[inline]
    fn stays_at(&self, here: usize) -> bool {
        self.unbound.contains(here) && !self.set.force_round_robin
    }

    /// Returns the CPU that the calling thread has declared, or else the one that it is on
    /// (`real`). `None`: the topology does not have that CPU.
    #[inline]
    pub(crate) fn standing(&self, real: usize) -> Option<usize> {
        match declared() {
            0 => self.map.of_real(real),
            declared => Some(declared - 1),
        }
    }
}

/// Whether any thread has ever declared a CPU. Reading this is cheap, while reading a thread-local
/// variable in a shared library is expensive.
///
/// Each item reads this. What the linker puts beside it may be a counter of the program's items, so
/// it has a cache line of its own.
static ANY_DECLARED: CachePadded<AtomicBool> = CachePadded::new(AtomicBool::new(false));

thread_local! {
    /// The CPU that this thread has declared, plus one. 0: it has declared none.
    static DECLARED: Cell<usize> = const { Cell::new(0) };
}

/// Sets what the calling thread declares, and returns what it had declared before.
pub(crate) fn declare(declared: usize) -> usize {
    ANY_DECLARED.store(true, Ordering::Relaxed);
    DECLARED.replace(declared)
}

/// Returns what the calling thread has declared, in a form that is good for comparing only.
#[inline]
pub(crate) fn declared() -> usize {
    // Relaxed is enough: a thread that has declared a CPU has set the flag itself.
    match ANY_DECLARED.load(Ordering::Relaxed) {
        true => declared_by_this_thread(),
        false => 0,
    }
}

// This is a function of its own, because the compiler considers finding a thread's local memory
// cheap. Inlined, it would do that before it is known whether the value is needed.
#[cold]
#[inline(never)]
fn declared_by_this_thread() -> usize {
    DECLARED.get()
}

/// The real CPU that the calling thread is on.
#[inline]
pub(crate) fn here() -> usize {
    cpu::current().unwrap_or(0)
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    /// Eight CPUs, each a real one, of which unbound items may use the last four.
    fn cpus() -> Cpus {
        let topology = Topology::from_synthetic("core:8 pu:1").unwrap();
        let set = Set {
            real: (0..8).collect(),
            requested: (4..8).collect(),
            force_round_robin: false,
        };
        Cpus::new(&topology, set)
    }

    #[test]
    fn each_cpu_goes_round_by_itself_and_goes_on_when_the_mask_changes() {
        let topology = Topology::from_synthetic("core:8 pu:1").unwrap();
        let cpus = cpus();
        let from = |cpus: &Cpus, real| cpus.issuing(real, false);
        assert_eq!([from(&cpus, 2), from(&cpus, 2)], [4, 5]);
        assert_eq!([from(&cpus, 3), from(&cpus, 2)], [4, 6]);
        // Issuers on CPUs of the mask stay there.
        assert_eq!([from(&cpus, 5), from(&cpus, 5)], [5, 5]);
        let with = |requested: &str, force_round_robin| {
            let set = Set {
                requested: requested.parse().unwrap(),
                force_round_robin,
                ..cpus.set.clone()
            };
            cpus.with(&topology, set)
        };
        let changed = with("1,3,5,7", false);
        assert_eq!([from(&changed, 2), from(&changed, 2)], [7, 1]);
        // With round robin forced, the items of a CPU begin behind it.
        let forced = with("0-7", true);
        assert_eq!([from(&forced, 6), from(&forced, 6)], [7, 0]);
        // A CPU that the topology does not know goes round as well.
        assert_eq!([from(&cpus, 77), from(&cpus, 77)], [6, 7]);
    }

    #[test]
    fn a_bh_pool_whose_cpu_is_gone_runs_one_item_at_a_time_on_the_unbound_cpus() {
        let cpus = cpus();
        let binding = |kind, cpu| {
            let binding = cpus.binding(&PoolKey {
                kind,
                nice: 0,
                pod: CpuSet::from_iter([cpu]),
                effective: None,
                threads: None,
            });
            (binding.cpus.to_string(), binding.target, binding.associated)
        };
        let there = ("2".to_owned(), 1, true);
        assert_eq!(binding(PoolFor::Bh(2), 2), there);
        assert_eq!(binding(PoolFor::PerCpu(2), 2), there);
        // The process may not use CPU 77.
        let gone = |target| ("4-7".to_owned(), target, false);
        assert_eq!(binding(PoolFor::Bh(77), 77), gone(1));
        assert_eq!(binding(PoolFor::PerCpu(77), 77), gone(4));
    }
}
