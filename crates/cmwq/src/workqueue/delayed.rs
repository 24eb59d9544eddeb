//! Delayed work: a work item with a timer. [`DelayedWork`] keeps itself alive;
//! [`EmbeddedDelayedWork`] is a field of a value, and safe as well; [`RawDelayedWork`] is in the
//! caller's own memory.

mod embedded;
mod raw;

mod queue;

use super::task::queued::Queued;
use crate::error::{FlushError, Refused};
use crate::item::{Lent, Pending, RawWork, TOO_MANY, Work};
use crate::timer::{Disarmed, TimerKey, Timers};
use crate::trace::warn_once;
use crate::workqueue::parts::core::WqCore;
use crate::workqueue::queueing::Admission;
use crate::workqueue::task::control::{self, DisableGuard, NotGrabbed, WorkBusy, wait_for_run};
use crate::workqueue::task::own_wait::may_flush;
use crate::workqueue::task::queued::Moved;
use std::any::Any;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

pub use embedded::EmbeddedDelayedWork;
pub use raw::RawDelayedWork;

/// A reusable item that runs after a delay: a time-out, a retry or a periodic task.
///
/// It is pending from the moment it is queued, both while its timer runs and while it is on a
/// queue. A timer never fires early (the clock is monotonic and delays are rounded up, to about a
/// millisecond). A flush, drain or drop of the queue does not see an armed timer: an item whose
/// queue is gone when its timer fires is dropped with a warning.
///
/// Cloning gives another handle of the same item.
///
/// ```
/// use cmwq::{DelayedWork, Workqueue};
/// use std::time::Duration;
///
/// let queue = Workqueue::builder("sessions").build()?;
/// let expire = DelayedWork::new(|| println!("the session has expired"));
/// assert!(queue.queue_delayed(&expire, Duration::from_secs(60)).will_run());
/// // The client came back: another 60 seconds from now.
/// assert!(queue.mod_delayed(&expire, Duration::from_secs(60)).was_pending());
/// assert!(expire.cancel()); // the client has left
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DelayedWork {
    work: Work,
    timer: Arc<TimerKey>,
}

/// The reference that keeps a safe item alive.
enum Keep {
    Work {
        _lent: Lent,
    },
    /// The value that contains the item.
    Owner {
        _value: Arc<dyn Any + Send + Sync>,
    },
}

/// The content of a timer: the item, which the timer owns, its queue, and the CPU to queue it from.
struct Armed {
    item: Pending,
    /// `None`: the item is in the memory of its user, who keeps it alive.
    keep: Option<Keep>,
    queue: Arc<WqCore>,
    cpu: Option<usize>,
}

/// Says which delayed items [`mod_delayed_raw_if`](super::Workqueue::mod_delayed_raw_if) moves.
///
/// ```
/// use cmwq::Workqueue;
/// use cmwq::raw::{MoveIf, RawDelayedWork, RawWork};
/// use std::ptr::NonNull;
/// use std::time::Duration;
///
/// unsafe extern "C-unwind" fn retry(_item: NonNull<RawWork>) {}
///
/// let queue = Workqueue::builder("io").build()?;
/// let item = Box::new(RawDelayedWork::new(retry));
/// let (address, soon) = (NonNull::from(&*item), Duration::from_millis(1));
/// // SAFETY: the item was never queued, and stays where it is.
/// let moved = unsafe { queue.mod_delayed_raw_if(MoveIf::Pending, None, address, soon, None)? };
/// assert!(moved.is_none(), "it is not pending");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveIf {
    /// All items.
    Always,
    /// Items that are pending. An idle item stays idle.
    Pending,
    /// All items except those whose timer runs out before the new delay would.
    Later,
}

/// The queue or the item belongs to the parent of a fork.
const INHERITED: Moved = Moved::Refused {
    why: Refused::Forked,
    was_pending: false,
};

/// The timers of all delayed work of the process.
static TIMERS: Timers<Armed, Keep> = Timers::new(Armed::expire, || TIMERS.hold_during_fork());

