//! Atomics of the model checker, which treats `SeqCst` accesses as `AcqRel`.
//!
//! It does know `SeqCst` fences. So here a thread does such a fence before a `SeqCst` access that
//! follows another one, with no weaker store in between. The fence is there only if both shipped
//! orderings are `SeqCst`; weakening either of them removes it, so a model can fail for that. Of two
//! threads with such fences, the fence of one comes first, which orders their accesses as the
//! standard does.

use super::atomic::Ordering;
use loom::sync::atomic as imp;
pub(crate) use loom::sync::atomic::fence;
use std::cell::Cell;

loom::thread_local! {
    /// Whether the thread's next `SeqCst` access is ordered after an earlier one.
    static FOLLOWS: Cell<bool> = Cell::new(false);
}

/// Before an access. `stores`: it is more than a load.
fn order(order: Ordering, stores: bool) {
    let follows = match order {
        Ordering::SeqCst => FOLLOWS.try_with(|follows| follows.replace(true)),
        // A store that is not `SeqCst`: the next access must not be ordered after it.
        _ if stores => FOLLOWS.try_with(|follows| follows.replace(false)),
        _ => return,
    };
    // When a thread is ending and its value is gone, its accesses are taken for ordered.
    if order == Ordering::SeqCst && follows.unwrap_or(true) {
        imp::fence(Ordering::SeqCst);
    }
}

macro_rules! atomic {
    ($name:ident $(<$t:ident>)?, $value:ty, [$($operation:ident),*]) => {
        #[derive(Debug)]
        pub(crate) struct $name $(<$t>)? (imp::$name $(<$t>)?);

        impl $(<$t>)? Default for $name $(<$t>)? {
            fn default() -> Self {
                $name(Default::default())
            }
        }

        #[allow(dead_code, reason = "not every type is used with every operation")]
        impl $(<$t>)? $name $(<$t>)? {
            #[track_caller]
            pub(crate) fn new(value: $value) -> Self {
                $name(imp::$name::new(value))
            }

            #[track_caller]
            pub(crate) fn with_mut<R>(&mut self, f: impl FnOnce(&mut $value) -> R) -> R {
                self.0.with_mut(f)
            }

            #[track_caller]
            pub(crate) fn load(&self, by: Ordering) -> $value {
                order(by, false);
                self.0.load(by)
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, by: Ordering) {
                order(by, true);
                self.0.store(value, by);
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $value, by: Ordering) -> $value {
                order(by, true);
                self.0.swap(value, by)
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                order(success, true);
                self.0.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            pub(crate) fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                order(success, true);
                self.0.compare_exchange_weak(current, new, success, failure)
            }

            #[track_caller]
            pub(crate) fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                order(set, true);
                self.0.fetch_update(set, fetch, change)
            }

            $(
                #[track_caller]
                pub(crate) fn $operation(&self, value: $value, by: Ordering) -> $value {
                    order(by, true);
                    self.0.$operation(value, by)
                }
            )*
        }
    };
}

atomic!(
    AtomicI32,
    i32,
    [
        fetch_add, fetch_sub, fetch_and, fetch_or, fetch_max, fetch_min
    ]
);
atomic!(
    AtomicU32,
    u32,
    [
        fetch_add, fetch_sub, fetch_and, fetch_or, fetch_max, fetch_min
    ]
);
atomic!(
    AtomicU64,
    u64,
    [
        fetch_add, fetch_sub, fetch_and, fetch_or, fetch_max, fetch_min
    ]
);
atomic!(
    AtomicUsize,
    usize,
    [
        fetch_add, fetch_sub, fetch_and, fetch_or, fetch_max, fetch_min
    ]
);
atomic!(AtomicPtr<T>, *mut T, []);
