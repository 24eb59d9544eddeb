//! The machine that a process runs on: its CPUs, what they share, and how much of them the process may use.
//!
//! ```
//! use cmwq_topology::Topology;
//! use cmwq_topology::affinity::{AffinityScope, Pods};
//!
//! // One package of 36 cores with two hardware threads each, below one last-level cache.
//! let machine = Topology::from_synthetic("l3:1 core:36 pu:2")?;
//! assert_eq!(machine.cpus().to_string(), "0-71");
//! let pods = Pods::build(&machine, AffinityScope::CacheShard, 8);
//! let first = &pods.pods()[0];
//! assert_eq!((pods.pods().len(), first.cpus.to_string().as_str()), (5, "0-15"));
//! # Ok::<(), cmwq_topology::TopologyError>(())
//! ```
//!
//! - [`Topology`]: the CPUs, cores, last-level caches, NUMA nodes and packages of this machine, or
//!   of a described one.
//! - [`CpuSet`]: a set of CPU numbers, with the kernel's two texts for it.
//! - [`affinity`]: the kernel's affinity scopes, and the pods into which each cuts a machine.
//! - [`CpuQuota`]: how much CPU time the control groups of the process allow. [`process_cpus`]: its
//!   affinity mask.
//!
//! Nothing here starts a thread or keeps anything for the whole process. All of it is part of
//! `cmwq` too, as `cmwq::topology` and `cmwq::affinity`.
//!
//! # Where a machine is read from
//!
//! A [`Topology`] is read from a sysfs tree ([`Topology::from_sysfs`]) or made from a synthetic
//! description ([`Topology::from_synthetic`]); [`Topology::detect`] chooses by the environment
//! variable [`TOPOLOGY_VARIABLE`]. It reads these files of a tree (missing ones have fallbacks, see
//! [`Topology::from_sysfs`]):
//!
//! ```text
//! ROOT/devices/system/
//! ├── cpu/
//! │   ├── online                      0-7
//! │   ├── possible                    0-15
//! │   └── cpu0/
//! │       ├── topology/
//! │       │   ├── thread_siblings_list    0,4
//! │       │   └── physical_package_id     0
//! │       └── cache/index3/
//! │           ├── level                   3
//! │           ├── type                    Unified
//! │           └── shared_cpu_list         0-7
//! └── node/
//!     └── node0/cpulist               0-7
//! ```

#![forbid(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("cmwq-topology reads the machine as Linux describes it: it runs on Linux only");

pub mod affinity;
mod allowed;
mod assumed;
mod caches;
mod cpuset;
mod error;
mod machine;
mod partition;
mod quota;
mod synthetic;
mod sysfs;

pub use allowed::process_cpus;
pub use assumed::{Assumption, Substitute};
pub use cpuset::{CpuSet, CpuSetError, Iter, MAX_CPUS};
pub use error::TopologyError;
pub use machine::{TOPOLOGY_VARIABLE, Topology};
pub use quota::{CpuQuota, FollowedQuota, GroupLimit, Throttling};

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDocTests;
