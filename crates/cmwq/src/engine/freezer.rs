//! Freezing: bringing all freezable workqueues to rest, and letting them go on. In the child of a
//! fork the queues belong to the parent, so these calls do nothing there.

use super::core::Engine;
use crate::pool::Dump;

impl Engine {
    /// Brings freezable workqueues to rest before a checkpoint, a fork or a suspend: they start
    /// nothing new from now on, and items queued on them wait. Active items run to their end. Does
    /// nothing when frozen already.
    ///
    /// ```
    /// let engine = cmwq::Engine::builder().build()?;
    /// let writes = engine.workqueue("writes").freezable().build()?;
    /// engine.freeze_workqueues_begin();
    /// while engine.freeze_workqueues_busy() {
    ///     std::thread::yield_now();
    /// }
    /// // ... no item of a freezable queue runs: take the checkpoint ...
    /// engine.thaw_workqueues();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn freeze_workqueues_begin(&self) {
        self.freeze(true);
    }

    fn freeze(&self, freeze: bool) {
        if self.is_inherited() {
            return;
        }
        let mut frozen = self.0.frozen.lock();
        if *frozen != freeze {
            *frozen = freeze;
            for queue in self.queues() {
                queue.set_frozen(freeze);
            }
        }
    }

    /// Whether any item of a freezable workqueue is still active after
    /// [`freeze_workqueues_begin`](Self::freeze_workqueues_begin). The caller polls until none is.
    pub fn freeze_workqueues_busy(&self) -> bool {
        if self.is_inherited() {
            return false;
        }
        let _no_change = self.0.frozen.lock();
        self.queues().iter().any(|queue| queue.is_freezing())
    }

    /// Returns a [dump](Self::dump) of the freezable workqueues only: it shows what an unfinished
    /// freeze waits for. Its [`Display`](std::fmt::Display) is laid out like the kernel's
    /// `show_freezable_workqueues`.
    pub fn dump_freezable(&self) -> Dump {
        self.dump().of_freezable()
    }

    /// Lets freezable workqueues go on, with the items that have waited first. Does nothing when
    /// not frozen.
    pub fn thaw_workqueues(&self) {
        self.freeze(false);
    }
}
