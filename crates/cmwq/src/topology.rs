//! The machine: which CPUs there are, what they share, and how much of them the process may use.
//!
//! A [`Topology`] is read from a sysfs tree ([`Topology::from_sysfs`]) or made from a synthetic
//! description ([`Topology::from_synthetic`]); [`Topology::detect`] chooses by the environment
//! variable [`TOPOLOGY_VARIABLE`]. All of it is the crate [`cmwq_topology`], which programs without
//! workqueues can use alone.

#[doc(inline)]
pub use cmwq_topology::{
    Assumption, CpuQuota, CpuSet, CpuSetError, GroupLimit, Iter, MAX_CPUS, Substitute,
    TOPOLOGY_VARIABLE, Throttling, Topology, TopologyError,
};
