//! Reports of pools: snapshots, dump, stalls.

pub(in crate::pool) mod dump;
pub(in crate::pool) mod snapshot;
pub(in crate::pool) mod stall;
pub(in crate::pool) mod state;
pub(in crate::pool) mod threads;
