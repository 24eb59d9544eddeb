//! Why a text is not a set of CPUs.

use crate::error::{cut, shown};
use std::fmt;

/// CPU numbers run from 0 to `MAX_CPUS - 1`. The limit of the largest kernels; it keeps a typing
/// error in a list (`0-99999999`) from causing a large allocation.
pub const MAX_CPUS: usize = 8192;

/// Says why a text is not a set of CPUs.
///
/// ```
/// use cmwq_topology::CpuSet;
///
/// let error = "3-1".parse::<CpuSet>().unwrap_err();
/// println!("{error}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CpuSetError {
    /// A CPU number is not below [`MAX_CPUS`].
    TooLarge {
        /// The number, as written.
        number: String,
    },
    /// An item of a list is neither a CPU number nor a range.
    BadItem {
        /// The item, as written.
        item: String,
    },
    /// A range whose last CPU is below its first.
    Backwards {
        /// The range, as written.
        range: String,
    },
    /// A stride (`:used/group`) whose group is 0, or which uses more CPUs than its group has, or none.
    BadStride {
        /// The item, as written.
        item: String,
    },
    /// A group of a mask is not one to eight hexadecimal digits.
    BadGroup {
        /// The group, as written.
        group: String,
    },
}

impl fmt::Display for CpuSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { number } => {
                write!(
                    f,
                    "CPU {} is too large: CPU numbers run from 0 to {}",
                    cut(number),
                    MAX_CPUS - 1
                )
            }
            Self::BadItem { item } => {
                write!(
                    f,
                    "{} is not a CPU number or a range such as 0-3 or 0-15:2/4",
                    shown(item)
                )
            }
            Self::Backwards { range } => {
                write!(
                    f,
                    "{} runs backwards: a range is written FIRST-LAST",
                    shown(range)
                )
            }
            Self::BadStride { item } => write!(
                f,
                "{} has a bad stride: write FIRST-LAST:USED/GROUP with USED from 1 to GROUP",
                shown(item)
            ),
            Self::BadGroup { group } => write!(
                f,
                "{} is not a mask group: a mask is groups of one to eight hexadecimal digits separated by commas",
                shown(group)
            ),
        }
    }
}

impl std::error::Error for CpuSetError {}
