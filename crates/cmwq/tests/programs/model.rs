//! What the oracles know: how often each item was accepted, run and taken back, what may be active
//! at the same time, what waits.
//!
//! The virtual threads of a simulated machine share one OS thread: nothing here is visible to the
//! machine, and a lock is never contended. What a run must see is: a machine with a weak memory may
//! show it late.

use super::{Broken, os};
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// For sections in which the library is not called.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The account of one reusable item, which is only ever queued on one queue, so its runs must not overlap.
#[derive(Default)]
pub(crate) struct Account {
    /// Instances that were certainly accepted.
    accepted: AtomicU64,
    /// Instances that a cancel or a disable reported as removed.
    removed: AtomicU64,
    runs: AtomicU64,
    /// Counted without an atomic: runs of one item are ordered, each sees what the one before did.
    plain_runs: PlainCount,
    inside: AtomicBool,
    /// Set before the item is queued, read by its run.
    pub(crate) flag: os::Seen,
    pub(crate) flag_seen: AtomicU64,
    /// The newest flag that some run must see.
    pub(crate) owed: AtomicU64,
    /// A queue drained or went with this timer armed: what the timer held was dropped, without a
    /// report to any caller.
    pub(crate) lossy: AtomicBool,
}

#[derive(Default)]
struct PlainCount(UnsafeCell<u64>);
// SAFETY: written by the runs of one item only, which is what the test is about; read when no run is left.
unsafe impl Sync for PlainCount {}

impl Account {
    pub(crate) fn begin(&self, broken: &Broken) {
        let overlaps = self.inside.swap(true, Relaxed);
        broken.expect(!overlaps, || "two runs of one item overlap".into());
        os::alone(self.plain_runs.0.get());
        // SAFETY: runs of one item do not overlap; if they do, this is the race that sanitizers shall find.
        unsafe { *self.plain_runs.0.get() += 1 };
        self.flag_seen.fetch_max(self.flag.load(Relaxed), Relaxed);
    }

    pub(crate) fn end(&self) {
        self.inside.store(false, Relaxed);
        self.runs.fetch_add(1, Release);
    }

    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Acquire)
    }

    /// The number of the run that goes on, or else of the last one: when that has ended there were
    /// so many runs, or more.
    pub(crate) fn present_run(&self) -> u64 {
        // In this order: a run that begins in between is one more.
        let ended = self.runs();
        ended + u64::from(self.is_inside())
    }

    pub(crate) fn is_inside(&self) -> bool {
        self.inside.load(Relaxed)
    }

    pub(crate) fn accept(&self, accepted: bool) {
        self.accepted.fetch_add(u64::from(accepted), Release);
    }

    pub(crate) fn remove(&self, removed: bool) {
        self.removed.fetch_add(u64::from(removed), Release);
    }

    fn numbers(&self) -> [u64; 3] {
        // Endings first: what is accepted later cannot make an open account look settled.
        [&self.runs, &self.removed, &self.accepted].map(|count| count.load(Acquire))
    }

    /// Every accepted instance has run or was reported as removed.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_inside() && self.is_right()
    }

    /// No more instances have ended than were accepted, and no fewer; but what is lossy may still
    /// be under way.
    pub(crate) fn is_right(&self) -> bool {
        let [runs, removed, accepted] = self.numbers();
        let ended = runs + removed;
        let lossy = self.lossy.load(Relaxed);
        ended <= accepted && (lossy || ended >= accepted)
    }

    /// Every flag that a run must see was seen: to be asked when none is left.
    pub(crate) fn saw_flags(&self) -> bool {
        self.flag_seen.load(Acquire) >= self.owed.load(Relaxed)
    }

    /// Runs of an item see each other; what runs at the moment is not asked.
    pub(crate) fn saw_each_other(&self) -> bool {
        // SAFETY: no run is left.
        self.is_inside() || unsafe { *self.plain_runs.0.get() } == self.runs()
    }

    pub(crate) fn describe(&self) -> String {
        let [runs, removed, accepted] = self.numbers();
        let runs_now = if self.is_inside() { ", runs" } else { "" };
        let lossy = if self.lossy.load(Relaxed) {
            ", timers dropped"
        } else {
            ""
        };
        format!("accepted {accepted}, ran {runs}, removed {removed}{runs_now}{lossy}")
    }
}

