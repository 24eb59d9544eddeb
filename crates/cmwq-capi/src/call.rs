//! What every function of the ABI has: a name, warnings that are said once, errno, and a net under
//! it for panics.

use cmwq::Error;
use cmwq::topology::TopologyError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

/// A function of the ABI, as it is known to its own body.
pub(crate) struct Call {
    name: &'static str,
    /// Which kinds of wrong use have been warned of.
    warned: AtomicU32,
}

/// What a caller did wrong, or what went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Wrong {
    NullQueue,
    NoQueue,
    NullItem,
    MisalignedItem,
    NoFunction,
    NullArgument,
    NoCpu,
    NoNode,
    Flags,
    NeitherKind,
    BothKinds,
    MaxActive,
    Forked,
    NoThread,
    OwnItem,
    SystemQueue,
    Unsuitable,
    NoMemory,
    NoFile,
    Panicked,
}

impl Wrong {
    /// The error number that it is for C.
    pub(crate) fn errno(self) -> i32 {
        match self {
            Wrong::NoQueue => libc::ESTALE,
            Wrong::NoCpu | Wrong::NoNode => libc::ENODEV,
            Wrong::Forked => libc::EPERM,
            Wrong::NoThread => libc::EAGAIN,
            Wrong::OwnItem => libc::EDEADLK,
            Wrong::NoMemory => libc::ENOMEM,
            Wrong::NoFile => libc::EMFILE,
            Wrong::Panicked => libc::EFAULT,
            _ => libc::EINVAL,
        }
    }

    fn of(error: &Error) -> Wrong {
        match error {
            Error::NoSuchWorkqueue => Wrong::NoQueue,
            Error::NoSuchCpu { .. } => Wrong::NoCpu,
            Error::NoSuchNode { .. } => Wrong::NoNode,
            Error::Forked => Wrong::Forked,
            Error::Thread(_) => Wrong::NoThread,
            Error::TooManyHandles { .. } => Wrong::NoMemory,
            Error::Topology(TopologyError::Read { error, .. }) => match error.raw_os_error() {
                Some(libc::EMFILE | libc::ENFILE) => Wrong::NoFile,
                Some(libc::ENOMEM) => Wrong::NoMemory,
                _ => Wrong::Unsuitable,
            },
            _ => Wrong::Unsuitable,
        }
    }
}

/// What a failing function returns.
pub(crate) trait Failed {
    /// Says that it was `wrong`, in the manner of the type.
    fn failed(wrong: Wrong) -> Self;
}

/// The error number of a workqueue that is full.
pub(crate) const FULL: i32 = libc::ENOBUFS;

pub(crate) fn set_errno(value: i32) {
    // SAFETY: the address of the calling thread's errno, valid as long as the thread.
    unsafe { *libc::__errno_location() = value };
}

/// Calls what is no part of what the caller asked for, and leaves errno as it was.
pub(crate) fn beside<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: as above.
    let before = unsafe { *libc::__errno_location() };
    let result = f();
    set_errno(before);
    result
}

/// What `code` returns; `None`: it has panicked. The library's only `catch_unwind`, as a test of
/// the sources checks.
#[inline]
pub(crate) fn caught<R>(code: impl FnOnce() -> R) -> Option<R> {
    let result = catch_unwind(AssertUnwindSafe(code));
    // The payload's destructor is foreign code, too.
    result.map_err(std::mem::forget).ok()
}

impl Failed for bool {
    fn failed(wrong: Wrong) -> Self {
        set_errno(wrong.errno());
        false
    }
}

impl Failed for i32 {
    fn failed(wrong: Wrong) -> Self {
        -wrong.errno()
    }
}

impl Failed for i64 {
    fn failed(wrong: Wrong) -> Self {
        -i64::from(wrong.errno())
    }
}

impl Failed for u32 {
    fn failed(wrong: Wrong) -> Self {
        set_errno(wrong.errno());
        0
    }
}

impl Failed for u64 {
    fn failed(wrong: Wrong) -> Self {
        set_errno(wrong.errno());
        0
    }
}

impl Failed for usize {
    fn failed(wrong: Wrong) -> Self {
        set_errno(wrong.errno());
        0
    }
}

impl Failed for () {
    fn failed(wrong: Wrong) -> Self {
        set_errno(wrong.errno());
    }
}

impl<T> Failed for Option<T> {
    fn failed(wrong: Wrong) -> Self {
        set_errno(wrong.errno());
        None
    }
}

impl<T> Failed for *mut T {
    fn failed(wrong: Wrong) -> Self {
        set_errno(wrong.errno());
        std::ptr::null_mut()
    }
}

impl Call {
    pub(crate) const fn new(name: &'static str) -> Self {
        Call {
            name,
            warned: AtomicU32::new(0),
        }
    }

    /// Says it, with the call's name, the first time.
    #[cold]
    pub(crate) fn warn(&self, what: Wrong, text: impl FnOnce() -> String) {
        let bit = 1 << what as u32;
        if self.warned.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            cmwq::observe::warn(&format!("{}: {}", self.name, text()));
        }
    }

    /// Says it, and gives what the function returns.
    #[cold]
    pub(crate) fn wrong<R: Failed>(&self, what: Wrong, text: &str) -> R {
        self.warn(what, || text.to_owned());
        R::failed(what)
    }

    /// The same for an error of the library.
    #[cold]
    pub(crate) fn error<R: Failed>(&self, error: &Error) -> R {
        let what = Wrong::of(error);
        self.warn(what, || error.to_string());
        R::failed(what)
    }

    /// Runs the function's body.
    #[inline]
    pub(crate) fn run<R: Failed>(&'static self, body: impl FnOnce(&'static Call) -> R) -> R {
        match caught(|| body(self)) {
            Some(result) => result,
            None => self.wrong(Wrong::Panicked, "panicked, which is a bug of cmwq"),
        }
    }
}

/// Defines functions of the ABI: `fn name(call, arguments...) -> result { body }`.
macro_rules! abi {
    ($($(#[$doc:meta])* fn $name:ident($call:ident $(, $arg:ident: $type:ty)* $(,)?) $(-> $result:ty)? $body:block)*) => {$(
        $(#[$doc])*
        #[doc = concat!("See `", stringify!($name), "` in cmwq.h.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $result)? {
            static CALL: $crate::call::Call = $crate::call::Call::new(stringify!($name));
            CALL.run(|$call: &'static $crate::call::Call| $body)
        }
    )*};
}
pub(crate) use abi;
