//! The machine: its CPUs, and what they share.

use crate::assumed::Assumption;
use crate::caches::cut_at_nodes;
use crate::cpuset::CpuSet;
use crate::error::TopologyError;
use crate::partition::disjoint;
use std::ffi::OsStr;
use std::path::Path;

/// The environment variable that replaces the machine's own topology: a directory (a value that
/// starts with `/`) is a sysfs root, any other value a synthetic description. Unset or empty: the
/// machine itself.
pub const TOPOLOGY_VARIABLE: &str = "CMWQ_TOPOLOGY";

/// Where the running machine describes itself.
pub(crate) const REAL_SYSFS: &str = "/sys";

static NO_CPUS: CpuSet = CpuSet::new();

/// A machine: its CPUs, and which of them share a core, a last-level cache (LLC), a NUMA node and a
/// package. Immutable.
///
/// ```
/// use cmwq_topology::Topology;
///
/// let machine = Topology::detect()?;
/// println!("CPUs {}, {} NUMA nodes", machine.cpus(), machine.nodes().len());
/// # Ok::<(), cmwq_topology::TopologyError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    pub(crate) injected: bool,
    pub(crate) possible: CpuSet,
    pub(crate) online: CpuSet,
    pub(crate) allowed: CpuSet,
    /// By CPU number; `None` for numbers that are not online.
    pub(crate) places: Vec<Option<Place>>,
    /// By core id: ascending by lowest CPU. A partition of `online`, as is `llcs`.
    pub(crate) cores: Vec<CpuSet>,
    pub(crate) llcs: Vec<CpuSet>,
    /// Ascending by node number; nodes without an online CPU are left out.
    pub(crate) nodes: Vec<(u32, CpuSet)>,
    /// A partition of `online`, the fastest kind first; empty where all cores are of one kind.
    pub(crate) kinds: Vec<CpuSet>,
    pub(crate) assumed: Vec<Assumption>,
    pub(crate) faults: Vec<String>,
}

/// Where one CPU is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    core: usize,
    llc: usize,
    node: Option<u32>,
    package: Option<u32>,
}

impl Topology {
    /// The machine named by `CMWQ_TOPOLOGY` ([`TOPOLOGY_VARIABLE`]), or else the machine this
    /// process runs on.
    ///
    /// # Errors
    /// As [`Topology::from_sysfs`] and [`Topology::from_synthetic`]; the error names the variable
    /// if its value is at fault.
    pub fn detect() -> Result<Self, TopologyError> {
        match std::env::var_os(TOPOLOGY_VARIABLE) {
            Some(value) if !value.is_empty() => {
                Self::from_variable(&value).map_err(|error| TopologyError::Variable {
                    name: TOPOLOGY_VARIABLE,
                    error: Box::new(error),
                })
            }
            _ => Self::from_sysfs(Path::new(REAL_SYSFS)),
        }
    }

    /// The machine that a value of `CMWQ_TOPOLOGY` describes.
    fn from_variable(value: &OsStr) -> Result<Self, TopologyError> {
        let path = Path::new(value);
        if path.is_absolute() {
            return Self::from_sysfs(path);
        }
        match value.to_str() {
            Some(text) => Self::from_synthetic(text),
            None => Err(TopologyError::Synthetic {
                token: value.to_string_lossy().into_owned(),
                reason: "not UTF-8; a directory that starts with / or levels such as \"pack:2 core:4 pu:2\" is allowed"
                    .into(),
            }),
        }
    }

    /// Orders what a reader has found: partitions in any order, and numbered groups (a CPU in
    /// several belongs to the lowest-numbered). Cuts caches at nodes. Finds the place of every
    /// online CPU, with dense ids ascending by lowest CPU.
    pub(crate) fn assembled(mut self, packages: Vec<(u32, CpuSet)>) -> Self {
        self.possible = self.possible.union(&self.online);
        self.cores.sort();
        self.nodes = disjoint(self.nodes, &self.online);
        let mut places = vec![None; self.online.last().map_or(0, |last| last + 1)];
        for cpu in &self.online {
            places[cpu] = Some(Place {
                core: 0,
                llc: 0,
                node: None,
                package: None,
            });
        }
        let place = |places: &mut [Option<Place>], set: &CpuSet, put: &dyn Fn(&mut Place)| {
            for cpu in set {
                if let Some(Some(place)) = places.get_mut(cpu) {
                    put(place);
                }
            }
        };
        for (number, set) in &self.nodes {
            place(&mut places, set, &|place| place.node = Some(*number));
        }
        self.llcs = cut_at_nodes(&self.llcs, |cpu| places.get(cpu)?.as_ref()?.node);
        self.llcs.sort();
        for (id, set) in self.cores.iter().enumerate() {
            place(&mut places, set, &|place| place.core = id);
        }
        for (id, set) in self.llcs.iter().enumerate() {
            place(&mut places, set, &|place| place.llc = id);
        }
        for (number, set) in &disjoint(packages, &self.online) {
            place(&mut places, set, &|place| place.package = Some(*number));
        }
        self.places = places;
        self
    }

    fn place(&self, cpu: usize) -> Option<&Place> {
        self.places.get(cpu)?.as_ref()
    }

