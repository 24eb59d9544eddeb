//! A handle whose item is aborted with it.
#![forbid(unsafe_code)]

use super::join::{JoinError, JoinHandle};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

impl<T> JoinHandle<T> {
    /// The same handle, which [aborts](Self::abort) the closure when it is dropped, if that has not begun. Await it instead of a future
    /// that may be cancelled.
    pub fn abort_on_drop(self) -> AbortOnDrop<T> {
        AbortOnDrop(self)
    }
}

/// A [`JoinHandle`] that [aborts](JoinHandle::abort) when it is dropped. A future of the same result.
#[must_use = "dropping it aborts what has not begun"]
#[derive(Debug)]
pub struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
