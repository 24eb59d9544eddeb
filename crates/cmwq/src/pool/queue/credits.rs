//! How many items of one workqueue may be active on one NUMA node, without a shared write per item.
//!
//! The node's limit is a store of credits. A pool workqueue takes some at a time and keeps them; an
//! item that becomes active uses one of them, an item that ends leaves it for the next. A pool
//! workqueue goes to the store only when it has none left. Only when the store is empty too does an
//! item wait, and then pool workqueues with unused credits give them back. So a queue below its
//! limit writes no line per item that pods share.
//!
//! No credit is missed: a pool workqueue that has to wait is counted in `waiting` *before* the
//! unused credits of all others are collected, each under its pool's lock. An item's end elsewhere
//! either comes before that collection (which finds its unused credit) or takes the lock after it,
//! and then sees the count and gives back itself.
#![forbid(unsafe_code)]

use crate::sys::atomic::{AtomicI32, AtomicUsize, Ordering};
use crate::sys::sync::Mutex;
use crossbeam_utils::CachePadded;
use std::sync::{Arc, Weak};

/// The credits of one workqueue on one node.
pub(crate) struct NodeLimit {
    /// Credits that no pool workqueue holds; negative while a lowered limit is overdrawn.
    free: CachePadded<AtomicI32>,
    /// Pool workqueues of this node with items that wait for a credit; one more while a shared
    /// limit behind it is tight.
    waiting: CachePadded<AtomicUsize>,
    /// How many credits one visit may take.
    portion: AtomicI32,
    /// How many credits there are in all, held or not: the node's part of `max_active`. 0: frozen.
    limit: AtomicI32,
    /// A limit shared with other workqueues: every credit is one of that, too.
    shared: Option<Arc<SharedLimit>>,
}

/// The largest portion: enough to make visits rare.
const MAX_PORTION: i32 = 32;

impl NodeLimit {
    /// A store of `limit` credits for one pool workqueue. If several share it, the caller calls
    /// [`set_portion`](Self::set_portion).
    pub(crate) fn new(limit: i32) -> Self {
        let node = NodeLimit {
            free: CachePadded::new(AtomicI32::new(limit)),
            waiting: CachePadded::new(AtomicUsize::new(0)),
            portion: AtomicI32::new(1),
            limit: AtomicI32::new(limit),
            shared: None,
        };
        node.set_portion(limit, 1);
        node
    }

    /// A store whose credits are also those of `shared`, if there is one.
    pub(crate) fn behind(limit: i32, shared: Option<&Arc<SharedLimit>>) -> Arc<Self> {
        let mut node = NodeLimit::new(limit);
        node.shared = shared.cloned();
        let node = Arc::new(node);
        if let Some(shared) = shared {
            shared.stand_behind(&node);
        }
        node
    }

    pub(crate) fn shared(&self) -> Option<&SharedLimit> {
        self.shared.as_deref()
    }

    /// Changes the limit from `from` to `to`.
    pub(crate) fn change(&self, from: i32, to: i32) {
        self.limit.store(to, Ordering::Relaxed);
        // Relaxed: a new credit carries nothing with it.
        self.free.fetch_add(to - from, Ordering::Relaxed);
    }

    /// How many items may be active.
    pub(crate) fn admits(&self) -> i32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// `holders`: how many pool workqueues share the limit, so that they cannot hoard more than a
    /// quarter of it.
    pub(crate) fn set_portion(&self, limit: i32, holders: usize) {
        let share = limit / (4 * holders.max(1) as i32);
        self.portion
            .store(share.clamp(1, MAX_PORTION), Ordering::Relaxed);
    }

    /// Takes up to a portion of credits; 0 when there is none. While a pool workqueue waits, no more
    /// than are `needed` at once.
    pub(crate) fn take_portion(&self, needed: i32) -> i32 {
        let mut portion = self.portion.load(Ordering::Relaxed);
        if self.someone_waits() {
            portion = portion.min(needed);
        }
        match &self.shared {
            None => self.take_own(portion),
            Some(shared) => shared.take_portion(portion, &self.free),
        }
    }

    /// Takes credits for a pool workqueue whose turn has come: up to a portion, but one of a shared limit.
    pub(crate) fn take_turn(&self) -> Result<i32, Short> {
        match &self.shared {
            None => match self.take_own(self.portion.load(Ordering::Relaxed)) {
                0 => Err(Short::Own),
                taken => Ok(taken),
            },
            Some(shared) => shared.take(1, &self.free),
        }
    }

