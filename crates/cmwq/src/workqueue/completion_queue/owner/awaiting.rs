//! Awaiting an entry in a task.

use super::super::posts::THREAD;
use super::{Completed, CompletionQueue};
use crate::pool::spawn_history;
use crate::trace::Foreign;
use std::task::{Context, Poll};

impl<T> CompletionQueue<T> {
    /// Polls for the oldest entry; pending until there is one, and then the waker of this owner's
    /// last poll is woken. As a wake-up of a thread in [`wait`](Self::wait) it may be deferred a
    /// little where items wait for CPUs. A poster that is no item calls the waker itself.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Completed<T>> {
        let inner = &*self.inner;
        if let Some(entry) = self.try_next() {
            drop(inner.set_task(self.number, None));
            return Poll::Ready(entry);
        }
        spawn_history::let_go();
        if inner.is_inherited() {
            return Poll::Pending;
        }
        loop {
            // In this order: the poster that takes the mark finds the waker.
            let waker = Foreign::new(context.waker().clone());
            drop(inner.set_task(self.number, Some(waker)));
            let sleeps = {
                let owners = inner.owners.lock();
                owners.ready.is_empty() && inner.posts.arm(THREAD)
            };
            if sleeps {
                return Poll::Pending;
            }
            if let Some(entry) = self.try_next() {
                drop(inner.set_task(self.number, None));
                return Poll::Ready(entry);
            }
            // Another owner has drained it.
        }
    }

    /// Awaits the oldest entry: see [`poll_next`](Self::poll_next). It is pending for ever if no
    /// more is posted.
    ///
    /// ```
    /// use cmwq::{CompletionQueue, Workqueue};
    ///
    /// async fn sum(queue: &Workqueue) -> Result<u64, Box<dyn std::error::Error>> {
    ///     let done = CompletionQueue::new();
    ///     for n in 0..10 {
    ///         done.submit(queue, n, move || n * n)?;
    ///     }
    ///     let mut sum = 0;
    ///     for _ in 0..10 {
    ///         sum += done.next().await.result?;
    ///     }
    ///     Ok(sum)
    /// }
    /// ```
    pub fn next(&self) -> impl Future<Output = Completed<T>> + '_ {
        std::future::poll_fn(|context| self.poll_next(context))
    }
}
