//! Queueing delayed items, and moving them.

use super::{Armed, DelayedWork};
use crate::error::{Error, Refused};
use crate::item::{Pending, RawWork};
use crate::timer::TimerKey;
use crate::workqueue::queue::Workqueue;
use crate::workqueue::task::queued::{Moved, Queued};
use std::ptr::NonNull;
use std::time::Duration;

impl Workqueue {
    /// Queues `work` when `delay` has passed, near the CPU that the caller is on now. If the delay
    /// is zero, the item is queued at once, without a timer. An item that was
    /// [accepted](Queued::Accepted) for its timer may still be dropped when the timer fires, if the
    /// queue is draining or gone by then.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// use std::time::Duration;
    ///
    /// let retry = cmwq::DelayedWork::new(|| println!("once more"));
    /// assert!(queue.queue_delayed(&retry, Duration::from_millis(1)).is_accepted());
    /// retry.flush()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn queue_delayed(&self, work: &DelayedWork, delay: Duration) -> Queued {
        self.start_delayed(None, work, delay)
    }

    /// Queues an item as [`queue_delayed`](Self::queue_delayed) does, from `cpu` instead of from
    /// the caller's.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    pub fn queue_delayed_on(
        &self,
        cpu: usize,
        work: &DelayedWork,
        delay: Duration,
    ) -> Result<Queued, Error> {
        self.must_have(cpu)?;
        Ok(self.start_delayed(Some(cpu), work, delay))
    }

    fn start_delayed(&self, cpu: Option<usize>, work: &DelayedWork, delay: Duration) -> Queued {
        let armed = |item| work.armed(&self.core, cpu, item);
        // SAFETY: `armed` keeps the item alive while its timer is armed, and leaves a reference for the run.
        unsafe { self.start_timer(work.work.raw(), &work.timer, delay, armed) }
    }

    /// Queues an item of any kind when `delay` has passed. `armed` makes the content of its timer.
    ///
    /// # Safety
    /// As for [`Pending::claim`].
    pub(super) unsafe fn start_timer(
        &self,
        item: NonNull<RawWork>,
        timer: &TimerKey,
        delay: Duration,
        armed: impl FnOnce(Pending) -> Armed,
    ) -> Queued {
        // SAFETY: by the caller's promise.
        match unsafe { Pending::claim(item) } {
            Ok(item) if self.core.engine.is_inherited() => {
                item.release();
                Queued::Refused(Refused::Forked)
            }
            Ok(item) => armed(item).start(timer, delay, false),
            Err(why_not) => why_not.into(),
        }
    }

    /// Makes `work` run when `delay` has passed from now, whatever its state is: a pending instance
    /// is moved, whether it is on a timer or on a queue. The [result](Moved) says whether the item
    /// was pending and whether it will run. If the timer thread cannot be created, the item is
    /// queued at once: it runs too early rather than never.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// use std::time::Duration;
    ///
    /// let idle = cmwq::DelayedWork::new(|| println!("nothing came for a minute"));
    /// for _request in 0..3 {
    ///     // Each request begins the minute anew.
    ///     assert!(queue.mod_delayed(&idle, Duration::from_secs(60)).will_run());
    /// }
    /// idle.cancel();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mod_delayed(&self, work: &DelayedWork, delay: Duration) -> Moved {
        self.move_delayed(None, work, delay)
    }

    /// Moves an item as [`mod_delayed`](Self::mod_delayed) does, from `cpu` instead of from the
    /// caller's.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    pub fn mod_delayed_on(
        &self,
        cpu: usize,
        work: &DelayedWork,
        delay: Duration,
    ) -> Result<Moved, Error> {
        self.must_have(cpu)?;
        Ok(self.move_delayed(Some(cpu), work, delay))
    }

    fn move_delayed(&self, cpu: Option<usize>, work: &DelayedWork, delay: Duration) -> Moved {
        let armed = |item| work.armed(&self.core, cpu, item);
        let unlend = || work.work.unlend();
        work.parts().move_by(&self.core, delay, unlend, armed)
    }
}
