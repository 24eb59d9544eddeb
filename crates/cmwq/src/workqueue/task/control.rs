//! Operations on an item in any state: cancel, disable, enable, flush.

use crate::error::FlushError;
use crate::item::{Completion, Pending, RawWork, Work};
use crate::pool::{BlockGuard, Pool, Waiter, current};
use crate::sys::{clock, fork, task};
use crate::trace::warn_once;
use crate::workqueue::parts::memory_reclaim;
pub(crate) use crate::workqueue::task::own_wait::registered;
use crate::workqueue::task::own_wait::{is_own, may_flush, may_wait_behind, not_in_waker};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// The state of an item at one moment, which may have changed when the caller reads it: see
/// [`Work::busy`].
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// let work = cmwq::Work::new(|| ());
/// queue.queue(&work);
/// work.flush()?;
/// assert!(!work.busy().pending);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkBusy {
    /// It is queued and has not started.
    pub pending: bool,
    /// Its function runs.
    pub running: bool,
}

/// Waits a moment for the owner of an item that is pending and on no list.
#[derive(Default)]
struct Moment {
    passed: u32,
}

impl Moment {
    /// How often the child of a fork waits for an owner that may exist only in the parent.
    const PATIENCE: u32 = 1_000;

    /// Lets a moment pass. `false`: in the child of a fork, the item was pending at the fork. Its
    /// owner is in the parent, and no thread of this process can ever remove it.
    fn pass(&mut self, item: &RawWork) -> bool {
        task::yield_now();
        self.passed = self.passed.saturating_add(1);
        fork::generation() == 0
            || self.passed < Self::PATIENCE
            || registered(item.location().pool()).is_some()
    }
}

/// Calls `f` with the pool on which the item was queued last, if `find` knows that pool.
fn with_last_pool<R>(
    item: &RawWork,
    find: &impl Fn(u32) -> Option<Arc<Pool>>,
    f: impl FnOnce(&Arc<Pool>) -> R,
) -> Option<R> {
    match item.location().pool() {
        0 => None,
        id => Some(f(&find(id)?)),
    }
}

/// Removes the pending instance if it is on the timer (with `disarm`) or on a list of its pool.
fn try_remove(
    item: &RawWork,
    find: &impl Fn(u32) -> Option<Arc<Pool>>,
    disarm: &impl Fn() -> Option<Pending>,
) -> Option<Pending> {
    let armed = disarm();
    if armed.is_some() {
        return armed;
    }
    if item.location().is_armed() {
        // An item with an armed timer is on no list, so there is no pool to lock.
        return None;
    }
    let (mut queued, ordered, pool) = with_last_pool(item, find, |pool| {
        pool.cancel(item)
            .map(|(queued, ordered)| (queued, ordered, pool.id))
    })??;
    // Another pool may still run the item. A thread that waits for that run looks for it in the
    // item's last pool, which must be that one then.
    if let Some(older) = ordered.and_then(|queue| queue.pool_that_runs(item, pool)) {
        queued.set_destination(older, 0);
    }
    Some(queued)
}

/// Removes the pending instance. While another owner has the item on its way to a list, this waits.
/// `None` has two meanings. Either the item is idle; then it is not claimed here, since an issuer
/// that queues it meanwhile would be told that it is pending. Or, in the child of a fork, the
/// instance belongs to the parent for ever.
pub(crate) fn remove_with(
    item: &RawWork,
    find: &impl Fn(u32) -> Option<Arc<Pool>>,
    disarm: &impl Fn() -> Option<Pending>,
) -> Option<Pending> {
    let mut moment = Moment::default();
    while item.is_pending() {
        let removed = try_remove(item, find, disarm);
        if removed.is_some() {
            return removed;
        }
        if !moment.pass(item) {
            break;
        }
    }
    None
}

/// Why a thread did not become the owner of an item.
pub(crate) enum NotGrabbed {
    /// Its timer stays armed as it is.
    Kept,
    /// In the child of a fork the item belongs to the parent for ever.
    Inherited,
}

