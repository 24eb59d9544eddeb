//! How far apart two CPUs are.

use crate::machine::Topology;

/// Tells what two CPUs share at the nearest, from near to far. Shards are not part of it: see
/// [`Pods`](super::Pods).
///
/// ```
/// use cmwq_topology::Topology;
///
/// let machine = Topology::from_synthetic("l3:2 core:4 pu:2")?; // 16 CPUs
/// use cmwq_topology::affinity::{Distance, distance};
///
/// assert_eq!(distance(&machine, 0, 1), Distance::SameCore);
/// assert!(distance(&machine, 0, 2) < distance(&machine, 0, 8));
/// # Ok::<(), cmwq_topology::TopologyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// They are the same CPU.
    SameCpu,
    /// They are hardware threads of one core.
    SameCore,
    /// They share a last-level cache.
    SameLlc,
    /// They are on the same NUMA node.
    SameNode,
    /// They share nothing but the machine; also the distance to a CPU that is not online.
    System,
}

/// How far apart the CPUs `a` and `b` are.
#[must_use]
pub fn distance(topology: &Topology, a: usize, b: usize) -> Distance {
    /// Equal, and known.
    fn same<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
        a.is_some() && a == b
    }
    if a == b {
        Distance::SameCpu
    } else if same(topology.core_of(a), topology.core_of(b)) {
        Distance::SameCore
    } else if same(topology.llc_of(a), topology.llc_of(b)) {
        Distance::SameLlc
    } else if same(topology.node_of(a), topology.node_of(b)) {
        Distance::SameNode
    } else {
        Distance::System
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_grows_level_by_level() {
        let machine = Topology::from_synthetic("numa:2 l3:2 core:2 pu:2").expect("valid");
        let from_0 = |cpu| distance(&machine, 0, cpu);
        let expected = [
            (0, Distance::SameCpu),
            (1, Distance::SameCore),
            (2, Distance::SameLlc),
            (4, Distance::SameNode),
            (8, Distance::System),
            (99, Distance::System),
        ];
        for (cpu, expected) in expected {
            assert_eq!(from_0(cpu), expected, "CPU {cpu}");
            assert_eq!(
                distance(&machine, cpu, 0),
                expected,
                "CPU {cpu}, the other way"
            );
        }
        assert!(expected.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    }
}
