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

/// Waits a moment for the owner of a pending item that is on no list.
#[derive(Default)]
struct Moment {
    passed: u32,
}

impl Moment {
    /// How often a fork's child waits for an owner that may exist only in the parent.
    const PATIENCE: u32 = 1_000;

    /// `false`: in a fork's child, the item was pending when the process forked. Its owner is in the parent, and no thread here can ever
    /// remove it.
    fn pass(&mut self, item: &RawWork) -> bool {
        task::yield_now();
        self.passed = self.passed.saturating_add(1);
        fork::generation() == 0
            || self.passed < Self::PATIENCE
            || registered(item.location().pool()).is_some()
    }
}

/// Calls `f` with the pool that the item was last queued on, if `find` knows it.
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

/// Removes the pending instance if it is on the timer, with `disarm`, or on a list of its pool.
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
        // The item is on no list, so there is no pool to lock.
        return None;
    }
    let (mut queued, ordered, pool) = with_last_pool(item, find, |pool| {
        pool.cancel(item)
            .map(|(queued, ordered)| (queued, ordered, pool.id))
    })??;
    // Another pool may still run it: a thread that waits for that run must find it there.
    if let Some(older) = ordered.and_then(|queue| queue.pool_that_runs(item, pool)) {
        queued.send_back(older);
    }
    Some(queued)
}

/// Removes the pending instance, and waits while another owner has it on its way. `None`: the item is idle, and stays unclaimed, since an
/// issuer that queues it meanwhile would be told that it is pending. Or, in a fork's child, it is the parent's for ever.
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

/// Why a thread does not become the owner of an item.
pub(crate) enum NotGrabbed {
    /// Its timer stays armed as it is.
    Kept,
    /// In a fork's child it is the parent's for ever.
    Inherited,
}