/// The account of one-shot items: of a queue, or of what one issuer put on it.
#[derive(Default)]
pub(crate) struct Shots {
    pub(crate) fired: AtomicU64,
    ran: AtomicU64,
    dropped: AtomicU64,
    /// How many of the dropped ones an issuer has aborted.
    pub(crate) aborted: AtomicU64,
}

impl Shots {
    pub(crate) fn ended(&self) -> u64 {
        self.ran.load(Acquire) + self.dropped()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Acquire)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.ended() == self.fired.load(Acquire)
    }
}

/// Records the end of a one-shot item: it ran, or it was dropped without a run.
pub(crate) struct Token {
    ran: bool,
    shots: [Arc<Shots>; 2],
}

impl Token {
    pub(crate) fn new(shots: [Arc<Shots>; 2]) -> Self {
        for shots in &shots {
            shots.fired.fetch_add(1, Relaxed);
        }
        Token { ran: false, shots }
    }

    pub(crate) fn runs(&mut self, broken: &Broken) {
        broken.expect(!self.ran, || "a one-shot item ran twice".into());
        self.ran = true;
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        for shots in &self.shots {
            let count = if self.ran { &shots.ran } else { &shots.dropped };
            count.fetch_add(1, Release);
        }
    }
}

/// Counts what is inside.
#[derive(Default)]
pub(crate) struct Room {
    inside: AtomicUsize,
    peak: AtomicUsize,
}

pub(crate) struct Inside(Arc<Room>);

impl Room {
    /// `what`: whose room it is, for the complaint.
    pub(crate) fn enter(
        self: &Arc<Self>,
        broken: &Broken,
        most: usize,
        what: impl FnOnce() -> String,
    ) -> Inside {
        let now = self.inside.fetch_add(1, SeqCst) + 1;
        self.peak.fetch_max(now, Relaxed);
        broken.expect(now <= most, || {
            format!(
                "{}: {now} active at the same time, at most {most} may be",
                what()
            )
        });
        Inside(self.clone())
    }

    /// The most that were inside since the last call.
    pub(crate) fn take_peak(&self) -> usize {
        self.peak.swap(0, Relaxed)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, SeqCst);
    }
}

/// What waits on the queues where work conservation is watched.
#[derive(Default)]
pub(crate) struct Waiting {
    items: Mutex<BTreeMap<u64, Wait>>,
    next: AtomicU64,
    last_start: AtomicU64,
}

#[derive(Clone)]
struct Wait {
    since: u64,
    cpus: Arc<[usize]>,
}

impl Waiting {
    /// An item waits from now on that may run on these CPUs.
    pub(crate) fn begin(&self, now: u64, cpus: Arc<[usize]>) -> u64 {
        let number = self.next.fetch_add(1, Relaxed);
        lock(&self.items).insert(number, Wait { since: now, cpus });
        number
    }

    /// It starts.
    pub(crate) fn end(&self, number: u64, now: u64) {
        lock(&self.items).remove(&number);
        self.last_start.fetch_max(now, Relaxed);
    }

    /// A complaint if nothing has started for `bound_ns`, and something waits that a CPU which has
    /// been idle for as long could run. `idle_ns`: for how long a CPU has been idle.
    pub(crate) fn complaint(
        &self,
        now: u64,
        bound_ns: u64,
        idle_ns: impl Fn(usize) -> u64,
    ) -> Option<String> {
        let late = |since: u64| now.saturating_sub(since) > bound_ns;
        if !late(self.last_start.load(Relaxed)) {
            return None;
        }
        let items = lock(&self.items);
        let wait = items.values().find(|wait| late(wait.since))?;
        let cpu = wait.cpus.iter().find(|&&cpu| idle_ns(cpu) > bound_ns)?;
        let waited = (now - wait.since) / 1000;
        Some(format!(
            "an item has waited for {waited} us while CPU {cpu} idled, and nothing began"
        ))
    }
}
