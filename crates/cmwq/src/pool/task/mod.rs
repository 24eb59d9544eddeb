//! One run of an item, and the table of running items.

pub(in crate::pool) mod busy;
pub(in crate::pool) mod call;
pub(in crate::pool) mod current;
pub(in crate::pool) mod run;
pub(in crate::pool) mod slab;