impl Armed {
    /// Queues the item; called when its timer has fired. The timer thread runs none of the queue's
    /// items, so a draining queue drops the item. Then this returns what keeps the item alive,
    /// which may be the last reference.
    fn expire(self) -> Option<Keep> {
        self.enqueue(Admission::Forces)
            .err()
            .and_then(|(_, keep)| keep)
    }

    /// Queues the item. Its run takes over what keeps it alive. If the queue refuses the item, the
    /// caller gets that back.
    fn enqueue(self, admission: Admission) -> Result<(), (Refused, Option<Keep>)> {
        let Armed {
            mut item,
            keep,
            queue,
            cpu,
        } = self;
        item.disarm();
        // The run takes over the reference. The run may have ended, and used the reference up,
        // before the queue returns.
        let lent = keep.map(ManuallyDrop::new);
        queue
            .queue_admitted(cpu, item, admission)
            .map_err(|why| (why, lent.map(ManuallyDrop::into_inner)))
    }

    fn enqueue_now(self, admission: Admission) -> Queued {
        self.enqueue(admission).map_err(|(why, _)| why).into()
    }

    /// Arms the timer, or queues the item at once if there is no delay. `moved`: the item may have
    /// been accepted before. If there can be no timer, such an item runs too early rather than
    /// never.
    fn start(self, timer: &TimerKey, delay: Duration, moved: bool) -> Queued {
        let admission = match moved {
            true => Admission::Forces,
            false => Admission::Asks,
        };
        if delay.is_zero() {
            return self.enqueue_now(admission);
        }
        let queued = match self.arm(timer, delay) {
            Ok(()) => return Queued::Accepted,
            Err(armed) if moved => armed.enqueue_now(admission),
            Err(armed) => {
                armed.item.release();
                Queued::Refused(Refused::NoTimer)
            }
        };
        // The warning comes last, because the item was claimed until here, and the handler of
        // warnings may cancel the item.
        warn_once!(
            "the timer thread cannot be created: delayed work is refused, or queued at once if it is moved"
        );
        queued
    }

    /// Arms the timer. If there can be no timer, the caller gets the content back.
    fn arm(mut self, timer: &TimerKey, delay: Duration) -> Result<(), Armed> {
        // The item is queued from the CPU of this caller. The CPU on which the timer fires does not
        // matter.
        self.cpu = Some(self.cpu.unwrap_or_else(|| self.queue.issuing_cpu()));
        self.item.arm();
        TIMERS.arm(delay, timer, self).map_err(|mut armed| {
            armed.item.disarm();
            armed
        })
    }
}

/// The parts of a delayed item, safe or raw, and the operations on both.
#[derive(Clone, Copy)]
struct Parts<'a> {
    work: &'a RawWork,
    /// The address of the item for queueing. The item's function may reach the whole delayed item
    /// from it.
    whole: NonNull<RawWork>,
    timer: &'a TimerKey,
}

