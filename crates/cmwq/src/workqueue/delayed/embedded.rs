//! Delayed items that are fields of a value.

use super::{Armed, Keep, Parts};
use crate::error::{Error, FlushError};
use crate::item::embedded::locate;
use crate::item::{EmbeddedWork, Pending, RawWork};
use crate::timer::TimerKey;
use crate::workqueue::embedded::EmbeddedDisableGuard;
use crate::workqueue::parts::core::WqCore;
use crate::workqueue::queue::Workqueue;
use crate::workqueue::task::control::{WorkBusy, wait_for_run};
use crate::workqueue::task::queued::{Moved, Queued};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// A delayed work item as a field of a value of type `T`, which is in an [`Arc`]: an
/// [`EmbeddedWork`] with a timer.
///
/// The item is pending from the moment it is queued, both while its timer runs and while it is on a
/// queue. It keeps the value alive all that time.
///
/// ```
/// use cmwq::Workqueue;
/// use cmwq::raw::EmbeddedDelayedWork;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// struct Connection {
///     idle: EmbeddedDelayedWork<Connection>,
/// }
///
/// impl Connection {
///     fn close(self: Arc<Connection>) { /* unused for a while */ }
/// }
///
/// let queue = Workqueue::builder("connections").build()?;
/// let connection = Arc::new(Connection { idle: EmbeddedDelayedWork::new(Connection::close) });
/// let minute = Duration::from_secs(60);
/// let queued = queue.queue_delayed_embedded(&connection, |connection| &connection.idle, minute);
/// assert!(queued.is_accepted());
/// // It is used: once more a minute from now.
/// let moved = queue.mod_delayed_embedded(&connection, |connection| &connection.idle, minute);
/// assert!(moved.was_pending());
/// // The timer holds a reference, which `cancel_sync` returns.
/// assert_eq!(Arc::strong_count(&connection), 2);
/// assert!(connection.idle.cancel_sync().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[repr(C)]
pub struct EmbeddedDelayedWork<T> {
    // This is the first field, because the item's function computes the address of this value from
    // that of the item.
    item: EmbeddedWork<T>,
    timer: TimerKey,
}

impl<T: Send + Sync + 'static> EmbeddedDelayedWork<T> {
    /// Makes an item that runs `func`, as [`EmbeddedWork::new`] does.
    #[track_caller]
    pub fn new<F>(func: F) -> Self
    where
        F: Fn(Arc<T>) + Copy + Send + Sync + 'static,
    {
        EmbeddedDelayedWork {
            item: EmbeddedWork::new(func),
            timer: TimerKey::new(),
        }
    }
}

impl<T> EmbeddedDelayedWork<T> {
    fn raw(&self) -> &RawWork {
        self.item.as_raw()
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            work: self.raw(),
            whole: NonNull::from(self.raw()),
            timer: &self.timer,
        }
    }

    /// Whether its timer is armed, or it is queued and has not started. The answer may be out of
    /// date when the caller reads it.
    pub fn is_pending(&self) -> bool {
        self.item.is_pending()
    }

    /// Whether it is pending, on its timer or on a queue, and whether it runs. The answer may be
    /// out of date when the caller reads it.
    pub fn busy(&self) -> WorkBusy {
        self.item.busy()
    }

    /// Returns how long its timer will still run, in whole milliseconds, or zero if it is not
    /// armed. The answer may be out of date when the caller reads it.
    pub fn time_left(&self) -> Duration {
        self.parts().time_left()
    }

    /// Removes a pending instance from the timer or the queue, and returns the reference that it
    /// held. It does not wait for a running instance. `None`: no instance was pending.
    pub fn cancel(&self) -> Option<Arc<T>> {
        self.item.removed(self.parts().cancel())
    }

    /// Cancels as [`cancel`](Self::cancel) does, and waits until the function no longer runs.
    /// Meanwhile the item is disabled, so that a function that queues its own item again cannot
    /// escape.
    pub fn cancel_sync(&self) -> Option<Arc<T>> {
        self.disable_sync().take_removed()
    }

    /// Disables the item until the guard is dropped: a pending instance is removed from the timer
    /// or the queue, and attempts to queue the item are refused and lost. It does not wait for a
    /// running instance. If several guards exist, the item is disabled until the last one is
    /// dropped.
    pub fn disable(&self) -> EmbeddedDisableGuard<'_, T> {
        EmbeddedDisableGuard::new(self.raw(), || self.cancel())
    }

    /// Disables the item as [`disable`](Self::disable) does, and waits until the function no longer
    /// runs.
    pub fn disable_sync(&self) -> EmbeddedDisableGuard<'_, T> {
        let guard = self.disable();
        wait_for_run(self.raw());
        guard
    }

    /// Waits for the last instance known at the call. If the timer is armed, it is stopped and the
    /// item is queued at once. `Ok(false)`: the item was neither pending nor running.
    ///
    /// # Errors
    /// As [`RawWork::flush`].
    pub fn flush(&self) -> Result<bool, FlushError> {
        self.parts().flush(RawWork::flush)
    }

    /// Waits as [`flush`](Self::flush) does, for at most `timeout`. The calling thread runs no item
    /// itself.
    ///
    /// # Errors
    /// As [`flush`](Self::flush); [`FlushError::TimedOut`] if the instance has not ended in that
    /// time.
    pub fn flush_timeout(&self, timeout: Duration) -> Result<bool, FlushError> {
        self.parts().flush(|item| item.flush_timeout(timeout))
    }
}

