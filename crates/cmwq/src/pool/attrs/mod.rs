//! What a pool is told about itself, and what all pools of an engine share.

pub(crate) mod cpu_budget;
pub(in crate::pool) mod function_counts;
pub(in crate::pool) mod kind;
pub(in crate::pool) mod params;
pub(in crate::pool) mod slots;
pub(in crate::pool) mod threads;
