//! How many workers of all pools of an engine may run at once, and the pools in line for a slot.
//! See `SLOTS.md`.
#![forbid(unsafe_code)]

use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicBool, AtomicU32};
use crate::sys::clock;
use crate::sys::sync::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// What a pool holds where there is no limit.
pub(in crate::pool) const UNLIMITED: u32 = u32::MAX;

/// A pool, as far as the line for slots knows it.
pub(in crate::pool) trait Borrower: Send + Sync {
    /// Called for a pool that was taken out of the line, with a slot reserved for it. Returns
    /// `false` if it needs none any more.
    fn accept_slot(self: Arc<Self>) -> bool;
}

/// The running slots of one engine.
#[derive(Default)]
pub(crate) struct RunningSlots {
    state: Mutex<SlotsState>,
    /// Slots that pools in line wait for, and those held beyond the limit. A hint for holders.
    wanted: AtomicU32,
    /// Whether there is a limit, for threads that do not hold a pool's lock.
    limited: AtomicBool,
}

#[derive(Default)]
struct SlotsState {
    /// `None`: no limit.
    limit: Option<u32>,
    /// Slots held by all pools together. It may exceed the limit.
    held: u32,
    /// Pools with work and without a slot for it, and since when each waits.
    line: VecDeque<(Weak<dyn Borrower>, u64)>,
    /// Whether the service thread checks the line periodically.
    tended: bool,
}

/// The outcome of a request for a slot.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::pool) enum Borrowed {
    Slot,
    /// The pool is in line. Unless `tended`, the service thread has to be asked to check the line.
    InLine {
        tended: bool,
    },
}

impl SlotsState {
    fn has_free(&self) -> bool {
        self.limit.is_none_or(|limit| self.held < limit)
    }

    fn wanted(&self) -> u32 {
        let beyond = self
            .limit
            .map_or(0, |limit| self.held.saturating_sub(limit));
        beyond.saturating_add(self.line.len() as u32)
    }
}

/// Every slot comes back, and no pool stays in line.
#[cfg(all(debug_assertions, not(any(test, cmwq_loom))))]
impl Drop for RunningSlots {
    fn drop(&mut self) {
        crate::sys::ends::at_the_end(|| {
            let state = self.state.lock();
            assert_eq!(
                (state.held, state.line.len()),
                (0, 0),
                "slots, and the line"
            );
        });
    }
}

impl RunningSlots {
    fn with<R>(&self, f: impl FnOnce(&mut SlotsState) -> R) -> R {
        let mut state = self.state.lock();
        let result = f(&mut state);
        // Relaxed: a hint. A holder that reads an old value owes a slot one settling, or one tick
        // of the monitor, later.
        self.wanted.store(state.wanted(), Ordering::Relaxed);
        result
    }

    /// How many workers may run and spin at once; `None`: no limit.
    pub(crate) fn limit(&self) -> Option<u32> {
        self.state.lock().limit
    }

    /// Whether there is a limit. A hint.
    pub(in crate::pool) fn is_limited(&self) -> bool {
        self.limited.load(Ordering::Relaxed)
    }

    /// From now on pools that are told to follow the limit obey it.
    pub(crate) fn set_limit(&self, limit: Option<u32>) {
        self.with(|state| {
            state.limit = limit.map(|limit| limit.max(1));
            self.limited.store(limit.is_some(), Ordering::Relaxed);
            if limit.is_none() {
                state.line.clear();
            }
        });
    }

    /// Slots held by all pools, and pools in line.
    #[cfg(test)]
    pub(crate) fn usage(&self) -> (u32, usize) {
        let state = self.state.lock();
        (state.held, state.line.len())
    }

