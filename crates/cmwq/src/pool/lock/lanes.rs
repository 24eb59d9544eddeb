//! Lanes under the pool's lock: granted, looked after, and closed.

use super::guard::PoolGuard;
use crate::item::RawWork;
use crate::pool::queue::lane::Lane;
use crate::pool::queue::pwq::PwqKey;
use crate::pool::state::pool::{Pool, PwqState};
use crate::sys::atomic::Ordering;
use std::sync::Arc;

impl PoolGuard<'_> {
    /// A lane of the calling thread, if a place for it is to be had for the asking. `None`: the queue is at its limit, or on its
    /// way out of this pool.
    pub(crate) fn open_lane(&mut self, key: PwqKey) -> Option<Arc<Lane>> {
        let pwq = self.pwq_mut(key)?;
        if !pwq.traits.waiters_run || !pwq.place_for_lane() {
            return None;
        }
        let lane = Lane::new();
        pwq.lanes.push(lane.clone());
        self.watch();
        Some(lane)
    }

    /// Describes what the calling thread runs in one of the lanes; see [`Lane::describe`].
    pub(in crate::pool) fn describe_in_lane(
        &mut self,
        func: usize,
        tid: i32,
        mut description: String,
    ) -> Result<(), String> {
        let pwqs = self.pwqs.iter();
        for lane in pwqs.flat_map(|(_, pwq)| pwq.lanes_with_runs()) {
            match lane.describe(func, tid, description) {
                Ok(()) => return Ok(()),
                Err(back) => description = back,
            }
        }
        Err(description)
    }

    /// Closes the lane of pool workqueue `place` where `item` waits, if there is one: it is on the worklist then.
    pub(in crate::pool) fn fetch_from_lane(&mut self, place: u32, item: &RawWork) {
        if self.pwqs.get_mut(place).is_some() {
            self.close_lanes(place, |lane| lane.berth.holds(item));
        }
    }

    /// At every look of the monitor: closes the lanes where nothing has moved. Tells whether some are left.
    pub(in crate::pool) fn tend_lanes(&mut self) -> bool {
        let with_lanes = |(place, pwq): (u32, &PwqState)| (!pwq.lanes.is_empty()).then_some(place);
        let places: Vec<u32> = self.pwqs.iter().filter_map(with_lanes).collect();
        for &place in &places {
            self.close_lanes(place, Lane::rests);
        }
        places
            .iter()
            .any(|&place| !self.pwqs[place].lanes.is_empty())
    }
}

impl Pool {
    /// The end of a run during which its lane was closed.
    pub(crate) fn end_lane_run(self: &Arc<Self>, key: PwqKey, lane: &Lane) {
        let mut guard = self.lock();
        let colour = lane.colour.load(Ordering::Relaxed);
        // The run is in flight, so the pool workqueue is still there.
        let pwq = &mut guard.pwqs[key.place];
        pwq.closed_lanes
            .retain(|other| !std::ptr::eq(&**other, lane));
        pwq.count_lane_runs(lane.count());
        let ended = guard.leave_flight(key.place, colour, 1, 1);
        guard.after(key.place, colour, ended);
    }

    /// Publishes what the calling thread has in its lane, which is closed.
    pub(crate) fn close_lane(self: &Arc<Self>, key: PwqKey, lane: &Arc<Lane>) {
        let mut guard = self.lock();
        if guard.pwq_mut(key).is_some() {
            guard.close_lanes(key.place, |other| std::ptr::eq(other, &**lane));
        }
    }

    /// The function of an item that ran in a lane panicked.
    pub(crate) fn count_panic(self: &Arc<Self>) {
        self.lock().stats.panics += 1;
    }
}
