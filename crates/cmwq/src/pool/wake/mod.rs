//! Wake policies: when a sleeper is woken, and by which worker; how soon a woken worker begins.

pub(in crate::pool) mod crowding;
pub(in crate::pool) mod deferred;
pub(in crate::pool) mod placement;
