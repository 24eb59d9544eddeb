//! How many items, nodes and chunks the calling thread has touched. Tests of bounds count these,
//! because no test measures time.

use std::cell::Cell;

thread_local! {
    static TOUCHED: Cell<usize> = const { Cell::new(0) };
}

/// One more.
pub(crate) fn one() {
    // A thread that is ending does not count.
    let _ = TOUCHED.try_with(|touched| touched.set(touched.get() + 1));
}

/// How many so far.
pub(crate) fn so_far() -> usize {
    TOUCHED.try_with(Cell::get).unwrap_or(0)
}
