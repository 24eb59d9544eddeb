//! Lanes: the short way of a thread that spawns an item and joins it at once, again and again.
//!
//! Such an item needs no worker: the thread that waits for it runs it. Even so it would be published, taken off the worklist
//! and accounted for under the pool's lock, on lines that all issuers of the pod share. A lane is a [`Berth`] for one item,
//! *biased* towards one thread: putting an item there, taking it back and ending its run are each one exchange on a
//! line that nobody else touches.
//!
//! A lane holds one place among its queue's active items all the time, and whatever has to know exactly what is in flight (a
//! flush, a drain, a change of the limit or of the attributes, somebody who has no place) *closes* it, under the pool's
//! lock, before it looks. Closing takes the item that waits there and accepts it as if it had been published just now, or counts
//! the one that runs there as in flight; its end is then accounted for under the lock like any other's. A closed lane is never
//! opened again; its thread gets a new one when it has earned it again.
//!
//! | closing finds | and leaves |
//! |---|---|
//! | nothing | the lane's place free |
//! | an item | the item on the worklist, with the lane's place, under the current colour |
//! | a run | the run in flight, with the lane's place, under the current colour |
//!
//! Nothing rests in a lane for long: the monitor looks at pools with lanes, and closes those where it finds an item waiting, or where
//! nothing has moved since its last look. So an item that its thread does not join waits two milliseconds more at most.
#![forbid(unsafe_code)]

use super::guard::PoolGuard;
use super::help::{Callable, call};
use super::pwq::make_active;
use super::{Current, Inner, Pool, PwqKey};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicU32, AtomicU64};
use crate::sys::{clock, thread};
use crate::work::{Berth, Found, Pending, RawWork};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

pub(crate) struct Lane {
    berth: CachePadded<Berth>,
    /// Items run here. Written by the lane's thread alone.
    runs: AtomicU64,
    /// The function that it runs, or ran last. Written by the lane's thread alone.
    func: AtomicU64,
    tid: i32,
    // The rest is written under the pool's lock.
    /// `runs` at the monitor's last look, and when it first looked that like, by the coarse clock.
    seen_runs: AtomicU64,
    since_ns: AtomicU64,
    /// How many runs are in the counts of the pool workqueue already: those before the closing.
    counted: AtomicU64,
    /// The colour that a run was counted under when the lane was closed.
    colour: AtomicU32,
}

impl Lane {
    /// An open lane of the calling thread.
    pub(crate) fn new() -> Arc<Lane> {
        Arc::new(Lane {
            berth: CachePadded::new(Berth::new()),
            runs: AtomicU64::new(0),
            func: AtomicU64::new(0),
            tid: thread::current_tid(),
            seen_runs: AtomicU64::new(u64::MAX),
            since_ns: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            colour: AtomicU32::new(0),
        })
    }

    /// By its thread: puts an item there. Given back if the lane was closed, or its item runs.
    #[inline]
    pub(crate) fn put(&self, item: Pending) -> Result<(), Pending> {
        self.berth.put(item)
    }

    /// By its thread: takes the item that it has put there. `None`: the lane was closed, and the item is in its pool.
    #[inline]
    pub(crate) fn take(&self, item: &RawWork) -> Option<Pending> {
        self.berth.take(item)
    }

    /// By its thread.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.berth.is_closed()
    }

    /// Runs an item that was [taken](Self::take), and begun; tells whether it panicked. `Some`: the lane was closed meanwhile, and the
    /// end of this run, of this colour, is to be told to the pool.
    #[inline]
    pub(crate) fn run(&self, begun: impl Callable, current: Current) -> (bool, Option<u32>) {
        self.func.store(current.func as u64, Ordering::Relaxed);
        let panicked = call(begun, current);
        let runs = self.runs.load(Ordering::Relaxed);
        // Before the end: who finds the lane empty finds all runs counted.
        self.runs.store(runs + 1, Ordering::Relaxed);
        let closed = !self.berth.end();
        (
            panicked,
            closed.then(|| self.colour.load(Ordering::Relaxed)),
        )
    }

    pub(super) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    pub(super) fn is_running(&self) -> bool {
        self.berth.runs()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.berth.is_idle()
    }

    /// With the pool's lock: the function that runs here, the thread, and since when at least; `None`: none does.
    pub(super) fn running(&self) -> Option<(usize, i32, u64)> {
        let seen = self.seen_runs.load(Ordering::Relaxed) == self.runs();
        let since_ns = match seen {
            true => self.since_ns.load(Ordering::Relaxed),
            false => clock::coarse_ns(),
        };
        let func = self.func.load(Ordering::Relaxed) as usize;
        self.is_running().then_some((func, self.tid, since_ns))
    }

    /// With the pool's lock, now and then: whether it is to be closed, since an item waits there or nothing has moved since
    /// the last call.
    fn rests(&self) -> bool {
        let runs = self.runs();
        let rests = self.seen_runs.swap(runs, Ordering::Relaxed) == runs;
        if !rests {
            self.since_ns.store(clock::coarse_ns(), Ordering::Relaxed);
        }
        self.berth.has_item() || (rests && !self.is_running())
    }

    /// With the pool's lock: the runs that are not in the pool workqueue's counts yet.
    fn count(&self) -> u64 {
        let runs = self.runs();
        runs - self.counted.swap(runs, Ordering::Relaxed)
    }
}

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

    /// Closes the lane of pool workqueue `place` where `item` waits, if there is one: it is on the worklist then.
    pub(super) fn fetch_from_lane(&mut self, place: u32, item: &RawWork) {
        if self.pwqs.get_mut(place).is_some() {
            self.close_lanes(place, |lane| lane.berth.holds(item));
        }
    }

    /// At every look of the monitor: closes the lanes where nothing has moved. Tells whether some are left.
    pub(super) fn tend_lanes(&mut self) -> bool {
        let with_lanes =
            |(place, pwq): (u32, &super::PwqState)| (!pwq.lanes.is_empty()).then_some(place);
        let places: Vec<u32> = self.pwqs.iter().filter_map(with_lanes).collect();
        for &place in &places {
            self.close_lanes(place, Lane::rests);
        }
        places
            .iter()
            .any(|&place| !self.pwqs[place].lanes.is_empty())
    }
}

impl Inner {
    /// Closes all lanes of a pool workqueue: what it has in flight is exact until the lock is let go.
    pub(crate) fn close_all_lanes(&mut self, key: PwqKey) {
        if self.pwq_mut(key).is_some_and(|pwq| !pwq.lanes.is_empty()) {
            self.close_lanes(key.place, |_| true);
        }
    }

    fn close_lanes(&mut self, place: u32, which: impl Fn(&Lane) -> bool) {
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
                Found::Run => pwq.one_more_in_flight(),
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

impl Pool {
    /// The end of a run during which its lane was closed.
    pub(crate) fn end_lane_run(self: &Arc<Self>, key: PwqKey, lane: &Lane, colour: u32) {
        let mut guard = self.lock();
        // The run is in flight, so the pool workqueue is still there.
        guard.pwqs[key.place].count_lane_runs(lane.count());
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
