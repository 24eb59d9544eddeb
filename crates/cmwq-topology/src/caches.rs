//! Last-level caches: what stands for those that no description tells of, and the cut of those that
//! span nodes.

use std::collections::BTreeMap;

use crate::assumed::{Assumption, Substitute};
use crate::cpuset::CpuSet;
use crate::partition::disjoint;

/// What stands for the LLCs of CPUs without cache data.
pub(crate) struct AssumedCaches {
    pub(crate) llcs: Vec<CpuSet>,
    /// The widest substitute among `llcs`; `None` if there are no such CPUs.
    widest: Option<Substitute>,
}

/// The substitute for the LLCs of the CPUs `unknown`, which have no cache data (a masked tree, some
/// virtual machines and boards, a description that names no cache): the packages; for CPUs without
/// a known package the nodes, and else the cores.
pub(crate) fn assumed_caches(
    unknown: &CpuSet,
    cores: &[CpuSet],
    packages: &[(u32, CpuSet)],
    nodes: &[(u32, CpuSet)],
) -> AssumedCaches {
    let numbered = |groups: &[(u32, CpuSet)]| disjoint(groups.to_vec(), unknown);
    let packages = numbered(packages).into_iter();
    let nodes = numbered(nodes).into_iter();
    let cores = cores.iter().map(|core| (Substitute::Core, core.clone()));
    let candidates = packages
        .map(|(_, cpus)| (Substitute::Package, cpus))
        .chain(nodes.map(|(_, cpus)| (Substitute::Node, cpus)))
        .chain(cores);
    let (mut left, mut llcs, mut widest) = (unknown.clone(), Vec::new(), None);
    for (substitute, cpus) in candidates {
        let cpus = cpus.intersection(&left);
        if !cpus.is_empty() {
            left = left.difference(&cpus);
            widest.get_or_insert(substitute);
            llcs.push(cpus);
        }
    }
    AssumedCaches { llcs, widest }
}

impl AssumedCaches {
    /// `None` if there is nothing to tell: no CPU is without cache data, or the machine has one
    /// CPU. `all`: no CPU has cache data.
    pub(crate) fn as_assumption(&self, all: bool) -> Option<Assumption> {
        let cpus: usize = self.llcs.iter().map(CpuSet::len).sum();
        match self.widest? {
            substitute if !all => Some(Assumption::SomeCaches(substitute)),
            substitute if cpus > 1 => Some(Assumption::Caches(substitute)),
            _ => None,
        }
    }
}

/// The caches, each cut into its parts on one node. With sub-NUMA clustering the system reports one
/// cache for several nodes. The kernel's scheduler, and so its workqueue, takes the parts for
/// caches. `node_of` is `None` for CPUs of no node, which are one part.
pub(crate) fn cut_at_nodes(llcs: &[CpuSet], node_of: impl Fn(usize) -> Option<u32>) -> Vec<CpuSet> {
    let mut parts = Vec::with_capacity(llcs.len());
    for llc in llcs {
        let mut by_node: BTreeMap<Option<u32>, CpuSet> = BTreeMap::new();
        for cpu in llc {
            by_node.entry(node_of(cpu)).or_default().insert(cpu);
        }
        parts.extend(by_node.into_values());
    }
    parts
}
