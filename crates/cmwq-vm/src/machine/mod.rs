//! Machine descriptions: the CPUs, what they share, and what things cost.
#![forbid(unsafe_code)]

mod costs;
mod presets;

pub use costs::{Costs, OTHER_PACKAGE, SAME_CORE, SAME_CPU, SAME_LLC, SAME_PACKAGE};
pub use presets::{PRESETS, Preset, preset};

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The largest machine.
pub const MAX_CPUS: usize = 256;

static MOST_CPUS: AtomicUsize = AtomicUsize::new(MAX_CPUS);

/// No machine of this process has more CPUs than so many.
pub fn limit_cpus(most: usize) {
    MOST_CPUS.store(most, Relaxed);
}

/// How many CPUs a machine of this process may have: what is made once for each process is made for so many.
#[must_use]
pub fn most_cpus() -> usize {
    MOST_CPUS.load(Relaxed)
}

/// Where one CPU is. Numbers are unique in the machine, except that CPUs which share the thing have
/// the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The core; its CPUs are SMT siblings.
    pub core: u16,
    /// The last-level cache.
    pub llc: u16,
    /// The NUMA node.
    pub node: u16,
    /// The socket.
    pub package: u16,
}

/// Which CPU a thread is put on that wakes up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// An idle CPU under the same last-level cache comes first, as a stock kernel looks for one:
    /// the CPU where the thread ran before, then a whole idle core, then any idle CPU.
    #[default]
    IdleFirst,
    /// The CPU of the thread that wakes it, also when that CPU is busy and others are idle. This
    /// project's virtual machine of 2 CPUs does so (193 to 198 of 200 wake-ups, 2026-11-27).
    Waker,
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// What it is called in tables.
    pub name: String,
    /// By CPU number.
    pub cpus: Vec<Place>,
    /// What things cost there.
    pub costs: Costs,
    /// Where its kernel puts a thread that wakes up.
    pub placement: Placement,
}

/// How far two CPUs are from each other, as a class: an index of [`Costs::transfer_ns`].
#[derive(Clone, Debug)]
pub(crate) struct Distances {
    classes: Vec<u8>,
    cpus: usize,
}

impl Distances {
    #[inline]
    pub(crate) fn between(&self, a: usize, b: usize) -> usize {
        usize::from(self.classes[a * self.cpus + b])
    }
}

impl Machine {
    /// A machine of `packages` times `llcs` times `cores` cores with `threads` CPUs each. SMT
    /// siblings are `n` and `n + cores`, as on x86-64; a package is a node.
    ///
    /// # Panics
    /// With no CPU, or more than [`MAX_CPUS`].
    #[must_use]
    pub fn regular(
        name: &str,
        packages: usize,
        llcs: usize,
        cores: usize,
        threads: usize,
        costs: Costs,
    ) -> Machine {
        let all_cores = packages * llcs * cores;
        let cpus: Vec<Place> = (0..all_cores * threads)
            .map(|cpu| {
                let core = cpu % all_cores;
                let package = (core / (llcs * cores)) as u16;
                Place {
                    core: core as u16,
                    llc: (core / cores) as u16,
                    node: package,
                    package,
                }
            })
            .collect();
        assert!((1..=MAX_CPUS).contains(&cpus.len()), "1 to {MAX_CPUS} CPUs");
        Machine {
            name: name.to_owned(),
            cpus,
            costs,
            placement: Placement::default(),
        }
    }

    pub(crate) fn distances(&self) -> Distances {
        let class = |(a, left): (usize, &Place), (b, right): (usize, &Place)| -> u8 {
            let class = if a == b {
                SAME_CPU
            } else if left.core == right.core {
                SAME_CORE
            } else if left.llc == right.llc {
                SAME_LLC
            } else if left.package == right.package {
                SAME_PACKAGE
            } else {
                OTHER_PACKAGE
            };
            class as u8
        };
        let places = || self.cpus.iter().enumerate();
        Distances {
            classes: places()
                .flat_map(|a| places().map(move |b| class(a, b)))
                .collect(),
            cpus: self.cpus.len(),
        }
    }
}
