//! Calling the function of an item.

use super::raw::{Started, WorkFn};
use crate::trace::foreign;
use std::any::Any;

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
        // SAFETY: the caller of `claim` promised that the item is valid until its function is called, which happens here, once.
        foreign::run(|| unsafe { func(item) })
    }
}
