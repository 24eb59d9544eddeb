//! Atomics of the virtual machine: the scheduler sees each operation, and charges it for its cache line.
//!
//! All virtual threads share one OS thread, so the operation itself is the standard library's. The
//! machine is sequentially consistent and orderings have no effect, unless its memory is
//! [weak](cmwq_vm::weak): then that says which value a load returns, and what is in memory is the
//! newest one.

use cmwq_vm::{Access, os, weak};

pub(crate) use std::sync::atomic::Ordering;

/// An access to the line of `place`; returns whether the memory is weak.
#[inline]
#[track_caller]
pub(crate) fn touch<T>(place: &T, access: Access) -> bool {
    if !cmwq_vm::is_inside() {
        return false;
    }
    os::touch(std::ptr::from_ref(place) as usize, access);
    weak::is_weak()
}

/// An access of plain memory, of which a weak machine knows whether it races with another one.
#[inline]
#[track_caller]
pub(crate) fn touch_plain<T>(place: &T, access: Access) {
    if touch(place, access) {
        weak::access_plain(std::ptr::from_ref(place) as usize, access);
    }
}

/// Prefetches the line of an address.
#[inline]
pub(crate) fn prefetch(address: usize, to_write: bool) {
    if cmwq_vm::is_inside() {
        os::prefetch(address, to_write);
    }
}

pub(crate) fn fence(order: Ordering) {
    if cmwq_vm::is_inside() && weak::is_weak() {
        weak::fence(order);
    } else {
        std::sync::atomic::fence(order);
    }
}

/// A value as the weak memory keeps it.
trait Bits: Copy {
    fn to_bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

macro_rules! bits {
    ($($type:ty),+) => {
        $(
            impl Bits for $type {
                fn to_bits(self) -> u64 {
                    self as u64
                }
                fn from_bits(bits: u64) -> Self {
                    bits as $type
                }
            }
        )+
    };
}

bits!(i32, u32, u64, usize);

impl Bits for bool {
    fn to_bits(self) -> u64 {
        u64::from(self)
    }
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
}

impl<T> Bits for *mut T {
    fn to_bits(self) -> u64 {
        self.expose_provenance() as u64
    }
    fn from_bits(bits: u64) -> Self {
        std::ptr::with_exposed_provenance_mut(bits as usize)
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

            /// For the weak memory: where it is, and its newest value.
            fn place(&self) -> (usize, u64) {
                let newest = self.0.load(Ordering::Relaxed);
                (std::ptr::from_ref(self).addr(), newest.to_bits())
            }

            #[inline]
            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                if !touch(self, Access::Read) {
                    return self.0.load(order);
                }
                let (address, newest) = self.place();
                <$value>::from_bits(weak::load(address, newest, order))
            }

            #[inline]
            #[track_caller]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                if touch(self, Access::Write) {
                    let (address, newest) = self.place();
                    if !weak::store(address, newest, value.to_bits(), order) {
                        return;
                    }
                }
                self.0.store(value, order);
            }

            /// Tells the weak memory of a read-modify-write, before it is carried out.
            #[inline]
            fn weakly_update(&self, value: $value, order: Ordering) {
                let (address, newest) = self.place();
                weak::update(address, newest, value.to_bits(), order);
            }

            #[inline]
            #[track_caller]
            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                if touch(self, Access::Update) {
                    self.weakly_update(value, order);
                }
                self.0.swap(value, order)
            }

            #[inline]
            #[track_caller]
            fn exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
                may_fail: bool,
            ) -> Result<$value, $value> {
                if touch(self, Access::Update) {
                    let (address, newest) = self.place();
                    let expected = current.to_bits();
                    let found = weak::compare(address, newest, expected, may_fail, failure);
                    if let Some(found) = found {
                        return Err(<$value>::from_bits(found));
                    }
                    self.weakly_update(new, success);
                }
                self.0.compare_exchange(current, new, success, failure)
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
                self.exchange(current, new, success, failure, false)
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
                self.exchange(current, new, success, failure, true)
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
                    match self.compare_exchange_weak(seen, next, set, fetch) {
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
                    if touch(self, Access::Update) {
                        let after = std::sync::atomic::$name::new(self.0.load(Ordering::Relaxed));
                        after.$operation(value, Ordering::Relaxed);
                        self.weakly_update(after.into_inner(), order);
                    }
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
    AtomicU64, u64, fetch_add, fetch_sub, fetch_and, fetch_or, fetch_max, fetch_min
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

/// Hints, ids and flags that no protocol depends on: not charged.
pub(crate) mod plain {
    use super::{Access, Bits};
    use cmwq_vm::weak;
    use std::sync::atomic::Ordering;

    /// Whether the memory is weak. There is no charge.
    #[inline]
    fn touch<T>(_: &T, _: Access) -> bool {
        weak::is_weak()
    }

    atomic!(AtomicBool, bool);
    atomic!(AtomicI32, i32);
    atomic!(AtomicU32, u32);
    atomic!(AtomicU64, u64);
    atomic!(AtomicUsize, usize);
    atomic!(AtomicPtr<T>, *mut T);
    arithmetic!(AtomicBool, bool, fetch_and, fetch_or);
    arithmetic!(AtomicI32, i32, fetch_add, fetch_sub, fetch_max, fetch_min);
    arithmetic!(
        AtomicU32, u32, fetch_add, fetch_sub, fetch_and, fetch_or, fetch_max, fetch_min
    );
    arithmetic!(AtomicU64, u64, fetch_add, fetch_sub, fetch_max, fetch_min);
    arithmetic!(
        AtomicUsize,
        usize,
        fetch_add,
        fetch_sub,
        fetch_max,
        fetch_min
    );
}
