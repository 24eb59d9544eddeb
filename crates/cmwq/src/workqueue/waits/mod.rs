//! Waiting for a whole workqueue: flush, drain, shutdown, by threads and by tasks.

mod draining;
mod lifecycle;

pub use lifecycle::{Drain, Flush, Shutdown, Unfinished};