/// Becomes the owner of the item in order to queue it elsewhere. Returns whether the item was
/// pending. `whole` is the item's address as a pointer through which its function may access the
/// value that contains the item. `kept` tells whether `disarm` has found the timer armed and left
/// it so.
pub(crate) fn grab(
    item: &RawWork,
    whole: NonNull<RawWork>,
    disarm: &impl Fn() -> Option<Pending>,
    kept: &impl Fn() -> bool,
) -> Result<(Pending, bool), NotGrabbed> {
    debug_assert_eq!(whole.addr().get(), item.address());
    let mut moment = Moment::default();
    loop {
        // SAFETY: the item is borrowed until this returns. The thread that gets the claim gives it
        // up within the borrow, or queues the item as any other.
        if let Some(idle) = unsafe { Pending::claim_idle(whole) } {
            return Ok((idle, false));
        }
        if let Some(removed) = try_remove(item, &registered, disarm) {
            return Ok((removed, true));
        }
        if kept() {
            return Err(NotGrabbed::Kept);
        }
        if !moment.pass(item) {
            return Err(NotGrabbed::Inherited);
        }
    }
}

/// Removes an item that has no timer from its queue. `None`: the item is not pending.
pub(crate) fn reclaim(item: &RawWork) -> Option<Pending> {
    remove_with(item, &registered, &|| None)
}

/// Removes a pending instance of an item that has no timer. Returns whether there was one.
pub(crate) fn remove(item: &RawWork, find: &impl Fn(u32) -> Option<Arc<Pool>>) -> bool {
    remove_with(item, find, &|| None)
        .map(Pending::release)
        .is_some()
}

/// Disables the item, and removes a pending instance as [`remove`] does.
pub(crate) fn disable(item: &RawWork, find: &impl Fn(u32) -> Option<Arc<Pool>>) -> bool {
    item.disable_once_more();
    remove(item, find)
}

/// Waits until the function of a disabled item no longer runs.
pub(crate) fn wait_for_end(item: &RawWork, find: &impl Fn(u32) -> Option<Arc<Pool>>) {
    if let Some(Some(done)) = with_last_pool(item, find, |pool| pool.lock().await_run(item)) {
        let _ = wait_until(&done, None);
    }
}

/// Runs the pending instance of an item that the caller is about to wait for, if no thread has
/// begun it and the caller is allowed to run it.
pub(crate) fn run_as_waiter(item: &RawWork) -> bool {
    Waiter::default().run(item, registered)
}

fn wait_until(done: &Completion, deadline_ns: Option<u64>) -> Result<(), FlushError> {
    let _blocked = BlockGuard::enter();
    let is_done = match deadline_ns {
        None => {
            done.wait();
            true
        }
        Some(deadline) => {
            let left_ns = deadline.saturating_sub(clock::now_ns());
            done.wait_timeout(Duration::from_nanos(left_ns))
        }
    };
    is_done.then_some(()).ok_or(FlushError::TimedOut)
}

/// Waits until the item's function no longer runs. If the caller is that function itself, or a
/// waker, it does not wait.
pub(crate) fn wait_for_run(item: &RawWork) {
    if not_in_waker().is_err() {
        return;
    }
    if is_own(item) {
        warn_once!(
            "cancel or disable with wait was called from the item's own function, which cannot wait for itself"
        );
        return;
    }
    wait_for_end(item, &registered);
}

impl RawWork {
    /// Removes a pending instance. It does not wait for a running one. `true`: an instance was
    /// removed, and the function will not be called for it.
    pub fn cancel(&self) -> bool {
        remove(self, &registered)
    }

    /// Removes a pending instance and waits until the function no longer runs. Meanwhile the item
    /// is disabled, so that a function that queues its own item again cannot escape. Returns
    /// whether a pending instance was removed, and not whether it waited.
    ///
    /// If the item's own function calls this, or a waker of a task that the library calls, it
    /// removes the instance and warns, but does not wait: an item cannot wait for itself.
    /// [`flush`](Self::flush) says which item counts as the own one.
    pub fn cancel_sync(&self) -> bool {
        let deeper = self.disable_once_more();
        let removed = self.cancel();
        wait_for_run(self);
        // Undoes only the disabling of this call. The item stays disabled if other callers have
        // disabled it.
        if deeper {
            self.shallower();
        }
        removed
    }

    /// Increments the disable depth and removes a pending instance. From now on every attempt to
    /// queue the item is refused and lost, until [`enable_work`](Self::enable_work) was called as
    /// often. It does not wait for a running instance. Returns whether a pending instance was
    /// removed. The depth is at most 65535: beyond that the call warns and does not change it.
    pub fn disable_work(&self) -> bool {
        disable(self, &registered)
    }

