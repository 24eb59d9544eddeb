//! Delayed work: a work item with a timer.

use super::control::{DisableGuard, Removed, WorkBusy, wait_for_run};
use super::core::WqCore;
use super::{Workqueue, control};
use crate::error::Error;
use crate::timer::{TimerKey, Timers};
use crate::work::{Pending, Unclaimed, Work};
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

/// What the timer holds: the item, owned and kept alive, with the queue and the CPU it goes to.
struct Armed {
    item: Pending,
    work: DelayedWork,
    queue: Arc<WqCore>,
    cpu: Option<usize>,
}

/// The timers of all delayed work of the process.
static TIMERS: Timers<Armed> = Timers::new(Armed::expire);

impl Armed {
    /// The timer has fired, or the item is wanted at once: it goes to its queue. A timer is none of the queue's items, so
    /// a draining queue drops it.
    fn expire(self) {
        self.enqueue();
    }

    /// `false`: the queue dropped it.
    fn enqueue(self) -> bool {
        let Armed {
            item,
            work,
            queue,
            cpu,
        } = self;
        work.enqueue(&queue, cpu, item)
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

    /// Hands the owned item to the queue, with a reference for the run. `false`: the queue dropped it.
    fn enqueue(&self, queue: &Arc<WqCore>, cpu: Option<usize>, item: Pending) -> bool {
        self.work.lend();
        let accepted = queue.queue(cpu, item).is_ok();
        if !accepted {
            self.work.unlend();
        }
        accepted
    }

    /// Arms the timer of the owned item, or queues it at once if there is no delay.
    fn start(
        &self,
        queue: &Arc<WqCore>,
        cpu: Option<usize>,
        delay: Duration,
        item: Pending,
    ) -> bool {
        if delay.is_zero() {
            return self.enqueue(queue, cpu, item);
        }
        let armed = Armed {
            item,
            work: self.clone(),
            queue: queue.clone(),
            // Near the caller: where the timer will fire means nothing.
            cpu: Some(cpu.unwrap_or_else(|| queue.issuing_cpu())),
        };
        match TIMERS.arm(delay, &self.timer, armed) {
            Ok(()) => true,
            Err(armed) => {
                static WARNED: AtomicBool = AtomicBool::new(false);
                if !WARNED.swap(true, Ordering::Relaxed) {
                    crate::observe::warn(
                        "the timer thread cannot be created: delayed work is refused",
                    );
                }
                armed.item.release();
                false
            }
        }
    }

    fn disarm(&self) -> Option<Pending> {
        TIMERS.disarm(&self.timer).map(|armed| armed.item)
    }

    /// The item of a removed instance.
    fn item_of(&self, removed: Removed) -> Pending {
        // It was on a queue: the reference of that instance comes back. One on the timer had its own.
        removed.item(|| self.work.unlend())
    }

    /// Becomes the owner of the item wherever it is: idle, on the timer, or queued. Tells whether it was pending.
    fn grab(&self) -> (Pending, bool) {
        match control::grab(self.work.as_raw(), &|| self.disarm()) {
            Ok(removed) => (self.item_of(removed), true),
            Err(idle) => (idle, false),
        }
    }

    /// Removes a pending instance, from the timer or the queue; does not wait for a running one. `true`: one was removed.
    pub fn cancel(&self) -> bool {
        let removed =
            control::remove_with(self.work.as_raw(), &control::registered, &|| self.disarm());
        removed
            .map(|removed| self.item_of(removed).release())
            .is_some()
    }

    /// Removes a pending instance and waits until the function does not run any more. Meanwhile the item is disabled, so one
    /// that requeues itself cannot escape. Returns whether a pending instance was removed.
    pub fn cancel_sync(&self) -> bool {
        self.work.as_raw().disable_once_more();
        let removed = self.cancel();
        wait_for_run(self.work.as_raw());
        self.work.as_raw().shallower();
        removed
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
        let queued = TIMERS.disarm(&self.timer).is_some_and(Armed::enqueue);
        // It may have ended already: it was pending at the call all the same.
        self.work.as_raw().flush() || queued
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
        // SAFETY: `enqueue` leaves a reference for the run, and an armed timer holds one until then.
        match unsafe { Pending::claim(work.work.raw()) } {
            Ok(item) if self.core.engine.is_inherited() => {
                item.release();
                false
            }
            Ok(item) => work.start(&self.core, cpu, delay, item),
            Err(Unclaimed::AlreadyPending | Unclaimed::Disabled) => false,
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
        let (item, was_pending) = work.grab();
        // If it was pending, whoever disables it at this moment has not got hold of it yet, and will remove what is moved
        // here: to drop it now would leave the removal to nobody.
        if !was_pending && work.work.as_raw().is_disabled() {
            item.release();
            return false;
        }
        work.start(&self.core, cpu, delay, item);
        was_pending
    }
}
