//! Finding an item in its pool: taking out a pending one, and waiting for its end.

use super::guard::PoolGuard;
use crate::item::{Completion, ListKind, Pending, RawWork};
use crate::pool::queue::pwq::PwqKey;
use crate::pool::state::pool::FrontEnd;
use crate::pool::task::busy::Running;
use std::sync::Arc;

impl PoolGuard<'_> {
    /// Takes a pending item off its list in this pool, and completes what waited for it. Returns the item's queue with it, if that is
    /// ordered: then another pool may still run the item. `None`: it is on no list.
    pub(crate) fn take_out(
        &mut self,
        pool: u32,
        item: &RawWork,
    ) -> Option<(Pending, Option<Arc<dyn FrontEnd>>)> {
        // Published items are on no list yet.
        self.drain();
        let location = item.location();
        let pending = self.unlink(pool, item)?;
        let pwq = &self.pwqs[location.pwq()];
        let ordered = pwq.traits.ordered.then(|| pwq.owner.front.clone());
        let active = u32::from(location.list != ListKind::Inactive);
        let ended = self.leave_flight(location.pwq(), pending.colour(), 1, active);
        let waiters = self.awaited.remove(&item.address()).unwrap_or_default();
        self.after(location.pwq(), pending.colour(), ended);
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
            ListKind::None => return None,
            ListKind::Worklist => &mut self.worklist,
            ListKind::Inactive => self.pwqs[location.pwq()].inactive.items(),
            ListKind::Scheduled => {
                let run = self.busy.find(item.address(), item.func())?;
                &mut self.busy.get_mut(run).scheduled
            }
        };
        // SAFETY: this pool's lock is held; the item says that it is on this pool's list of this kind, and there is one worklist, one
        // inactive list for its pool workqueue, and one private list for its run.
        #[allow(unsafe_code)]
        let pending = unsafe { list.remove(item) };
        Some(pending)
    }

    /// A completion for the pending instance of `item`: it has run or was cancelled. `None`: no instance is on a list.
    pub(crate) fn await_pending(&mut self, pool: u32, item: &RawWork) -> Option<Arc<Completion>> {
        self.drain();
        let location = item.location();
        if location.pool() != pool || location.list == ListKind::None {
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

    /// The queue that `item` waits on, or runs for, in this pool.
    pub(crate) fn front_of(&mut self, pool: u32, item: &RawWork) -> Option<Arc<dyn FrontEnd>> {
        self.drain();
        let location = item.location();
        let pwq = if location.pool() == pool && location.list != ListKind::None {
            location.pwq()
        } else {
            let run = self.busy.find(item.address(), item.func())?;
            self.busy.get(run).pwq
        };
        Some(self.pwqs[pwq].owner.front.clone())
    }

    /// The queue of `item`, and by what index it knows the item's limit, if the item waits for a credit in this pool.
    pub(crate) fn waits_for_credit(
        &mut self,
        pool: u32,
        item: &RawWork,
    ) -> Option<(Arc<dyn FrontEnd>, usize)> {
        self.drain();
        let location = item.location();
        (location.pool() == pool && location.list == ListKind::Inactive).then(|| {
            let pwq = &self.pwqs[location.pwq()];
            (pwq.owner.front.clone(), pwq.node)
        })
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
