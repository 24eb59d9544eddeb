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
    pub(in crate::workqueue) line: Mutex<Line>,
}

#[derive(Default)]
pub(in crate::workqueue) struct Line {
    /// Pool workqueues with inactive items. Each gets some credits in turn (round robin). So the
    /// items of all of them together do not become active in the order in which they were queued.
    pub(in crate::workqueue) waiting: VecDeque<Arc<Pwq>>,
    /// How many threads have taken credits for a waiter that does not have them yet.
    handing_on: usize,
}

/// The result of serving the waiters of one [`Node`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// A waiter got a credit, and more wait.
    OneOfMore,
    /// A waiter got a credit, and no other waits.
    TheLast,
    NobodyWaits,
    /// No waiter got a credit, because the workqueue's own limit is reached.
    OwnLimit,
    /// No waiter got a credit, because the limit that the workqueue shares with others is reached.
    SharedLimit,
}

impl From<Short> for Served {
    fn from(short: Short) -> Self {
        match short {
            Short::Own => Served::OwnLimit,
            Short::Shared => Served::SharedLimit,
        }
    }
}

/// Takes back all credits that `members` hold and do not use.
pub(crate) fn collect<'a>(members: impl IntoIterator<Item = &'a Arc<Pwq>>) {
    for pwq in members {
        // The credits of an open batch are not taken: they come back when the batch ends.
        pwq.pool.lock_beside_batches().collect_credits(pwq.key);
    }
}

impl Node {
    pub(in crate::workqueue) fn new(value: i32, shared: Option<&Arc<SharedLimit>>) -> Arc<Self> {
        Arc::new(Node {
            limit: NodeLimit::behind(value, shared),
            value: Mutex::new(value),
            line: Mutex::new(Line::default()),
        })
    }

    /// Gives credits to the waiter that has waited longest, if there is one. The lock of the
    /// waiting list is released while the waiter's pool is locked, which may take long. Another
    /// thread may find the list empty meanwhile, and leaves its credits in the store. This thread
    /// finds them there if the waiter goes on waiting, since it then serves again.
    pub(crate) fn serve_one(&self) -> Served {
        loop {
            let mut line = self.line.lock();
            let Some(pwq) = line.waiting.pop_front() else {
                return Served::NobodyWaits;
            };
            let credits = match self.limit.take_turn() {
                Ok(credits) => credits,
                Err(short) => {
                    line.waiting.push_front(pwq);
                    return short.into();
                }
            };
            line.handing_on += 1;
            drop(line);
            // Batches stay open: closing them would free credits, and that calls this function.
            let mut guard = pwq.pool.lock_beside_batches();
            let more = guard.activate_some(pwq.key, credits);
            drop(guard);
            let mut line = self.line.lock();
            line.handing_on -= 1;
            match more {
                Some(true) => line.waiting.push_back(pwq),
                Some(false) => {}
                None => {
                    self.limit.give(credits);
                    continue;
                }
            }
            return match line.waiting.is_empty() {
                true => Served::TheLast,
                false => Served::OneOfMore,
            };
        }
    }

    /// Whether items may become active although no credit is left, because another thread is
    /// handing on credits that it took before.
    pub(in crate::workqueue) fn hands_on(&self) -> bool {
        self.line.lock().handing_on > 0
    }
}

/// Whether the thread `tid` runs as many items of these pool workqueues as `limit` admits. A limit
/// of 0 is that of a frozen queue, and nothing uses it up.
pub(super) fn is_used_up<'p>(
    limit: i32,
    mut pwqs: impl Iterator<Item = &'p Arc<Pwq>>,
    tid: i32,
) -> bool {
    let mut left = match usize::try_from(limit) {
        Ok(limit @ 1..) => limit,
        _ => return false,
    };
    pwqs.any(|pwq| {
        left = left.saturating_sub(pwq.pool.lock().runs_of_thread(pwq.key, tid));
        left == 0
    })
}
