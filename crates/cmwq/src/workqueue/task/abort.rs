//! A handle that aborts its item when it is dropped.
#![forbid(unsafe_code)]

use super::join::{JoinError, JoinHandle};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

impl<T> JoinHandle<T> {
    /// Returns the same handle in another form: when it is dropped, it [aborts](Self::abort) the
    /// closure if that has not begun. Await this one inside a future that may be cancelled.
    ///
    /// ```
    /// async fn look_up(queue: &cmwq::Workqueue) -> Result<u32, cmwq::JoinError> {
    ///     // If the caller's timeout drops this future, a look-up that has not begun never runs.
    ///     queue.spawn(|| 42).abort_on_drop().await
    /// }
    /// ```
    pub fn abort_on_drop(self) -> AbortOnDrop<T> {
        AbortOnDrop(self)
    }
}

/// Takes a closure off its queue when the future that waits for it is dropped: a [`JoinHandle`]
/// that [aborts](JoinHandle::abort). It is a future of the same result.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// let wanted = queue.spawn(|| println!("perhaps")).abort_on_drop();
/// drop(wanted); // taken off the queue, if it has not begun
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
