//! Thread-local values of virtual threads: these share one OS thread, and so would share the
//! standard library's values.

use cmwq_vm::os;
use std::cell::{Cell, RefCell};

/// As the standard library's type of this name.
pub(crate) struct LocalKey<T: 'static> {
    make: fn() -> T,
}

/// The thread is ending.
#[derive(Debug)]
pub(crate) struct AccessError;

#[allow(dead_code, reason = "as the standard library's")]
impl<T: 'static> LocalKey<T> {
    pub(crate) const fn new(make: fn() -> T) -> Self {
        LocalKey { make }
    }

    pub(crate) fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        let key = std::ptr::from_ref(self) as usize;
        let value = os::local(key, self.make).ok_or(AccessError)?;
        // SAFETY: the value lies in a box that the thread owns until its end. This is that thread,
        // and it does not end before `f` returns.
        Ok(f(unsafe { &*value }))
    }

    pub(crate) fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.try_with(f).expect("the thread is not at its end")
    }
}

#[allow(dead_code, reason = "as the standard library's")]
impl<T: 'static> LocalKey<Cell<T>> {
    pub(crate) fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    pub(crate) fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }

    pub(crate) fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

#[allow(dead_code, reason = "as the standard library's")]
impl<T: 'static> LocalKey<RefCell<T>> {
    pub(crate) fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(RefCell::take)
    }
}

macro_rules! local_of_virtual_threads {
    () => {};
    ($(#[$meta:meta])* $visible:vis static $name:ident: $type:ty = const { $make:expr }; $($rest:tt)*) => {
        $(#[$meta])*
        $visible static $name: $crate::sys::local::LocalKey<$type> =
            $crate::sys::local::LocalKey::new(|| $make);
        $crate::sys::local::thread_local!($($rest)*);
    };
    ($(#[$meta:meta])* $visible:vis static $name:ident: $type:ty = $make:expr; $($rest:tt)*) => {
        $(#[$meta])*
        $visible static $name: $crate::sys::local::LocalKey<$type> =
            $crate::sys::local::LocalKey::new(|| $make);
        $crate::sys::local::thread_local!($($rest)*);
    };
}
pub(crate) use local_of_virtual_threads as thread_local;
