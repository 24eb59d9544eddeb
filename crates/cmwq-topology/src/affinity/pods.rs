//! [`Pods`]: a machine cut by one affinity scope.

use super::scope::{AffinityScope, Cut, Key};
use crate::cpuset::CpuSet;
use crate::machine::Topology;
use std::collections::BTreeMap;

/// The CPUs that share a worker pool under one affinity scope.
///
/// ```
/// use cmwq_topology::Topology;
///
/// let machine = Topology::from_synthetic("l3:2 core:4 pu:2")?; // 16 CPUs
/// use cmwq_topology::affinity::{AffinityScope, Pods};
///
/// let pods = Pods::build(&machine, AffinityScope::Cache, 8);
/// assert_eq!(pods.pods()[1].cpus.to_string(), "8-15");
/// # Ok::<(), cmwq_topology::TopologyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The CPUs; never empty.
    pub cpus: CpuSet,
    /// The NUMA node of the highest-numbered CPU, as in the kernel; `None` for the one pod of the
    /// system scope.
    pub node: Option<u32>,
}

/// All pods of a machine under one affinity scope: a partition of its online CPUs.
///
/// ```
/// use cmwq_topology::affinity::{AffinityScope, Pods};
/// use cmwq_topology::Topology;
///
/// let machine = Topology::from_synthetic("l3:1 core:12 pu:2")?;
/// let pods = Pods::build(&machine, AffinityScope::CacheShard, 8);
/// assert_eq!(pods.pods().len(), 2);
/// assert_eq!(pods.pod_of(12), Some(1));
/// # Ok::<(), cmwq_topology::TopologyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pods {
    scope: AffinityScope,
    pods: Vec<Pod>,
    /// By CPU number; `None` for numbers that are not online.
    pod_of: Vec<Option<usize>>,
}

impl Pods {
    /// Cuts `topology` by `scope`; `shard_size` is in cores, counts for
    /// [`AffinityScope::CacheShard`] only, and 0 means 1
    /// ([`effective_shard_size`](super::effective_shard_size)). Pods are numbered by their first
    /// CPU, ascending.
    ///
    /// [`AffinityScope::Default`] is cut as its initial meaning,
    /// [`AffinityScope::INITIAL_DEFAULT`]; a caller with a global default resolves it first
    /// ([`AffinityScope::or_default`]).
    #[must_use]
    pub fn build(topology: &Topology, scope: AffinityScope, shard_size: usize) -> Self {
        let scope = scope.or_default(AffinityScope::INITIAL_DEFAULT);
        let machine = Cut::new(topology, shard_size);
        let mut pods: Vec<Pod> = Vec::new();
        let mut by_key: BTreeMap<Key, usize> = BTreeMap::new();
        let mut pod_of = vec![None; topology.max_cpu() + 1];
        for cpu in topology.cpus() {
            let index = *by_key.entry(scope.key(&machine, cpu)).or_insert_with(|| {
                pods.push(Pod {
                    cpus: CpuSet::new(),
                    node: None,
                });
                pods.len() - 1
            });
            let pod = &mut pods[index];
            pod.cpus.insert(cpu);
            if scope != AffinityScope::System {
                // CPUs come in ascending order, so the highest one sets the node last.
                pod.node = topology.node_of(cpu);
            }
            pod_of[cpu] = Some(index);
        }
        Self {
            scope,
            pods,
            pod_of,
        }
    }

    /// The scope that was used; never [`AffinityScope::Default`].
    #[must_use]
    pub fn scope(&self) -> AffinityScope {
        self.scope
    }

    /// The pods, ascending by first CPU.
    #[must_use]
    pub fn pods(&self) -> &[Pod] {
        &self.pods
    }

    /// The pod of `cpu`: an index into [`Pods::pods`]. `None` when `cpu` is in no pod, that is, not online.
    #[must_use]
    pub fn pod_of(&self, cpu: usize) -> Option<usize> {
        self.pod_of.get(cpu).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_scope_is_cut_as_cache_shard() {
        let machine = Topology::from_synthetic("l3:2 core:16 pu:2").expect("valid");
        let default = Pods::build(&machine, AffinityScope::Default, 8);
        assert_eq!(default, Pods::build(&machine, AffinityScope::CacheShard, 8));
        assert_eq!(default.scope(), AffinityScope::CacheShard);
        assert_eq!(default.pods().len(), 4);
        assert_eq!(default.pod_of(63), Some(3));
        assert_eq!(default.pod_of(64), None);
    }
}
