//! Items that reports name by another function than the one that runs them. In C a function and its
//! argument make an item of a completion queue; what runs such an item is the library's and the
//! same for all, so its name would say nothing.
//!
//! The item's `func` is then the function to show, with [a bit](names::STANDS_IN) that no address
//! of a function has. The function to call lies right behind the item. So the engine tells such items
//! apart by their `func` as it does others: two of them with different functions count as different
//! in the statistics of CPU hogs and when an address is used again.

use super::raw::{RawWork, WorkFn};
use crate::sys::names;
use std::ptr::NonNull;

/// An item that reports show under the name of another function than the one that runs it.
#[repr(C)]
pub struct NamedWork {
    raw: RawWork,
    run: WorkFn,
}

// `function_behind` finds the function there.
const _: () = assert!(std::mem::offset_of!(NamedWork, run) == size_of::<RawWork>());

impl NamedWork {
    /// An item that `run` runs, and that reports show as the function at the address `shown`.
    pub fn new(run: WorkFn, shown: usize) -> Self {
        // SAFETY: it is not 0, and never called: `to_call` knows it by the bit.
        let shown = unsafe { std::mem::transmute::<usize, WorkFn>(shown | names::STANDS_IN) };
        NamedWork {
            raw: RawWork::new(shown),
            run,
        }
    }

    /// The item. It is queued by the address of the whole, not of this reference.
    pub fn raw(&self) -> &RawWork {
        &self.raw
    }
}

/// The function that runs the item, of which `func` is the function that it was made with.
///
/// # Safety
/// The item is valid, and the first part of a [`NamedWork`] if `func` has the bit of those.
#[inline]
pub(in crate::item) unsafe fn to_call(item: NonNull<RawWork>, func: WorkFn) -> WorkFn {
    if func as usize & names::STANDS_IN == 0 {
        return func;
    }
    // SAFETY: by the contract.
    unsafe { function_behind(item) }
}

#[cold]
unsafe fn function_behind(item: NonNull<RawWork>) -> WorkFn {
    // SAFETY: by the caller's contract it is a `NamedWork`, of which the whole may be read.
    unsafe { (*item.cast::<NamedWork>().as_ptr()).run }
}
