//! Who the calling thread is to the engine, and the declaration that it is about to block.

use super::{Busy, Pool, PoolKind, WorkerState, publish, spawner};
use crate::observe::events;
use crate::work::{RawWork, WorkFn};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// What a thread runs, for comparing only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Current {
    /// The address of the item; 0: none.
    pub(crate) item: usize,
    pub(crate) func: usize,
    /// Its queue; 0: none.
    pub(crate) front: usize,
    /// Its queue has a rescuer.
    pub(crate) reclaim: bool,
}

impl Current {
    /// The same queue, and this item.
    #[inline]
    pub(super) fn of(self, item: usize, func: Option<WorkFn>) -> Current {
        let func = number(func);
        Current { item, func, ..self }
    }

    const NONE: Current = Current {
        item: 0,
        func: 0,
        front: 0,
        reclaim: false,
    };
}

fn number(func: Option<WorkFn>) -> usize {
    func.map_or(0, |func| func as usize)
}

thread_local! {
    /// The pool and the id of the worker that this thread is.
    static WORKER: RefCell<Option<(Arc<Pool>, u32)>> = const { RefCell::new(None) };
    /// Whether this thread is a rescuer.
    static RESCUER: Cell<bool> = const { Cell::new(false) };
    static CURRENT: Running = const { Running::new() };
}

/// What this thread runs. Not one cell: that would be read in wider pieces than it was written in just before, which processors are slow at.
struct Running {
    item: Cell<usize>,
    func: Cell<usize>,
    front: Cell<usize>,
    reclaim: Cell<bool>,
}

impl Running {
    const fn new() -> Self {
        Running {
            item: Cell::new(0),
            func: Cell::new(0),
            front: Cell::new(0),
            reclaim: Cell::new(false),
        }
    }

    #[inline]
    fn get(&self) -> Current {
        Current {
            item: self.item.get(),
            func: self.func.get(),
            front: self.front.get(),
            reclaim: self.reclaim.get(),
        }
    }

    #[inline]
    fn set(&self, what: Current) {
        self.item.set(what.item);
        self.func.set(what.func);
        self.front.set(what.front);
        self.reclaim.set(what.reclaim);
    }
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

/// The calling thread was a worker of the process that this one was forked from. Here it is none.
pub(crate) fn leave_in_child() {
    CURRENT.with(|running| running.set(Current::NONE));
    RESCUER.set(false);
    // Its pool is the parent's, and nobody's here. A thread that is ending has left already.
    let _ = WORKER.try_with(|worker| std::mem::forget(worker.borrow_mut().take()));
}

/// The number of the pool whose worker the calling thread is.
pub(crate) fn home() -> Option<u32> {
    // Borrowed mutably only when the thread begins and ends.
    WORKER.with(|worker| worker.borrow().as_ref().map(|(pool, _)| pool.id))
}

/// Calls `f` with the pool whose worker the calling thread is, if it is inside an item.
pub(super) fn in_item_of<R>(f: impl FnOnce(&Pool) -> R) -> Option<R> {
    if !is_in_item() {
        return None;
    }
    WORKER.with(|worker| worker.borrow().as_ref().map(|(pool, _)| f(pool)))
}

/// The calling thread is about to run items of the queue of `what`, which names no item. Returns what it runs already, if it waits for them
/// in that, for [`leave_queue`].
#[inline]
pub(super) fn enter_queue(what: Current) -> Current {
    CURRENT.with(|running| {
        let outer = running.get();
        running.front.set(what.front);
        running.reclaim.set(what.reclaim);
        outer
    })
}

/// It begins one of them.
#[inline]
pub(super) fn begin_item(item: usize, func: Option<WorkFn>) {
    let func = number(func);
    CURRENT.with(|running| {
        events::execute_start(item, func, running.front.get());
        running.item.set(item);
        running.func.set(func);
    });
}

/// The item has ended.
#[inline]
pub(super) fn end_item() {
    events::execute_end(|| {
        let was = current();
        (was.item, was.func, was.front)
    });
}

#[inline]
pub(super) fn leave_queue(outer: Current) {
    CURRENT.with(|running| running.set(outer));
}

/// What the calling thread runs.
#[inline]
pub(crate) fn current() -> Current {
    CURRENT.with(Running::get)
}

#[inline]
fn is_in_item() -> bool {
    CURRENT.with(|running| running.item.get() != 0)
}

/// The item that the calling thread runs, `None` when it runs none. For comparing only: the item may have been freed by its
/// function.
pub fn current_work() -> Option<*const RawWork> {
    let item = current().item;
    (item != 0).then(|| std::ptr::without_provenance(item))
}

/// Whether the calling thread is a workqueue's rescuer.
pub fn current_is_rescuer() -> bool {
    RESCUER.get()
}

/// Whether the calling thread runs an item of a workqueue that has a rescuer.
pub fn current_is_mem_reclaim() -> bool {
    current().reclaim
}

/// The calling thread is a rescuer from now on.
pub(super) fn become_rescuer() {
    RESCUER.set(true);
}

/// While it lives, the calling worker counts as blocked and its pool may run another in its place. Nothing happens on
/// a thread that is no worker, and in a section inside a section.
pub(crate) struct BlockGuard {
    stepped_out: Option<(Arc<Pool>, u32)>,
}

impl BlockGuard {
    pub(crate) fn enter() -> Self {
        spawner::let_go();
        publish::wait_begins();
        if !is_in_item() {
            return BlockGuard { stepped_out: None };
        }
        let Some((pool, id)) = WORKER.with(|worker| worker.borrow().clone()) else {
            return BlockGuard { stepped_out: None };
        };
        if matches!(pool.attrs.kind, PoolKind::Bh(_)) {
            // It must not block; and if it does, nobody runs in its place.
            return BlockGuard { stepped_out: None };
        }
        // It may be one of them that it waits for.
        pool.untold.tell();
        let mut guard = pool.lock();
        // A helper of another pool (Away), one that the monitor has found asleep, and a CPU-intensive one do not count
        // as running already.
        let counted = guard.workers[id].state == WorkerState::Busy(Busy::Running);
        if counted {
            // So that it is counted if another takes over for what was only just published.
            if !guard.has_waiting() {
                guard.accept_some();
            }
            guard.step_out(id, Busy::Blocked);
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
        if guard.workers[id].state == WorkerState::Busy(Busy::Blocked) {
            guard.workers[id].state = WorkerState::Busy(Busy::Running);
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
