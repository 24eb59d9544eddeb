//! Delayed work: a work item with a timer. [`RawDelayedWork`] is the caller's own memory; [`DelayedWork`] is safe, and the same
//! on an item that keeps itself alive.

use super::control::{self, DisableGuard, Grabbed, WorkBusy, wait_for_run};
use super::core::WqCore;
use super::{Queued, Workqueue};
use crate::error::{Error, Refused};
use crate::timer::{TimerKey, Timers};
use crate::work::{Pending, RawWork, Work};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A reusable work item that can be queued to run after a delay.
///
/// It is pending from the moment it is queued: while its timer runs as while it is on a queue. A timer never fires early
/// (the clock is monotonic and delays are rounded up, to about a millisecond). An armed timer is not seen by a flush, drain
/// or drop of the queue: an item whose queue is gone when its timer fires is dropped with a warning.
///
/// Cloning gives another handle of the same item.
#[derive(Clone)]
pub struct DelayedWork {
    work: Work,
    timer: Arc<TimerKey>,
}

/// An item with a timer that its user owns and embeds where he likes: a [`RawWork`] and 8 bytes.
///
/// All-zero memory is a valid idle item without a function. Its memory must stay valid, and must not move, from the moment it
/// is queued until its function is called, or it is cancelled: the timer, too, refers to it by its address.
#[repr(C)]
pub struct RawDelayedWork {
    work: RawWork,
    timer: TimerKey,
}

/// What the timer holds: the item, owned, with the queue and the CPU it goes to.
struct Armed {
    item: Pending,
    /// What keeps a safe item alive.
    keep: Option<Work>,
    queue: Arc<WqCore>,
    cpu: Option<usize>,
}

/// The timers of all delayed work of the process.
static TIMERS: Timers<Armed> = Timers::new(Armed::expire, || TIMERS.hold_during_fork());

impl Armed {
    /// The timer has fired, or the item is wanted at once: it goes to its queue. A timer is none of the queue's items, so
    /// a draining queue drops it.
    fn expire(self) {
        let _ = self.enqueue();
    }

    /// Hands the owned item to the queue, with a reference for the run.
    fn enqueue(self) -> Queued {
        let Armed {
            item,
            keep,
            queue,
            cpu,
        } = self;
        if let Some(work) = &keep {
            work.lend();
        }
        match queue.queue(cpu, item) {
            Ok(()) => Queued::Accepted,
            Err(why) => {
                if let Some(work) = &keep {
                    work.unlend();
                }
                Queued::Refused(why)
            }
        }
    }

    /// Arms the timer, or queues at once if there is no delay.
    fn start(mut self, timer: &TimerKey, delay: Duration) -> Queued {
        if delay.is_zero() {
            return self.enqueue();
        }
        // Near the caller: where the timer will fire means nothing.
        self.cpu = Some(self.cpu.unwrap_or_else(|| self.queue.issuing_cpu()));
        match TIMERS.arm(delay, timer, self) {
            Ok(()) => Queued::Accepted,
            Err(armed) => {
                static WARNED: AtomicBool = AtomicBool::new(false);
                if !WARNED.swap(true, Ordering::Relaxed) {
                    crate::observe::warn(
                        "the timer thread cannot be created: delayed work is refused",
                    );
                }
                armed.item.release();
                Queued::Refused(Refused::NoTimer)
            }
        }
    }
}

/// The parts of a delayed item, safe or raw: what is done with either is done here.
#[derive(Clone, Copy)]
struct Parts<'a> {
    work: &'a RawWork,
    timer: &'a TimerKey,
}

