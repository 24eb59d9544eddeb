//! Calling the function of an item.

use super::named;
use super::raw::{Started, WorkFn};
use crate::sys::forced_unwind;
use crate::trace::foreign;
use std::any::Any;
use std::ffi::c_void;

/// An item or closure that a thread has begun.
pub(crate) trait Callable {
    fn address(&self) -> usize;
    /// The function that will be called.
    fn func(&self) -> Option<WorkFn>;
    /// Calls it. Returns its panic. The item may be freed when this returns.
    fn call(self) -> Result<(), Box<dyn Any + Send>>;
}

impl Callable for Started {
    #[inline]
    fn address(&self) -> usize {
        self.item.addr().get()
    }

    #[inline]
    fn func(&self) -> Option<WorkFn> {
        self.func
    }

    fn call(self) -> Result<(), Box<dyn Any + Send>> {
        let Started { item, func } = self;
        let Some(func) = func else { return Ok(()) };
        // SAFETY: `claim`'s caller promised that the item is valid until its function is called.
        let func = unsafe { named::to_call(item, func) };
        // SAFETY: the same function for the same argument, by other names of their types.
        let func = unsafe {
            std::mem::transmute::<WorkFn, unsafe extern "C-unwind" fn(*mut c_void)>(func)
        };
        // SAFETY: `claim`'s caller promised that the item is valid until its function is called,
        // which happens here, once.
        let call = || unsafe { forced_unwind::call_item(item.as_ptr().cast(), func) };
        foreign::run(call).unwrap_or_else(Err)
    }
}