/// Becomes the owner of the item in order to queue it elsewhere. Returns whether it was pending. `whole` is its address, from a pointer with which its function may access
/// the whole that contains it. `kept`: whether `disarm` has found the timer armed and left it.
pub(crate) fn grab(
    item: &RawWork,
    whole: NonNull<RawWork>,
    disarm: &impl Fn() -> Option<Pending>,
    kept: &impl Fn() -> bool,
) -> Result<(Pending, bool), NotGrabbed> {
    debug_assert_eq!(whole.addr().get(), item.address());
    let mut moment = Moment::default();
    loop {
        // SAFETY: the item is borrowed until this returns; the thread that gets the claim gives it up within the borrow, or queues the item
        // as any other.
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

/// Takes an item that has no timer off its queue; `None`: it is not pending.
pub(crate) fn reclaim(item: &RawWork) -> Option<Pending> {
    remove_with(item, &registered, &|| None)
}

/// Removes a pending instance of an item that has no timer. Returns whether there was one.
pub(crate) fn remove(item: &RawWork, find: &impl Fn(u32) -> Option<Arc<Pool>>) -> bool {
    remove_with(item, find, &|| None)
        .map(Pending::release)
        .is_some()
}

/// As [`remove`], and refuses the item from now on.
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

/// Runs the pending instance of an item that the caller is about to wait for, if no thread has begun it and the caller may.
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

/// Waits until the item's function no longer runs, unless called from that function or from a waker.
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
    /// Removes a pending instance; does not wait for a running one. `true`: an instance was removed, and its function will not be called
    /// for it.
    pub fn cancel(&self) -> bool {
        remove(self, &registered)
    }

    /// Removes a pending instance and waits until the function no longer runs. Meanwhile the item is disabled, so that an item cannot
    /// escape by requeueing itself. Returns whether a pending instance was removed, not whether it waited.
    ///
    /// From the item's own function, and from a waker of a task that the library calls, it only removes and warns: an item cannot wait for itself; see [`flush`](Self::flush) for which item
    /// counts as the own one.
    pub fn cancel_sync(&self) -> bool {
        let deeper = self.disable_once_more();
        let removed = self.cancel();
        wait_for_run(self);
        // Only the step of this call; other callers keep theirs.
        if deeper {
            self.shallower();
        }
        removed
    }

    /// Increments the disable depth: removes a pending instance, and every attempt to queue is refused and lost until
    /// [`enable_work`](Self::enable_work) was called as often. Does not wait for a running instance. Returns whether a pending instance was
    /// removed. The depth is at most 65535: beyond that it warns and leaves the depth.
    pub fn disable_work(&self) -> bool {
        disable(self, &registered)
    }

    /// Increments the disable depth; a pending instance stays. `false`: the depth is at its maximum, and there is nothing to undo.
    pub(crate) fn disable_once_more(&self) -> bool {
        let deeper = self.deeper();
        if !deeper {
            warn_once!("an item was disabled more than 65535 times: its depth stays");
        }
        deeper
    }

    /// As [`disable_work`](Self::disable_work), and waits until the function no longer runs.
    pub fn disable_sync(&self) -> bool {
        let removed = self.disable_work();
        wait_for_run(self);
        removed
    }

    /// Decrements the disable depth. `true`: the item may be queued again. Refused attempts stay lost.
    ///
    /// On an item that is not disabled this is a mistake: it warns once, removes a pending instance, and returns `true`.
    pub fn enable_work(&self) -> bool {
        self.enable_with(|| {
            remove(self, &registered);
        })
    }

    /// As [`enable_work`](Self::enable_work); `remove` removes a pending instance.
    pub(crate) fn enable_with(&self, remove: impl FnOnce()) -> bool {
        self.shallower().unwrap_or_else(|| {
            warn_once!("an item was enabled that was not disabled");
            remove();
            true
        })
    }

    /// Waits for the last instance known at the call: the pending one, or else the running one. `Ok(false)`: there was no instance. What
    /// the function did is visible afterwards. The calling thread may run a pending instance that no worker has taken, see
    /// [`workers_only`](crate::WorkqueueBuilder::workers_only).
    ///
    /// From the item's own function it returns an error at once and warns: an item cannot wait for itself. So it does in an item that the
    /// calling thread runs while the own function waits for that one. The own item is the one with the
    /// address and the function of the item that the calling thread runs. So a function that has freed its item may wait for another item
    /// at the same address, unless that has the same function too: such an item is taken for the first one. On the same workqueue it does
    /// not start before the first run has ended either.
    ///
    /// It is the same error if the pending instance cannot begin before the calling item ends: if the workqueue is
    /// [ordered](crate::WorkqueueBuilder::ordered), or the items that the calling thread runs have all places of its `max_active` or its
    /// [group](crate::ConcurrencyGroup).
    ///
    /// It does not see an instance whose timer is armed, and does not queue it, unlike
    /// [`RawDelayedWork::flush`](crate::RawDelayedWork::flush).
    ///
    /// # Errors
    /// [`FlushError::OwnItem`]; [`FlushError::InWaker`]; [`FlushError::Forked`]: in a child process, the pending instance is the parent's.
    pub fn flush(&self) -> Result<bool, FlushError> {
        self.flush_with(run_as_waiter, None, true)
    }

    /// As [`flush`](Self::flush), but the calling thread runs nothing itself. And it waits, with a warning, for an instance that cannot begin
    /// before the calling item ends, as the kernel's `flush_work` does: another thread may raise the limit or cancel the instance.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn flush_by_workers(&self) -> Result<bool, FlushError> {
        self.flush_with(|_| false, None, false)
    }

    /// As [`flush`](Self::flush), for at most `timeout`; the calling thread runs nothing itself.
    ///
    /// # Errors
    /// As [`flush`](Self::flush); [`FlushError::TimedOut`]: the instance has not ended by then.
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
        // An instance was known, and began or was removed before it was found on a list.
        let mut was_known = false;
        loop {
            // Read before the lists are searched: an instance that is pending now is found there later, or runs, or has ended.
            let is_known = self.is_queued();
            if is_known && run(self) {
                return Ok(true);
            }
            // Before a completion is left for it, and again when it has been accepted.
            if is_known && !may_wait_behind(self) && refuses {
                return Err(FlushError::OwnItem);
            }
            let found = with_last_pool(self, &registered, |pool| {
                let (mut guard, pending) =
                    pool.find(self, |guard| guard.await_pending(pool.id, self));
                // The last instance known is the one on its way to a list, not the one that runs.
                let on_its_way = pending.is_none() && is_known && self.is_queued();
                match on_its_way {
                    true => None,
                    false => pending.or_else(|| guard.await_run(self)),
                }
            });
            if let Some(Some(done)) = found {
                if refuses && !may_wait_behind(self) {
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
            // A fork's child takes the time to find out whose the instance is.
            let knows = fork::generation() == 0 || moment.passed >= Moment::PATIENCE;
            if knows && deadline_ns.is_some_and(|deadline| clock::now_ns() >= deadline) {
                return Err(FlushError::TimedOut);
            }
            was_known = true;
        }
    }

    /// Whether it is pending, and not on a timer: it is on a list, or on its way to one.
    fn is_queued(&self) -> bool {
        self.is_pending() && !self.location().is_armed()
    }

    /// Whether it is pending, and whether it runs (looked up in its last pool only). A hint.
    pub fn busy(&self) -> WorkBusy {
        let running =
            with_last_pool(self, &registered, |pool| pool.lock().runs(self)).unwrap_or(false);
        WorkBusy {
            pending: self.is_pending() || self.location().is_on_list(),
            running,
        }
    }
}

/// Keeps an item from being queued while it lives: see [`Work::disable`].
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
    /// `None` after it has been enabled again.
    work: Option<Work>,
    removed: bool,
    /// `false`: the depth was at its maximum, and this guard has no step of it.
    deeper: bool,
}

impl DisableGuard {
    /// A guard of an item that is disabled now. `cancel` removes a pending instance, and returns whether there was one.
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

    /// The item, and whether it may be queued again.
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
