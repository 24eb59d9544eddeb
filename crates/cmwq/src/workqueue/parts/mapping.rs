//! From a queue's kind and attributes to the pool of each CPU, by the kernel's rules.

use super::attrs::{BH_NICE, WorkqueueAttrs};
use super::kind::WorkqueueKind;
use crate::engine::{Engine, PoolKey};
use crate::pool::{PoolFor, WorkerThreads};
use crate::topology::CpuSet;

/// Tells which pool serves each CPU.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// The keys of the different pools. The first is the default pool, which serves all CPUs that
    /// have no pod.
    pub(crate) keys: Vec<PoolKey>,
    /// For each CPU number an index into `keys`.
    pub(crate) of_cpu: Vec<usize>,
}

impl Engine {
    /// Computes the mapping of a queue. `threads` are the settings of its workers' threads.
    pub(crate) fn map(
        &self,
        attrs: &WorkqueueAttrs,
        kind: WorkqueueKind,
        threads: Option<&WorkerThreads>,
    ) -> Mapping {
        let mut mapping = match kind {
            WorkqueueKind::Unbound => self.map_pods(attrs),
            WorkqueueKind::Ordered => self.map_all(attrs),
            WorkqueueKind::PerCpu => self.map_cpus(kind, attrs.nice),
            WorkqueueKind::Bh => self.map_cpus(kind, attrs.nice.min(BH_NICE)),
        };
        for key in &mut mapping.keys {
            key.threads = threads.cloned();
        }
        mapping
    }

    /// Maps all CPUs to one pool.
    fn map_all(&self, attrs: &WorkqueueAttrs) -> Mapping {
        let effective = self.effective_mask(attrs);
        Mapping {
            keys: vec![pod_key(attrs, effective.clone(), &effective)],
            of_cpu: vec![0; self.topology().max_cpu() + 1],
        }
    }

    /// Maps each pod to a pool of its own.
    fn map_pods(&self, attrs: &WorkqueueAttrs) -> Mapping {
        let effective = self.effective_mask(attrs);
        let Mapping {
            mut keys,
            mut of_cpu,
        } = self.map_all(attrs);
        for pod in self.pods(attrs.affinity_scope).pods() {
            // A pod without a usable CPU is served by the default pool.
            let usable = pod.cpus.intersection(&effective);
            if usable.is_empty() {
                continue;
            }
            let key = pod_key(attrs, usable, &effective);
            let known = keys.iter().position(|known| *known == key);
            let index = known.unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            });
            for cpu in pod.cpus.iter() {
                of_cpu[cpu] = index;
            }
        }
        Mapping { keys, of_cpu }
    }

    /// Maps each CPU to a pool of its own, whether the CPU may be used or not.
    fn map_cpus(&self, kind: WorkqueueKind, nice: i32) -> Mapping {
        let mut keys = Vec::new();
        let mut of_cpu = vec![0; self.topology().max_cpu() + 1];
        for cpu in self.topology().cpus().iter() {
            let Some(kind) = kind.pool_of(cpu) else {
                continue;
            };
            of_cpu[cpu] = keys.len();
            keys.push(PoolKey {
                kind,
                nice,
                pod: CpuSet::from_iter([cpu]),
                effective: None,
                threads: None,
            });
        }
        Mapping { keys, of_cpu }
    }

    /// Returns the CPUs that a queue's items may run on: the CPUs of its mask that are in the
    /// unbound mask, or the whole unbound mask if there is none.
    pub(crate) fn effective_mask(&self, attrs: &WorkqueueAttrs) -> CpuSet {
        let cpus = self.cpus_now();
        let unbound = cpus.unbound();
        match &attrs.cpumask {
            Some(mask) if mask.intersects(unbound) => mask.intersection(unbound),
            _ => unbound.clone(),
        }
    }

    /// Returns the node that contains all of `cpus`, as an index into the topology's nodes. On a
    /// machine with one node that is always the result.
    pub(crate) fn node_index(&self, cpus: &CpuSet) -> Option<usize> {
        let nodes = self.topology().nodes();
        nodes.iter().position(|(_, node)| cpus.is_subset(node))
    }
}

fn pod_key(attrs: &WorkqueueAttrs, pod: CpuSet, effective: &CpuSet) -> PoolKey {
    PoolKey {
        kind: PoolFor::Unbound,
        nice: attrs.nice,
        pod,
        effective: (!attrs.affinity_strict).then(|| effective.clone()),
        threads: None,
    }
}
