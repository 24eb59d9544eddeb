//! The submitting side: items that post their results.

use super::outlook::RunsHere;
use super::owner::CompletionQueue;
use super::queue::{Completed, CompletionQueueState, FULL};
use crate::error::Refused;
use crate::item::{Pending, closure};
use crate::trace::foreign;
use crate::workqueue::task::join::joinable::REPORTED;
use crate::workqueue::task::join_error::JoinError;
use crate::workqueue::{BatchRefused, Workqueue};
use std::fmt;
use std::sync::Arc;

/// Why an item was not submitted to a [`CompletionQueue`]. Its closure was dropped, and no entry
/// will be posted for it.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// use cmwq::CompletionQueue;
/// use cmwq::types::NotSubmitted;
///
/// let done = CompletionQueue::builder().capacity(1).build()?;
/// done.submit(&queue, 1, || "first")?;
/// assert_eq!(done.submit(&queue, 2, || "second"), Err(NotSubmitted::Full));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSubmitted {
    /// The completion queue is full: as many items as its capacity were submitted and not drained.
    Full,
    /// The workqueue refuses the item, or the completion queue belongs to the parent of this forked
    /// process.
    Refused(Refused),
}

impl fmt::Display for NotSubmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotSubmitted::Full => f.write_str(FULL),
            NotSubmitted::Refused(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for NotSubmitted {}

/// Capacity that is reserved for the entry of an item. If the item is dropped and has not run, the
/// capacity is given back.
struct Ticket<T> {
    /// The queue. `None`: the capacity has passed to the posted entry.
    inner: Option<Arc<CompletionQueueState<T>>>,
    token: u64,
}

impl<T> Ticket<T> {
    fn deliver(mut self, result: Result<T, JoinError>) {
        let token = self.token;
        let Some(inner) = self.inner.take() else {
            return;
        };
        // If no owner is left, neither the result nor the capacity is needed any more.
        let _ = inner.post(Completed { token, result });
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if let Some(inner) = &self.inner {
            inner.release(1);
        }
    }
}

/// Queues a closure as an item that reports show as the function at the address `shown`.
fn execute_as<F>(queue: &Workqueue, func: F, shown: usize) -> Result<(), Refused>
where
    F: FnOnce() + Send + 'static,
{
    let raw = closure::into_raw_named(func, shown);
    // SAFETY: the item exists until its function runs.
    let item = unsafe { Pending::one_shot(raw) };
    queue.core.queue(None, item).inspect_err(|_| {
        // SAFETY: the queue did not take it.
        foreign::dispose(unsafe { closure::from_raw_named::<F>(raw) });
    })
}

impl<T: Send + 'static> CompletionQueue<T> {
    /// Returns an item that runs `func` and posts its result, if there is capacity for the entry.
    fn item<F>(&self, token: u64, func: F) -> Option<impl FnOnce() + Send + 'static>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.fallible_item(token, || Ok(func()))
    }

    /// Returns an item that runs `func` and posts its result. `func` may also end without a result,
    /// and says why.
    pub(in crate::workqueue) fn fallible_item<F>(
        &self,
        token: u64,
        func: F,
    ) -> Option<impl FnOnce() + Send + 'static>
    where
        F: FnOnce() -> Result<T, JoinError> + Send + 'static,
    {
        if !self.inner.reserve() {
            foreign::dispose(func);
            return None;
        }
        let ticket = Ticket {
            inner: Some(self.inner.clone()),
            token,
        };
        Some(move || {
            let here = RunsHere::begin(ticket.inner.as_ref());
            let result = foreign::run(func);
            drop(here);
            let panicked = result.is_err();
            ticket.deliver(
                result
                    .map_err(JoinError::panicked)
                    .and_then(|result| result),
            );
            if panicked {
                // The engine catches and counts this panic. The panic hook has printed the message
                // already.
                std::panic::resume_unwind(Box::new(REPORTED));
            }
        })
    }

    /// Posts that there is no result, to a queue without a limit.
    pub(in crate::workqueue) fn post_error(&self, token: u64, why: JoinError) {
        let result = Err(why);
        // This owner keeps the queue open, so the post succeeds.
        let _ = self.inner.post(Completed { token, result });
    }

    /// Runs a closure on `queue`, as [`Workqueue::execute`] does, and posts its result, or its
    /// panic, here with `token`.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let done = cmwq::CompletionQueue::new();
    /// done.submit(&queue, 7, || 6 * 7)?;
    /// let mut entries = Vec::new();
    /// done.wait(1, &mut entries);
    /// assert_eq!(entries[0].token, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NotSubmitted`]: `func` was dropped.
    #[track_caller]
    pub fn submit<F>(&self, queue: &Workqueue, token: u64, func: F) -> Result<(), NotSubmitted>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        let item = self.item_for(queue, token, func)?;
        queue
            .execute_named::<F, _>(item)
            .map_err(NotSubmitted::Refused)
    }

    /// Submits as [`submit`](Self::submit) does. Tools show the item as the function at the address
    /// `shown`, for callers in another language, of which `func` calls a function.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    #[doc(hidden)]
    pub fn submit_as<F>(
        &self,
        queue: &Workqueue,
        token: u64,
        shown: usize,
        func: F,
    ) -> Result<(), NotSubmitted>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        let item = self.item_for(queue, token, func)?;
        execute_as(queue, item, shown).map_err(NotSubmitted::Refused)
    }

    /// Returns an item for `queue` that runs `func` and posts its result.
    fn item_for<F>(
        &self,
        queue: &Workqueue,
        token: u64,
        func: F,
    ) -> Result<impl FnOnce() + Send + 'static, NotSubmitted>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        if self.inner.is_inherited() {
            foreign::dispose(func);
            return Err(NotSubmitted::Refused(Refused::Forked));
        }
        let item = self.item(token, func).ok_or(NotSubmitted::Full)?;
        self.inner.note_queue(queue);
        Ok(item)
    }

    /// Submits all of `items`, which are pairs of a token and a function, as
    /// [`submit`](Self::submit) does with one, and queues them as [`Workqueue::execute_batch`]
    /// does. Returns how many were submitted: all of them, or as many as the capacity allowed. In
    /// the second case one further item was taken from the iterator and dropped.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let done = cmwq::CompletionQueue::new();
    /// done.submit_batch(&queue, (0..10).map(|n| (n, move || n * n)))?;
    /// let mut entries = Vec::new();
    /// while entries.len() < 10 {
    ///     done.wait(10, &mut entries);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Workqueue::execute_batch`].
    #[track_caller]
    pub fn submit_batch<F>(
        &self,
        queue: &Workqueue,
        items: impl IntoIterator<Item = (u64, F)>,
    ) -> Result<usize, BatchRefused>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        if self.inner.is_inherited() {
            let (accepted, why) = (0, Refused::Forked);
            return Err(BatchRefused { accepted, why });
        }
        self.inner.note_queue(queue);
        let items = items.into_iter();
        queue.execute_batch(items.map_while(|(token, func)| self.item(token, func)))
    }
}
