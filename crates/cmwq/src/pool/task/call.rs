//! Calling an item's function.

use super::current::{self, Current};
use crate::item::Callable;
use crate::trace::dispose;
#[cfg(all(feature = "tracing", not(cmwq_loom)))]
use crate::trace::{Callee, foreign};
use std::any::Any;

/// Calls the function of an item; tells whether it panicked.
#[inline]
pub(in crate::pool) fn call(begun: impl Callable, current: Current) -> bool {
    let outer = current::enter_queue(current);
    let panicked = call_next(begun);
    current::leave_queue(outer);
    panicked
}

/// As [`call`], for a thread that waits for the item.
#[inline]
pub(in crate::pool) fn call_as_waiter(begun: impl Callable, current: Current) -> bool {
    current::as_waiter(current, || call_next(begun))
}

/// Calls the function of an item of the queue that the thread has [entered](current::enter_queue);
/// tells whether it panicked.
#[inline]
pub(in crate::pool) fn call_next(begun: impl Callable) -> bool {
    #[cold]
    fn panicked_with(payload: Box<dyn Any + Send>) -> bool {
        dispose(payload);
        true
    }
    current::begin_item(begun.address(), begun.func());
    // The span lasts until the item has ended, also if it panics. The subscriber is code of the
    // program.
    #[cfg(all(feature = "tracing", not(cmwq_loom)))]
    let span = foreign::call(Callee::Subscriber, current::enter_span);
    let result = begun.call();
    #[cfg(all(feature = "tracing", not(cmwq_loom)))]
    foreign::call(Callee::Subscriber, || drop(span));
    current::end_item();
    result.is_err_and(panicked_with)
}
