//! The pool's lock: taking items under it, and settling before the unlock.

pub(in crate::pool) mod batches;
pub(in crate::pool) mod caller_slots;
pub(in crate::pool) mod cancel;
pub(in crate::pool) mod guard;
pub(in crate::pool) mod holds;
pub(in crate::pool) mod later;
pub(in crate::pool) mod pool;
pub(in crate::pool) mod settle;
pub(in crate::pool) mod slots;
pub(in crate::pool) mod take;
