//! What a handle can do with a task, and an item that the thread that joins it takes back and runs.

use super::super::counted::RefCounted;
use super::super::join_error::JoinError;
use super::super::shared::ResultState;
use crate::item::{Callable, Pending, RawWork, WorkFn};
use std::any::Any;

/// What a handle can do with a task, whatever the type of its closure is.
pub(super) trait Joinable<T>: RefCounted + Send + Sync {
    fn shared(&self) -> &ResultState;
    fn raw(&self) -> &RawWork;
    /// Calls the closure for the handle, which takes the result; returns whether it panicked.
    /// Notifies no waiter.
    ///
    /// # Safety
    /// Only for the handle, whose thread also has the queue's reference and gives it up by this call.
    unsafe fn run_alone(&self) -> bool;
    /// Drops a closure that will not run, and completes the handle.
    ///
    /// # Safety
    /// Only for the thread that has taken the item off its queue, and with it the queue's
    /// reference, which this gives up. The handle exists.
    unsafe fn abort(&self);
    /// # Safety
    /// Only for the handle, after `done`, or after [`run_alone`](Self::run_alone).
    unsafe fn take_result(&self) -> Result<T, JoinError>;
}

/// The payload that the engine catches when a closure has panicked.
pub(crate) const REPORTED: &str = "reported through the join handle";

/// An item that no thread has begun and that the joining thread has taken back. This thread has
/// both references to the task, so no part of the task is shared any more.
pub(super) struct Reclaimed<'h, T> {
    pub(super) task: &'h dyn Joinable<T>,
    pub(super) item: Pending,
}

impl<T> Callable for Reclaimed<'_, T> {
    #[inline]
    fn address(&self) -> usize {
        self.item.address()
    }

    #[inline]
    fn func(&self) -> Option<WorkFn> {
        self.item.func()
    }

    #[inline]
    fn call(self) -> Result<(), Box<dyn Any + Send>> {
        self.item.discard();
        // SAFETY: the queue's reference was in the item.
        match unsafe { self.task.run_alone() } {
            true => Err(Box::new(REPORTED)),
            false => Ok(()),
        }
    }
}
