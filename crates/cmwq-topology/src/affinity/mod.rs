//! Affinity scopes, and the pods into which each cuts a machine.
//!
//! Pure functions of a [`Topology`](crate::Topology): no threads, no files. The rules are the kernel's
//! (6.5 and later; `cache_shard` as merged, which rounds to the nearest number of shards).

mod distance;
mod pods;
mod scope;
mod shard;

pub use distance::{Distance, distance};
pub use pods::{Pod, Pods};
pub use scope::{AffinityScope, UnknownScope};
pub use shard::{DEFAULT_SHARD_SIZE, effective_shard_size, shard_layout};