impl<T: Send + Sync + 'static> EmbeddedDelayedWork<T> {
    /// Makes the content of the timer: the item, with a reference of the value.
    fn armed(
        &self,
        owner: &Arc<T>,
        queue: &Arc<WqCore>,
        cpu: Option<usize>,
        item: Pending,
    ) -> Armed {
        self.item.belongs_to(owner);
        Armed {
            item,
            keep: Some(Keep::Owner {
                _value: owner.clone(),
            }),
            queue: queue.clone(),
            cpu,
        }
    }
}

impl<T> fmt::Debug for EmbeddedDelayedWork<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedDelayedWork")
            .field("pending", &self.is_pending())
            .finish_non_exhaustive()
    }
}

impl Workqueue {
    /// Queues as [`queue_delayed`](Self::queue_delayed) does, with an item that is part of the
    /// value of `owner`: see [`queue_embedded`](Self::queue_embedded).
    ///
    /// # Panics
    /// As [`queue_embedded`](Self::queue_embedded).
    pub fn queue_delayed_embedded<T: Send + Sync + 'static>(
        &self,
        owner: &Arc<T>,
        item: impl for<'a> FnOnce(&'a T) -> &'a EmbeddedDelayedWork<T>,
        delay: Duration,
    ) -> Queued {
        self.start_embedded(None, owner, item, delay)
    }

    /// Queues as [`queue_delayed_embedded`](Self::queue_delayed_embedded) does, from `cpu` instead
    /// of from the caller's CPU.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    ///
    /// # Panics
    /// As [`queue_embedded`](Self::queue_embedded).
    pub fn queue_delayed_embedded_on<T: Send + Sync + 'static>(
        &self,
        cpu: usize,
        owner: &Arc<T>,
        item: impl for<'a> FnOnce(&'a T) -> &'a EmbeddedDelayedWork<T>,
        delay: Duration,
    ) -> Result<Queued, Error> {
        self.must_have(cpu)?;
        Ok(self.start_embedded(Some(cpu), owner, item, delay))
    }

    fn start_embedded<T: Send + Sync + 'static>(
        &self,
        cpu: Option<usize>,
        owner: &Arc<T>,
        item: impl for<'a> FnOnce(&'a T) -> &'a EmbeddedDelayedWork<T>,
        delay: Duration,
    ) -> Queued {
        let item = locate(owner, item);
        // SAFETY: the item is part of the owner's value.
        let embedded = unsafe { item.as_ref() };
        let armed = |claimed| embedded.armed(owner, &self.core, cpu, claimed);
        // SAFETY: `armed` keeps the item alive while its timer is armed, and leaves a reference for the run.
        unsafe { self.start_timer(item.cast(), &embedded.timer, delay, armed) }
    }

    /// Moves as [`mod_delayed`](Self::mod_delayed) does, with an item that is part of the value of
    /// `owner`: see [`queue_embedded`](Self::queue_embedded).
    ///
    /// # Panics
    /// As [`queue_embedded`](Self::queue_embedded).
    pub fn mod_delayed_embedded<T: Send + Sync + 'static>(
        &self,
        owner: &Arc<T>,
        item: impl for<'a> FnOnce(&'a T) -> &'a EmbeddedDelayedWork<T>,
        delay: Duration,
    ) -> Moved {
        let item = locate(owner, item);
        // SAFETY: the item is part of the owner's value.
        let embedded = unsafe { item.as_ref() };
        let parts = Parts {
            whole: item.cast(),
            ..embedded.parts()
        };
        // SAFETY: called when the pending instance has been removed.
        let reclaim = || drop(unsafe { embedded.item.reclaim() });
        let armed = |item| embedded.armed(owner, &self.core, None, item);
        parts.move_by(&self.core, delay, reclaim, armed)
    }
}
