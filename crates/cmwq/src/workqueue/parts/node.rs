//! The credits of one NUMA node or CPU, and the pool workqueues that wait for one.

use super::pwq::Pwq;
use crate::pool::SharedLimit;
use crate::pool::{NodeLimit, Short};
use crate::sys::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// One limit, and the waiters for its credits.
pub(crate) struct Node {
    pub(in crate::workqueue) limit: Arc<NodeLimit>,
    /// The limit as it is now.
    pub(in crate::workqueue) value: Mutex<i32>,
    /// Pool workqueues with inactive items: each in turn gets one credit (round robin, not global FIFO).
    pub(in crate::workqueue) waiting: Mutex<VecDeque<Arc<Pwq>>>,
}

/// The result of serving the waiters of one [`Node`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// A waiter got a credit, and more wait.
    OneOfMore,
    /// A waiter got a credit, and no other waits.
    TheLast,
    NobodyWaits,
    /// No credit: the workqueue's own limit is reached.
    OwnLimit,
    /// No credit: the limit that it shares with others is reached.
    SharedLimit,
}

/// Takes back all credits that `members` hold and do not use.
pub(crate) fn collect<'a>(members: impl IntoIterator<Item = &'a Arc<Pwq>>) {
    for pwq in members {
        // The credits of an open batch come back when it ends.
        pwq.pool.lock_beside_batches().collect_credits(pwq.key);
    }
}

impl Node {
    pub(in crate::workqueue) fn new(value: i32, shared: Option<&Arc<SharedLimit>>) -> Arc<Self> {
        Arc::new(Node {
            limit: NodeLimit::behind(value, shared),
            value: Mutex::new(value),
            waiting: Mutex::new(VecDeque::new()),
        })
    }

    /// Gives a credit to the longest waiter, if any.
    pub(crate) fn serve_one(&self) -> Served {
        let mut waiting = self.waiting.lock();
        while !waiting.is_empty() {
            match self.limit.take_one() {
                Ok(()) => {}
                Err(Short::Own) => return Served::OwnLimit,
                Err(Short::Shared) => return Served::SharedLimit,
            }
            let Some(pwq) = waiting.pop_front() else {
                break;
            };
            // Closing batches would free credits, and call this function.
            let more = pwq.pool.lock_beside_batches().activate_one(pwq.key);
            match more {
                Some(true) => waiting.push_back(pwq),
                Some(false) => {}
                None => {
                    self.limit.give(1);
                    continue;
                }
            }
            return match waiting.is_empty() {
                true => Served::TheLast,
                false => Served::OneOfMore,
            };
        }
        Served::NobodyWaits
    }
}
