//! Finding an item in its pool: taking out a pending one, and waiting for its end.

use super::guard::PoolGuard;
use crate::item::{Completion, ListKind, Pending, RawWork};
use crate::pool::queue::pwq::PwqKey;
use crate::pool::state::pool::{FrontEnd, Pool};
use crate::pool::task::busy::Running;
use std::sync::Arc;

impl Pool {
    /// Calls `question` with `item` under the lock until it answers `Some`, or until all items that
    /// were published before the call are staged. The lock is still held when this returns.
    pub(crate) fn find<'p, R>(
        self: &'p Arc<Self>,
        item: &RawWork,
        mut question: impl FnMut(&mut PoolGuard<'p>) -> Option<R>,
    ) -> (PoolGuard<'p>, Option<R>) {
        let mut guard = self.lock();
        let up_to = guard.reached();
        loop {
            let turned = guard.turn_up_to(up_to);
            guard.staged.single_out(item);
            let answer = question(&mut guard);
            if turned || answer.is_some() {
                return (guard, answer);
            }
            guard = self.lock_again(guard);
        }
    }

    /// Takes out the pending instance of `item`: see [`PoolGuard::take_out`].
    pub(crate) fn cancel(self: &Arc<Self>, item: &RawWork) -> Option<Removed> {
        self.find(item, |guard| guard.take_out(self.id, item)).1
    }

    /// The queue that `item` waits on, or runs for, in this pool.
    pub(crate) fn front_of(self: &Arc<Self>, item: &RawWork) -> Option<Arc<dyn FrontEnd>> {
        let waits = |guard: &mut PoolGuard<'_>| {
            let location = item.location();
            let waits = location.pool() == guard.pool.id && location.is_on_list();
            waits.then(|| location.pwq())
        };
        let (guard, pwq) = self.find(item, waits);
        let pwq = match pwq {
            Some(pwq) => pwq,
            None => {
                let run = guard.busy.find(item.address(), item.func())?;
                guard.busy.get(run).pwq
            }
        };
        Some(guard.pwqs[pwq].owner.front.clone())
    }

    /// If `item` waits for a credit in this pool: its queue, and the index by which that queue
    /// knows the item's limit.
    pub(crate) fn waits_for_credit(
        self: &Arc<Self>,
        item: &RawWork,
    ) -> Option<(Arc<dyn FrontEnd>, usize)> {
        let guard = self.lock_accepting();
        let location = item.location();
        if location.pool() != self.id || location.list != ListKind::Inactive {
            return None;
        }
        let pwq = &guard.pwqs[location.pwq()];
        Some((pwq.owner.front.clone(), pwq.node))
    }
}

/// An item that was taken out. Its queue is there if it is ordered: then an earlier run of the item
/// may still go on in another pool.
pub(crate) type Removed = (Pending, Option<Arc<dyn FrontEnd>>);

impl PoolGuard<'_> {
    /// Takes a pending item off its list in this pool, and completes the waits for it. Returns
    /// `None` if it is on no list.
    pub(crate) fn take_out(&mut self, pool: u32, item: &RawWork) -> Option<Removed> {
        let location = item.location();
        let pending = self.unlink(pool, item)?;
        let pwq = &self.pwqs[location.pwq()];
        let ordered = pwq.traits.ordered.then(|| pwq.owner.front.clone());
        let waiters = self.awaited.remove(&item.address()).unwrap_or_default();
        // Before the item is counted out of flight: with its last item the pool workqueue may be
        // removed.
        self.pwqs[location.pwq()].times.forget(item.address());
        self.leave_room(location.pwq());
        // A staged item is not counted yet.
        if location.list != ListKind::Staged {
            let active = u32::from(location.list != ListKind::Inactive);
            let ended = self.leave_flight(location.pwq(), pending.colour(), 1, active);
            self.after(location.pwq(), pending.colour(), ended);
        }
        self.all_done(waiters);
        Some((pending, ordered))
    }

    /// Takes a pending item off its list in this pool, number `pool`.
    pub(in crate::pool) fn unlink(&mut self, pool: u32, item: &RawWork) -> Option<Pending> {
        let location = item.location();
        if location.pool() != pool {
            return None;
        }
        let list = match location.list {
            ListKind::None | ListKind::Chunk => return None,
            ListKind::Staged => {
                // SAFETY: this pool's lock is held; the item says that it is staged here.
                #[allow(unsafe_code)]
                let pending = unsafe { self.staged.remove(item) };
                return Some(pending);
            }
            ListKind::Worklist => &mut self.worklist,
            ListKind::Inactive => self.pwqs[location.pwq()].inactive.items(),
            ListKind::Scheduled => {
                let run = self.busy.find(item.address(), item.func())?;
                &mut self.busy.get_mut(run).scheduled
            }
        };
        // SAFETY: this pool's lock is held; the item says that it is on this pool's list of this
        // kind, and there is one worklist, one inactive list for its pool workqueue, and one
        // private list for its run.
        #[allow(unsafe_code)]
        let pending = unsafe { list.remove(item) };
        Some(pending)
    }

    /// A completion for the pending instance of `item`: it has run or was cancelled. `None`: no
    /// instance is on a list.
    pub(crate) fn await_pending(&mut self, pool: u32, item: &RawWork) -> Option<Arc<Completion>> {
        let location = item.location();
        if location.pool() != pool || !location.is_on_list() {
            return None;
        }
        let done = Arc::new(Completion::new());
        self.awaited
            .entry(item.address())
            .or_default()
            .push(done.clone());
        Some(done)
    }

    /// A completion for the end of the present run of `item`; `None` if it does not run here.
    pub(crate) fn await_run(&mut self, item: &RawWork) -> Option<Arc<Completion>> {
        let run = self.busy.find(item.address(), item.func())?;
        let done = Arc::new(Completion::new());
        self.busy.get_mut(run).waiters.push(done.clone());
        Some(done)
    }

    /// How many items of this pool workqueue the thread `tid` runs. Each has a credit.
    pub(crate) fn runs_of_thread(&mut self, key: PwqKey, tid: i32) -> usize {
        let Some(pwq) = self.pwq_mut(key) else {
            return 0;
        };
        let slots = pwq.caller_slots_with_runs();
        let in_slots = slots
            .filter(|slot| slot.tid == tid && slot.item_slot.runs())
            .count();
        let is_own = |run: &&Running| run.pwq == key.index && run.by.tid == tid;
        in_slots + self.busy.iter().filter(is_own).count()
    }

    /// Whether this pool runs `item`.
    pub(crate) fn runs(&self, item: &RawWork) -> bool {
        self.busy.find(item.address(), item.func()).is_some()
    }
}
