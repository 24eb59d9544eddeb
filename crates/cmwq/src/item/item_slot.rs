//! A place for one item that belongs to one thread, until somebody else closes it. See `pool/queue/caller_slot.rs` for what it is for.
//!
//! One word: the address of the item, or that there is none, that it runs, or that the place is closed. Every change is one
//! exchange, so of the thread's next step and a closing one comes first, and the other sees it.

use super::raw::{Pending, RawWork};
use crate::sys::atomic::{AtomicPtr, Ordering};
use std::ptr::{NonNull, without_provenance_mut};

/// What the word says when it is no item's address.
const CLOSED: usize = 0;
const OPEN: usize = 1;
const RUNNING: usize = 2;
/// Closed while the item ran.
const RUNNING_CLOSED: usize = 3;

pub(crate) struct ItemSlot {
    state: AtomicPtr<RawWork>,
}

/// What an item slot held when it was closed.
pub(crate) enum Found {
    Nothing,
    /// The item is the closer's now.
    Item(Pending),
    /// An item that the thread runs; it will be told at the end.
    Run,
}

impl ItemSlot {
    /// An open one, empty.
    pub(crate) fn new() -> Self {
        ItemSlot {
            state: AtomicPtr::new(without_provenance_mut(OPEN)),
        }
    }

    /// By its thread: puts an item there. Given back if it is not open and empty.
    #[inline]
    pub(crate) fn put(&self, item: Pending) -> Result<(), Pending> {
        let item = item.into_raw();
        // Release: who closes it has the item as it is. Acquire is not needed: only this thread was here.
        match self.state.compare_exchange(
            without_provenance_mut(OPEN),
            item.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            Ok(_) => Ok(()),
            // SAFETY: it was into_raw's just now and nobody else got it.
            Err(_) => Err(unsafe { Pending::from_raw(item) }),
        }
    }

    /// By its thread: takes the item back in order to run it. `None`: it is not there any more.
    #[inline]
    pub(crate) fn take(&self, item: &RawWork) -> Option<Pending> {
        // Relaxed: this thread put it there, and nobody else changes it.
        let there = self.state.load(Ordering::Relaxed);
        if there.addr() != item.address() {
            return None;
        }
        self.state
            .compare_exchange(
                there,
                without_provenance_mut(RUNNING),
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .ok()
            .and_then(NonNull::new)
            // SAFETY: `put` left it there, and the exchange made it ours.
            .map(|item| unsafe { Pending::from_raw(item) })
    }

    /// By its thread: the item that was taken has run. `false`: the place was closed meanwhile.
    #[inline]
    pub(crate) fn end(&self) -> bool {
        // Release: who closes it afterwards sees what the item did. Acquire: who finds it closed comes after the closer.
        self.state
            .compare_exchange(
                without_provenance_mut(RUNNING),
                without_provenance_mut(OPEN),
                Ordering::Release,
                Ordering::Acquire,
            )
            .is_ok()
    }

    /// By anybody, once: nothing is put there any more.
    pub(crate) fn close(&self) -> Found {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let next = match state.addr() {
                CLOSED | RUNNING_CLOSED => unreachable!("it is closed once"),
                RUNNING => RUNNING_CLOSED,
                _ => CLOSED,
            };
            // Acquire: the item, or what the last one did. Release: a run's end comes after it. (What the closer leaves for that end is read
            // under the pool's lock.)
            match self.state.compare_exchange(
                state,
                without_provenance_mut(next),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Err(now) => state = now,
                Ok(_) => break,
            }
        }
        match state.addr() {
            OPEN => Found::Nothing,
            RUNNING => Found::Run,
            _ => match NonNull::new(state) {
                // SAFETY: `put` left it there, and the exchange made it ours.
                Some(item) => Found::Item(unsafe { Pending::from_raw(item) }),
                None => Found::Nothing,
            },
        }
    }

    /// Whether an item waits there. Only the closer may rely on it.
    pub(crate) fn holds(&self, item: &RawWork) -> bool {
        self.state.load(Ordering::Relaxed).addr() == item.address()
    }

    /// Whether an item waits there. A hint.
    pub(crate) fn has_item(&self) -> bool {
        self.state.load(Ordering::Relaxed).addr() > RUNNING_CLOSED
    }

    /// Whether nothing is there and nothing runs. A hint.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.load(Ordering::Relaxed).addr() == OPEN
    }

    /// Whether its item runs. A hint.
    pub(crate) fn runs(&self) -> bool {
        matches!(
            self.state.load(Ordering::Relaxed).addr(),
            RUNNING | RUNNING_CLOSED
        )
    }

    /// By its thread: whether it was closed while nothing ran.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Relaxed).addr() == CLOSED
    }
}
