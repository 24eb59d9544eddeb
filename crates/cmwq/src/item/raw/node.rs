//! Nodes of chunks: what an inbox and the lists behind it hold in place of many items.

use super::{LocationWord, NODE, Pending, RawWork};
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::cell::Guarded;

impl RawWork {
    /// What an inbox holds in place of many items: the first field of a chunk.
    pub(in crate::item) fn node() -> Self {
        new_item!(NODE, None)
    }

    /// Sets how many items the node counts as. Called before any other thread has it.
    #[inline]
    pub(in crate::item) fn set_weight(&self, items: u32) {
        self.location.store(u64::from(items), Ordering::Relaxed);
    }

    /// See [`set_weight`](Self::set_weight).
    #[inline]
    pub(in crate::item) fn weight(&self) -> u32 {
        self.location.load(Ordering::Relaxed) as u32
    }

    /// Sets the number of the chain in which it was taken from the inbox.
    #[inline]
    pub(in crate::item) fn set_chain(&self, chain: u32) {
        // SAFETY: the thread that has taken the node owns the field, which is not used otherwise
        // until the item is accepted.
        unsafe { self.colour.set(chain) };
    }

    /// See [`set_chain`](Self::set_chain).
    #[inline]
    pub(in crate::item) fn chain(&self) -> u32 {
        // SAFETY: as above.
        unsafe { self.colour.get() }
    }

    /// Whether it is the node of a chunk.
    #[inline]
    pub(in crate::item) fn is_node(&self) -> bool {
        // Relaxed: it never changes.
        self.state.load(Ordering::Relaxed) & NODE != 0
    }
}

impl Pending {
    /// Whether it stands for a chunk on a list.
    #[inline]
    pub(in crate::item) fn is_node(&self) -> bool {
        self.item().is_node()
    }
}