impl Parts<'_> {
    fn disarm(self) -> Option<Pending> {
        TIMERS.disarm(self.timer).map(|armed| armed.item)
    }

    /// Becomes the owner of the item wherever it is: idle, on the timer, or queued. Tells whether it was pending; `queued` is
    /// called if it was on a queue.
    ///
    /// Refused if `by` is the queue of a fork's parent, or the item is.
    fn grab(self, by: &WqCore, queued: impl FnOnce()) -> Result<(Pending, bool), Refused> {
        by.engine.must_be_ours().map_err(|_| Refused::Forked)?;
        match control::grab(self.work, &|| self.disarm()) {
            Some(Grabbed::Removed(removed)) => Ok((removed.item(queued), true)),
            Some(Grabbed::Idle(idle)) => Ok((idle, false)),
            None => Err(Refused::Forked),
        }
    }

    /// Removes a pending instance; `queued` as for [`grab`](Self::grab).
    fn cancel(self, queued: impl FnOnce()) -> bool {
        let removed = control::remove_with(self.work, &control::registered, &|| self.disarm());
        removed
            .map(|removed| removed.item(queued).release())
            .is_some()
    }

    fn cancel_sync(self, queued: impl FnOnce()) -> bool {
        self.work.disable_once_more();
        let removed = self.cancel(queued);
        wait_for_run(self.work);
        self.work.shallower();
        removed
    }

    /// Queues at once what waits for its timer, then waits by `flush`.
    fn flush(self, flush: fn(&RawWork) -> bool) -> bool {
        let armed = TIMERS.disarm(self.timer);
        let queued = armed.is_some_and(|armed| armed.enqueue() == Queued::Accepted);
        // It may have ended already: it was pending at the call all the same.
        flush(self.work) || queued
    }
}

impl RawDelayedWork {
    /// An idle item that was never queued.
    #[cfg(not(cmwq_loom))]
    pub const fn new(func: crate::WorkFn) -> Self {
        RawDelayedWork {
            work: RawWork::new(func),
            timer: TimerKey::new(),
        }
    }

    /// The item without its timer. To cancel or disable that while the timer is armed waits until it fires: use the methods
    /// here instead.
    pub fn work(&self) -> &RawWork {
        &self.work
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            work: &self.work,
            timer: &self.timer,
        }
    }

    /// As [`DelayedWork::cancel`].
    pub fn cancel(&self) -> bool {
        self.parts().cancel(|| ())
    }

    /// As [`DelayedWork::cancel_sync`].
    pub fn cancel_sync(&self) -> bool {
        self.parts().cancel_sync(|| ())
    }

    /// As [`RawWork::disable_work`]; the timer is stopped too.
    pub fn disable_work(&self) -> bool {
        self.work.disable_once_more();
        self.cancel()
    }

    /// As [`disable_work`](Self::disable_work), and waits until the function does not run any more.
    pub fn disable_sync(&self) -> bool {
        let removed = self.disable_work();
        wait_for_run(&self.work);
        removed
    }

    /// As [`RawWork::enable_work`]; a pending instance of an item that was not disabled is taken off its timer too.
    pub fn enable_work(&self) -> bool {
        self.work.enable_with(|| {
            self.cancel();
        })
    }

    /// As [`DelayedWork::flush`].
    pub fn flush(&self) -> bool {
        self.parts().flush(RawWork::flush)
    }

    /// As [`flush`](Self::flush), but the calling thread runs nothing itself.
    pub fn flush_by_workers(&self) -> bool {
        self.parts().flush(RawWork::flush_by_workers)
    }
}

impl DelayedWork {
    /// An item that runs `func`.
    pub fn new(func: impl Fn() + Send + Sync + 'static) -> DelayedWork {
        DelayedWork {
            work: Work::new(func),
            timer: Arc::new(TimerKey::new()),
        }
    }

