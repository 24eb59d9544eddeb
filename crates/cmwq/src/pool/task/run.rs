//! A run of an item: what the pool needs to know when it ends.
#![forbid(unsafe_code)]

use super::current::Current;
use crate::item::{Part, Started};

/// An item that a worker has taken: started, not yet called.
pub(crate) struct Task {
    pub(in crate::pool) started: Started,
    pub(in crate::pool) run: Run,
}

/// What is left of an item while its function runs.
#[derive(Clone, Copy)]
pub(in crate::pool) struct Run {
    pub(in crate::pool) busy: u32,
    pub(in crate::pool) pwq: u32,
    pub(in crate::pool) colour: u32,
    /// When it started, if its time is measured; 0: it is not.
    pub(in crate::pool) timed_ns: u64,
    /// What the item and other threads may ask about it while it runs.
    pub(in crate::pool) current: Current,
}

/// What the lock holders know of an open batch.
pub(in crate::pool) struct Open {
    pub(in crate::pool) pwq: u32,
    pub(in crate::pool) colour: u32,
    pub(in crate::pool) len: usize,
    /// When it is overdue.
    pub(in crate::pool) due_ns: u64,
    /// Where its items are; `None`: in the worker's [`Batch`](crate::item::Batch).
    pub(in crate::pool) part: Option<Part>,
}

/// What is left to a worker whose batch was closed.
pub(in crate::pool) struct Interrupted {
    /// The item that it had begun last.
    pub(in crate::pool) run: Run,
    /// How many items it had begun.
    pub(in crate::pool) begun: usize,
}
