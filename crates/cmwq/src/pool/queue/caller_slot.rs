//! Caller slots: a shortcut for a thread that spawns an item and joins it at once, again and again.
//!
//! Such an item needs no worker: the thread that waits for it runs it. Even so it would be
//! published, taken off the worklist and accounted for under the pool's lock, on lines that all
//! issuers of the pod share. A caller slot is an [`ItemSlot`] for one item, *biased* towards one
//! thread: putting an item there, taking it back and ending its run are each one exchange on a line
//! that no other thread touches.
//!
//! A caller slot holds one credit of its queue all the time. A thread that has to know exactly what
//! is in flight (for a flush, a drain, a change of the limit or of the attributes, or because it
//! needs a credit) first *closes* it, under the pool's lock. Closing takes the item that waits
//! there and accepts it as if it had just been published, or counts the run there as in flight; the
//! end of that run is then accounted for under the lock like any other. A closed caller slot is
//! never opened again; its thread gets a new one when it has earned it again.
//!
//! | closing finds | and leaves |
//! |---|---|
//! | nothing | the caller slot's credit free |
//! | an item | the item on the worklist, with the caller slot's credit, under the current colour |
//! | a run | the run in flight, with the caller slot's credit, under the current colour |
//!
//! No item stays in a caller slot for long: the monitor samples pools with caller slots, and closes
//! those that hold a waiting item, or where nothing has moved since its last tick. So an item that
//! its thread does not join waits at most two milliseconds longer than without the slot.
#![forbid(unsafe_code)]

use crate::item::{Callable, ItemSlot};
use crate::pool::task::call::call_as_waiter;
use crate::pool::task::current::Current;
use crate::sys::atomic::plain::AtomicU64;
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::sync::Mutex;
use crate::sys::{clock, thread};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// The value of `colour` while the slot is open: its runs are not counted under any colour.
const NO_COLOUR: u32 = u32::MAX;

pub(crate) struct CallerSlot {
    pub(crate) item_slot: CachePadded<ItemSlot>,
    /// Items run here. Only the slot's thread writes it.
    pub(in crate::pool) runs: AtomicU64,
    /// The function that it runs, or ran last. Only the slot's thread writes it.
    pub(in crate::pool) func: AtomicU64,
    pub(in crate::pool) tid: i32,
    // The rest is written under the pool's lock.
    /// `runs` at the monitor's last tick, and when the monitor first saw that value, by the coarse clock.
    pub(in crate::pool) seen_runs: AtomicU64,
    pub(in crate::pool) since_ns: AtomicU64,
    /// How many runs the pool workqueue has counted already: those before the closing.
    pub(in crate::pool) counted: AtomicU64,
    /// The colour that a run was counted under when the caller slot was closed. Read under the
    /// pool's lock too.
    pub(in crate::pool) colour: AtomicU32,
    /// The description of the run of this number, which is the count of those before it.
    pub(in crate::pool) description: Mutex<Option<(u64, String)>>,
}

impl CallerSlot {
    /// An open caller slot of the calling thread.
    pub(crate) fn new() -> Arc<CallerSlot> {
        Arc::new(CallerSlot {
            item_slot: CachePadded::new(ItemSlot::new()),
            runs: AtomicU64::new(0),
            func: AtomicU64::new(0),
            tid: thread::current_tid(),
            seen_runs: AtomicU64::new(u64::MAX),
            since_ns: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            colour: AtomicU32::new(NO_COLOUR),
            description: Mutex::new(None),
        })
    }

    /// Called by the slot's thread: runs an item that was taken out of the slot and begun. Returns
    /// whether the item panicked, and whether the slot was closed meanwhile. If it was, the caller
    /// reports the end of this run to the pool.
    #[inline]
    pub(crate) fn run(&self, begun: impl Callable, current: Current) -> (bool, bool) {
        self.func.store(current.func as u64, Ordering::Relaxed);
        let panicked = call_as_waiter(begun, current);
        let runs = self.runs.load(Ordering::Relaxed);
        // Before the end: a thread that finds the caller slot empty finds all runs counted.
        self.runs.store(runs + 1, Ordering::Relaxed);
        let closed = !self.item_slot.end();
        (panicked, closed)
    }

    pub(in crate::pool) fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// With the pool's lock: the function that runs here, the thread, and since when at least;
    /// `None`: nothing runs.
    pub(in crate::pool) fn running(&self) -> Option<(usize, i32, u64)> {
        let seen = self.seen_runs.load(Ordering::Relaxed) == self.runs();
        let since_ns = match seen {
            true => self.since_ns.load(Ordering::Relaxed),
            false => clock::coarse_ns(),
        };
        let func = self.func.load(Ordering::Relaxed) as usize;
        self.item_slot.runs().then_some((func, self.tid, since_ns))
    }

    /// With the pool's lock: describes the item of function `func` that the thread `tid` runs here.
    /// Returns the description if it runs none.
    pub(in crate::pool) fn describe(
        &self,
        func: usize,
        tid: i32,
        description: String,
    ) -> Result<(), String> {
        match self.running() {
            Some((own, by, _)) if (own, by) == (func, tid) => {
                *self.description.lock() = Some((self.runs(), description));
                Ok(())
            }
            _ => Err(description),
        }
    }

    /// With the pool's lock: the description of what runs here.
    pub(in crate::pool) fn description(&self) -> Option<String> {
        let description = self.description.lock();
        let (run, text) = description.as_ref()?;
        (*run == self.runs()).then(|| text.clone())
    }

    /// With the pool's lock, at each tick: whether it is to be closed, since an item waits there or
    /// nothing has moved since the last call.
    pub(in crate::pool) fn rests(&self) -> bool {
        let runs = self.runs();
        let rests = self.seen_runs.swap(runs, Ordering::Relaxed) == runs;
        if !rests {
            self.since_ns.store(clock::coarse_ns(), Ordering::Relaxed);
        }
        self.item_slot.has_item() || (rests && !self.item_slot.runs())
    }

    /// With the pool's lock: the runs that are not in the pool workqueue's counts yet.
    pub(in crate::pool) fn count(&self) -> u64 {
        let runs = self.runs();
        runs - self.counted.swap(runs, Ordering::Relaxed)
    }
}
