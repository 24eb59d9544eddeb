//! What waits in a pool, and whether it makes progress, for the watchdog. It costs something only
//! when the watchdog asks, since it compares numbers that are counted anyway.
//!
//! Two kinds of lists wait. A pool's worklist makes progress when an item is started in turn: what
//! a rescuer or a waiting thread takes from the middle of it does not count. If none is started for
//! too long, its first item has waited too long, whatever the reason, even if long items keep all
//! workers busy. The inactive items of a pool workqueue make progress when one of its items is
//! started or ends. They wait because as many are active as `max_active` admits, and none of those
//! has ended. Frozen queues wait on purpose.
#![forbid(unsafe_code)]

use crate::pool::lock::guard::PoolGuard;
use crate::pool::queue::pwq::PwqKey;

/// A list of items that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WaitList {
    /// The worklist of the pool of this number.
    Ready(u32),
    /// The inactive items of one of the pool's pool workqueues.
    Inactive(u32, PwqKey),
}

impl WaitList {
    /// The pool's number.
    pub(crate) fn pool(self) -> u32 {
        match self {
            WaitList::Ready(pool) | WaitList::Inactive(pool, _) => pool,
        }
    }
}

/// How much progress a list has made. Two equal values mean that it made none in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    counted: u64,
    first: usize,
}

impl Progress {
    /// `counted`: grows when the list makes progress.
    pub(crate) fn new(counted: u64, first: usize) -> Self {
        Progress { counted, first }
    }
}

/// A list where something waits.
pub(crate) struct Waits {
    pub(crate) list: WaitList,
    pub(crate) progress: Progress,
    /// An ordered queue's items that wait for those accepted before a change of its attributes, in
    /// another pool. This queue identity tells their progress: any item of the queue counts.
    pub(crate) behind_front: Option<usize>,
}

impl PoolGuard<'_> {
    /// The lists of the pool where something that is accepted waits.
    pub(crate) fn waits(&mut self) -> Vec<Waits> {
        let id = self.pool.id;
        let ready = self.worklist.head().map(|first| Waits {
            list: WaitList::Ready(id),
            progress: Progress::new(self.started_in_turn(), first),
            behind_front: None,
        });
        let inactive = self.pwqs.iter().filter_map(|(index, pwq)| {
            let first = pwq.inactive.head()?;
            (pwq.limit.admits() > 0).then(|| Waits {
                list: WaitList::Inactive(id, self.key_of(index)),
                progress: Progress::new(pwq.nr_moved(), first),
                behind_front: pwq.plugged.then(|| pwq.front_id()),
            })
        });
        ready.into_iter().chain(inactive).collect()
    }

    /// How many items of the queue `front` were started or have ended here.
    pub(crate) fn moved_of(&self, front: usize) -> u64 {
        let own = self.pwqs.iter().filter(|(_, pwq)| pwq.front_id() == front);
        own.map(|(_, pwq)| pwq.nr_moved()).sum()
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::item::Work;
    use crate::pool::{Pool, Traits, stubs};
    use std::sync::Arc;

    fn waits(pool: &Arc<Pool>) -> Vec<(WaitList, Progress)> {
        let waits = pool.lock_accepting().waits();
        waits
            .iter()
            .map(|waits| (waits.list, waits.progress))
            .collect()
    }

    #[test]
    fn each_list_gets_on_by_its_own_items_and_a_frozen_one_does_not_wait() {
        let pool = stubs::pool(3, 0);
        assert_eq!(waits(&pool), []);
        let [one, other] = [1, 1].map(|limit| stubs::add_pwq(&pool, Traits::default(), limit));
        let items: Vec<Work> = (0..4).map(|_| Work::new(|| ())).collect();
        for (item, pwq) in items.iter().zip([one, one, one, other]) {
            stubs::queue(&pool, pwq, item);
        }
        // One of each is active; two of the first wait for a credit.
        let before = waits(&pool);
        let [ready, inactive] = [WaitList::Ready(3), WaitList::Inactive(3, one)];
        assert_eq!([before[0].0, before[1].0], [ready, inactive]);
        assert_eq!(waits(&pool), before, "nothing has moved");
        // One of the first: the next of its queue gets its credit.
        assert!(stubs::run_one(&pool));
        let seen = waits(&pool);
        assert_eq!([seen[0].0, seen[1].0], [ready, inactive]);
        assert_ne!(seen[0].1, before[0].1, "an item was started");
        assert_ne!(seen[1].1, before[1].1, "an item has ended");
        // One of the other queue: it says nothing about the first one's limit.
        assert!(stubs::run_one(&pool));
        let last = waits(&pool);
        assert_ne!(last[0].1, seen[0].1);
        assert_eq!(last[1], seen[1]);
        // The test hands no credit on: the same item waits, though one of its queue has ended.
        assert!(stubs::run_one(&pool));
        let after = waits(&pool);
        assert_eq!(after[0].0, inactive);
        assert_ne!(after, last[1..]);
        let limit = pool.lock().pwq_mut(one).unwrap().limit.clone();
        limit.change(1, 0);
        assert_eq!(waits(&pool), [], "frozen");
        limit.change(0, 1);
        assert_eq!(waits(&pool), after, "thawed");
        assert_eq!(limit.take_turn(), Ok(1));
        assert_eq!(pool.lock().activate_some(one, 1), Some(false));
        assert!(stubs::run_one(&pool));
        assert_eq!(waits(&pool), []);
    }

    #[test]
    fn a_saturated_pool_waits_like_any_other() {
        let pool = stubs::pool(3, 0);
        let pwq = stubs::add_pwq(&pool, Traits::default(), 100);
        let item = Work::new(|| ());
        stubs::queue(&pool, pwq, &item);
        let mut guard = pool.lock_accepting();
        let target = guard.target();
        guard.counts.set_running(target);
        assert_eq!(guard.waits().len(), 1);
        guard.counts.set_running(0);
        drop(guard);
        assert!(stubs::run_one(&pool));
    }
}
