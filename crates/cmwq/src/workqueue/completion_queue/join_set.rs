//! A set of closures whose results are taken as they end.
#![forbid(unsafe_code)]

use super::owner::CompletionQueue;
use super::queue::Completed;
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicBool;
use crate::workqueue::queue::Workqueue;
use crate::workqueue::task::join_error::JoinError;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Runs closures on one workqueue and hands out their results as they end: tokio's `JoinSet` for
/// work items. It is a [`CompletionQueue`] that knows how many of its items have not been joined,
/// and that can abort those that have not begun.
///
/// Dropping the set aborts what has not begun. What runs goes on to its end, and its result is dropped.
///
/// ```
/// use cmwq::{JoinSet, Workqueue};
///
/// async fn sizes(io: &Workqueue, paths: Vec<String>) -> Result<u64, Box<dyn std::error::Error>> {
///     let mut set = JoinSet::new(io);
///     for path in paths {
///         set.spawn(move || std::fs::metadata(path));
///     }
///     let mut sum = 0;
///     while let Some(ended) = set.join_next().await {
///         sum += ended.result??.len();
///     }
///     Ok(sum)
/// }
///
/// // Without an executor:
/// let io = Workqueue::builder("io").build()?;
/// let mut set = JoinSet::new(&io);
/// (1..=10u64).for_each(|n| { set.spawn(move || n * n); });
/// let mut sum = 0;
/// while let Some(ended) = set.wait_next() {
///     sum += ended.result?;
/// }
/// assert_eq!(sum, 385);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct JoinSet<T> {
    queue: Workqueue,
    done: CompletionQueue<T>,
    /// How many closures were spawned and have not been joined.
    left: usize,
    next_token: u64,
    /// When it is set, the closures that were spawned with this flag and have not begun do not run.
    aborted: Arc<AtomicBool>,
}

impl<T: Send + 'static> JoinSet<T> {
    /// Makes an empty set, whose closures run on `queue`. The set keeps the queue.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let set = cmwq::JoinSet::<u32>::new(&queue);
    /// assert!(set.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(queue: &Workqueue) -> Self {
        JoinSet {
            queue: queue.clone(),
            done: CompletionQueue::new(),
            left: 0,
            next_token: 0,
            aborted: Arc::default(),
        }
    }

    /// Runs a closure on the queue. Returns the token that comes with its result: 0, 1, 2 and so
    /// on. If the queue refuses the closure, its result is [`JoinError::Refused`].
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let mut set = cmwq::JoinSet::new(&queue);
    /// assert_eq!(set.spawn(|| "first"), 0);
    /// assert_eq!(set.spawn(|| "second"), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn spawn<F>(&mut self, func: F) -> u64
    where
        F: FnOnce() -> T + Send + 'static,
    {
        let token = self.next_token;
        self.next_token += 1;
        let aborted = self.aborted.clone();
        let run = move || match aborted.load(Ordering::Relaxed) {
            true => Err(JoinError::Aborted),
            false => Ok(func()),
        };
        let item = self.done.fallible_item(token, run);
        let item = item.expect("the completion queue has no limit");
        self.done.inner.note_queue(&self.queue);
        if let Err(why) = self.queue.execute_named::<F, _>(item) {
            self.done.post_error(token, JoinError::Refused(why));
        }
        self.left += 1;
        token
    }

    /// How many closures were spawned and not joined.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let mut set = cmwq::JoinSet::new(&queue);
    /// set.spawn(|| ());
    /// assert_eq!(set.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        self.left
    }

    /// Says whether all closures that were spawned have been joined.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let mut set = cmwq::JoinSet::new(&queue);
    /// set.spawn(|| ());
    /// set.wait_next();
    /// assert!(set.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Polls for the result of the next closure that ends. `None`: the set is empty. A task may
    /// stop polling at any time, and no result is lost.
    pub fn poll_join_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Completed<T>>> {
        // In the child of a fork no closure runs, so none will end.
        if self.is_empty() || self.done.inner.is_inherited() {
            return Poll::Ready(None);
        }
        self.done
            .poll_next(context)
            .map(|ended| self.joined(Some(ended)))
    }

    /// Awaits the next closure to end; `None`: the set is empty. The future may be dropped at any
    /// time: no result is lost. A task cannot be told that it waits for itself: an item that blocks
    /// until the future is ready uses [`wait_next`](Self::wait_next) instead.
    ///
    /// ```
    /// async fn first(set: &mut cmwq::JoinSet<u32>) -> Option<u32> {
    ///     set.join_next().await?.result.ok()
    /// }
    /// ```
    pub fn join_next(&mut self) -> impl Future<Output = Option<Completed<T>>> + '_ {
        std::future::poll_fn(|context| self.poll_join_next(context))
    }

    /// Takes the result of a closure that has ended already, if there is one.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let mut set = cmwq::JoinSet::new(&queue);
    /// set.spawn(|| 6 * 7);
    /// while let Some(ended) = set.try_join_next() {
    ///     assert_eq!(ended.result?, 42);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_join_next(&mut self) -> Option<Completed<T>> {
        let ended = self.done.try_next();
        self.joined(ended)
    }

    /// Waits for the next closure to end; `None`: the set is empty, or, with a warning, would never
    /// become so, because the caller is an item that the closures left wait for: see
    /// [`CompletionQueue::wait`]. On a worker this counts as blocking.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let mut set = cmwq::JoinSet::new(&queue);
    /// (0..10).for_each(|n| { set.spawn(move || n); });
    /// while let Some(ended) = set.wait_next() {
    ///     println!("{}: {}", ended.token, ended.result?);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_next(&mut self) -> Option<Completed<T>> {
        self.wait(|done, entry| done.wait(1, entry))
    }

    /// Waits as [`wait_next`](Self::wait_next) does, for at most `timeout`. `None`: no closure has
    /// ended in that time, or the set is empty.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// use std::time::Duration;
    ///
    /// let mut set = cmwq::JoinSet::<()>::new(&queue);
    /// assert!(set.wait_next_timeout(Duration::from_millis(1)).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_next_timeout(&mut self, timeout: Duration) -> Option<Completed<T>> {
        self.wait(|done, entry| done.wait_timeout(1, entry, timeout))
    }

    fn wait(
        &mut self,
        wait: impl FnOnce(&CompletionQueue<T>, &mut Vec<Completed<T>>) -> usize,
    ) -> Option<Completed<T>> {
        if self.is_empty() {
            return None;
        }
        let mut entry = Vec::with_capacity(1);
        wait(&self.done, &mut entry);
        self.joined(entry.pop())
    }

    fn joined(&mut self, ended: Option<Completed<T>>) -> Option<Completed<T>> {
        self.left -= usize::from(ended.is_some());
        ended
    }

    /// Aborts the closures that have not begun: when its turn comes, such a closure is dropped, and
    /// its result is [`JoinError::Aborted`]. The set can be used further.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let mut set = cmwq::JoinSet::new(&queue);
    /// (0..10).for_each(|n| { set.spawn(move || n); });
    /// set.abort_all();
    /// while let Some(ended) = set.wait_next() {
    ///     assert!(ended.result.is_ok() || ended.result.is_err_and(|error| error.is_aborted()));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn abort_all(&mut self) {
        let before = std::mem::take(&mut self.aborted);
        before.store(true, Ordering::Relaxed);
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.aborted.store(true, Ordering::Relaxed);
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet")
            .field("len", &self.left)
            .finish_non_exhaustive()
    }
}