    /// Whether its timer is armed or it is queued and has not started. A hint.
    pub fn is_pending(&self) -> bool {
        self.work.is_pending()
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            work: self.work.as_raw(),
            timer: &self.timer,
        }
    }

    /// Arms or queues the owned item, kept alive by a reference of its own.
    fn start(
        &self,
        queue: &Arc<WqCore>,
        cpu: Option<usize>,
        delay: Duration,
        item: Pending,
    ) -> bool {
        let armed = Armed {
            item,
            keep: Some(self.work.clone()),
            queue: queue.clone(),
            cpu,
        };
        armed.start(&self.timer, delay) == Queued::Accepted
    }

    /// Removes a pending instance, from the timer or the queue; does not wait for a running one. `true`: one was removed.
    pub fn cancel(&self) -> bool {
        // It was on a queue: the reference of that instance comes back. One on the timer had its own.
        self.parts().cancel(|| self.work.unlend())
    }

    /// Removes a pending instance and waits until the function does not run any more. Meanwhile the item is disabled, so one
    /// that requeues itself cannot escape. Returns whether a pending instance was removed.
    pub fn cancel_sync(&self) -> bool {
        self.parts().cancel_sync(|| self.work.unlend())
    }

    /// Disables the item until the guard is dropped: a pending instance is removed from timer or queue, and attempts to queue
    /// are refused and lost. Does not wait for a running instance. Several guards add up.
    pub fn disable(&self) -> DisableGuard {
        self.work.as_raw().disable_once_more();
        DisableGuard::new(self.work.clone(), self.cancel())
    }

    /// As [`disable`](Self::disable), and waits until the function does not run any more.
    pub fn disable_sync(&self) -> DisableGuard {
        let guard = self.disable();
        wait_for_run(self.work.as_raw());
        guard
    }

    /// Whether it is pending, on its timer or on a queue, and whether it runs. A hint.
    pub fn busy(&self) -> WorkBusy {
        self.work.as_raw().busy()
    }

    /// Waits for the last instance known at the call. An armed timer is stopped and the item queued at once. `false`: it
    /// was neither pending nor running.
    pub fn flush(&self) -> bool {
        self.parts().flush(RawWork::flush)
    }
}

impl std::fmt::Debug for DelayedWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DelayedWork")
            .field("pending", &self.is_pending())
            .finish_non_exhaustive()
    }
}

impl Workqueue {
    /// Queues `work` when `delay` has passed, near the CPU that the caller is on now. A zero delay queues at once, without a
    /// timer. `true`: one new instance was accepted. `false`: it was pending already, is disabled, or the queue is draining.
    pub fn queue_delayed(&self, work: &DelayedWork, delay: Duration) -> bool {
        self.start_delayed(None, work, delay)
    }

