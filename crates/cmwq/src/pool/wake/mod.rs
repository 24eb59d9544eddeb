//! Wake policies: where a woken worker runs, and when a sleeper is woken.

pub(in crate::pool) mod boost;
pub(in crate::pool) mod deferred;
pub(in crate::pool) mod last_cpu;
pub(in crate::pool) mod placement;
