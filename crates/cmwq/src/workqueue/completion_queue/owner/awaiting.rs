//! Awaiting an entry in a task.

use super::super::posts::THREAD;
use super::{Completed, CompletionQueue};
use crate::pool::spawn_history;
use crate::trace::Foreign;
use std::task::{Context, Poll};

impl<T> CompletionQueue<T> {
    /// Polls for the oldest entry. The result is pending until there is an entry; then the waker of
    /// this owner's last poll is woken. Where items wait for CPUs, that wake-up may come a little
    /// later, as it may for a thread in [`wait`](Self::wait). A poster that is not an item calls
    /// the waker itself.
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
            // The waker is stored before the owner arms, so that the poster that takes the mark
            // finds the waker.
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

    /// Awaits the oldest entry: see [`poll_next`](Self::poll_next). If no more entry is posted, the
    /// future is pending for ever.
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
