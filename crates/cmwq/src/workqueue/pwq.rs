//! One pool workqueue as its queue knows it.

use crate::pool::{Pool, PwqKey};
use std::sync::Arc;

/// One pool workqueue as its queue knows it.
pub(super) struct Pwq {
    pub(super) pool: Arc<Pool>,
    pub(super) key: PwqKey,
    /// Which of the queue's limits its items count against.
    pub(super) node: usize,
}
