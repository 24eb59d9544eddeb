//! Machines and their pods: read from trees of `/sys`, real, fake and broken, or from a
//! description; CPU quotas.

mod clusters;
mod common;
mod faults;
mod hybrid;
mod kernel_pods;
mod pods_property;
mod quota;
mod synthetic_errors;
mod sysfs_trees;