    /// Takes up to `most` credits.
    fn take_own(&self, most: i32) -> i32 {
        let mut free = self.free.load(Ordering::Relaxed);
        while free > 0 {
            let taken = free.min(most);
            // Acquire: a credit carries with it what its last holder did, however many others come
            // and take theirs in between.
            match self.free.compare_exchange_weak(
                free,
                free - taken,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return taken,
                Err(now) => free = now,
            }
        }
        0
    }

    /// Gives credits back.
    pub(crate) fn give(&self, credits: i32) {
        match &self.shared {
            None => {
                // Release: see `take_own`.
                self.free.fetch_add(credits, Ordering::Release);
            }
            Some(shared) => shared.give(credits, &self.free),
        }
    }

    pub(crate) fn someone_waits(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// How many items in a row a pool workqueue, which `waits` for a credit or not, may make active
    /// with the credits of its own items that have ended, before it has to give a credit to those
    /// that wait elsewhere. With 0 it gives back each credit; if no other one waits there is no
    /// bound. If it gave back every credit, each item of a flood over several pods would cost a
    /// hand-over and a wake-up.
    pub(crate) fn own_turns(&self, waits: bool) -> i32 {
        if self.free.load(Ordering::Relaxed) < 0 {
            // A lowered limit is overdrawn.
            return 0;
        }
        match self.waiting.load(Ordering::Relaxed) - usize::from(waits) {
            0 => i32::MAX,
            _ if self.shared.is_some() => 0,
            _ => self.portion.load(Ordering::Relaxed) - 1,
        }
    }

    /// Whether unused credits have to be given back: a pool workqueue waits, or a lowered limit is overdrawn.
    #[inline]
    pub(crate) fn is_tight(&self) -> bool {
        self.someone_waits() || self.free.load(Ordering::Relaxed) < 0
    }

    pub(crate) fn one_more_waits(&self) {
        // Relaxed: the locks under which unused credits are collected next order the count (see above).
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn one_less_waits(&self) {
        // Relaxed: a thread that still sees the old count gives back credits that it could have kept.
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Every credit comes back, and whoever has waited has got one or is gone.
#[cfg(all(debug_assertions, not(any(test, cmwq_loom))))]
impl Drop for NodeLimit {
    fn drop(&mut self) {
        crate::sys::ends::at_the_end(|| {
            // No other thread has a reference any more, so these are the newest values.
            let (free, limit) = (*self.free.get_mut(), *self.limit.get_mut());
            assert_eq!(free, limit, "free credits");
            // A shared limit that is tight counts as one that waits.
            let most = usize::from(self.shared.is_some());
            let waiting = *self.waiting.get_mut();
            assert!(waiting <= most, "{waiting} pool workqueues wait");
        });
    }
}

pub(crate) struct SharedLimit {
    name: String,
    state: Mutex<SharedCredits>,
}

struct SharedCredits {
    /// Credits that no pool workqueue holds; negative while a lowered limit is overdrawn.
    free: i32,
    /// How many there are in all.
    limit: i32,
    /// A pool workqueue waits for a credit, or the limit is overdrawn: the stores count one more that waits.
    tight: bool,
    /// The stores that hand out its credits.
    stores: Vec<Weak<NodeLimit>>,
}

/// Which limit has no credit left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Short {
    /// The workqueue's own limit is reached.
    Own,
    /// The shared limit is reached.
    Shared,
}

impl SharedLimit {
    pub(crate) fn new(name: String, limit: i32) -> Arc<Self> {
        Arc::new(SharedLimit {
            name,
            state: Mutex::new(SharedCredits {
                free: limit,
                limit,
                tight: false,
                stores: Vec::new(),
            }),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How many credits there are, and how many of them are held.
    pub(crate) fn limit_and_held(&self) -> (i32, i32) {
        let state = self.state.lock();
        (state.limit, state.limit - state.free)
    }

    /// Registers `store`, which hands out credits of this limit from now on.
    pub(in crate::pool) fn stand_behind(&self, store: &Arc<NodeLimit>) {
        let mut state = self.state.lock();
        state.stores.retain(|store| store.strong_count() > 0);
        state.stores.push(Arc::downgrade(store));
        if state.tight {
            store.one_more_waits();
        }
    }

    /// Takes up to `most` credits, of this limit and of the store whose unused ones are `own`.
    pub(in crate::pool) fn take(&self, most: i32, own: &AtomicI32) -> Result<i32, Short> {
        let mut state = self.state.lock();
        // Relaxed: written under the lock only, but for changes of the store's limit, for which any
        // order will do.
        let taken = most.min(own.load(Ordering::Relaxed));
        if taken <= 0 {
            return Err(Short::Own);
        }
        let taken = taken.min(state.free);
        if taken <= 0 {
            return Err(Short::Shared);
        }
        own.fetch_sub(taken, Ordering::Relaxed);
        state.free -= taken;
        Ok(taken)
    }

    /// As [`take`](Self::take), a portion: small enough that other stores get some too. 0 while the
    /// limit is tight.
    pub(in crate::pool) fn take_portion(&self, most: i32, own: &AtomicI32) -> i32 {
        let most = {
            let state = self.state.lock();
            if state.tight {
                return 0;
            }
            most.min(state.limit / (4 * state.stores.len().max(1) as i32))
        };
        self.take(most.max(1), own).unwrap_or(0)
    }

    pub(in crate::pool) fn give(&self, credits: i32, own: &AtomicI32) {
        let mut state = self.state.lock();
        own.fetch_add(credits, Ordering::Relaxed);
        state.free += credits;
    }

    /// Changes how many there are. The caller serves the pool workqueues that wait.
    pub(crate) fn change(&self, to: i32) {
        let mut state = self.state.lock();
        state.free += to - state.limit;
        state.limit = to;
    }

    /// Tells all stores whether unused credits have to be given back, because a pool workqueue
    /// waits or the limit is overdrawn. Returns `true` if they have to be from now on and had not
    /// before.
    pub(crate) fn set_tight(&self, someone_waits: bool) -> bool {
        let mut state = self.state.lock();
        let tight = someone_waits || state.free < 0;
        if tight == state.tight {
            return false;
        }
        state.tight = tight;
        for store in state.stores.iter().filter_map(Weak::upgrade) {
            match tight {
                true => store.one_more_waits(),
                false => store.one_less_waits(),
            }
        }
        tight
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::{NodeLimit, SharedLimit};

    fn shared_by_four(limit: i32) -> NodeLimit {
        let node = NodeLimit::new(limit);
        node.set_portion(limit, 4);
        node
    }

    #[test]
    fn a_small_limit_is_handed_out_one_by_one() {
        let node = shared_by_four(3);
        assert_eq!(
            [
                node.take_portion(1),
                node.take_portion(1),
                node.take_portion(1),
                node.take_portion(1)
            ],
            [1, 1, 1, 0]
        );
        node.give(2);
        assert_eq!(node.take_own(8), 2);
    }

    #[test]
    fn portions_leave_three_quarters_to_the_others() {
        let node = shared_by_four(64);
        assert_eq!(node.take_portion(1), 4);
        node.one_more_waits();
        let taken = [1, 3, 9].map(|needed| node.take_portion(needed));
        assert_eq!(taken, [1, 3, 4], "while somebody waits nobody hoards");
    }

    /// Otherwise a queue that joins a group would keep credits for which other queues of it wait.
    #[test]
    fn a_store_that_comes_while_the_shared_limit_is_tight_gives_back_as_the_others_do() {
        let shared = SharedLimit::new("shared".to_owned(), 1);
        let behind = || NodeLimit::behind(1, Some(&shared));
        let first = behind();
        assert!(!first.is_tight());
        assert!(shared.set_tight(true));
        let late = behind();
        assert!(first.is_tight() && late.is_tight());
        assert!(!shared.set_tight(false));
        assert!(!first.is_tight() && !late.is_tight());
    }

    #[test]
    fn a_lowered_limit_is_overdrawn_until_credits_come_back() {
        let node = NodeLimit::new(2);
        assert_eq!(node.take_own(2), 2);
        node.change(2, 1);
        assert_eq!(node.admits(), 1);
        node.give(1);
        assert_eq!(node.take_own(1), 0);
        node.give(1);
        assert_eq!(node.take_own(1), 1);
    }
}

#[cfg(all(test, cmwq_loom))]
mod model {
    use super::*;
    use loom::thread;

    /// The holder of the only credit counts up, by a load and a store.
    fn count_up((node, count): &(NodeLimit, AtomicUsize)) -> usize {
        let taken = node.take_portion(1) as usize;
        if taken == 1 {
            let before = count.load(Ordering::Relaxed);
            count.store(before + 1, Ordering::Relaxed);
            node.give(1);
        }
        taken
    }

    #[test]
    fn who_takes_a_credit_sees_what_its_last_holder_did() {
        loom::model(|| {
            let both = Arc::new((NodeLimit::new(1), AtomicUsize::new(0)));
            let other = thread::spawn({
                let both = both.clone();
                move || count_up(&both)
            });
            let counted = count_up(&both) + other.join().unwrap();
            assert_eq!(both.1.load(Ordering::Relaxed), counted);
        });
    }
}
