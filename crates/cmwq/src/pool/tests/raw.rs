//! The only unsafe code: claiming items on the test's stack.
#![allow(unsafe_code)]
use super::*;
use crate::item::Pending;
use std::ptr::NonNull;

/// Claimed, with this destination. The caller flushes the queue before the item goes.
pub(in crate::pool) fn claim(item: &RawWork, pool: u32, pwq: u32) -> Pending {
    // SAFETY: as the caller has promised.
    let claimed = unsafe { Pending::claim(NonNull::from(item)) };
    let mut item = claimed.unwrap_or_else(|_| panic!("it is idle"));
    item.set_destination(pool, pwq);
    item
}
