//! The result of an attempt to queue an item, or to move a delayed item.
#![forbid(unsafe_code)]

use crate::error::Refused;
use crate::item::{TOO_MANY, Unclaimed};
use std::fmt;

/// The result of an attempt to queue an item.
///
/// A caller that only needs its event handled asks [`will_run`](Self::will_run): an item that was
/// pending already runs as well, and its run sees what the caller did before. A caller that counts
/// instances asks [`is_accepted`](Self::is_accepted).
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// use cmwq::Work;
/// use cmwq::types::Queued;
///
/// let work = Work::new(|| println!("an event was handled"));
/// match queue.queue(&work) {
///     Queued::Accepted => println!("it will run"),
///     Queued::AlreadyPending => println!("the pending run will see the event"),
///     Queued::Disabled => println!("paused"),
///     Queued::Refused(why) => println!("{why}"),
/// }
/// queue.flush()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "nothing runs if the item is disabled or the queue refuses it: ask will_run(), or is_accepted()"]
pub enum Queued {
    /// One new instance was accepted and will run.
    Accepted,
    /// The item was pending already: nothing changed. The pending instance has not started and will
    /// see what the caller stored before.
    AlreadyPending,
    /// The item is disabled. Nothing changed, and the request is lost.
    Disabled,
    /// The queue refuses the item, which stays idle and will not run. (The kernel returns "true"
    /// for a draining queue.)
    Refused(Refused),
}

// The value is returned in a register.
const _: () = assert!(size_of::<Queued>() == 1);

impl Queued {
    /// Says whether one new instance was accepted: this call made the item pending.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let work = cmwq::Work::new(|| ());
    /// assert!(queue.queue(&work).is_accepted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub const fn is_accepted(self) -> bool {
        matches!(self, Queued::Accepted)
    }

    /// Whether a run will see what the caller did before: the item was accepted, or was pending
    /// already.
    #[inline]
    pub const fn will_run(self) -> bool {
        matches!(self, Queued::Accepted | Queued::AlreadyPending)
    }

    /// Says why the queue refused the item, if it did.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let work = cmwq::Work::new(|| ());
    /// assert!(queue.queue(&work).refused().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub const fn refused(self) -> Option<Refused> {
        match self {
            Queued::Refused(why) => Some(why),
            _ => None,
        }
    }
}

impl From<Unclaimed> for Queued {
    #[inline]
    fn from(why_not: Unclaimed) -> Self {
        match why_not {
            Unclaimed::AlreadyPending => Queued::AlreadyPending,
            Unclaimed::Disabled => Queued::Disabled,
            Unclaimed::TooMany => panic!("{TOO_MANY}"),
        }
    }
}

impl From<Result<(), Refused>> for Queued {
    #[inline]
    fn from(result: Result<(), Refused>) -> Self {
        match result {
            Ok(()) => Queued::Accepted,
            Err(why) => Queued::Refused(why),
        }
    }
}

const DISABLED: &str = "the item is disabled";

impl fmt::Display for Queued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Queued::Accepted => f.write_str("accepted"),
            Queued::AlreadyPending => f.write_str("the item is pending already"),
            Queued::Disabled => f.write_str(DISABLED),
            Queued::Refused(why) => why.fmt(f),
        }
    }
}

/// The result of an attempt to [move](crate::Workqueue::mod_delayed) a delayed item.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// use std::time::Duration;
///
/// let work = cmwq::DelayedWork::new(|| ());
/// let moved = queue.mod_delayed(&work, Duration::from_secs(3600));
/// assert!(moved.will_run() && !moved.was_pending());
/// work.cancel();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "nothing runs if the item is disabled or the queue refuses it: ask will_run()"]
pub enum Moved {
    /// The item was pending. That instance runs after the new delay instead.
    Pending,
    /// The item was idle, or only running. One new instance was accepted.
    Accepted,
    /// The item was not pending, and is disabled. Nothing changed, and the request is lost.
    Disabled,
    /// The queue refuses the item, which is idle now and will not run.
    Refused {
        /// Why the queue refuses it.
        why: Refused,
        /// Whether the item was pending. If so, that instance was removed and is lost.
        was_pending: bool,
    },
}

impl Moved {
    pub(in crate::workqueue) fn new(was_pending: bool, queued: Queued) -> Self {
        match queued {
            Queued::Accepted | Queued::AlreadyPending if was_pending => Moved::Pending,
            Queued::Accepted | Queued::AlreadyPending => Moved::Accepted,
            Queued::Disabled => Moved::Disabled,
            Queued::Refused(why) => Moved::Refused { why, was_pending },
        }
    }

    /// Whether the item was pending before. This is what the kernel's function returns.
    #[inline]
    pub const fn was_pending(self) -> bool {
        match self {
            Moved::Pending => true,
            Moved::Accepted | Moved::Disabled => false,
            Moved::Refused { was_pending, .. } => was_pending,
        }
    }

    /// Whether a run will see what the caller did before.
    #[inline]
    pub const fn will_run(self) -> bool {
        matches!(self, Moved::Pending | Moved::Accepted)
    }
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Moved::Pending => f.write_str("moved"),
            Moved::Accepted => f.write_str("accepted"),
            Moved::Disabled => f.write_str(DISABLED),
            Moved::Refused { why, was_pending } => {
                why.fmt(f)?;
                f.write_str(if *was_pending {
                    "; the pending instance was removed"
                } else {
                    ""
                })
            }
        }
    }
}
