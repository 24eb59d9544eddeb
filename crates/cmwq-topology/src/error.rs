//! [`TopologyError`]: why a machine could not be read.

use std::path::PathBuf;
use std::{fmt, io};

/// Longest piece of a bad value that an error message repeats, in characters.
const SHOWN_CHARS: usize = 60;

/// Says why a [`Topology`](super::Topology) could not be made. Displays as one line without a final
/// period: the value or file at fault, and what is valid.
///
/// ```
/// use cmwq_topology::Topology;
///
/// let error = Topology::from_synthetic("moons:3").unwrap_err();
/// println!("{error}");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TopologyError {
    /// The directory given as sysfs root is missing, not a directory, or not readable.
    Root {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file or directory below the sysfs root exists but could not be read.
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The contents of a file below the sysfs root are not valid.
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with its contents, and what is valid.
        reason: String,
    },
    /// No file below the sysfs root lists the CPUs.
    NoCpus {
        /// The file that should list them.
        path: PathBuf,
    },
    /// A synthetic description is not valid.
    Synthetic {
        /// The part at fault, as written; empty when the description as a whole is.
        token: String,
        /// What is wrong with it, and what is valid.
        reason: String,
    },
    /// The CPUs this process may use could not be determined.
    Allowed {
        /// The system's error.
        error: io::Error,
    },
    /// The value of an environment variable is at fault.
    Variable {
        /// The variable.
        name: &'static str,
        /// What is wrong with its value.
        error: Box<TopologyError>,
    },
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root { path, error } => write!(
                f,
                "cannot read the sysfs root {path:?}: {error}; it must be a directory like /sys"
            ),
            Self::Read { path, error } => write!(f, "cannot read {path:?}: {error}"),
            Self::Parse { path, reason } => write!(f, "cannot make sense of {path:?}: {reason}"),
            Self::NoCpus { path } => write!(
                f,
                "no CPU is online according to {path:?}; a CPU list such as 0-3 is wanted there"
            ),
            Self::Synthetic { token, reason } if token.is_empty() => {
                write!(f, "bad synthetic topology: {reason}")
            }
            Self::Synthetic { token, reason } => {
                write!(f, "bad synthetic topology: {}: {reason}", shown(token))
            }
            Self::Allowed { error } => {
                write!(
                    f,
                    "cannot find out which CPUs this process may use: {error}"
                )
            }
            Self::Variable { name, error } => write!(f, "{name}: {error}"),
        }
    }
}

impl std::error::Error for TopologyError {}

/// `text` in quotes on one line, cut when long.
pub(crate) fn shown(text: &str) -> String {
    let start = cut(text);
    let dots = if start.len() < text.len() { "…" } else { "" };
    format!("{start:?}{dots}")
}

/// The start of `text`, short enough for a message.
pub(crate) fn cut(text: &str) -> &str {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}
