//! Concurrency-managed workqueues for user space.
#![warn(missing_docs)]
pub mod affinity;
pub mod topology;
