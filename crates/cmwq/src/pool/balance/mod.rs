//! Balance: the monitor of saturated pools, and work stealing between pods.

pub(in crate::pool) mod cpu_time;
pub(in crate::pool) mod hogs;
pub(in crate::pool) mod monitor;
pub(in crate::pool) mod sleepers;
mod suspects;
pub(in crate::pool) mod thieves;
