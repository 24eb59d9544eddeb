//! The chunks in which issuers publish many items at a time for one pool workqueue.
#![forbid(unsafe_code)]

use crate::item::{ChunkNumbers, ChunkStore, OldestBatch};
use std::sync::Arc;

/// The chunks of one pool workqueue.
pub(crate) struct PwqChunks {
    pub(in crate::pool) items: Arc<ChunkStore>,
    pub(in crate::pool) closures: Arc<ChunkStore>,
}

impl PwqChunks {
    /// For pool workqueue `pwq` of this pool.
    pub(crate) fn new(pool: u32, pwq: u32, oldest: &OldestBatch, numbers: &ChunkNumbers) -> Self {
        PwqChunks {
            items: ChunkStore::of_items(pool, pwq, oldest, numbers),
            closures: ChunkStore::of_closures(pool, pwq, oldest, numbers),
        }
    }
}
