//! Which pool the current thread is a worker of.
#![forbid(unsafe_code)]

use super::pool::Pool;
use crate::pool::task::current::{self, is_in_item};
use crate::sys::local::thread_local;
use crate::trace::recorder;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// The pool and the id of the worker that this thread is.
    static WORKER: RefCell<Option<(Arc<Pool>, u32)>> = const { RefCell::new(None) };
}

thread_local! {
    /// The pool from which this worker steals now.
    static HOST: RefCell<Option<Arc<Pool>>> = const { RefCell::new(None) };
}

/// Calls `f` while the calling worker steals from `host`.
pub(in crate::pool) fn as_guest_of<R>(host: &Arc<Pool>, f: impl FnOnce() -> R) -> R {
    HOST.with(|place| *place.borrow_mut() = Some(host.clone()));
    let result = f();
    let left = HOST.with(|place| place.borrow_mut().take());
    drop(left);
    result
}

/// The pool from which the calling worker steals now.
pub(in crate::pool) fn host() -> Option<Arc<Pool>> {
    HOST.try_with(|place| place.borrow().clone()).ok().flatten()
}

/// Makes the calling thread a worker of `pool` until dropped.
pub(in crate::pool) struct Membership;

impl Membership {
    pub(in crate::pool) fn enter(pool: &Arc<Pool>, id: u32) -> Self {
        WORKER.with(|worker| *worker.borrow_mut() = Some((pool.clone(), id)));
        recorder::set_pool(Some(pool.id));
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
    current::leave_in_child();
    recorder::set_pool(None);
    // The pool is the parent's, and no thread here uses it. A thread that is ending has left already.
    let _ = WORKER.try_with(|worker| std::mem::forget(worker.borrow_mut().take()));
    let _ = HOST.try_with(|host| std::mem::forget(host.borrow_mut().take()));
}

/// Calls `f` with the pool and the id of the worker that the calling thread is. A thread whose
/// thread-local values are being dropped is no worker any more: their destructors may wait for
/// items.
pub(in crate::pool) fn as_worker<R>(f: impl FnOnce(&Arc<Pool>, u32) -> R) -> Option<R> {
    // Borrowed mutably only when the thread begins and ends.
    WORKER
        .try_with(|worker| worker.borrow().as_ref().map(|(pool, id)| f(pool, *id)))
        .ok()
        .flatten()
}

/// The pool whose worker the calling thread is.
pub(in crate::pool) fn home_pool() -> Option<Arc<Pool>> {
    as_worker(|pool, _| pool.clone())
}

/// Whether the calling thread is a worker that runs no item: then it holds no lock of another layer.
pub(in crate::pool) fn is_between_items() -> bool {
    !is_in_item() && as_worker(|_, _| ()).is_some()
}

/// Calls `f` with the pool whose worker the calling thread is, if it is inside an item.
pub(in crate::pool) fn in_item_of<R>(f: impl FnOnce(&Pool) -> R) -> Option<R> {
    if !is_in_item() {
        return None;
    }
    as_worker(|pool, _| f(pool))
}