    /// As [`queue_delayed`](Self::queue_delayed), from `cpu` instead of from the caller's.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    pub fn queue_delayed_on(
        &self,
        cpu: usize,
        work: &DelayedWork,
        delay: Duration,
    ) -> Result<bool, Error> {
        self.must_have(cpu)?;
        Ok(self.start_delayed(Some(cpu), work, delay))
    }

    fn start_delayed(&self, cpu: Option<usize>, work: &DelayedWork, delay: Duration) -> bool {
        // SAFETY: `start` keeps the item alive while its timer is armed, and leaves a reference for the run.
        let claimed = unsafe { self.claim_delayed(work.work.raw()) };
        claimed.is_ok_and(|item| work.start(&self.core, cpu, delay, item))
    }

    /// Claims an item that is to wait for its timer.
    ///
    /// # Safety
    /// As for [`Pending::claim`].
    unsafe fn claim_delayed(&self, item: NonNull<RawWork>) -> Result<Pending, Queued> {
        // SAFETY: by the caller's promise.
        match unsafe { Pending::claim(item) } {
            Ok(item) if self.core.engine.is_inherited() => {
                item.release();
                Err(Queued::Refused(Refused::Forked))
            }
            Ok(item) => Ok(item),
            Err(why_not) => Err(why_not.into()),
        }
    }

    /// Queues `work` when `delay` has passed from now, wherever it is: a pending instance, on a timer or a queue, is moved. `true`:
    /// it was pending. `false`: it was idle or only running (and is queued now), or it is disabled (and is not).
    pub fn mod_delayed(&self, work: &DelayedWork, delay: Duration) -> bool {
        self.move_delayed(None, work, delay)
    }

    /// As [`mod_delayed`](Self::mod_delayed), from `cpu` instead of from the caller's.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    pub fn mod_delayed_on(
        &self,
        cpu: usize,
        work: &DelayedWork,
        delay: Duration,
    ) -> Result<bool, Error> {
        self.must_have(cpu)?;
        Ok(self.move_delayed(Some(cpu), work, delay))
    }

    fn move_delayed(&self, cpu: Option<usize>, work: &DelayedWork, delay: Duration) -> bool {
        let grabbed = work.parts().grab(&self.core, || work.work.unlend());
        let Ok((item, was_pending)) = grabbed else {
            return false;
        };
        // If it was pending, whoever disables it at this moment has not got hold of it yet, and will remove what is moved
        // here: to drop it now would leave the removal to nobody.
        if !was_pending && work.work.as_raw().is_disabled() {
            item.release();
            return false;
        }
        work.start(&self.core, cpu, delay, item);
        was_pending
    }

    /// As [`queue_delayed`](Self::queue_delayed) and [`queue_delayed_on`](Self::queue_delayed_on), for an item whose memory is the
    /// caller's.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    ///
    /// # Safety
    /// As for [`queue_raw`](Self::queue_raw), and `item` stays where it is while its timer is armed.
    pub unsafe fn queue_delayed_raw(
        &self,
        cpu: Option<usize>,
        item: NonNull<RawDelayedWork>,
        delay: Duration,
    ) -> Result<Queued, Error> {
        cpu.map_or(Ok(()), |cpu| self.must_have(cpu))?;
        // SAFETY: by the caller's promise; from the caller's own pointer, so that the function may go back to the whole.
        Ok(match unsafe { self.claim_delayed(item.cast()) } {
            // SAFETY: valid by the caller's promise.
            Ok(claimed) => unsafe { self.start_raw(cpu, item, claimed, delay) },
            Err(why) => why,
        })
    }

    /// As [`mod_delayed`](Self::mod_delayed) and [`mod_delayed_on`](Self::mod_delayed_on), for an item whose memory is the
    /// caller's. Tells whether it was pending, and what has become of it.
    ///
    /// # Errors
    /// [`Error::NoSuchCpu`] if the machine has no such CPU.
    ///
    /// # Safety
    /// As for [`queue_delayed_raw`](Self::queue_delayed_raw).
    pub unsafe fn mod_delayed_raw(
        &self,
        cpu: Option<usize>,
        item: NonNull<RawDelayedWork>,
        delay: Duration,
    ) -> Result<(bool, Queued), Error> {
        cpu.map_or(Ok(()), |cpu| self.must_have(cpu))?;
        // SAFETY: valid by the caller's promise, and ours until it is started.
        let parts = unsafe { item.as_ref() }.parts();
        let (claimed, was_pending) = match parts.grab(&self.core, || ()) {
            Ok(grabbed) => grabbed,
            Err(why) => return Ok((false, Queued::Refused(why))),
        };
        // As for a safe item: a pending one is moved even so.
        if !was_pending && parts.work.is_disabled() {
            claimed.release();
            return Ok((false, Queued::Disabled));
        }
        // SAFETY: by the caller's promise.
        let queued = unsafe { self.start_raw(cpu, item, claimed, delay) };
        Ok((was_pending, queued))
    }

    /// # Safety
    /// As for [`queue_delayed_raw`](Self::queue_delayed_raw).
    unsafe fn start_raw(
        &self,
        cpu: Option<usize>,
        item: NonNull<RawDelayedWork>,
        claimed: Pending,
        delay: Duration,
    ) -> Queued {
        let armed = Armed {
            item: claimed,
            keep: None,
            queue: self.core.clone(),
            cpu,
        };
        // SAFETY: valid by the caller's promise; the key is not touched once the item may run.
        armed.start(unsafe { &(*item.as_ptr()).timer }, delay)
    }
}
