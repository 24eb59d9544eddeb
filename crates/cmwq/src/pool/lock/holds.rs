//! How much is done in one holding of a pool's lock: see `HOLDS.md`.
#![forbid(unsafe_code)]

/// How many staged nodes are turned or accepted in one holding of the lock: see `HOLDS.md`.
const MOST_IN_A_HOLD: usize = if cfg!(cmwq_loom) { 4 } else { 256 };

/// The same; explored programs, which are small, have less.
#[inline]
pub(in crate::pool) fn most_in_a_hold() -> usize {
    #[cfg(cmwq_sim)]
    return explored::MOST.load(std::sync::atomic::Ordering::Relaxed);
    #[cfg(not(cmwq_sim))]
    MOST_IN_A_HOLD
}

/// What exploration changes.
#[cfg(cmwq_sim)]
pub(crate) mod explored {
    use std::sync::atomic::{AtomicUsize, Ordering};

    pub(super) static MOST: AtomicUsize = AtomicUsize::new(super::MOST_IN_A_HOLD);

    /// Sets how many staged nodes are touched in one holding of a pool's lock: at least 1.
    pub fn set_most_in_a_hold(most: usize) {
        MOST.store(most.max(1), Ordering::Relaxed);
    }
}

/// What tests count: how many items, nodes and chunks are touched.
#[cfg(all(test, not(cmwq_loom)))]
pub(in crate::pool) mod counted {
    use crate::item::touched;
    use std::cell::Cell;

    thread_local! {
        /// The most that the calling thread has touched in one holding, and in how many holdings.
        static LONGEST: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    }

    /// One holding of a lock.
    pub(in crate::pool) struct Held(usize);

    impl Held {
        pub(in crate::pool) fn begin() -> Self {
            Held(touched::so_far())
        }

        pub(in crate::pool) fn end(&self) {
            let now = touched::so_far() - self.0;
            let _ = LONGEST.try_with(|longest| {
                let (most, holdings) = longest.get();
                longest.set((most.max(now), holdings + 1));
            });
        }
    }

    /// What `f` returns, and the most that it touched in one holding.
    pub(in crate::pool) fn longest<R>(f: impl FnOnce() -> R) -> (R, usize) {
        LONGEST.set((0, 0));
        let result = f();
        (result, LONGEST.get().0)
    }
}
