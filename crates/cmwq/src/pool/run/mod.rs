//! Running items: the worker's loop, batches, waiters, and declared blocking.

pub(in crate::pool) mod batch;
pub(in crate::pool) mod bh;
pub(in crate::pool) mod bind;
pub(in crate::pool) mod block;
pub(in crate::pool) mod describe;
pub(in crate::pool) mod names;
mod slice;
pub(in crate::pool) mod steal;
pub(in crate::pool) mod wait;
pub(in crate::pool) mod waiter;
pub(in crate::pool) mod worker;
