//! Deferred wake-ups: a waiter of a saturated pool is woken some items after the one that completed
//! what it waits for.
//!
//! If a thread keeps many items in flight and waits for the oldest, each completion wakes it, it
//! queues one more item, and sleeps again: a wake-up and two switches for each item. If the pod
//! will be busy for some time with the items that wait already, waking the thread early gains
//! nothing: what it queues then would only wait. So a completing worker may enter the sleeper here
//! and go on. The sleeper is woken some items later, and finds several of its completions done.
//!
//! The monitor sets the longest delay at each tick: the time in which the pool ends as many items
//! as wait now and as sleepers are entered, since each of these will queue one more, which waits
//! for about so long. It is zero if items end rarely, and stays for the first few ticks at which no
//! CPU is in demand. A worker that finds nothing to do wakes all, so a long delay leaves no CPU
//! idle.
//!
//! **Invariant.** An entered sleeper is woken: by the worker that entered it, after its item, if
//! that worker finds nothing to do or if the wake-up is expired; before that worker declares that
//! it blocks; by another worker that finds it expired; and, if all of them are in items that do not
//! end, by the monitor at its first tick at which it has expired. So it does not matter what the
//! rest of the item does, nor what the item behind it waits for. The monitor may have forbidden
//! deferring and gone meanwhile: so the worker that enters a sleeper checks again afterwards
//! whether it may, and wakes all if not.
//!
//! While many items wait for CPUs, a thread that spins takes a CPU from what it waits for: the thread
//! that has published there last parks at once ([`has_backlog`]). If little waits, it spins first.
//!
//! A sleeper that was woken otherwise meanwhile, or is gone, is woken in vain: see
//! [`Completion`](crate::Completion).
//!
//! **Wakers** of asynchronous tasks are deferred in the same way: a runtime's thread that a waker
//! unparks finds several of its tasks ready. A waker is the program's code. So a worker or the
//! monitor calls it only between two items, with no lock held; never before a declared block, where
//! the item may hold a lock that the waker takes. If deferring is forbidden while a worker enters a
//! waker, the worker takes that one back and calls it at once: at the end of its item, since the
//! next item of its batch may wait for the task, or in the item's call of
//! [`wake_deferred`](crate::raw::wake_deferred).
//!
//! A thread that polls a handle while there is a backlog calls the wakers that are entered: it runs
//! tasks, and need not be woken for each of them.
#![allow(unsafe_code)]

use crate::sys::atomic::plain::{AtomicBool, AtomicU64};
use crate::sys::atomic::{self, AtomicU32, AtomicUsize, Ordering};
use crate::sys::bell::Ringer;
use crate::sys::cell::{alone, alone_at_last};
use crate::sys::local::thread_local;
use crate::sys::{clock, park};
use crate::trace::{Callee, Foreign};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::task::Waker;

/// The most sleepers at a time; further ones are woken at once.
const SLOTS: usize = if cfg!(cmwq_loom) { 2 } else { 32 };
/// The longest delay.
const LATEST_NS: u64 = 500_000;
/// A shorter delay is not worth it: it would be less than the cost of two wake-ups.
const WORTH_NS: u64 = 15_000;
/// Items that will wait for at least this long are a backlog, for which a waiter parks at once. A
/// waiter that parks costs two wake-ups, of a worker for its CPU and its own, so the wait must be
/// longer than that. If any wait is a backlog, joins of 8 items of 5 us make 0.79 of the rate; with
/// 250 us joins of 64 of them make 0.91.
pub(in crate::pool) const BACKLOG_NS: u64 = 4 * WORTH_NS;
/// If items end more rarely than once in this time, sleepers are woken at once: workers would look
/// too rarely for wake-ups that have expired.
const OFTEN_NS: u64 = 50_000;