    #[inline]
    pub(in crate::pool) fn others_want(&self) -> u32 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Takes a slot, unless pools are in line already or none is free; then `pool` enters the line.
    pub(in crate::pool) fn borrow<B: Borrower + 'static>(&self, pool: &Arc<B>) -> Borrowed {
        self.with(|state| {
            if state.line.is_empty() && state.has_free() {
                state.held += 1;
                return Borrowed::Slot;
            }
            let own: Weak<B> = Arc::downgrade(pool);
            state.line.push_back((own, clock::now_ns()));
            Borrowed::InLine {
                tended: std::mem::replace(&mut state.tended, true),
            }
        })
    }

    /// The pool needs no slot any more.
    pub(in crate::pool) fn leave_line<B: Borrower>(&self, pool: &Arc<B>) {
        let is_own = |(own, _): &(Weak<dyn Borrower>, u64)| {
            std::ptr::addr_eq(own.as_ptr(), Arc::as_ptr(pool))
        };
        self.with(|state| state.line.retain(|own| !is_own(own)));
    }

    /// Takes a slot if there is one at once.
    pub(in crate::pool) fn borrow_free(&self) -> bool {
        self.with(|state| {
            let free = state.line.is_empty() && state.has_free();
            state.held += u32::from(free);
            free
        })
    }

    /// Counts so many more as held, whatever the limit.
    pub(in crate::pool) fn take(&self, slots: u32) {
        self.with(|state| state.held += slots);
    }

    /// Gives slots back. Returns `true` if a pool in line can have one now.
    pub(in crate::pool) fn give_back(&self, slots: u32) -> bool {
        self.with(|state| {
            state.held = state.held.saturating_sub(slots);
            state.has_free() && !state.line.is_empty()
        })
    }

    /// Takes the first pool out of the line and reserves a slot for it, if one is free, or if the
    /// pool has been in line since before `overdue_ns`.
    fn next_in_line(&self, overdue_ns: u64) -> Option<Weak<dyn Borrower>> {
        self.with(|state| {
            let (_, since_ns) = state.line.front()?;
            if !state.has_free() && *since_ns > overdue_ns {
                return None;
            }
            state.held += 1;
            state.line.pop_front().map(|(pool, _)| pool)
        })
    }

    /// Whether pools are in line. If none is, the service thread stops checking, and has to be
    /// asked again.
    pub(in crate::pool) fn must_be_tended(&self) -> bool {
        let mut state = self.state.lock();
        state.tended = !state.line.is_empty();
        state.tended
    }

    /// The slots that a new pool holds.
    pub(in crate::pool) fn first_held(&self) -> u32 {
        match self.limit() {
            Some(_) => 0,
            None => UNLIMITED,
        }
    }

    /// Gives back the slots of a pool that no thread will use again.
    pub(in crate::pool) fn drop_held(&self, slots: u32) {
        if slots != UNLIMITED && slots > 0 {
            self.give_back(slots);
        }
    }

    /// Hands slots to the pools in line, first come, first served. Called with no pool's lock held.
    pub(crate) fn hand_out(&self, overdue_ns: u64) {
        while let Some(pool) = self.next_in_line(overdue_ns) {
            let taken = pool.upgrade().is_some_and(|pool| pool.accept_slot());
            if !taken {
                self.give_back(1);
            }
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    struct Waits;

    impl Borrower for Waits {
        fn accept_slot(self: Arc<Self>) -> bool {
            true
        }
    }

    #[test]
    fn the_service_thread_is_asked_once_each_time_that_pools_begin_to_wait() {
        let slots = RunningSlots::default();
        slots.set_limit(Some(1));
        assert!(slots.borrow_free());
        for _ in 0..2 {
            let pools = [0, 1].map(|_| Arc::new(Waits));
            let asked = pools.each_ref().map(|pool| slots.borrow(pool));
            assert_eq!(
                asked,
                [false, true].map(|tended| Borrowed::InLine { tended })
            );
            assert!(slots.must_be_tended());
            pools.iter().for_each(|pool| slots.leave_line(pool));
            assert!(!slots.must_be_tended());
        }
    }
}
