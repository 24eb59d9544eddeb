//! Atomics of the virtual machine: the scheduler sees each operation, and charges it for its cache line.
//!
//! All virtual threads share one OS thread, so the operation itself is the standard library's. Orderings have no effect: the machine
//! is sequentially consistent.

use cmwq_vm::{Access, os};

pub(crate) use std::sync::atomic::Ordering;

/// Hints, ids and flags that no protocol depends on: not charged.
pub(crate) mod plain {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
}

/// The machine is sequentially consistent anyway.
#[inline(always)]
pub(crate) fn seq_cst_for_loom() {}

/// An access to the line of `place`.
#[inline]
#[track_caller]
pub(crate) fn touch<T>(place: &T, access: Access) {
    if cmwq_vm::is_inside() {
        os::touch(std::ptr::from_ref(place) as usize, access);
    }
}

/// Sends for the line of an address.
#[inline]
pub(crate) fn prefetch(address: usize, to_write: bool) {
    if cmwq_vm::is_inside() {
        os::prefetch(address, to_write);
    }
}

macro_rules! atomic {
    ($name:ident $(<$t:ident>)?, $value:ty) => {
        #[repr(transparent)]
        #[derive(Debug)]
        pub(crate) struct $name $(<$t>)? (std::sync::atomic::$name $(<$t>)?);

        impl $(<$t>)? Default for $name $(<$t>)? {
            fn default() -> Self {
                $name(Default::default())
            }
        }

        #[allow(dead_code, reason = "not every type is used with every operation")]
        impl $(<$t>)? $name $(<$t>)? {
            pub(crate) const fn new(value: $value) -> Self {
                $name(std::sync::atomic::$name::new(value))
            }

            pub(crate) fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            pub(crate) fn as_ptr(&self) -> *mut $value {
                self.0.as_ptr()
            }

            #[inline]
            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                touch(self, Access::Read);
                self.0.load(order)
            }

            #[inline]
            #[track_caller]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                touch(self, Access::Write);
                self.0.store(value, order);
            }

            #[inline]
            #[track_caller]
            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                touch(self, Access::Update);
                self.0.swap(value, order)
            }

            #[inline]
            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                touch(self, Access::Update);
                self.0.compare_exchange(current, new, success, failure)
            }

            #[inline]
            #[track_caller]
            pub(crate) fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            pub(crate) fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut seen = self.load(fetch);
                while let Some(next) = change(seen) {
                    match self.compare_exchange(seen, next, set, fetch) {
                        Ok(seen) => return Ok(seen),
                        Err(other) => seen = other,
                    }
                }
                Err(seen)
            }
        }
    };
}

macro_rules! arithmetic {
    ($name:ident, $value:ty, $($operation:ident),+) => {
        #[allow(dead_code, reason = "not every type is used with every operation")]
        impl $name {
            $(
                #[inline]
                #[track_caller]
                pub(crate) fn $operation(&self, value: $value, order: Ordering) -> $value {
                    touch(self, Access::Update);
                    self.0.$operation(value, order)
                }
            )+
        }
    };
}

atomic!(AtomicI32, i32);
atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
atomic!(AtomicUsize, usize);
atomic!(AtomicPtr<T>, *mut T);
arithmetic!(
    AtomicI32, i32, fetch_add, fetch_sub, fetch_and, fetch_or, fetch_max, fetch_min
);
arithmetic!(
    AtomicU32, u32, fetch_add, fetch_sub, fetch_and, fetch_or, fetch_max, fetch_min
);
arithmetic!(
    AtomicUsize,
    usize,
    fetch_add,
    fetch_sub,
    fetch_and,
    fetch_or,
    fetch_max,
    fetch_min
);
