//! What a machine's description leaves open.

use std::fmt;

/// A fact that a sysfs tree or a synthetic description does not give, and the substitute that is
/// assumed. One line of text.
///
/// ```
/// use cmwq_topology::Topology;
///
/// let machine = Topology::from_synthetic("l3:2 core:4 pu:2")?; // 16 CPUs
/// for assumption in machine.assumed() {
///     println!("{assumption}");
/// }
/// # Ok::<(), cmwq_topology::TopologyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Assumption {
    /// No list of online CPUs: those that are present and not individually switched off.
    Online,
    /// No list of siblings: every CPU is a core.
    Cores,
    /// No cache of any CPU: a substitute stands for the last-level caches.
    Caches(Substitute),
    /// No cache of some cores, but caches of others: a substitute stands for the last-level caches
    /// of those cores.
    SomeCaches(Substitute),
    /// No nodes: all CPUs are on one.
    Nodes,
}

/// What stands for a last-level cache. CPUs for which this is unknown use the next one.
///
/// ```
/// use cmwq_topology::{Assumption, Substitute};
///
/// println!("{}", Assumption::Caches(Substitute::Package));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Substitute {
    /// The package (socket), or each of its parts on one node.
    Package,
    /// The NUMA node.
    Node,
    /// The core.
    Core,
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Online => {
                "no list of online CPUs: all that are present and not switched off are taken"
            }
            Self::Cores => "no SMT siblings: each CPU is taken for a core",
            Self::Caches(Substitute::Package) => {
                "no cache information: the CPUs of a package on one node are taken to share a last-level cache"
            }
            Self::Caches(Substitute::Node) => {
                "no cache information: each node is taken for a last-level cache"
            }
            Self::Caches(Substitute::Core) => {
                "no cache information: each core is taken for a last-level cache"
            }
            Self::SomeCaches(Substitute::Package) => {
                "no cache information of some cores: those of a package on one node are taken to share a last-level cache"
            }
            Self::SomeCaches(Substitute::Node) => {
                "no cache information of some cores: those of a node are taken to share a last-level cache"
            }
            Self::SomeCaches(Substitute::Core) => {
                "no cache information of some cores: each of them is taken for a last-level cache"
            }
            Self::Nodes => "no nodes: all CPUs are taken to be on node 0",
        })
    }
}
