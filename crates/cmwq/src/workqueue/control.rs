//! What can be done with an item wherever it is queued: cancel, disable, enable, flush.

use super::memory_reclaim;
use crate::engine::{Registry, gates};
use crate::observe::warn;
use crate::pool::{BlockGuard, Pool, current};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;
use crate::sys::task;
use crate::work::{Completion, Pending, RawWork, Seat, Work};
use std::ptr::NonNull;
use std::sync::Arc;

/// What an item is doing. A hint: it may have changed when the caller looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkBusy {
    /// It is queued and has not started.
    pub pending: bool,
    /// Its function runs.
    pub running: bool,
}

/// The item as [`grab_with`] found it. Its owner is the caller now.
pub(super) enum Grabbed {
    Idle(Pending),
    /// On the timer.
    Armed(Pending),
    /// On a queue.
    Queued(Pending),
}

impl Grabbed {
    /// The item, and whether it was pending; `queued` is called if it was on a queue.
    pub(super) fn map_queued(self, queued: impl FnOnce()) -> (Pending, bool) {
        match self {
            Grabbed::Idle(item) => (item, false),
            Grabbed::Armed(item) => (item, true),
            Grabbed::Queued(item) => {
                queued();
                (item, true)
            }
        }
    }

    /// Gives the item up, idle. Tells whether a pending instance was removed.
    fn release(self) -> bool {
        let (item, was_pending) = self.map_queued(|| ());
        item.release();
        was_pending
    }
}

/// Calls `f` with the pool that the item was last queued on, if there is one.
fn with_last_pool<R>(item: &RawWork, f: impl FnOnce(&Arc<Pool>) -> R) -> Option<R> {
    let id = item.place().pool();
    if id == 0 {
        return None;
    }
    // Out of the gate before the lock: letting go of a pool's lock may set off what waits for all gates to be left.
    let pool = {
        let gate = gates().enter(0);
        Registry::process().find(id, &gate)?.clone()
    };
    Some(f(&pool))
}

/// Becomes the owner of an item that has no timer.
fn grab(item: &RawWork) -> Grabbed {
    grab_with(item, || None)
}

/// Becomes the owner of the item, from wherever it is; `disarm` takes it off its timer. Waits out the moment in which
/// another owner has it on its way.
pub(super) fn grab_with(item: &RawWork, disarm: impl Fn() -> Option<Pending>) -> Grabbed {
    loop {
        // SAFETY: the item is borrowed until this returns, and whoever gets the claim releases it while it still is.
        if let Some(idle) = unsafe { Pending::claim_idle(NonNull::from(item)) } {
            return Grabbed::Idle(idle);
        }
        if let Some(armed) = disarm() {
            return Grabbed::Armed(armed);
        }
        if let Some(Some(pending)) =
            with_last_pool(item, |pool| pool.lock().take_out(pool.id, item))
        {
            return Grabbed::Queued(pending);
        }
        task::yield_now();
    }
}

fn wait(done: &Completion) {
    let _blocked = BlockGuard::enter();
    done.wait();
}

/// Warns, once for each kind, of a wait that would never end, and tells to leave it.
fn waits_for_itself(item: &RawWork, call: &str, warned: &AtomicU32) -> bool {
    let own = current().item == item.address();
    if own && warned.swap(1, Ordering::Relaxed) == 0 {
        warn(&format!(
            "{call} was called from the item's own function, which cannot wait for itself"
        ));
    }
    own
}

/// Waits until the item's function does not run any more; not from that function itself.
pub(super) fn wait_for_run(item: &RawWork) {
    static WARNED: AtomicU32 = AtomicU32::new(0);
    if waits_for_itself(item, "cancel or disable with wait", &WARNED) {
        return;
    }
    if let Some(Some(done)) = with_last_pool(item, |pool| pool.lock().await_run(item)) {
        wait(&done);
    }
}

impl RawWork {
    /// Removes a pending instance; does not wait for a running one. `true`: one was removed, its function will not be
    /// called for it.
    pub fn cancel(&self) -> bool {
        grab(self).release()
    }

    /// Removes a pending instance and waits until the function does not run any more. Meanwhile the item is disabled, so one
    /// that requeues itself cannot escape. Returns whether a pending instance was removed, not whether it waited.
    ///
    /// From the item's own function it only removes and warns: an item cannot wait for itself.
    pub fn cancel_sync(&self) -> bool {
        let removed = self.disable_sync();
        // Our own step only; others keep theirs.
        self.shallower();
        removed
    }

    /// One more reason not to run: removes a pending instance, and every attempt to queue is refused and lost until
    /// [`enable_work`](Self::enable_work) was called as often. Does not wait for a running instance. Tells whether a pending instance was
    /// removed. At most 65535 deep: beyond that it warns and leaves the depth.
    pub fn disable_work(&self) -> bool {
        self.disable_once_more();
        grab(self).release()
    }

    /// One more reason not to run; a pending instance stays.
    pub(super) fn disable_once_more(&self) {
        static WARNED: AtomicU32 = AtomicU32::new(0);
        if !self.deeper() && WARNED.swap(1, Ordering::Relaxed) == 0 {
            warn("an item was disabled more than 65535 times: its depth stays");
        }
    }

