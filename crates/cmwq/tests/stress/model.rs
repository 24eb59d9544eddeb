//! What the model knows: how often each item was accepted, run and taken back, and what may be active at the same time.

use crate::harness::Broken;
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The account of one reusable item. It is only ever queued on one queue, so its runs must not overlap.
#[derive(Default)]
pub(crate) struct Account {
    /// Instances that were certainly accepted.
    pub(crate) accepted: AtomicU64,
    /// Calls that accepted an instance or did not: moving an idle item looks like moving a disabled one.
    pub(crate) unclear: AtomicU64,
    /// Instances that a cancel or a disable reported as removed.
    pub(crate) removed: AtomicU64,
    pub(crate) runs: AtomicU64,
    /// Counted without an atomic: runs of one item are ordered, each sees what the one before did.
    plain_runs: PlainCount,
    inside: AtomicBool,
    /// Set before the item is queued, read by its run.
    pub(crate) flag: AtomicU64,
    pub(crate) flag_seen: AtomicU64,
    /// The newest flag that some run must see.
    pub(crate) owed: AtomicU64,
    /// An armed timer was left to a queue that drained or went: what it held was dropped, and nobody was told.
    pub(crate) lossy: AtomicBool,
}

#[derive(Default)]
struct PlainCount(UnsafeCell<u64>);
// SAFETY: written by the runs of one item only, which is what the test is about; read when no run is left.
unsafe impl Sync for PlainCount {}

impl Account {
    pub(crate) fn begin(&self, broken: &Broken) {
        broken.expect(!self.inside.swap(true, Ordering::Relaxed), || {
            "two runs of one item overlap".into()
        });
        // SAFETY: runs of one item do not overlap; if they do, this is the race that sanitizers shall find.
        unsafe { *self.plain_runs.0.get() += 1 };
        let flag = self.flag.load(Ordering::Relaxed);
        self.flag_seen.fetch_max(flag, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.inside.store(false, Ordering::Relaxed);
        self.runs.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Relaxed)
    }

    pub(crate) fn accept(&self, accepted: bool) {
        if accepted {
            self.accepted.fetch_add(1, Ordering::Release);
        }
    }

    pub(crate) fn remove(&self, removed: bool) {
        if removed {
            self.removed.fetch_add(1, Ordering::Release);
        }
    }

    fn numbers(&self) -> [u64; 4] {
        // Endings first: what is accepted later cannot make an open account look settled.
        [&self.runs, &self.removed, &self.accepted, &self.unclear]
            .map(|count| count.load(Ordering::Acquire))
    }

    /// Nothing is open: every accepted instance has run or was reported as removed.
    pub(crate) fn is_settled(&self) -> bool {
        let [runs, removed, accepted, unclear] = self.numbers();
        let ended = runs + removed;
        let lossy = self.lossy.load(Ordering::Relaxed);
        !self.is_inside() && ended <= accepted + unclear && (lossy || ended >= accepted)
    }

    /// Every flag that a run must see was seen: to be asked when none is left.
    pub(crate) fn saw_flags(&self) -> bool {
        self.flag_seen.load(Ordering::Acquire) >= self.owed.load(Ordering::Relaxed)
    }

    pub(crate) fn describe(&self) -> String {
        let [runs, removed, accepted, unclear] = self.numbers();
        format!(
            "accepted {accepted} (+{unclear}), ran {runs}, removed {removed}{}{}",
            if self.is_inside() { ", runs" } else { "" },
            if self.lossy.load(Ordering::Relaxed) {
                ", timers dropped"
            } else {
                ""
            }
        )
    }

    /// Runs of an item see each other: to be asked when none is left.
    pub(crate) fn saw_each_other(&self) -> bool {
        // SAFETY: no run is left.
        let plain = unsafe { *self.plain_runs.0.get() };
        plain == self.runs.load(Ordering::Relaxed)
    }
}

/// The account of one-shot items: of a queue, or of what one issuer put on it.
#[derive(Default)]
pub(crate) struct Shots {
    pub(crate) fired: AtomicU64,
    pub(crate) ran: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

impl Shots {
    pub(crate) fn ended(&self) -> u64 {
        self.ran.load(Ordering::Acquire) + self.dropped.load(Ordering::Acquire)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.ended() == self.fired.load(Ordering::Acquire)
    }
}

/// Tells what became of a one-shot item: it ran, or it was dropped without.
pub(crate) struct Token {
    ran: bool,
    shots: [Arc<Shots>; 2],
}

impl Token {
    pub(crate) fn new(shots: [Arc<Shots>; 2]) -> Self {
        for shots in &shots {
            shots.fired.fetch_add(1, Ordering::Relaxed);
        }
        Token { ran: false, shots }
    }

    pub(crate) fn runs(&mut self) {
        self.ran = true;
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        for shots in &self.shots {
            let count = if self.ran { &shots.ran } else { &shots.dropped };
            count.fetch_add(1, Ordering::Release);
        }
    }
}

/// Counts who is inside, and how many may be.
#[derive(Default)]
pub(crate) struct Room {
    inside: AtomicUsize,
    peak: AtomicUsize,
}

pub(crate) struct Inside<'a>(&'a Room);

impl Room {
    /// `what`: whose room it is, for the complaint.
    pub(crate) fn enter<'a>(
        &'a self,
        broken: &Broken,
        most: usize,
        what: impl FnOnce() -> String,
    ) -> Inside<'a> {
        let now = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(now, Ordering::Relaxed);
        broken.expect(now <= most, || {
            format!(
                "{}: {now} active at the same time, at most {most} may be",
                what()
            )
        });
        Inside(self)
    }

    /// The most that were inside since the last call.
    pub(crate) fn take_peak(&self) -> usize {
        self.peak.swap(0, Ordering::Relaxed)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}