impl Parts<'_> {
    /// Takes the item back from the timer. The caller becomes responsible for what kept the item
    /// alive there, as for an item that it takes off a queue.
    fn disarm(self) -> Option<Pending> {
        TIMERS.disarm(self.timer).map(Self::taken)
    }

    fn taken(armed: Armed) -> Pending {
        let Armed { mut item, keep, .. } = armed;
        item.disarm();
        std::mem::forget(keep);
        item
    }

    /// Removes a pending instance. The caller takes back the reference that the instance held.
    fn cancel(self) -> bool {
        control::remove_with(self.work, &control::registered, &|| self.disarm())
            .map(Pending::release)
            .is_some()
    }

    fn time_left(self) -> Duration {
        match self.work.is_pending() {
            true => self.timer.time_left(),
            false => Duration::ZERO,
        }
    }

    /// Makes the item, in whatever state, run after `delay`: see
    /// [`mod_delayed`](super::Workqueue::mod_delayed). `removed` takes back the reference of an
    /// instance that was pending. `armed` makes the content of the timer.
    fn move_by(
        self,
        by: &WqCore,
        delay: Duration,
        removed: impl FnOnce(),
        armed: impl FnOnce(Pending) -> Armed,
    ) -> Moved {
        self.move_if(MoveIf::Always, by, delay, removed, armed)
            .unwrap_or(INHERITED)
    }

    /// Moves the item as `move_by` does, if it is in a state that `which` names. `None`: it is not,
    /// and stays as it is.
    fn move_if(
        self,
        which: MoveIf,
        by: &WqCore,
        delay: Duration,
        removed: impl FnOnce(),
        armed: impl FnOnce(Pending) -> Armed,
    ) -> Option<Moved> {
        if by.engine.is_inherited() {
            return Some(INHERITED);
        }
        let grabbed = match which {
            MoveIf::Always => control::grab(self.work, self.whole, &|| self.disarm(), &|| false),
            MoveIf::Pending => {
                let disarm = || self.disarm();
                let item = control::remove_with(self.work, &control::registered, &disarm)?;
                Ok((item, true))
            }
            MoveIf::Later => {
                let kept = Cell::new(false);
                let disarm = || match TIMERS.disarm_unless_within(delay, self.timer) {
                    Disarmed::Taken(armed) => Some(Self::taken(armed)),
                    Disarmed::Kept => {
                        kept.set(true);
                        None
                    }
                    Disarmed::Nothing => None,
                };
                control::grab(self.work, self.whole, &disarm, &|| kept.get())
            }
        };
        let (item, was_pending) = match grabbed {
            Ok(grabbed) => grabbed,
            Err(NotGrabbed::Kept) => return None,
            Err(NotGrabbed::Inherited) => return Some(INHERITED),
        };
        if was_pending {
            removed();
        } else if self.work.is_disabled() {
            // A pending item is moved even if it is disabled. The thread that disables it has not
            // removed the instance yet, and must find the moved one.
            item.release();
            return Some(Moved::Disabled);
        }
        let started = armed(item).start(self.timer, delay, true);
        Some(Moved::new(was_pending, started))
    }

    /// Queues at once an item that waits for its timer, then waits with `flush`.
    fn flush(
        self,
        flush: impl FnOnce(&RawWork) -> Result<bool, FlushError>,
    ) -> Result<bool, FlushError> {
        may_flush(self.work)?;
        let armed = TIMERS.disarm(self.timer);
        let queued = armed.is_some_and(|armed| armed.enqueue(Admission::Forces).is_ok());
        // The instance may have ended already. But it was pending at the call, which is what the
        // result says.
        Ok(flush(self.work)? || queued)
    }
}

impl DelayedWork {
    /// Makes an idle item that runs `func` each time that it was queued.
    ///
    /// ```
    /// let work = cmwq::DelayedWork::new(|| println!("later"));
    /// assert!(!work.is_pending());
    /// ```
    #[track_caller]
    pub fn new(func: impl Fn() + Send + Sync + 'static) -> DelayedWork {
        DelayedWork {
            work: Work::new(func),
            timer: Arc::new(TimerKey::new()),
        }
    }

