//! Closing lanes: what was in them comes under the pool's lock.

use super::pool::Inner;
use crate::item::Found;
use crate::pool::queue::lane::Lane;
use crate::pool::queue::pwq::{PwqKey, make_active};
use crate::sys::atomic::Ordering;

impl Inner {
    /// Closes all lanes of a pool workqueue: what it has in flight is exact until the lock is let go.
    pub(crate) fn close_all_lanes(&mut self, key: PwqKey) {
        if self.pwq_mut(key).is_some_and(|pwq| !pwq.lanes.is_empty()) {
            self.close_lanes(key.place, |_| true);
        }
    }

    pub(in crate::pool) fn close_lanes(&mut self, place: u32, which: impl Fn(&Lane) -> bool) {
        let pwq = &mut self.pwqs[place];
        let worklist = &mut self.worklist;
        for lane in std::mem::take(&mut pwq.lanes) {
            if !which(&lane) {
                pwq.lanes.push(lane);
                continue;
            }
            lane.colour.store(pwq.colour(), Ordering::Relaxed);
            match lane.berth.close() {
                Found::Nothing => pwq.leave_place(),
                Found::Run => {
                    pwq.one_more_in_flight();
                    pwq.closed_lanes.push(lane.clone());
                }
                Found::Item(mut item) => {
                    item.accept(pwq.colour());
                    pwq.one_more_in_flight();
                    make_active(worklist, item);
                }
            }
            pwq.count_lane_runs(lane.count());
        }
    }
}
