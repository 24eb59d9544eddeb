//! How a last-level cache is cut into shards of cores.

use crate::cpuset::CpuSet;
use crate::machine::Topology;

/// Default number of cores in a shard, about: the kernel's default for `cache_shard_size`.
pub const DEFAULT_SHARD_SIZE: usize = 8;

/// The shard size that is used for `shard_size`: 0 becomes 1, as in the kernel. The kernel also
/// warns; so should a caller.
#[must_use]
pub const fn effective_shard_size(shard_size: usize) -> usize {
    if shard_size == 0 { 1 } else { shard_size }
}

/// The number of cores in each shard of a cache over `cores` cores, in order, for shards of about
/// `shard_size` cores.
///
/// As in the kernel, the number of shards is `cores / shard_size` rounded to the nearest, halves
/// up, and at least one. The cores are distributed evenly; a remainder makes the first shards one
/// core larger: 36 cores are 8+7+7+7+7. So a shard may hold more than `shard_size` cores: 11 cores
/// stay together at size 8.
///
/// ```
/// assert_eq!(cmwq_topology::affinity::shard_layout(20, 8), [7, 7, 6]);
/// ```
#[must_use]
pub fn shard_layout(cores: usize, shard_size: usize) -> Vec<usize> {
    let size = effective_shard_size(shard_size);
    let shards = (cores.saturating_add(size / 2) / size).max(1);
    let (base, large) = (cores / shards, cores % shards);
    (0..shards)
        .map(|shard| base + usize::from(shard < large))
        .collect()
}

/// The shard of every online CPU, counted from 0 in each LLC; indexed by CPU number, 0 for CPUs
/// that are not online. Each kind of core is cut by itself, so that no shard mixes fast and slow
/// cores; the kernel's shards mix them.
///
/// A core belongs to the LLC of its leader, its lowest-numbered CPU. All its CPUs get the leader's
/// shard index, also those that the topology puts in another LLC. An LLC may thus have no leader;
/// its CPUs are then cut as their leaders elsewhere.
pub(super) fn shards_of_cpus(topology: &Topology, shard_size: usize) -> Vec<usize> {
    let mut shard_of = vec![0; topology.max_cpu() + 1];
    for llc in topology.llcs() {
        let mut first_shard = 0;
        for leaders in leaders_by_kind(topology, llc) {
            let mut left = leaders.as_slice();
            let layout = shard_layout(leaders.len(), shard_size);
            for (shard, &cores) in layout.iter().enumerate() {
                let (here, rest) = left.split_at(cores);
                left = rest;
                for &leader in here {
                    for cpu in topology.smt_siblings(leader) {
                        shard_of[cpu] = first_shard + shard;
                    }
                }
            }
            first_shard += layout.len();
        }
    }
    shard_of
}

/// The lowest-numbered CPU of each core of a cache: one list for each kind of core that the cache has.
fn leaders_by_kind(topology: &Topology, llc: &CpuSet) -> Vec<Vec<usize>> {
    let leads = |cpu: &usize| topology.smt_siblings(*cpu).first() == Some(*cpu);
    let leaders = |cpus: &CpuSet| cpus.iter().filter(leads).collect::<Vec<_>>();
    let kinds = topology.core_kinds();
    if kinds.is_empty() {
        return vec![leaders(llc)];
    }
    let kinds = kinds.iter().map(|kind| leaders(&llc.intersection(kind)));
    kinds.filter(|leaders| !leaders.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extreme_sizes_do_not_overflow() {
        assert_eq!(shard_layout(72, usize::MAX), [72]);
        assert_eq!(shard_layout(3, 0), [1, 1, 1]);
        assert_eq!(shard_layout(3, 1), [1, 1, 1]);
    }
}
