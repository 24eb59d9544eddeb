//! Why there is no result of an item.
#![forbid(unsafe_code)]

use crate::error::Refused;
use std::any::Any;

/// Why there is no result.
#[non_exhaustive]
pub enum JoinError {
    /// The closure panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
    /// The queue refused the closure, which was dropped without running; or the closure will not run, since the queue belongs to the parent
    /// of this forked process.
    Refused(Refused),
    /// The result was taken already: the handle was polled to completion before.
    Taken,
    /// The closure was [aborted](crate::JoinHandle::abort) before it had begun, and dropped.
    Aborted,
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
