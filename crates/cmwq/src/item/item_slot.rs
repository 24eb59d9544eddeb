//! A slot for one item that belongs to one thread, until another thread closes it.
//! `pool/queue/caller_slot.rs` says what it is for.
//!
//! The slot is one word. It holds the address of the item, or says that the slot is empty, that its
//! item runs, or that it is closed. Every change is one exchange, so either the thread's next step
//! or the closing comes first, and the later one sees the earlier.

use super::raw::{Pending, RawWork};
use crate::sys::atomic::{AtomicPtr, Ordering};
use std::ptr::{NonNull, without_provenance_mut};

/// The values of the word that are no item's address.
const CLOSED: usize = 0;
const OPEN: usize = 1;
const RUNNING: usize = 2;
/// Closed while the item ran.
const RUNNING_CLOSED: usize = 3;

pub(crate) struct ItemSlot {
    state: AtomicPtr<RawWork>,
}

/// What an item slot held when it was closed.
pub(crate) enum SlotContent {
    Nothing,
    /// The closer owns the item now.
    Item(Pending),
    /// The thread runs an item; the thread finds out at the end of the run.
    Run,
}

impl ItemSlot {
    /// An open, empty slot.
    pub(crate) fn new() -> Self {
        ItemSlot {
            state: AtomicPtr::new(without_provenance_mut(OPEN)),
        }
    }

    /// Called by its thread: puts an item into the slot. Returns the item if the slot is not open
    /// and empty.
    #[inline]
    pub(crate) fn put(&self, item: Pending) -> Result<(), Pending> {
        let item = item.into_raw();
        // Release: the closer gets the item as it is. Acquire is not needed: only this thread was here.
        match self.state.compare_exchange(
            without_provenance_mut(OPEN),
            item.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            Ok(_) => Ok(()),
            // SAFETY: `into_raw` returned it just now and no other thread got it.
            Err(_) => Err(unsafe { Pending::from_raw(item) }),
        }
    }

    /// Called by its thread: takes the item back in order to run it. `None`: it is no longer there.
    #[inline]
    pub(crate) fn take(&self, item: &RawWork) -> Option<Pending> {
        // Relaxed: this thread put it there, and only a closer changes it.
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

    /// Called by its thread: the item that was taken has run. `false`: the slot was closed meanwhile.
    #[inline]
    pub(crate) fn end(&self) -> bool {
        // Release: a later closer sees what the item did. Relaxed on failure: a thread that finds
        // the slot closed takes the pool's lock next. The closer held that lock while it closed the
        // slot, and earlier than this thread, which has already read what the closer wrote.
        self.state
            .compare_exchange(
                without_provenance_mut(RUNNING),
                without_provenance_mut(OPEN),
                Ordering::Release,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Called by any thread, once: from now on no item is put there.
    pub(crate) fn close(&self) -> SlotContent {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let next = match state.addr() {
                CLOSED | RUNNING_CLOSED => unreachable!("it is closed once"),
                RUNNING => RUNNING_CLOSED,
                _ => CLOSED,
            };
            // Acquire: the closer sees the item, or what the last item did. No release is needed:
            // what the closer leaves for the end of a run is read under the pool's lock.
            match self.state.compare_exchange(
                state,
                without_provenance_mut(next),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Err(now) => state = now,
                Ok(_) => break,
            }
        }
        match state.addr() {
            OPEN => SlotContent::Nothing,
            RUNNING => SlotContent::Run,
            _ => match NonNull::new(state) {
                // SAFETY: `put` left it there, and the exchange made it ours.
                Some(item) => SlotContent::Item(unsafe { Pending::from_raw(item) }),
                None => SlotContent::Nothing,
            },
        }
    }

    /// Whether this item waits there. Only the closer may rely on it.
    pub(crate) fn holds(&self, item: &RawWork) -> bool {
        self.state.load(Ordering::Relaxed).addr() == item.address()
    }

    /// Whether an item waits there. A hint.
    pub(crate) fn has_item(&self) -> bool {
        self.state.load(Ordering::Relaxed).addr() > RUNNING_CLOSED
    }

    /// Whether the slot is open and empty and nothing runs. A hint.
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

    /// Called by its thread: whether the slot was closed while nothing ran.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Relaxed).addr() == CLOSED
    }
}
