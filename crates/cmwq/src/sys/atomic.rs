//! Atomics that the model checker can take over.

#[cfg(not(cmwq_loom))]
pub(crate) use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

#[cfg(cmwq_loom)]
pub(crate) use super::modelled::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

pub(crate) use std::sync::atomic::Ordering;

/// Atomics of the standard library under any back end: for ids and flags that no protocol depends on.
pub(crate) mod plain {
    #[cfg(not(cmwq_loom))]
    pub(crate) use std::sync::atomic::AtomicPtr;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
}
