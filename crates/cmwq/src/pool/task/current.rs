//! What the current thread runs: noted when it enters a queue and when it begins an item.
//!
//! An item may wait for another one and run it, on the same thread (caller-runs join). So a thread
//! has a stack of items: the last one makes progress, and each of the others waits for the one
//! above it. The stack is a linked list whose nodes lie in the frames of the calls. A worker's own
//! item is at the bottom, and needs no node.

use crate::item::{RawWork, WorkFn, address_of};
use crate::sys::local::thread_local;
use crate::trace::events;
use std::cell::Cell;

thread_local! {
    static RESCUER: Cell<bool> = const { Cell::new(false) };
    /// The number of the pool whose items the thread runs one after the other; 0: it is the thread of
    /// no BH pool.
    static BH_POOL: Cell<u32> = const { Cell::new(0) };
    /// What the thread runs now.
    static CURRENT: CurrentRun = const { CurrentRun::new() };
}

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
    /// The same, with this item.
    #[inline]
    pub(in crate::pool) fn of(self, item: usize, func: Option<WorkFn>) -> Current {
        let func = address_of(func);
        Current { item, func, ..self }
    }

    /// Whether it is this item. An item that its function freed, and another one made at its
    /// address with the same function, cannot be told apart.
    pub(crate) fn is(self, item: &RawWork) -> bool {
        self.item == item.address() && self.func == address_of(item.func())
    }
}

/// What this thread runs. These are several cells, because a single one would be read in wider
/// pieces than it was written in just before, which is slow (the processor cannot forward the
/// stores).
struct CurrentRun {
    item: Cell<usize>,
    func: Cell<usize>,
    front: Cell<usize>,
    reclaim: Cell<bool>,
    /// What the thread ran when it began to run an item for which it waits; null if it runs no such
    /// item.
    outer: Cell<*const Outer<'static>>,
}

impl CurrentRun {
    const fn new() -> Self {
        CurrentRun {
            item: Cell::new(0),
            func: Cell::new(0),
            front: Cell::new(0),
            reclaim: Cell::new(false),
            outer: Cell::new(std::ptr::null()),
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

    #[inline]
    fn enter(&self, queue: Current) {
        self.front.set(queue.front);
        self.reclaim.set(queue.reclaim);
    }
}

/// Called before the calling thread runs items of the queue of `what`, which names no item. Returns
/// what the thread ran until now, to be passed to [`leave_queue`]: it runs something if it waits
/// for the new items inside another item.
#[inline]
pub(in crate::pool) fn enter_queue(what: Current) -> Current {
    CURRENT.with(|running| {
        let outer = running.get();
        running.enter(what);
        outer
    })
}

#[inline]
pub(in crate::pool) fn leave_queue(outer: Current) {
    CURRENT.with(|running| running.set(outer));
}

/// What a waiting thread ran before it entered the queue of an item that it runs itself, in the
/// frame of [`as_waiter`].
struct Outer<'t> {
    what: Current,
    outer: *const Outer<'t>,
    running: &'t CurrentRun,
}

impl Drop for Outer<'_> {
    #[inline]
    fn drop(&mut self) {
        self.running.set(self.what);
        if self.what.item != 0 {
            self.running.outer.set(self.outer.cast());
        }
    }
}

/// Calls `f`, in which the calling thread runs an item of the queue of `what` for which it waits,
/// perhaps inside another item.
#[inline]
pub(in crate::pool) fn as_waiter<R>(what: Current, f: impl FnOnce() -> R) -> R {
    CURRENT.with(|running| {
        let outer = Outer {
            what: running.get(),
            outer: running.outer.get().cast(),
            running,
        };
        // A thread outside of items has no item that waits for this one, so it needs no node. The
        // node stays where it is until it is dropped, and is only read.
        if outer.what.item != 0 {
            running.outer.set((&raw const outer).cast());
        }
        running.enter(what);
        f()
    })
}

/// Whether `is` holds for what the calling thread runs, or for an item further down its stack,
/// which waits for that.
pub(crate) fn is_on_stack(is: impl Fn(Current) -> bool) -> bool {
    if is(current()) {
        return true;
    }
    let mut outer = CURRENT.with(|running| running.outer.get());
    loop {
        // SAFETY: null, or the value of a call of `as_waiter` that this thread has not left: its
        // end takes the pointer back.
        #[allow(unsafe_code)]
        let frame = unsafe { outer.as_ref() };
        let Some(frame) = frame else {
            return false;
        };
        if is(frame.what) {
            return true;
        }
        outer = frame.outer;
    }
}

/// The calling thread begins an item of that queue.
#[inline]
pub(in crate::pool) fn begin_item(item: usize, func: Option<WorkFn>) {
    let func = address_of(func);
    CURRENT.with(|running| {
        // This comes first, so that what a hook of the event does counts as done by this item.
        running.item.set(item);
        running.func.set(func);
        events::execute_start(item, func, running.front.get());
    });
}

/// Does `f` as an item of no queue does.
#[cfg(all(test, cmwq_loom))]
pub(crate) fn as_item<R>(f: impl FnOnce() -> R) -> R {
    const ADDRESS: usize = 8;
    CURRENT.with(|running| running.item.set(ADDRESS));
    let result = f();
    CURRENT.with(|running| running.item.set(0));
    result
}

/// The span of the item that the calling thread has begun, if a subscriber wants it.
#[cfg(all(feature = "tracing", not(cmwq_loom)))]
#[inline(always)]
pub(in crate::pool) fn enter_span() -> Option<tracing::span::EnteredSpan> {
    let what = current();
    crate::trace::spans::enter(what.front, what.func)
}

/// The item has ended.
#[inline]
pub(in crate::pool) fn end_item() {
    events::execute_end(|| {
        let was = current();
        (was.item, was.func, was.front)
    });
}

/// What the calling thread runs.
#[inline]
pub(crate) fn current() -> Current {
    CURRENT.with(CurrentRun::get)
}

#[inline]
pub(in crate::pool) fn is_in_item() -> bool {
    CURRENT.with(|running| running.item.get() != 0)
}

/// The item that the calling thread runs, `None` when it runs none. For comparing only: the item
/// may have been freed by its function.
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

/// Marks the calling thread as a rescuer.
pub(in crate::pool) fn become_rescuer() {
    RESCUER.set(true);
}

/// The calling thread runs the items of this BH pool, which has no other thread.
pub(in crate::pool) fn become_bh(pool: u32) {
    BH_POOL.set(pool);
}

/// Whether no item of the pool of this number begins before the item of the calling thread ends,
/// because it is a BH pool and this is its thread.
pub(crate) fn stops_bh_pool(pool: u32) -> bool {
    let own = BH_POOL.get();
    own != 0 && own == pool
}

/// For the child of a fork: forgets what the calling thread ran in the parent.
pub(in crate::pool) fn leave_in_child() {
    CURRENT.with(|running| {
        running.set(Current::default());
        running.outer.set(std::ptr::null());
    });
    RESCUER.set(false);
    BH_POOL.set(0);
}
