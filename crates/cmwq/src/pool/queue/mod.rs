//! What a pool keeps for each workqueue: its pool workqueue, credits and caller slots.

pub(in crate::pool) mod caller_slot;
pub(in crate::pool) mod colours;
pub(in crate::pool) mod credits;
pub(in crate::pool) mod held;
pub(in crate::pool) mod inactive;
pub(in crate::pool) mod pwq;
pub(in crate::pool) mod pwq_chunks;
pub(in crate::pool) mod room;
pub(in crate::pool) mod stats;
pub(in crate::pool) mod times;
