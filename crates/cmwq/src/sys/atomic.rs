//! Atomics that the model checker can take over.

#[cfg(not(cmwq_loom))]
pub(crate) use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

#[cfg(cmwq_loom)]
pub(crate) use loom::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

pub(crate) use std::sync::atomic::Ordering;

/// Atomics of the standard library under any back end: for ids and flags that no protocol depends on.
pub(crate) mod plain {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
}

/// Orders two `SeqCst` accesses to different locations under loom, which treats `SeqCst` accesses as `AcqRel`.
/// The real back end needs nothing: there the accesses themselves take part in the single total order.
#[inline(always)]
pub(crate) fn seq_cst_for_loom() {
    #[cfg(cmwq_loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}
