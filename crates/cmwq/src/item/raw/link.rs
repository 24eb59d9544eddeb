//! The links of an item, for the containers of items.
//!
//! # Safety
//! The caller owns `item` through the [`Pending`](super::Pending) that it was made from, inside the
//! container that it links.

use super::RawWork;
use std::ptr::NonNull;

#[inline]
pub(in crate::item) unsafe fn next(item: NonNull<RawWork>) -> Option<NonNull<RawWork>> {
    // SAFETY: by this module's contract.
    NonNull::new(unsafe { item.as_ref().next.get() })
}

#[inline]
pub(in crate::item) unsafe fn prev(item: NonNull<RawWork>) -> Option<NonNull<RawWork>> {
    // SAFETY: by this module's contract.
    NonNull::new(unsafe { item.as_ref().prev.get() })
}

#[inline]
pub(in crate::item) unsafe fn set_next(item: NonNull<RawWork>, next: Option<NonNull<RawWork>>) {
    // SAFETY: by this module's contract.
    unsafe {
        item.as_ref()
            .next
            .set(next.map_or(std::ptr::null_mut(), NonNull::as_ptr))
    }
}

#[inline]
pub(in crate::item) unsafe fn set_prev(item: NonNull<RawWork>, prev: Option<NonNull<RawWork>>) {
    // SAFETY: by this module's contract.
    unsafe {
        item.as_ref()
            .prev
            .set(prev.map_or(std::ptr::null_mut(), NonNull::as_ptr))
    }
}