    /// As [`disable_work`](Self::disable_work), and waits until the function does not run any more.
    pub fn disable_sync(&self) -> bool {
        let removed = self.disable_work();
        wait_for_run(self);
        removed
    }

    /// One reason less. `true`: the item may be queued again. Nothing that was refused is queued now.
    ///
    /// On an item that is not disabled this is a mistake: it warns once, removes a pending instance, and returns `true`.
    pub fn enable_work(&self) -> bool {
        self.enable_with(|| {
            grab(self).release();
        })
    }

    /// As [`enable_work`](Self::enable_work); `remove` removes a pending instance.
    pub(super) fn enable_with(&self, remove: impl FnOnce()) -> bool {
        static WARNED: AtomicU32 = AtomicU32::new(0);
        self.shallower().unwrap_or_else(|| {
            if WARNED.swap(1, Ordering::Relaxed) == 0 {
                warn("an item was enabled that was not disabled");
            }
            remove();
            true
        })
    }

    /// Waits for the last instance known at the call: the pending one, or else the running one. `false`: there was none.
    /// What the function did is visible afterwards.
    ///
    /// From the item's own function it returns `false` at once and warns: an item cannot wait for itself.
    pub fn flush(&self) -> bool {
        static WARNED: AtomicU32 = AtomicU32::new(0);
        if waits_for_itself(self, "flush", &WARNED) {
            return false;
        }
        if (current().reclaim || memory_reclaim::is_marked())
            && let Some(Some(queue)) =
                with_last_pool(self, |pool| pool.lock().front_of(pool.id, self))
        {
            queue.check_dependency(self.func());
        }
        loop {
            let found = with_last_pool(self, |pool| {
                let mut guard = pool.lock();
                guard
                    .await_pending(pool.id, self)
                    .or_else(|| guard.await_run(self))
            });
            if let Some(Some(done)) = found {
                wait(&done);
                return true;
            }
            if !self.is_pending() {
                return false;
            }
            // On its way to a list.
            task::yield_now();
        }
    }

    /// Whether it is pending, and whether it runs (looked up in its last pool only). A hint.
    pub fn busy(&self) -> WorkBusy {
        let running = with_last_pool(self, |pool| pool.lock().runs(self)).unwrap_or(false);
        WorkBusy {
            pending: self.is_pending() || self.place().seat != Seat::None,
            running,
        }
    }
}

impl Work {
    /// Takes back the reference that the removed instance held.
    fn removed(&self, removed: bool) -> bool {
        if removed {
            self.unlend();
        }
        removed
    }

    /// Removes a pending instance; does not wait for a running one. `true`: one was removed.
    pub fn cancel(&self) -> bool {
        self.removed(self.as_raw().cancel())
    }

    /// Removes a pending instance and waits until the function does not run any more; see [`RawWork::cancel_sync`].
    pub fn cancel_sync(&self) -> bool {
        self.removed(self.as_raw().cancel_sync())
    }

    /// Disables the item until the guard is dropped: a pending instance is removed, and attempts to queue are refused and
    /// lost. Does not wait for a running instance. Several guards add up.
    pub fn disable(&self) -> DisableGuard {
        let removed = self.removed(self.as_raw().disable_work());
        DisableGuard::new(self.clone(), removed)
    }

    /// As [`disable`](Self::disable), and waits until the function does not run any more.
    pub fn disable_sync(&self) -> DisableGuard {
        let removed = self.removed(self.as_raw().disable_sync());
        DisableGuard::new(self.clone(), removed)
    }

    /// Waits for the last instance known at the call; see [`RawWork::flush`].
    pub fn flush(&self) -> bool {
        self.as_raw().flush()
    }

    /// Whether it is pending, and whether it runs. A hint.
    pub fn busy(&self) -> WorkBusy {
        self.as_raw().busy()
    }
}

/// Keeps an item from being queued while it lives.
#[must_use = "the item is enabled again when the guard is dropped"]
#[derive(Debug)]
pub struct DisableGuard {
    /// `None` when it has been enabled again.
    work: Option<Work>,
    removed: bool,
}

impl DisableGuard {
    /// For an item that was disabled just now; `removed`: a pending instance was removed.
    pub(super) fn new(work: Work, removed: bool) -> Self {
        DisableGuard {
            work: Some(work),
            removed,
        }
    }

    /// Whether a pending instance was removed when the item was disabled.
    pub fn removed_pending(&self) -> bool {
        self.removed
    }

    /// Gives up this reason not to run. `true`: it was the last one, and the item may be queued again.
    pub fn enable(mut self) -> bool {
        self.give_up().is_some_and(|(_, enabled)| enabled)
    }

    /// The item, and whether it may be queued again.
    pub(super) fn give_up(&mut self) -> Option<(Work, bool)> {
        let work = self.work.take()?;
        let enabled = work.as_raw().enable_work();
        Some((work, enabled))
    }
}

impl Drop for DisableGuard {
    fn drop(&mut self) {
        self.give_up();
    }
}
