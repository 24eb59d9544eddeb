//! Waits that would never end: an item that waits for itself, and a waker that waits for items.
//!
//! If an item waits for another one and runs it itself (caller-runs join), its thread runs a stack
//! of items. Each item of the stack waits for the one above it. So if the topmost item waits for
//! any item of the stack, it waits for itself. The same holds if it waits for an item that can
//! become active only with a credit that an item of the stack has, and if a BH item waits for another
//! item of its CPU, since BH items run one after the other.
#![forbid(unsafe_code)]

use crate::engine::epochs;
use crate::error::FlushError;
use crate::item::{ListKind, RawWork};
use crate::pool::{
    FrontEnd, Pool, current_work, in_waker, is_on_stack, spawn_history, stops_bh_pool,
};
use crate::sys::thread;
use crate::trace::warn_once;
use crate::workqueue::parts::core::{WqCore, pool_of_process};
use crate::workqueue::parts::kind::WorkqueueKind;
use std::sync::Arc;

/// Returns the pool with this number, if there is one in this process.
pub(crate) fn registered(id: u32) -> Option<Arc<Pool>> {
    // The epoch is unpinned when this returns, before the caller locks the pool: releasing that
    // lock may start a wait for a grace period, which a pin would hold up.
    let pin = epochs().pin(0);
    pool_of_process(id, &pin).cloned()
}

/// How the items of a queue depend on the items that the calling thread runs.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::workqueue) struct Standing {
    /// Some items wait for a place that items of the calling thread have.
    pub(in crate::workqueue) some_wait_for_caller: bool,
    /// Some items run on other threads, or will begin whatever the calling thread does.
    pub(in crate::workqueue) some_go_on: bool,
}

impl WqCore {
    /// Computes the standing of this queue. The calling thread runs an item. This publishes the
    /// thread's own spawns first, and then examines the pools one after the other, each under its
    /// own lock.
    pub(in crate::workqueue) fn standing(&self) -> Standing {
        spawn_history::let_go();
        let tid = thread::current_tid();
        let mut all = Standing::default();
        for pwq in self.members() {
            let mut guard = pwq.pool.lock_accepting();
            let (active, inactive) = guard.pwq_load(pwq.key);
            let own = guard.runs_of_thread(pwq.key, tid);
            drop(guard);
            if stops_bh_pool(pwq.pool.id) {
                all.some_wait_for_caller |= active + inactive > own;
                continue;
            }
            let waits = inactive > 0 && self.is_used_up_by(pwq.node, tid);
            all.some_wait_for_caller |= waits;
            all.some_go_on |= active > own || inactive > 0 && !waits;
        }
        all
    }

    /// Whether items of the queue wait for a place in a group whose places the calling thread's
    /// items use up, or for the thread itself, which runs a BH item. (If they waited for a place of
    /// the queue itself, the thread's items would belong to the queue, which is checked elsewhere.)
    pub(in crate::workqueue) fn waits_for_caller(&self) -> bool {
        (self.limits.group().is_some() || self.kind == WorkqueueKind::Bh)
            && current_work().is_some()
            && self.standing().some_wait_for_caller
    }
}

/// Whether the calling thread runs this item, possibly with another item inside it.
pub(in crate::workqueue) fn is_own(item: &RawWork) -> bool {
    is_on_stack(|what| what.is(item))
}

/// Returns an error if the caller is a waker. The library may call a waker on the monitor, or on a
/// worker that still counts as running its last item or as searching. If such a thread slept, no
/// other thread would take its place.
pub(in crate::workqueue) fn not_in_waker() -> Result<(), FlushError> {
    if in_waker() {
        warn_once!("a waker of a task waits for items, which might never end");
        return Err(FlushError::InWaker);
    }
    Ok(())
}

/// Whether the caller may wait for an instance of the item.
pub(in crate::workqueue) fn may_flush(item: &RawWork) -> Result<(), FlushError> {
    if is_own(item) {
        warn_once!("flush was called from the item's own function, which cannot wait for itself");
        return Err(FlushError::OwnItem);
    }
    not_in_waker()
}

/// Whether the item cannot begin before an item of the calling thread ends, because it waits for a
/// place that items of this thread have: its queue is ordered, or they use up the `max_active` of
/// its queue or of its group.
#[cold]
fn is_behind_caller(item: &RawWork) -> bool {
    if current_work().is_none() {
        // A thread that runs no item has no place.
        return false;
    }
    let pool = registered(item.location().pool());
    let waits = pool.and_then(|pool| pool.waits_for_credit(item));
    let is_behind =
        waits.is_some_and(|(queue, node)| queue.is_used_up_by(node, thread::current_tid()));
    if is_behind {
        warn_once!(
            "an item waits for one that cannot begin before it ends: it has the place that the other one waits for (an ordered workqueue, max_active, or a group)"
        );
    }
    is_behind
}

/// Whether the calling thread runs a BH item, and this one waits for its turn on the same CPU.
fn is_behind_bh_item(item: &RawWork) -> bool {
    let is_behind = item.is_pending() && stops_bh_pool(item.location().pool());
    if is_behind {
        warn_once!(
            "a BH item waits for another one of its CPU, whose turn comes only after its own end"
        );
    }
    is_behind
}

/// Whether the caller, which is about to sleep, may wait for the pending instance of an item that
/// its pool has found. If the instance has a place already, this takes no lock.
pub(in crate::workqueue) fn may_wait_behind(item: &RawWork) -> bool {
    if is_behind_bh_item(item) {
        return false;
    }
    let has_no_place = matches!(
        item.location().list,
        ListKind::Inactive | ListKind::Staged | ListKind::Chunk
    );
    !(has_no_place && is_behind_caller(item))
}

/// Whether the caller, which is about to sleep, may wait for a task.
#[cold]
pub(in crate::workqueue) fn may_join(task: &RawWork) -> bool {
    if is_own(task) {
        warn_once!(
            "join was called from inside the closure that it waits for, which cannot wait for itself"
        );
        return false;
    }
    // A published item that is on no list yet is accepted when the check looks for it.
    let is_published = task.location().list == ListKind::None && task.is_pending();
    !(is_published && is_behind_caller(task)) && may_wait_behind(task)
}