thread_local! {
    static IN_WAKER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread calls a waker of a task. Such a thread must not wait: it may be the
/// monitor, or a worker that has not accounted for its last item yet.
pub(crate) fn in_waker() -> bool {
    IN_WAKER.with(Cell::get)
}

/// The entry for a bell. It is odd, and addresses of words are aligned to 4, so the two cannot be
/// confused.
#[cfg(not(cmwq_loom))]
pub(crate) fn entry_of(ringer: Ringer) -> usize {
    ringer.number() << 1 | 1
}

/// The bit that marks the entry of a waker. Addresses of words and of boxes of wakers are aligned
/// to 4; a bell's entry is odd.
const WAKER: usize = 2;

/// The entry of a task's waker.
pub(in crate::pool) fn entry_of_waker(waker: Box<Foreign<Waker>>) -> usize {
    let waker = Box::into_raw(waker);
    alone(waker);
    waker.expose_provenance() | WAKER
}

fn is_waker(entry: usize) -> bool {
    entry & 3 == WAKER
}

/// Wakes the threads that sleep on the word at this address, rings this bell, or calls this waker.
///
/// # Safety
/// The entry is the caller's: it was taken out of its slot, or never entered.
pub(in crate::pool) unsafe fn wake(entry: usize) {
    if is_waker(entry) {
        let waker = std::ptr::with_exposed_provenance_mut::<Foreign<Waker>>(entry & !WAKER);
        alone_at_last(waker);
        // SAFETY: it comes from `Box::into_raw`, and the caller owns it.
        let waker = unsafe { Box::from_raw(waker) };
        let outer = IN_WAKER.with(|inside| inside.replace(true));
        waker.call_once(Callee::Waker, Waker::wake);
        IN_WAKER.with(|inside| inside.set(outer));
    } else if entry & 1 == 0 {
        park::wake_all_at(std::ptr::without_provenance(entry));
    } else {
        Ringer::of(entry >> 1).ring();
    }
}

/// The sleepers of one pool that are still to be woken.
#[derive(Default)]
pub(in crate::pool) struct PendingWakeups {
    /// Addresses of the words that threads sleep on, [bells](entry_of), or boxes of wakers; 0: none.
    slots: [AtomicUsize; SLOTS],
    /// 1 if a sleeper was entered since all were last woken. Changed only by read-modify-writes, so
    /// that the worker that takes it sees all that was entered before: the entries release, and
    /// each continues the release of the earlier ones.
    any: AtomicU32,
    /// About when the first of them was entered.
    since_ns: AtomicU64,
    /// The longest delay; 0: no deferring. The monitor writes it, the workers read it, and the
    /// models check that.
    within_ns: atomic::AtomicU64,
}

impl PendingWakeups {
    /// Whether sleepers may be entered now. The monitor may forbid it at any time.
    pub(in crate::pool) fn may_defer(&self) -> bool {
        self.within_ns.load(Ordering::Relaxed) != 0
    }

    /// Enters a sleeper. Returns `false` if the caller must wake it at once.
    pub(in crate::pool) fn enter(&self, word: usize) -> bool {
        if !self.may_defer() {
            return false;
        }
        // Release: the worker that takes a waker out reads it. Of words and bells only the number is used.
        let entered = self.slots.iter().any(|slot| {
            slot.compare_exchange(0, word, Ordering::Release, Ordering::Relaxed)
                .is_ok()
        });
        if entered {
            if !self.is_any() {
                // If two threads store, either time will do.
                self.since_ns.store(clock::now_ns(), Ordering::Relaxed);
            }
            // Release: the waking thread finds the entry. Acquire: if an exchange came first and
            // missed the entry, the monitor may have forbidden deferring, and that is seen.
            self.any.fetch_or(1, Ordering::AcqRel);
            if !self.may_defer() {
                // Perhaps no thread looks at the entries any more, so this one wakes them. Wakers
                // are left to the workers that entered them.
                self.wake_in_item();
            }
        }
        entered
    }

    /// As [`enter`](Self::enter), of a waker. The caller may call it at once, with no lock of this
    /// crate held.
    pub(in crate::pool) fn enter_waker(&self, entry: usize) -> bool {
        if !self.enter(entry) {
            return false;
        }
        if self.may_defer() {
            return true;
        }
        // The monitor may have looked before the waker was entered. If it looked afterwards, it has
        // taken the waker, and calls it. Acquire: another waker may have come to the same address
        // and slot since, which this thread then calls in its place.
        let reclaim = |slot: &AtomicUsize| {
            slot.compare_exchange(entry, 0, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        };
        !self.slots.iter().any(reclaim)
    }

    #[cfg(all(test, not(cmwq_loom)))]
    pub(in crate::pool) fn entered(&self) -> Vec<usize> {
        let words = self.slots.iter().map(|at| at.load(Ordering::Relaxed));
        words.filter(|&word| word != 0).collect()
    }

    /// Wakes all except wakers, which must not be called inside an item. `any` stays set, at worst
    /// without an entry.
    pub(in crate::pool) fn wake_in_item(&self) {
        if self.is_any() {
            self.wake_those(|entry| !is_waker(entry));
        }
    }

    /// Calls all wakers, for a thread that polls tasks, with no lock of this crate held. The others
    /// stay entered.
    pub(in crate::pool) fn wake_tasks(&self) {
        if self.is_any() {
            self.wake_those(is_waker);
        }
    }

    /// Whether there may be entries. For a worker that has entered one, the answer is never `false`
    /// before another worker has taken it.
    #[inline]
    pub(in crate::pool) fn is_any(&self) -> bool {
        self.any.load(Ordering::Relaxed) != 0
    }

    /// How long ago the first was entered.
    #[inline]
    fn entered_for_ns(&self) -> u64 {
        // The model checker has no time.
        match self.is_any() && !cfg!(cmwq_loom) {
            true => clock::now_ns().saturating_sub(self.since_ns.load(Ordering::Relaxed)),
            false => 0,
        }
    }

    /// Wakes all, if there are any.
    #[inline]
    pub(in crate::pool) fn wake_entered(&self) {
        if self.is_any() {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        // This comes first, so that a later entry sets it again. Acquire: earlier entries are
        // found.
        self.any.swap(0, Ordering::AcqRel);
        self.wake_those(|_| true);
    }

    /// Wakes the entries that `wanted` accepts. `false`: others are left.
    fn wake_those(&self, wanted: impl Fn(usize) -> bool) -> bool {
        let mut all = true;
        for slot in &self.slots {
            let word = slot.load(Ordering::Relaxed);
            if word == 0 {
                continue;
            }
            if !wanted(word) {
                all = false;
                continue;
            }
            // If another worker has taken it meanwhile, that worker wakes it. Acquire: pairs with
            // the release of a waker's entry.
            let taken = slot.compare_exchange(word, 0, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                // SAFETY: just taken out of its slot.
                unsafe { wake(word) };
            }
        }
        all
    }

    /// Called by a worker that has ended an item: wakes all if the delay is over.
    #[inline]
    pub(in crate::pool) fn wake_if_expired(&self) {
        // With a delay of 0 deferring is forbidden: then workers on other CPUs may not look at the
        // entries any more, so this one wakes them.
        if self.is_any() && self.entered_for_ns() >= self.within_ns.load(Ordering::Relaxed) {
            self.wake_all();
        }
    }

    /// The monitor's sample: `waiting` items wait, and `done` have ended in `period_ns`.
    pub(in crate::pool) fn allow(&self, waiting: u64, done: u64, period_ns: u64) -> WakeAll<'_> {
        let entered = self
            .slots
            .iter()
            .filter(|at| at.load(Ordering::Relaxed) != 0);
        let late_ns = deferral_ns(waiting + entered.count() as u64, done, period_ns);
        if late_ns == 0 {
            return self.forbid();
        }
        // Those that have not expired are woken by a worker, which needs no interrupt to another
        // CPU, or at the next tick.
        let expired = self.entered_for_ns() >= self.within_ns.swap(late_ns, Ordering::Relaxed);
        WakeAll((expired && self.is_any()).then_some(self))
    }

    /// Forbids deferring: from now on all sleepers are woken at once.
    pub(in crate::pool) fn forbid(&self) -> WakeAll<'_> {
        self.within_ns.store(0, Ordering::Relaxed);
        // Done even if no sleeper is entered: a worker that enters one from now on acquires the
        // exchange of `wake_all`, and so sees that deferring is forbidden.
        WakeAll(Some(self))
    }

    /// All entries, to be woken when the result is dropped.
    pub(in crate::pool) fn all(&self) -> WakeAll<'_> {
        WakeAll(self.is_any().then_some(self))
    }
}

