//! Why an item has no result.

use crate::error::{FlushError, OWN_ITEM, Refused};
use std::any::Any;

/// Why a closure has no result: it panicked, was refused or was aborted.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// use cmwq::JoinError;
///
/// match queue.spawn(|| "parsed").join() {
///     Ok(text) => assert_eq!(text, "parsed"),
///     Err(JoinError::Panicked(payload)) => eprintln!("{:?}", payload.downcast_ref::<&str>()),
///     Err(other) => eprintln!("{other}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
pub enum JoinError {
    /// The closure panicked, with this payload.
    Panicked(PanicPayload),
    /// The queue refused the closure, which was dropped without running. Or the closure will not
    /// run, because the queue belongs to the parent of this forked process.
    Refused(Refused),
    /// The result was taken before: the handle was polled until it was ready.
    Taken,
    /// The caller is a waker of a task. The library may call a waker on the worker that would run
    /// the closure. The handle is gone, and the closure runs all the same.
    InWaker,
    /// The caller would wait for itself. It is the closure, or an item that the closure runs while
    /// it joins that item, or an item with the place that the closure [needs to
    /// begin](crate::JoinHandle). [`join`](crate::JoinHandle::join) has dropped the handle. The
    /// closure runs all the same, and its result will be dropped.
    OwnItem,
    /// The closure was [aborted](crate::JoinHandle::abort) before it had begun, and was dropped.
    Aborted,
}

/// The value that a closure panicked with. It is `Sync` whatever the value is, so that a
/// [`JoinError`] fits into `Box<dyn Error + Send + Sync>`.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// use cmwq::JoinError;
///
/// let Err(JoinError::Panicked(payload)) = queue.spawn(|| panic!("out of range")).join() else {
///     unreachable!("it panics")
/// };
/// assert_eq!(payload.downcast_ref::<&str>(), Some(&"out of range"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PanicPayload(Box<dyn Any + Send>);

// SAFETY: a shared reference gives access only to a value of a type that is `Sync` itself.
unsafe impl Sync for PanicPayload {}

impl PanicPayload {
    /// Returns the payload as `catch_unwind` gives it, for `resume_unwind`.
    pub fn into_inner(self) -> Box<dyn Any + Send> {
        self.0
    }

    /// Returns the payload, if it is of this type; that of most panics is a `&str` or a `String`.
    pub fn downcast_ref<T: Any + Sync>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl std::fmt::Debug for PanicPayload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PanicPayload").finish_non_exhaustive()
    }
}

impl JoinError {
    /// Says whether the closure panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, JoinError::Panicked(_))
    }

    /// Says whether the closure was [aborted](crate::JoinHandle::abort) before it had begun.
    pub fn is_aborted(&self) -> bool {
        matches!(self, JoinError::Aborted)
    }

    /// Returns what the closure panicked with, for [`resume_unwind`](std::panic::resume_unwind).
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let error = queue.spawn(|| panic!("out of range")).join().unwrap_err();
    /// assert!(error.is_panic());
    /// let payload = error.into_panic(); // for `std::panic::resume_unwind`
    /// assert!(payload.is::<&str>());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Panics if the closure did not panic: ask [`is_panic`](Self::is_panic), or call
    /// [`try_into_panic`](Self::try_into_panic).
    pub fn into_panic(self) -> Box<dyn Any + Send> {
        match self.try_into_panic() {
            Ok(payload) => payload,
            Err(error) => panic!("the closure did not panic: {error}"),
        }
    }

    /// Returns what the closure panicked with, or the error itself if it did not panic.
    ///
    /// # Errors
    /// The error itself, if the closure did not panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, JoinError> {
        match self {
            JoinError::Panicked(payload) => Ok(payload.into_inner()),
            error => Err(error),
        }
    }

    /// Makes the error for a panic that `catch_unwind` has caught.
    pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Self {
        JoinError::Panicked(PanicPayload(payload))
    }
}

impl std::fmt::Debug for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JoinError({self})")
    }
}

impl std::fmt::Display for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JoinError::Refused(refused) => refused.fmt(f),
            JoinError::InWaker => FlushError::InWaker.fmt(f),
            JoinError::OwnItem => f.write_str(OWN_ITEM),
            JoinError::Taken => f.write_str("the result was taken already"),
            JoinError::Aborted => f.write_str("it was aborted before it had begun"),
            JoinError::Panicked(payload) => {
                let text = payload
                    .downcast_ref::<&str>()
                    .copied()
                    .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
                    .unwrap_or("(not a text)");
                write!(f, "the work function panicked: {text}")
            }
        }
    }
}

impl std::error::Error for JoinError {}
