//! From a queue's attributes to the pool of each CPU, by the kernel's rules.

use super::attrs::WorkqueueAttrs;
use crate::engine::{Engine, PoolKey};
use crate::topology::CpuSet;

/// Which pool serves each CPU.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// The distinct pools; the first is the default one, for all CPUs that have no pod.
    pub(crate) keys: Vec<PoolKey>,
    /// By CPU number: an index into `keys`.
    pub(crate) of_cpu: Vec<usize>,
}

impl Engine {
    /// `single`: one pool for all CPUs, as for ordered workqueues.
    pub(crate) fn map(&self, attrs: &WorkqueueAttrs, single: bool) -> Mapping {
        let effective = self.effective_mask(attrs);
        let key_of = |pod: CpuSet| PoolKey {
            nice: attrs.nice,
            pod,
            effective: (!attrs.affinity_strict).then(|| effective.clone()),
        };
        let mut keys = vec![key_of(effective.clone())];
        let mut of_cpu = vec![0; self.topology().max_cpu() + 1];
        if !single {
            let pods = self.pods(attrs.affinity_scope);
            for pod in pods.pods() {
                // A pod of which no CPU may be used is served by the default pool.
                let usable = pod
                    .cpus
                    .intersection(&effective)
                    .intersection(self.topology().online());
                if usable.is_empty() {
                    continue;
                }
                let key = key_of(usable);
                let index = keys
                    .iter()
                    .position(|known| *known == key)
                    .unwrap_or_else(|| {
                        keys.push(key);
                        keys.len() - 1
                    });
                for cpu in pod.cpus.iter() {
                    of_cpu[cpu] = index;
                }
            }
        }
        Mapping { keys, of_cpu }
    }

    /// The CPUs that a queue's items may run on: its mask within the unbound mask, or all of that if nothing is left.
    pub(crate) fn effective_mask(&self, attrs: &WorkqueueAttrs) -> CpuSet {
        let unbound = self.unbound_mask();
        let wanted = attrs
            .cpumask
            .as_ref()
            .map_or_else(|| unbound.clone(), |mask| mask.intersection(unbound));
        if wanted.is_empty() {
            unbound.clone()
        } else {
            wanted
        }
    }

    /// The node that contains all of `cpus`, as an index into the topology's nodes; on a one-node machine always that one.
    pub(crate) fn node_index(&self, cpus: &CpuSet) -> Option<usize> {
        let nodes = self.topology().nodes();
        nodes.iter().position(|(_, node)| cpus.is_subset(node))
    }
}
