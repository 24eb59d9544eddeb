//! Publishing: what an issuing thread remembers, and how its items get to a pool.

pub(in crate::pool) mod chain;
pub(crate) mod dealing;
pub(in crate::pool) mod producer;
pub(in crate::pool) mod publish;
pub(crate) mod spawn_history;
