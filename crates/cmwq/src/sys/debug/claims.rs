//! Whether the calling thread owns a claimed item, counted in debug builds only: foreign code must not be called then.
//!
//! Other threads that cancel, flush or move a claimed item spin until its owner has handed it on. An owner that calls foreign code meanwhile makes them
//! spin for as long as that takes, and itself for ever if the foreign code does the same.
#![forbid(unsafe_code)]

#[cfg(all(debug_assertions, not(cmwq_loom)))]
mod counted {
    use crate::sys::local::thread_local;
    use std::cell::Cell;

    thread_local! {
        static HELD: Cell<i64> = const { Cell::new(0) };
    }

    /// A thread that is ending may have none any more.
    fn add(number: i64) {
        let _ = HELD.try_with(|held| held.set(held.get() + number));
    }

    /// Part of what stands for a claimed item.
    pub(crate) struct Claim {
        is_held: bool,
    }

    impl Claim {
        #[inline]
        pub(crate) fn new() -> Self {
            add(1);
            Claim { is_held: true }
        }

        /// The item is a timer's from now on, which hands it on when asked to.
        pub(crate) fn leave(&mut self) {
            if std::mem::take(&mut self.is_held) {
                add(-1);
            }
        }

        /// The item is the calling thread's again.
        pub(crate) fn take_back(&mut self) {
            if !std::mem::replace(&mut self.is_held, true) {
                add(1);
            }
        }
    }

    impl Drop for Claim {
        fn drop(&mut self) {
            self.leave();
        }
    }

    /// Foreign code is about to be called.
    pub(crate) fn none_is_held() {
        let held = HELD.try_with(Cell::get).unwrap_or(0);
        assert_eq!(held, 0, "foreign code is called while an item is claimed");
    }
}

#[cfg(not(all(debug_assertions, not(cmwq_loom))))]
mod counted {
    pub(crate) struct Claim;

    impl Claim {
        #[inline(always)]
        pub(crate) fn new() -> Self {
            Claim
        }
        #[inline(always)]
        pub(crate) fn leave(&mut self) {}
        #[inline(always)]
        pub(crate) fn take_back(&mut self) {}
    }

    #[inline(always)]
    pub(crate) fn none_is_held() {}
}

pub(crate) use counted::{Claim, none_is_held};
