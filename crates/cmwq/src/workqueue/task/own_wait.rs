//! Waits that would never end: an item that waits for itself, and a waker that waits for items.
//!
//! A thread runs a stack of items if one of them waits for another one and runs it (caller-runs join). The items further down wait for the last
//! one, so a wait of the last one for any of them is a wait for itself.
#![forbid(unsafe_code)]

use crate::error::FlushError;
use crate::item::RawWork;
use crate::pool::{in_waker, is_on_stack};
use crate::trace::warn_once;

/// Whether the calling thread runs this item, perhaps inside of which it runs another one.
pub(in crate::workqueue) fn is_own(item: &RawWork) -> bool {
    is_on_stack(|what| what.is(item))
}

/// A waker may be called by a worker that still counts as running its last item or as searching, or by the monitor: no other thread would take its place.
pub(in crate::workqueue) fn not_in_waker() -> Result<(), FlushError> {
    if in_waker() {
        warn_once!("a waker of a task waits for items, which might never end");
        return Err(FlushError::InWaker);
    }
    Ok(())
}

/// Whether the caller may wait for an instance of the item.
pub(in crate::workqueue) fn may_flush(item: &RawWork) -> Result<(), FlushError> {
    if is_own(item) {
        warn_once!("flush was called from the item's own function, which cannot wait for itself");
        return Err(FlushError::OwnItem);
    }
    not_in_waker()
}

/// Whether the caller may wait for a task that is not done.
#[cold]
pub(in crate::workqueue) fn may_join(task: &RawWork) -> bool {
    let is_own = is_own(task);
    if is_own {
        warn_once!(
            "join was called from inside the closure that it waits for, which cannot wait for itself"
        );
    }
    !is_own
}
