//! The only unsafe code: claiming items on the test's stack, and queueing raw ones.
#![allow(unsafe_code)]
use super::*;
use crate::item::Pending;
use crate::raw::WorkqueueHandle;
use std::ptr::NonNull;

/// Claimed, with this destination. The caller flushes the queue before the item goes.
pub(in crate::pool) fn claim(item: &RawWork, pool: u32, pwq: u32) -> Pending {
    // SAFETY: as the caller has promised.
    let claimed = unsafe { Pending::claim(NonNull::from(item)) };
    let mut item = claimed.unwrap_or_else(|_| panic!("it is idle"));
    item.set_destination(pool, pwq);
    item
}

/// Queues an item that does nothing, from this CPU if one is named.
pub(in crate::pool) fn queue_by(handle: WorkqueueHandle, cpu: Option<usize>) {
    let item = NonNull::from(Box::leak(Box::new(RawWork::new(stubs::nothing))));
    // SAFETY: it is never freed.
    let queued = unsafe {
        match cpu {
            Some(cpu) => handle.queue_raw_on(cpu, item).ok(),
            None => handle.queue_raw(item).ok(),
        }
    };
    assert!(queued.is_some_and(|queued| queued.is_accepted()));
}