    /// Says whether its timer is armed, or it is queued and has not started. The answer may be out
    /// of date when the caller reads it.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// use std::time::Duration;
    ///
    /// let work = cmwq::DelayedWork::new(|| ());
    /// let _ = queue.queue_delayed(&work, Duration::from_secs(3600));
    /// assert!(work.is_pending());
    /// work.cancel();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_pending(&self) -> bool {
        self.work.is_pending()
    }

    /// How long its timer will still run, in whole milliseconds; zero if it is not armed. The
    /// answer may be out of date when the caller reads it.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// use std::time::Duration;
    ///
    /// let work = cmwq::DelayedWork::new(|| ());
    /// let _ = queue.queue_delayed(&work, Duration::from_secs(3600));
    /// assert!(work.time_left() <= Duration::from_secs(3601));
    /// work.cancel();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn time_left(&self) -> Duration {
        self.parts().time_left()
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            work: self.work.as_raw(),
            whole: self.work.raw(),
            timer: &self.timer,
        }
    }

    /// Makes the content of the timer: the item, with a reference that keeps it alive.
    fn armed(&self, queue: &Arc<WqCore>, cpu: Option<usize>, item: Pending) -> Armed {
        let Some(lent) = self.work.lend() else {
            item.release();
            panic!("{TOO_MANY}");
        };
        Armed {
            item,
            keep: Some(Keep::Work { _lent: lent }),
            queue: queue.clone(),
            cpu,
        }
    }

    /// Removes a pending instance from the timer or the queue; does not wait for a running one.
    /// `true`: an instance was removed.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// use std::time::Duration;
    ///
    /// let work = cmwq::DelayedWork::new(|| ());
    /// let _ = queue.queue_delayed(&work, Duration::from_secs(3600));
    /// assert!(work.cancel());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) -> bool {
        self.work.removed(self.parts().cancel())
    }

    /// Removes a pending instance and waits until the function no longer runs. Meanwhile the item
    /// is disabled, so that a function that queues its own item again cannot escape. Returns
    /// whether a pending instance was removed.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// use std::time::Duration;
    ///
    /// let work = cmwq::DelayedWork::new(|| ());
    /// let _ = queue.queue_delayed(&work, Duration::ZERO);
    /// work.cancel_sync(); // from now on the function does not run
    /// assert!(!work.busy().running);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_sync(&self) -> bool {
        self.disable_sync().removed_pending()
    }

    /// Keeps the item from being queued until the returned guard is dropped: a pending instance is
    /// removed from timer or queue, and attempts to queue are refused and lost. Does not wait for a
    /// running instance. Several guards add up.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// use std::time::Duration;
    ///
    /// let work = cmwq::DelayedWork::new(|| ());
    /// let paused = work.disable();
    /// assert!(!queue.queue_delayed(&work, Duration::ZERO).will_run());
    /// drop(paused);
    /// assert!(queue.queue_delayed(&work, Duration::ZERO).will_run());
    /// work.flush()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn disable(&self) -> DisableGuard {
        DisableGuard::new(self.work.clone(), || self.cancel())
    }

    /// Disables the item as [`disable`](Self::disable) does, and waits until the function no longer
    /// runs.
    ///
    /// ```
    /// let work = cmwq::DelayedWork::new(|| ());
    /// let paused = work.disable_sync();
    /// assert!(!work.busy().running);
    /// drop(paused);
    /// ```
    pub fn disable_sync(&self) -> DisableGuard {
        let guard = self.disable();
        wait_for_run(self.work.as_raw());
        guard
    }

    /// Says whether it is pending, on its timer or on a queue, and whether it runs. The answer may
    /// be out of date when the caller reads it.
    ///
    /// ```
    /// let work = cmwq::DelayedWork::new(|| ());
    /// assert!(!work.busy().pending && !work.busy().running);
    /// ```
    pub fn busy(&self) -> WorkBusy {
        self.work.as_raw().busy()
    }

    /// Waits for the last instance known at the call, without waiting for its delay: an armed timer
    /// is stopped and the item queued at once. `Ok(false)`: the item was neither pending nor
    /// running.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// use std::time::Duration;
    ///
    /// let work = cmwq::DelayedWork::new(|| println!("written"));
    /// let _ = queue.queue_delayed(&work, Duration::from_secs(3600));
    /// assert!(work.flush()?); // runs it now, and waits for it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`RawWork::flush`].
    pub fn flush(&self) -> Result<bool, FlushError> {
        self.parts().flush(RawWork::flush)
    }

    /// Waits as [`flush`](Self::flush) does, for at most `timeout`; the calling thread runs nothing
    /// itself.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let work = cmwq::DelayedWork::new(|| ());
    /// assert!(!work.flush_timeout(Duration::from_secs(1))?); // there was nothing to wait for
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`flush`](Self::flush); [`FlushError::TimedOut`]: the instance has not ended by then.
    pub fn flush_timeout(&self, timeout: Duration) -> Result<bool, FlushError> {
        self.parts().flush(|item| item.flush_timeout(timeout))
    }
}

impl std::fmt::Debug for DelayedWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DelayedWork")
            .field("pending", &self.is_pending())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
