//! Threads beside the workers: service thread, creator, rescuers; and their periodic work.

pub(in crate::pool) mod checks;
pub(in crate::pool) mod creator;
pub(in crate::pool) mod cull;
pub(in crate::pool) mod deadlines;
pub(in crate::pool) mod rescuer;
pub(in crate::pool) mod strays;
pub(in crate::pool) mod thread;
pub(in crate::pool) mod timers;
