//! What a [`JoinHandle`] does when it is awaited, dropped or printed.

use super::super::control;
use super::super::join_error::JoinError;
use super::JoinHandle;
use crate::error::Refused;
use crate::pool::{backlogged_pool, spawn_history};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Polling is no join. If the item is in a caller slot, it is published for a worker.
        spawn_history::let_go_of(self.task.raw());
        let shared = self.task.shared();
        if !shared.done.is_done() {
            if shared.is_inherited() {
                return Poll::Ready(Err(JoinError::Refused(Refused::Forked)));
            }
            if shared.register(context.waker()) {
                wake_deferred_tasks();
                return Poll::Pending;
            }
        }
        // SAFETY: it is done, and this is the handle.
        Poll::Ready(unsafe { self.task.take_result() })
    }
}

/// Wakes tasks whose wake-ups are deferred. The calling thread polls a handle, so it runs tasks
/// itself, and these need not wait any longer. If a worker called the wakers one by one, each
/// wake-up might preempt the worker; this thread would then find one task ready and sleep again.
fn wake_deferred_tasks() {
    if let Some(pool) = backlogged_pool().and_then(control::registered) {
        pool.wake_tasks();
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        // The handle is dropped, so no thread will join this item.
        spawn_history::let_go_of(self.task.raw());
    }
}

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinHandle")
            .field("finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}
