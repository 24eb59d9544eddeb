//! The machine: which CPUs there are, and what they share.
//!
//! A [`Topology`] is read from a sysfs tree ([`Topology::from_sysfs`]) or made from a synthetic description
//! ([`Topology::from_synthetic`]); [`Topology::detect`] chooses by the environment variable [`TOPOLOGY_VARIABLE`].
//! It reads these files of a tree (missing ones have fallbacks, see [`Topology::from_sysfs`]):
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
//!
//! This module uses nothing else of the crate.
#![forbid(unsafe_code)]

mod allowed;
mod assumed;
mod caches;
mod cpuset;
mod cpuset_error;
mod cpuset_text;
mod error;
mod machine;
mod partition;
mod quota;
mod synthetic;
mod synthetic_indexes;
mod synthetic_text;
mod sysfs;

pub(crate) use allowed::process_cpus;
pub use assumed::{Assumption, Substitute};
pub use cpuset::{CpuSet, Iter};
pub use cpuset_error::{CpuSetError, MAX_CPUS};
pub use error::TopologyError;
pub use machine::{TOPOLOGY_VARIABLE, Topology};
pub(crate) use quota::FollowedQuota;
pub use quota::{CpuQuota, GroupLimit, Throttling};
