//! What can go wrong between a client and an endpoint: an error number by name, and one line.

use cmwq::observe::TextError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An error as it travels: `{"errno":"EINVAL","message":"..."}`.
///
/// ```
/// let error = cmwq_control::ControlError::new("EINVAL", "no such scope");
/// assert_eq!(error.code(), 22);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlError {
    /// The name of a Linux error number: the one that the kernel's file would answer with, where
    /// there is one.
    pub errno: String,
    /// One line: what was wrong, and what would be right.
    pub message: String,
}

/// The names that are used, with their numbers.
const NUMBERS: [(&str, i32); 15] = [
    ("EACCES", libc::EACCES),
    ("EAGAIN", libc::EAGAIN),
    ("EBADMSG", libc::EBADMSG),
    ("EBUSY", libc::EBUSY),
    ("ECONNREFUSED", libc::ECONNREFUSED),
    ("EINVAL", libc::EINVAL),
    ("EIO", libc::EIO),
    ("EMSGSIZE", libc::EMSGSIZE),
    ("ENODEV", libc::ENODEV),
    ("ENOENT", libc::ENOENT),
    ("ENOSYS", libc::ENOSYS),
    ("EOVERFLOW", libc::EOVERFLOW),
    ("EPERM", libc::EPERM),
    ("ERANGE", libc::ERANGE),
    ("ETIMEDOUT", libc::ETIMEDOUT),
];

impl ControlError {
    /// An error of this name. Control characters of the message become blanks: one line stays one line.
    pub fn new(errno: &str, message: impl Into<String>) -> Self {
        let message: String = message.into();
        ControlError {
            errno: errno.to_owned(),
            message: message
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect(),
        }
    }

    pub(crate) fn inval(message: impl Into<String>) -> Self {
        Self::new("EINVAL", message)
    }

    pub(crate) fn noent(message: impl Into<String>) -> Self {
        Self::new("ENOENT", message)
    }

    /// What an operation on `what` failed with.
    pub(crate) fn io(what: &str, error: &std::io::Error) -> Self {
        let number = error.raw_os_error();
        let name = NUMBERS
            .iter()
            .find(|(_, code)| Some(*code) == number)
            .map_or("EIO", |(name, _)| name);
        Self::new(name, format!("{what}: {error}"))
    }

    /// The number of the error; `EIO` for a name that is not known.
    pub fn code(&self) -> i32 {
        let known = NUMBERS.iter().find(|(name, _)| *name == self.errno);
        known.map_or(libc::EIO, |(_, code)| *code)
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.errno)
    }
}

impl std::error::Error for ControlError {}

impl From<TextError> for ControlError {
    fn from(error: TextError) -> Self {
        ControlError::new(error.errno.name(), error.message)
    }
}
