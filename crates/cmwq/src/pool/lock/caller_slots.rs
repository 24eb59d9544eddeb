//! Caller slots under the pool's lock: opened, checked, and closed.

use super::guard::PoolGuard;
use crate::item::RawWork;
use crate::pool::queue::caller_slot::CallerSlot;
use crate::pool::queue::pwq::PwqKey;
use crate::pool::state::pool::{Pool, PwqState};
use crate::sys::atomic::Ordering;
use std::sync::Arc;

impl PoolGuard<'_> {
    /// Opens a caller slot for the calling thread, if a credit is at hand. Returns `None` if the
    /// queue is at its limit, or is being removed from this pool.
    pub(crate) fn open_caller_slot(&mut self, key: PwqKey) -> Option<Arc<CallerSlot>> {
        let pwq = self.pwq_mut(key)?;
        if !pwq.traits.waiters_run || !pwq.take_credit_for_caller_slot() {
            return None;
        }
        let caller_slot = CallerSlot::new();
        pwq.caller_slots.push(caller_slot.clone());
        self.watch();
        Some(caller_slot)
    }

    /// Describes what the calling thread runs in one of its caller slots; see [`CallerSlot::describe`].
    pub(in crate::pool) fn describe_in_caller_slot(
        &mut self,
        func: usize,
        tid: i32,
        mut description: String,
    ) -> Result<(), String> {
        let pwqs = self.pwqs.iter();
        for caller_slot in pwqs.flat_map(|(_, pwq)| pwq.caller_slots_with_runs()) {
            match caller_slot.describe(func, tid, description) {
                Ok(()) => return Ok(()),
                Err(back) => description = back,
            }
        }
        Err(description)
    }

    /// Closes the caller slot of pool workqueue `index` that holds `item`, if there is one: the
    /// item is on the worklist then.
    pub(in crate::pool) fn fetch_from_caller_slot(&mut self, index: u32, item: &RawWork) {
        if self.pwqs.get_mut(index).is_some() {
            self.close_caller_slots(index, |caller_slot| caller_slot.item_slot.holds(item));
        }
    }

    /// At every tick of the monitor: closes the caller slots that hold an item, or where nothing
    /// has moved. Tells whether some are left.
    pub(in crate::pool) fn tend_caller_slots(&mut self) -> bool {
        let with_caller_slots =
            |(index, pwq): (u32, &PwqState)| (!pwq.caller_slots.is_empty()).then_some(index);
        let indices: Vec<u32> = self.pwqs.iter().filter_map(with_caller_slots).collect();
        for &index in &indices {
            self.close_caller_slots(index, CallerSlot::rests);
        }
        indices
            .iter()
            .any(|&index| !self.pwqs[index].caller_slots.is_empty())
    }
}

impl Pool {
    /// Accounts for the end of a run during which its caller slot was closed.
    pub(crate) fn end_caller_slot_run(self: &Arc<Self>, key: PwqKey, caller_slot: &CallerSlot) {
        let mut guard = self.lock();
        let colour = caller_slot.colour.load(Ordering::Relaxed);
        // The pool workqueue still exists, because this run is in flight.
        let pwq = &mut guard.pwqs[key.index];
        pwq.closed_caller_slots
            .retain(|other| !std::ptr::eq(&**other, caller_slot));
        pwq.stats.add_waiter_runs(caller_slot.count());
        let ended = guard.leave_flight(key.index, colour, 1, 1);
        guard.after(key.index, colour, ended);
    }

    /// Publishes the item in the calling thread's caller slot, and closes the slot.
    pub(crate) fn close_caller_slot(self: &Arc<Self>, key: PwqKey, caller_slot: &Arc<CallerSlot>) {
        let mut guard = self.lock();
        if guard.pwq_mut(key).is_some() {
            guard.close_caller_slots(key.index, |other| std::ptr::eq(other, &**caller_slot));
        }
    }

    /// The function of an item that ran in a caller slot panicked.
    pub(crate) fn count_panic(self: &Arc<Self>) {
        self.lock().stats.panics += 1;
    }
}
