//! Operations on a [`Work`] in any state.

use super::control::{DisableGuard, WorkBusy, wait_for_run};
use crate::error::FlushError;
use crate::item::Work;
use std::time::Duration;

impl Work {
    /// Drops the reference that a removed instance held, if one was removed, and returns `removed`.
    pub(in crate::workqueue) fn removed(&self, removed: bool) -> bool {
        if removed {
            self.unlend();
        }
        removed
    }

    /// Takes the item off its queue if it has not started; does not wait for a running instance.
    /// `true`: an instance was removed.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let work = cmwq::Work::new(|| ());
    /// queue.queue(&work);
    /// if work.cancel() {
    ///     println!("it had not begun, and will not run");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        self.removed(self.as_raw().cancel())
    }

    /// Takes the item off its queue if it has not started, and waits until the function no longer
    /// runs: see [`RawWork::cancel_sync`](crate::raw::RawWork::cancel_sync).
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let work = cmwq::Work::new(|| ());
    /// queue.queue(&work);
    /// work.cancel_sync(); // what the function uses may be freed now
    /// assert!(!work.busy().running);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_sync(&self) -> bool {
        self.removed(self.as_raw().cancel_sync())
    }

    /// Keeps the item from being queued until the returned guard is dropped: a pending instance is
    /// removed, and attempts to queue are refused and lost. Does not wait for a running instance.
    /// Several guards add up.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let work = cmwq::Work::new(|| ());
    /// let paused = work.disable();
    /// assert!(!queue.queue(&work).will_run());
    /// drop(paused);
    /// assert!(queue.queue(&work).will_run());
    /// work.flush()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn disable(&self) -> DisableGuard {
        DisableGuard::new(self.clone(), || self.cancel())
    }

    /// Disables the item as [`disable`](Self::disable) does, and waits until the function no longer
    /// runs.
    ///
    /// ```
    /// let work = cmwq::Work::new(|| ());
    /// let paused = work.disable_sync(); // while it is paused the function does not run
    /// assert!(!work.busy().running);
    /// drop(paused);
    /// ```
    pub fn disable_sync(&self) -> DisableGuard {
        let guard = self.disable();
        wait_for_run(self.as_raw());
        guard
    }

    /// Waits for the last instance known at the call: see
    /// [`RawWork::flush`](crate::raw::RawWork::flush). `Ok(false)`: there was no instance.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let work = cmwq::Work::new(|| println!("written"));
    /// queue.queue(&work);
    /// work.flush()?; // it was written
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`RawWork::flush`](crate::raw::RawWork::flush).
    pub fn flush(&self) -> Result<bool, FlushError> {
        self.as_raw().flush()
    }

    /// Waits as [`flush`](Self::flush) does, for at most `timeout`; the calling thread runs nothing
    /// itself.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let work = cmwq::Work::new(|| ());
    /// assert!(!work.flush_timeout(Duration::from_secs(1))?); // it was never queued
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`flush`](Self::flush); [`FlushError::TimedOut`]: the instance has not ended by then.
    pub fn flush_timeout(&self, timeout: Duration) -> Result<bool, FlushError> {
        self.as_raw().flush_timeout(timeout)
    }

    /// Says whether the item is pending, and whether it runs. The answer may be out of date when
    /// the caller reads it.
    ///
    /// ```
    /// let work = cmwq::Work::new(|| ());
    /// assert!(!work.busy().pending && !work.busy().running);
    /// ```
    pub fn busy(&self) -> WorkBusy {
        self.as_raw().busy()
    }
}
