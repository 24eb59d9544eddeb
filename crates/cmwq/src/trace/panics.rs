//! Panics of the program's code: they must not end a thread of the library.
#![forbid(unsafe_code)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What the program's `code` returns; `None`: it has panicked.
pub(crate) fn caught<T>(code: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(code)).map_err(dispose).ok()
}

/// A value whose destructor is the program's code, and may panic.
pub(in crate::trace) struct Forgiving<T>(Option<T>);

impl<T> Forgiving<T> {
    pub(in crate::trace) fn new(value: T) -> Self {
        Forgiving(Some(value))
    }
}

impl<T> Drop for Forgiving<T> {
    fn drop(&mut self) {
        caught(|| drop(self.0.take()));
    }
}

/// Drops the payload of a panic: its destructor is the program's code too, and may panic.
#[cold]
pub(crate) fn dispose(payload: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // And so on: this one is leaked.
        std::mem::forget(another);
    }
}
