//! The chunks in which issuers publish many items at a time for one pool workqueue.
#![forbid(unsafe_code)]

use crate::item::{Bundles, OldestBatch};
use std::sync::Arc;

/// Where items of a pool workqueue are published together.
pub(crate) struct Together {
    pub(in crate::pool) items: Arc<Bundles>,
    pub(in crate::pool) closures: Arc<Bundles>,
}

impl Together {
    /// For pool workqueue `pwq` of this pool.
    pub(crate) fn new(pool: u32, pwq: u32, oldest: &OldestBatch) -> Self {
        Together {
            items: Bundles::of_items(pool, pwq, oldest),
            closures: Bundles::of_closures(pool, pwq, oldest),
        }
    }
}