/// Wakes all entries when dropped, which must be with no lock held: a waker may queue items.
#[must_use]
pub(in crate::pool) struct WakeAll<'a>(Option<&'a PendingWakeups>);

impl Drop for WakeAll<'_> {
    fn drop(&mut self) {
        if let Some(pending_wakeups) = self.0 {
            pending_wakeups.wake_all();
        }
    }
}

/// Whether a pool has a backlog, indexed by its number modulo the length. For threads that know only
/// the number of a pool.
static BACKLOGS: [CachePadded<AtomicBool>; 1024] =
    [const { CachePadded::new(AtomicBool::new(false)) }; 1024];

fn backlog(pool: u32) -> &'static AtomicBool {
    &BACKLOGS[pool as usize % BACKLOGS.len()]
}

/// Called by a holder of the pool's lock: the items that wait will wait for `wait_ns`, 0 if none
/// does. Tells the threads that wait for items of this pool whether that is a backlog.
#[inline]
pub(in crate::pool) fn tell_backlog(pool: u32, wait_ns: u64) {
    let told = backlog(pool);
    let is_backlog = wait_ns >= BACKLOG_NS;
    // All threads that wait read this line, so a lock holder writes it only if the answer changes.
    if told.load(Ordering::Relaxed) != is_backlog {
        told.store(is_backlog, Ordering::Relaxed);
    }
}

pub(in crate::pool) fn has_backlog(pool: u32) -> bool {
    backlog(pool).load(Ordering::Relaxed)
}

/// How long a wake-up may wait if so many items are `in_flight`: queued, or about to be by those
/// who are woken.
fn deferral_ns(in_flight: u64, done: u64, period_ns: u64) -> u64 {
    if done == 0 || period_ns / done > OFTEN_NS {
        return 0;
    }
    let late_ns = (in_flight.saturating_mul(period_ns) / done).min(LATEST_NS);
    if late_ns < WORTH_NS { 0 } else { late_ns }
}

#[cfg(all(test, cmwq_loom))]
#[path = "deferred_model.rs"]
mod model;

#[cfg(all(test, not(cmwq_loom)))]
#[path = "deferred_tests.rs"]
mod tests;