    /// The CPUs over which pods are built: the online ones. The kernel, too, leaves CPUs that are
    /// possible but were never brought up out of its pods and its shard arithmetic.
    #[must_use]
    pub fn cpus(&self) -> &CpuSet {
        &self.online
    }

    /// The CPUs that are online.
    #[must_use]
    pub fn online(&self) -> &CpuSet {
        &self.online
    }

    /// The CPUs the machine could have, offline ones included.
    #[must_use]
    pub fn possible(&self) -> &CpuSet {
        &self.possible
    }

    /// The online CPUs on which this process may run (`taskset`, cpusets). An injected topology has
    /// no such limit: all its CPUs are allowed.
    #[must_use]
    pub fn allowed(&self) -> &CpuSet {
        &self.allowed
    }

    /// Whether this is a description of some machine (synthetic, or a sysfs tree other than `/sys`)
    /// instead of the machine that runs the process. CPU numbers then mean nothing to the system.
    #[must_use]
    pub fn is_injected(&self) -> bool {
        self.injected
    }

    /// What the description does not tell and is assumed: empty for most machines.
    #[must_use]
    pub fn assumed(&self) -> &[Assumption] {
        &self.assumed
    }

    /// Files of a sysfs tree that could not be read or understood, and count as missing: the first
    /// few, one line each.
    #[must_use]
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// The CPUs of each kind of core, the fastest kind first, on a machine with several kinds
    /// (hybrid, big.LITTLE); empty on all others.
    #[must_use]
    pub fn core_kinds(&self) -> &[CpuSet] {
        &self.kinds
    }

    /// The same machine without its kinds of cores: cache shards then mix kinds, as the kernel's do.
    #[must_use]
    pub fn mixing_core_kinds(mut self) -> Self {
        self.kinds.clear();
        self
    }

    /// The highest online CPU number.
    #[must_use]
    pub fn max_cpu(&self) -> usize {
        self.places.len().saturating_sub(1)
    }

    /// The core of `cpu`: an index into [`Topology::cores`]. `None` when `cpu` is not online.
    #[must_use]
    pub fn core_of(&self, cpu: usize) -> Option<usize> {
        Some(self.place(cpu)?.core)
    }

    /// The last-level cache of `cpu`: an index into [`Topology::llcs`]. `None` when `cpu` is not online.
    #[must_use]
    pub fn llc_of(&self, cpu: usize) -> Option<usize> {
        Some(self.place(cpu)?.llc)
    }

    /// The system's number of the NUMA node of `cpu`. `None` when `cpu` is not online, or no node
    /// contains it.
    #[must_use]
    pub fn node_of(&self, cpu: usize) -> Option<u32> {
        self.place(cpu)?.node
    }

    /// The system's number of the package (socket) of `cpu`. `None` when `cpu` is not online, or
    /// the number is unknown.
    #[must_use]
    pub fn package_of(&self, cpu: usize) -> Option<u32> {
        self.place(cpu)?.package
    }

    /// The CPUs that are hardware threads of the same core as `cpu`, itself included; empty when it
    /// is not online.
    #[must_use]
    pub fn smt_siblings(&self, cpu: usize) -> &CpuSet {
        self.core_of(cpu).map_or(&NO_CPUS, |core| &self.cores[core])
    }

    /// The CPUs that share the last-level cache of `cpu`, itself included; empty when it is not online.
    #[must_use]
    pub fn llc_cpus(&self, cpu: usize) -> &CpuSet {
        self.llc_of(cpu).map_or(&NO_CPUS, |llc| &self.llcs[llc])
    }

    /// The CPUs of each core, ascending by lowest CPU.
    #[must_use]
    pub fn cores(&self) -> &[CpuSet] {
        &self.cores
    }

    /// The CPUs of each last-level cache, ascending by lowest CPU. A cache that the system reports
    /// for several NUMA nodes (sub-NUMA clustering) is one for each of them, as in the kernel, so
    /// no cache spans nodes.
    #[must_use]
    pub fn llcs(&self) -> &[CpuSet] {
        &self.llcs
    }

    /// The NUMA nodes that have online CPUs, ascending by the system's node number.
    #[must_use]
    pub fn nodes(&self) -> &[(u32, CpuSet)] {
        &self.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_CPUS;

    #[test]
    fn numbers_that_are_no_online_cpu_are_nowhere() {
        let machine = Topology::from_synthetic("core:2 pu:2").expect("valid");
        for cpu in [4, MAX_CPUS, usize::MAX] {
            assert_eq!(machine.core_of(cpu), None);
            assert_eq!(machine.llc_of(cpu), None);
            assert_eq!(machine.node_of(cpu), None);
            assert_eq!(machine.package_of(cpu), None);
            assert!(machine.smt_siblings(cpu).is_empty());
            assert!(machine.llc_cpus(cpu).is_empty());
        }
        assert_eq!(machine.max_cpu(), 3);
    }

    #[test]
    fn a_variable_that_starts_with_a_slash_is_a_directory() {
        let error =
            Topology::from_variable(OsStr::new("/nowhere/at/all")).expect_err("no such directory");
        assert!(error.to_string().contains("\"/nowhere/at/all\""), "{error}");
        let machine = Topology::from_variable(OsStr::new("pack:2 pu:3")).expect("synthetic");
        assert_eq!(machine.cpus().len(), 6);
        assert!(machine.is_injected());
    }
}
