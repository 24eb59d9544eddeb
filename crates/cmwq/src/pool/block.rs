//! Who the calling thread is to the engine, and the declaration that it is about to block.

use super::guard::Run;
use super::{Pool, WorkerState};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

thread_local! {
    /// The pool and the id of the worker that this thread is.
    static WORKER: RefCell<Option<(Arc<Pool>, u32)>> = const { RefCell::new(None) };
    /// The queue of the item that this thread runs (for comparing only; 0: none).
    static FRONT: Cell<usize> = const { Cell::new(0) };
    /// The address of that item (for comparing only).
    static ITEM: Cell<usize> = const { Cell::new(0) };
}

/// Makes the calling thread a worker of `pool` until dropped.
pub(super) struct Membership;

impl Membership {
    pub(super) fn enter(pool: &Arc<Pool>, id: u32) -> Self {
        WORKER.with(|worker| *worker.borrow_mut() = Some((pool.clone(), id)));
        Membership
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // Taken out first: dropping the last reference to the pool runs code of its own.
        let left = WORKER.with(|worker| worker.borrow_mut().take());
        drop(left);
    }
}

/// Notes which queue's item the calling worker is about to run.
#[inline]
pub(super) fn enter_item(run: Run) {
    FRONT.set(run.front_id);
    ITEM.set(run.address);
}

#[inline]
pub(super) fn leave_item() {
    FRONT.set(0);
    ITEM.set(0);
}

/// The address of the item that the calling thread runs, for comparing only; 0 when it runs none.
pub(crate) fn current_item() -> usize {
    ITEM.get()
}

/// The queue of the item that the calling thread runs, for comparing only; 0 when it runs none.
pub(crate) fn current_front() -> usize {
    FRONT.get()
}

/// While it lives, the calling worker counts as blocked and its pool may run another in its place. Nothing happens on
/// a thread that is no worker, and in a section inside a section.
pub(crate) struct BlockGuard {
    stepped_out: Option<(Arc<Pool>, u32)>,
}

impl BlockGuard {
    pub(crate) fn enter() -> Self {
        if FRONT.get() == 0 {
            return BlockGuard { stepped_out: None };
        }
        let Some((pool, id)) = WORKER.with(|worker| worker.borrow().clone()) else {
            return BlockGuard { stepped_out: None };
        };
        let mut guard = pool.lock();
        // A helper of another pool (Away), or one that the monitor has found asleep, is not counted already.
        let counted = guard.workers[id].state == WorkerState::Busy { counted: true };
        if counted {
            guard.workers[id].state = WorkerState::Busy { counted: false };
            guard.running -= 1;
        }
        drop(guard);
        BlockGuard {
            stepped_out: counted.then_some((pool, id)),
        }
    }
}

impl Drop for BlockGuard {
    fn drop(&mut self) {
        let Some((pool, id)) = self.stepped_out.take() else {
            return;
        };
        let mut guard = pool.lock();
        // The monitor may have found it awake first.
        if guard.workers[id].state == (WorkerState::Busy { counted: false }) {
            guard.workers[id].state = WorkerState::Busy { counted: true };
            // May exceed the target: workers that end an item then leave (the "keep going" rule).
            guard.running += 1;
        }
        drop(guard);
    }
}

/// Runs `f`, which is about to block in something that cmwq does not know of (a read, another library's lock). If the
/// calling thread is a worker, its pool runs another in its place at once, instead of finding out a few milliseconds
/// later. Elsewhere, and inside another such section, it just calls `f`. cmwq's own waits (join, flush, completions) do this
/// by themselves.
pub fn blocking<R>(f: impl FnOnce() -> R) -> R {
    let _stepped_out = BlockGuard::enter();
    f()
}