    /// Increments the disable depth. A pending instance stays. `false`: the depth is at its maximum
    /// and was not changed, so the caller has nothing to undo.
    pub(crate) fn disable_once_more(&self) -> bool {
        let deeper = self.deeper();
        if !deeper {
            warn_once!("an item was disabled more than 65535 times: its depth stays");
        }
        deeper
    }

    /// Disables the item as [`disable_work`](Self::disable_work) does, and waits until the function
    /// no longer runs.
    pub fn disable_sync(&self) -> bool {
        let removed = self.disable_work();
        wait_for_run(self);
        removed
    }

    /// Decrements the disable depth. `true`: the item may be queued again. Attempts that were
    /// refused stay lost.
    ///
    /// Calling this on an item that is not disabled is a mistake: it warns once, removes a pending
    /// instance, and returns `true`.
    pub fn enable_work(&self) -> bool {
        self.enable_with(|| {
            remove(self, &registered);
        })
    }

    /// Enables the item as [`enable_work`](Self::enable_work) does. `remove` removes a pending
    /// instance.
    pub(crate) fn enable_with(&self, remove: impl FnOnce()) -> bool {
        self.shallower().unwrap_or_else(|| {
            warn_once!("an item was enabled that was not disabled");
            remove();
            true
        })
    }

    /// Waits for the last instance known at the call: the pending one, or else the running one.
    /// `Ok(false)`: there was no instance. Whatever the function did is visible afterwards. The
    /// calling thread may run a pending instance that no worker has begun: see
    /// [`workers_only`](crate::WorkqueueBuilder::workers_only).
    ///
    /// If the item's own function calls this, it returns an error at once and warns, since an item
    /// cannot wait for itself. The same holds for an item that the calling thread runs while the
    /// own function waits for that item. An item counts as the caller's own if it has the address
    /// and the function of the item that the calling thread runs. So a function that has freed its
    /// item may wait for another item at the same address, unless that item has the same function
    /// as well: then the library takes it for the first one. On the same workqueue such an item
    /// does not start before the first run has ended either.
    ///
    /// The same error is returned if the pending instance cannot begin before the calling item
    /// ends. That is so if the workqueue is [ordered](crate::WorkqueueBuilder::ordered), or if the
    /// items that the calling thread runs have all places of its `max_active` or its
    /// [group](crate::ConcurrencyGroup).
    ///
    /// An instance whose timer is armed is not seen and not queued. In that this differs from
    /// [`RawDelayedWork::flush`](crate::raw::RawDelayedWork::flush).
    ///
    /// # Errors
    /// [`FlushError::OwnItem`]; [`FlushError::InWaker`]; [`FlushError::Forked`] if, in the child of
    /// a fork, the pending instance belongs to the parent.
    pub fn flush(&self) -> Result<bool, FlushError> {
        self.flush_with(run_as_waiter, None, true)
    }

