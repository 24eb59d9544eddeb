//! Closing caller slots: their items and runs come under the pool's lock.

use super::pool::Inner;
use crate::item::SlotContent;
use crate::pool::queue::caller_slot::CallerSlot;
use crate::pool::queue::pwq::{PwqKey, make_active};
use crate::sys::atomic::Ordering;

impl Inner {
    /// Closes all caller slots of a pool workqueue: what it has in flight is exact until the lock
    /// is released.
    pub(crate) fn close_all_caller_slots(&mut self, key: PwqKey) {
        if self
            .pwq_mut(key)
            .is_some_and(|pwq| !pwq.caller_slots.is_empty())
        {
            self.close_caller_slots(key.index, |_| true);
        }
    }

    pub(in crate::pool) fn close_caller_slots(
        &mut self,
        index: u32,
        which: impl Fn(&CallerSlot) -> bool,
    ) {
        let pwq = &mut self.pwqs[index];
        let worklist = &mut self.worklist;
        for caller_slot in std::mem::take(&mut pwq.caller_slots) {
            if !which(&caller_slot) {
                pwq.caller_slots.push(caller_slot);
                continue;
            }
            caller_slot.colour.store(pwq.colour(), Ordering::Relaxed);
            match caller_slot.item_slot.close() {
                SlotContent::Nothing => pwq.return_credit(),
                SlotContent::Run => {
                    pwq.one_more_in_flight();
                    pwq.closed_caller_slots.push(caller_slot.clone());
                }
                SlotContent::Item(mut item) => {
                    item.accept(pwq.colour());
                    pwq.one_more_in_flight();
                    make_active(worklist, item);
                }
            }
            pwq.stats.add_waiter_runs(caller_slot.count());
        }
    }
}
