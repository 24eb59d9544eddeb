//! How many items, nodes and chunks the calling thread has touched: tests of bounds count them, since no test looks at the clock.

use std::cell::Cell;

thread_local! {
    static TOUCHED: Cell<usize> = const { Cell::new(0) };
}

/// One more.
pub(in crate::item) fn one() {
    // A thread on its way out counts nothing.
    let _ = TOUCHED.try_with(|touched| touched.set(touched.get() + 1));
}

/// How many so far.
pub(crate) fn so_far() -> usize {
    TOUCHED.try_with(Cell::get).unwrap_or(0)
}