    /// Waits as [`flush`](Self::flush) does, but the calling thread runs no item itself.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn flush_by_workers(&self) -> Result<bool, FlushError> {
        self.flush_with(|_| false, None, true)
    }

    /// Waits as [`flush_by_workers`](Self::flush_by_workers) does, with one difference: if the
    /// instance cannot begin before the calling item ends, this warns and waits nevertheless, as
    /// the kernel's `flush_work` does. Unless another thread raises the limit or cancels the
    /// instance, that wait never ends. It is for code written for the kernel, which frees an item
    /// after a flush whatever the answer is.
    ///
    /// # Errors
    /// As [`flush`](Self::flush); [`FlushError::OwnItem`] only in the item's own function.
    pub fn flush_as_kernel(&self) -> Result<bool, FlushError> {
        self.flush_with(|_| false, None, false)
    }

    /// Waits as [`flush`](Self::flush) does, for at most `timeout`. The calling thread runs no item
    /// itself.
    ///
    /// # Errors
    /// As [`flush`](Self::flush); [`FlushError::TimedOut`] if the instance has not ended in that
    /// time.
    pub fn flush_timeout(&self, timeout: Duration) -> Result<bool, FlushError> {
        self.flush_with(|_| false, Some(clock::deadline_after(timeout)), true)
    }

    fn flush_with(
        &self,
        run: impl Fn(&RawWork) -> bool,
        deadline_ns: Option<u64>,
        refuses: bool,
    ) -> Result<bool, FlushError> {
        may_flush(self)?;
        if (current().reclaim || memory_reclaim::is_marked())
            && let Some(Some(queue)) = with_last_pool(self, &registered, |pool| pool.front_of(self))
        {
            queue.check_dependency(self.func());
        }
        let mut moment = Moment::default();
        // Whether an instance was known that began or was removed before it was found on a list.
        let mut was_known = false;
        loop {
            // This is read before the lists are searched. So an instance that is pending now is
            // found there, or it runs, or it has ended.
            let is_known = self.is_queued();
            if is_known && run(self) {
                return Ok(true);
            }
            // This is checked before a completion is registered for the item, and again when the
            // pool has accepted the item.
            if is_known && !may_wait_behind(self) && refuses {
                return Err(FlushError::OwnItem);
            }
            let found = with_last_pool(self, &registered, |pool| {
                let (mut guard, pending) =
                    pool.find(self, |guard| guard.await_pending(pool.id, self));
                // If an instance is on its way to a list, it is the last one known, and not the one
                // that runs.
                let on_its_way = pending.is_none() && is_known && self.is_queued();
                match on_its_way {
                    true => None,
                    false => pending.or_else(|| guard.await_run(self)),
                }
            });
            if let Some(Some(done)) = found {
                // Warns also if the caller waits in any case.
                if !may_wait_behind(self) && refuses {
                    return Err(FlushError::OwnItem);
                }
                return wait_until(&done, deadline_ns).map(|()| true);
            }
            if !is_known {
                return Ok(was_known);
            }
            if !moment.pass(self) {
                return Err(FlushError::Forked);
            }
            // In the child of a fork it takes some time to find out to which process the instance
            // belongs. The timeout ends the wait only after that.
            let knows = fork::generation() == 0 || moment.passed >= Moment::PATIENCE;
            if knows && deadline_ns.is_some_and(|deadline| clock::now_ns() >= deadline) {
                return Err(FlushError::TimedOut);
            }
            was_known = true;
        }
    }

    /// Whether it is pending and not on a timer, that is, on a list or on its way to one.
    fn is_queued(&self) -> bool {
        self.is_pending() && !self.location().is_armed()
    }

    /// Whether it is pending, and whether it runs (which is looked up only in the pool on which it
    /// was queued last). The answer may be out of date when the caller reads it.
    pub fn busy(&self) -> WorkBusy {
        let running =
            with_last_pool(self, &registered, |pool| pool.lock().runs(self)).unwrap_or(false);
        WorkBusy {
            pending: self.is_pending() || self.location().is_on_list(),
            running,
        }
    }
}

/// Keeps an item from being queued while this value exists: see [`Work::disable`].
///
/// ```
/// let work = cmwq::Work::new(|| ());
/// let paused = work.disable();
/// assert!(!paused.removed_pending()); // it was not queued
/// assert!(paused.enable());
/// ```
#[must_use = "the item is enabled again when the guard is dropped"]
#[derive(Debug)]
pub struct DisableGuard {
    /// The item. `None`: it has been enabled again.
    work: Option<Work>,
    removed: bool,
    /// `false`: the disable depth of the item was at its maximum, so this guard did not increment
    /// it.
    deeper: bool,
}

impl DisableGuard {
    /// Makes a guard of an item that is disabled now. `cancel` removes a pending instance, and
    /// returns whether there was one.
    pub(crate) fn new(work: Work, cancel: impl FnOnce() -> bool) -> Self {
        let deeper = work.as_raw().disable_once_more();
        DisableGuard {
            work: Some(work),
            removed: cancel(),
            deeper,
        }
    }

    /// Says whether a pending instance was removed when the item was disabled.
    pub fn removed_pending(&self) -> bool {
        self.removed
    }

    /// Enables the item again, as far as this guard is concerned. `true`: no other guard disables
    /// it, and it may be queued.
    pub fn enable(mut self) -> bool {
        self.give_up().is_some_and(|(_, enabled)| enabled)
    }

    /// Enables the item as far as this guard is concerned. Returns the item, and whether it may be
    /// queued again.
    pub(crate) fn give_up(&mut self) -> Option<(Work, bool)> {
        let work = self.work.take()?;
        let enabled = self.deeper && work.as_raw().enable_work();
        Some((work, enabled))
    }
}

impl Drop for DisableGuard {
    fn drop(&mut self) {
        self.give_up();
    }
}
