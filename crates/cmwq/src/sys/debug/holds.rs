//! Whether the calling thread holds something that foreign code must not find held, counted in
//! debug builds only: a claimed item, a pool's lock, an epoch's pin.
//!
//! Other threads that cancel, flush or move a claimed item spin until its owner has handed it on.
//! If the owner calls foreign code meanwhile, those threads spin for as long as that takes. If the
//! foreign code itself cancels or flushes that item, the owner spins for ever. The same holds for a
//! lock or a pin.
//!
//! A system call is where another thread gets the CPU, perhaps one that the caller has just woken.
//! If that thread then needs what the caller holds, it has to sleep for it.
#![forbid(unsafe_code)]

#[cfg(all(debug_assertions, not(cmwq_loom)))]
mod counted {
    use crate::sys::local::thread_local;
    use std::cell::Cell;

    thread_local! {
        static HELD: Cell<i64> = const { Cell::new(0) };
    }

    /// A thread that is ending may have no counter any more.
    fn add(number: i64) {
        let _ = HELD.try_with(|held| held.set(held.get() + number));
    }

    /// A member of the value that stands for what is held.
    pub(crate) struct Hold {
        is_held: bool,
    }

    impl Hold {
        #[inline]
        pub(crate) fn new() -> Self {
            add(1);
            Hold { is_held: true }
        }

        /// Notes that the thread does not hold it any more: it was released, or a timer has the
        /// item and hands it on when asked to.
        pub(crate) fn leave(&mut self) {
            if std::mem::take(&mut self.is_held) {
                add(-1);
            }
        }

        /// Notes that the calling thread holds it again.
        pub(crate) fn take_back(&mut self) {
            if !std::mem::replace(&mut self.is_held, true) {
                add(1);
            }
        }
    }

    impl Drop for Hold {
        fn drop(&mut self) {
            self.leave();
        }
    }

    fn held() -> i64 {
        HELD.try_with(Cell::get).unwrap_or(0)
    }

    /// Asserts, before foreign code is called, that the calling thread holds nothing of this kind.
    pub(crate) fn none_is_held() {
        assert_eq!(
            held(),
            0,
            "foreign code is called while an item is claimed, a pool locked or an epoch pinned"
        );
    }

    /// The same before a system call at whose end another thread may get the CPU.
    pub(crate) fn may_be_preempted() {
        assert_eq!(
            held(),
            0,
            "the system is called while an item is claimed, a pool locked or an epoch pinned"
        );
    }
}

#[cfg(not(all(debug_assertions, not(cmwq_loom))))]
mod counted {
    pub(crate) struct Hold;

    impl Hold {
        #[inline(always)]
        pub(crate) fn new() -> Self {
            Hold
        }
        #[inline(always)]
        pub(crate) fn leave(&mut self) {}
        #[inline(always)]
        pub(crate) fn take_back(&mut self) {}
    }

    #[inline(always)]
    pub(crate) fn none_is_held() {}
    #[inline(always)]
    pub(crate) fn may_be_preempted() {}
}

pub(crate) use counted::{Hold, may_be_preempted, none_is_held};
