//! Descriptions of what runs (the kernel's `set_worker_desc`).
//!
//! A description lies beside its run: in the busy table, or in the caller slot. A run begins
//! without one at no cost: the mark of a description is part of a word that is written anyway, and
//! the text of an earlier run stays where it is.
#![forbid(unsafe_code)]

use crate::pool::state::member;
use crate::pool::state::pool::Pool;
use crate::pool::task::current::Current;
use crate::sys::thread;
use std::sync::Arc;

impl Pool {
    /// Describes `what`, which the calling thread runs, if it is one of this pool's items.
    /// Otherwise the description is returned.
    pub(crate) fn describe(
        self: &Arc<Self>,
        what: Current,
        description: String,
    ) -> Result<(), String> {
        let tid = thread::current_tid();
        let mut guard = self.lock();
        let of_item = (what.item, what.func);
        match guard.busy.describe(of_item, tid, description) {
            Ok(()) => Ok(()),
            Err(description) => guard.describe_in_caller_slot(what.func, tid, description),
        }
    }
}

/// As [`Pool::describe`], in the pool whose worker the calling thread is.
pub(crate) fn describe_at_home(what: Current, description: String) -> Result<(), String> {
    match member::home_pool() {
        Some(pool) => pool.describe(what, description),
        None => Err(description),
    }
}
