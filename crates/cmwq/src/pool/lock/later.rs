//! Completing: wakes the threads that sleep until then, at once or later. See `wake/deferred.rs`.
#![allow(unsafe_code)]

use crate::item::Completion;
use crate::pool::state::member;
use crate::pool::state::pool::Pool;
use crate::pool::wake::deferred;
#[cfg(not(cmwq_loom))]
use crate::pool::wake::deferred::entry_of;
use crate::sys::atomic::AtomicU32;
#[cfg(not(cmwq_loom))]
use crate::sys::bell::Ringer;
use crate::sys::park;
use crate::trace::{Callee, Foreign};
use std::task::Waker;

impl Pool {
    /// Called after `word`, on which a thread sleeps, was changed. Returns `true` if that thread
    /// will be woken a little later; otherwise the caller wakes it.
    pub(crate) fn defer_wakeup(word: *const AtomicU32) -> bool {
        member::in_item_of(|pool| pool.pending_wakeups.enter(word.addr())).unwrap_or(false)
    }

    /// Wakes, now or a little later, the task that awaits what the calling worker's item has done.
    pub(crate) fn wake_task(waker: Box<Foreign<Waker>>) {
        let entry = deferred::entry_of_waker(waker);
        if !member::in_item_of(|pool| pool.pending_wakeups.enter_waker(entry)).unwrap_or(false) {
            // SAFETY: the entry was not entered in the table, or was taken back out of it.
            unsafe { deferred::wake(entry) };
        }
    }

    /// Called by a thread that polls tasks: calls the wakers of deferred wake-ups, so that it can
    /// run those tasks itself.
    pub(crate) fn wake_tasks(&self) {
        self.pending_wakeups.wake_tasks();
    }

    /// Called when the owners of a completion queue wait for its bell. Returns `true` if the bell
    /// will be rung a little later; otherwise the caller rings it.
    #[cfg(not(cmwq_loom))]
    pub(crate) fn ring_later(ringer: Ringer) -> bool {
        member::in_item_of(|pool| pool.pending_wakeups.enter(entry_of(ringer))).unwrap_or(false)
    }
}

/// Whether [`wake_deferred`] would defer a waker: the calling thread is a worker inside an item,
/// and the worker's pool has a backlog. A hint: it may change at any time.
pub fn defers_wakes() -> bool {
    member::in_item_of(|pool| pool.pending_wakeups.may_defer()).unwrap_or(false)
}

/// Wakes a task that waits for something that the calling item has done, for code that has its own
/// handles. If the item's pool has a backlog, the wake-up is deferred, as those of tasks that await
/// a [`JoinHandle`](crate::JoinHandle) are: a worker or the pool's monitor calls the waker a little
/// later, together with others, with no lock held and inside no item. A thread that several of
/// these wakers unpark finds several of its tasks ready.
///
/// Otherwise the waker is called at once: outside of items, where items wait for no CPU, and in
/// items of BH queues. An item that goes on after this call must not wait for the task: a deferred
/// wake-up takes up to some milliseconds if the worker does not come to another item. A panic of
/// the waker is caught, and warned of once.
///
/// ```
/// use cmwq::Workqueue;
/// use cmwq::raw::wake_deferred;
/// use std::task::Waker;
///
/// let queue = Workqueue::builder("io").build()?;
/// let waker = Waker::noop().clone(); // as the task has left it in the handle
/// queue.spawn(move || {
///     // The result is in the handle by now.
///     wake_deferred(waker);
/// }).join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn wake_deferred(waker: Waker) {
    let waker = Foreign::new(waker);
    if defers_wakes() {
        Pool::wake_task(Box::new(waker));
    } else {
        waker.call_once(Callee::Waker, Waker::wake);
    }
}

impl Completion {
    /// Completes it for all waiters, and wakes them.
    #[inline]
    pub fn complete(&self) {
        self.complete_polled();
    }

    /// As [`complete`](Self::complete); `true`: a waker [is registered](Self::mark_polled), which
    /// the caller has to wake.
    ///
    /// A caller that uses the result must make sure that the completion still exists then.
    #[inline]
    pub(crate) fn complete_polled(&self) -> bool {
        self.complete_by(wake_at)
    }

    /// Makes it done for one more waiter. Changes nothing when it is done for all.
    pub fn complete_one(&self) {
        self.complete_one_by(wake_at);
    }
}

/// Wakes the threads that sleep on `word`, now or soon.
#[cold]
fn wake_at(word: *const AtomicU32) {
    if !Pool::defer_wakeup(word) {
        park::wake_all_at(word);
    }
}
