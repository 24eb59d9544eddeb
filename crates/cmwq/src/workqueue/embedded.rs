//! Operations on items that are fields of a value: queue, cancel, disable, flush.

use crate::error::{Error, FlushError};
use crate::item::embedded::locate;
use crate::item::{EmbeddedWork, Pending, RawWork};
use crate::pool::publish_begins;
use crate::workqueue::queue::Workqueue;
use crate::workqueue::task::control::{WorkBusy, wait_for_run};
use crate::workqueue::task::queued::Queued;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

impl<T> EmbeddedWork<T> {
    /// Whether it is queued and has not started. The answer may be out of date when the caller
    /// reads it.
    pub fn is_pending(&self) -> bool {
        self.as_raw().is_pending()
    }

    /// Whether it is pending, and whether it runs. The answer may be out of date when the caller
    /// reads it.
    pub fn busy(&self) -> WorkBusy {
        self.as_raw().busy()
    }

    /// Returns the reference that the instance held, if one was removed.
    pub(super) fn removed(&self, removed: bool) -> Option<Arc<T>> {
        // SAFETY: the caller has removed the instance.
        removed.then(|| unsafe { self.reclaim() })
    }

    /// Removes a pending instance, and returns the reference that it held. It does not wait for a
    /// running instance. `None`: no instance was pending.
    pub fn cancel(&self) -> Option<Arc<T>> {
        self.removed(self.as_raw().cancel())
    }

    /// Cancels as [`cancel`](Self::cancel) does, and waits until the function no longer runs; see
    /// [`RawWork::cancel_sync`].
    pub fn cancel_sync(&self) -> Option<Arc<T>> {
        self.removed(self.as_raw().cancel_sync())
    }

    /// Disables the item until the guard is dropped: a pending instance is removed, and attempts to
    /// queue the item are refused and lost. It does not wait for a running instance. If several
    /// guards exist, the item is disabled until the last one is dropped.
    pub fn disable(&self) -> EmbeddedDisableGuard<'_, T> {
        EmbeddedDisableGuard::new(self.as_raw(), || self.cancel())
    }

    /// Disables the item as [`disable`](Self::disable) does, and waits until the function no longer
    /// runs.
    pub fn disable_sync(&self) -> EmbeddedDisableGuard<'_, T> {
        let guard = self.disable();
        wait_for_run(self.as_raw());
        guard
    }

    /// Waits for the last instance known at the call; see [`RawWork::flush`]. `Ok(false)`: there
    /// was no instance.
    ///
    /// # Errors
    /// As [`RawWork::flush`].
    pub fn flush(&self) -> Result<bool, FlushError> {
        self.as_raw().flush()
    }

    /// Waits as [`flush`](Self::flush) does, for at most `timeout`. The calling thread runs no item
    /// itself.
    ///
    /// # Errors
    /// As [`flush`](Self::flush); [`FlushError::TimedOut`] if the instance has not ended in that
    /// time.
    pub fn flush_timeout(&self, timeout: Duration) -> Result<bool, FlushError> {
        self.as_raw().flush_timeout(timeout)
    }
}

impl<T> fmt::Debug for EmbeddedWork<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedWork")
            .field("pending", &self.is_pending())
            .finish_non_exhaustive()
    }
}

/// Keeps an embedded item from being queued as long as the guard exists: see
/// [`EmbeddedWork::disable`].
///
/// ```
/// use cmwq::Workqueue;
/// use cmwq::raw::EmbeddedWork;
/// use std::sync::Arc;
///
/// struct Device {
///     reset: EmbeddedWork<Device>,
/// }
///
/// let queue = Workqueue::builder("devices").build()?;
/// let device = Arc::new(Device { reset: EmbeddedWork::new(|_: Arc<Device>| println!("reset")) });
/// let guard = device.reset.disable();
/// assert!(!queue.queue_embedded(&device, |device| &device.reset).is_accepted());
/// drop(guard);
/// assert!(queue.queue_embedded(&device, |device| &device.reset).is_accepted());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the item is enabled again when the guard is dropped"]
pub struct EmbeddedDisableGuard<'a, T> {
    item: &'a RawWork,
    removed: Option<Arc<T>>,
    /// `false`: the disable depth of the item was at its maximum, so this guard did not increment
    /// it.
    deeper: bool,
}

impl<'a, T> EmbeddedDisableGuard<'a, T> {
    /// Makes a guard of an item that is disabled now. `cancel` removes a pending instance, and
    /// returns its reference.
    pub(super) fn new(item: &'a RawWork, cancel: impl FnOnce() -> Option<Arc<T>>) -> Self {
        let deeper = item.disable_once_more();
        EmbeddedDisableGuard {
            item,
            removed: cancel(),
            deeper,
        }
    }

    /// Returns the reference of the pending instance that was removed when the item was disabled,
    /// if there was one. Only the first call returns it.
    pub fn take_removed(&mut self) -> Option<Arc<T>> {
        self.removed.take()
    }
}

impl<T> Drop for EmbeddedDisableGuard<'_, T> {
    fn drop(&mut self) {
        // This guard has disabled the item, so enabling it here cannot warn.
        if self.deeper {
            self.item.enable_work();
        }
    }
}

impl<T> fmt::Debug for EmbeddedDisableGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedDisableGuard")
            .field("removed", &self.removed.is_some())
            .finish_non_exhaustive()
    }
}

impl Workqueue {
    /// Queues an item that is a field of the value of `owner`, as [`queue`](Self::queue) does with
    /// a [`Work`](crate::Work). `item` returns the field. The pending instance holds a reference of
    /// the value, which the item's function gets.
    ///
    /// # Panics
    /// Panics if `item` returns a reference that is not inside the value itself, but behind a
    /// pointer.
    #[inline]
    pub fn queue_embedded<T: Send + Sync + 'static>(
        &self,
        owner: &Arc<T>,
        item: impl for<'a> FnOnce(&'a T) -> &'a EmbeddedWork<T>,
    ) -> Queued {
        self.queue_embedded_from(None, owner, item)
    }

    /// Queues as [`queue_embedded`](Self::queue_embedded) does, from the pod of `cpu` instead of
    /// from the caller's pod.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    ///
    /// # Panics
    /// As [`queue_embedded`](Self::queue_embedded).
    pub fn queue_embedded_on<T: Send + Sync + 'static>(
        &self,
        cpu: usize,
        owner: &Arc<T>,
        item: impl for<'a> FnOnce(&'a T) -> &'a EmbeddedWork<T>,
    ) -> Result<Queued, Error> {
        self.must_have(cpu)?;
        Ok(self.queue_embedded_from(Some(cpu), owner, item))
    }

    #[inline]
    fn queue_embedded_from<T: Send + Sync + 'static>(
        &self,
        cpu: Option<usize>,
        owner: &Arc<T>,
        item: impl for<'a> FnOnce(&'a T) -> &'a EmbeddedWork<T>,
    ) -> Queued {
        let item = locate(owner, item);
        publish_begins(item.addr().get());
        // SAFETY: the reference lent below keeps the item alive until its function has taken it over.
        let claimed = match unsafe { Pending::claim(item.cast::<RawWork>()) } {
            Ok(claimed) => claimed,
            Err(why_not) => return why_not.into(),
        };
        // SAFETY: the item is part of the owner's value.
        let embedded = unsafe { item.as_ref() };
        embedded.lend(owner);
        let result = self.core.queue(cpu, claimed);
        if result.is_err() {
            // SAFETY: the queue has released the item, and not used the reference.
            drop(unsafe { embedded.reclaim() });
        }
        result.into()
    }
}
