//! Waiting for a workqueue without blocking the thread, and its shutdown: futures that any executor can poll.

use super::draining::StillBusy;
use crate::error::FlushError;
use crate::item::Completion;
use crate::pool::RunState;
use crate::sys::atomic::Ordering;
use crate::sys::clock;
use crate::sys::names::name_of;
use crate::workqueue::parts::core::WqCore;
use crate::workqueue::parts::flush::Awaited;
use crate::workqueue::queue::Workqueue;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

impl Workqueue {
    /// Waits in a task for what was queued before: a future, like [`flush`](Self::flush), that is
    /// ready when every item accepted before its first poll has ended. The thread that polls it
    /// never sleeps.
    ///
    /// A task may await this even if its polls are items of this very queue: the item that polls
    /// ends, and the waker queues the next one. But an item that blocks until the future is ready,
    /// as in an executor's `block_on`, waits for itself for ever. So does an item of another queue
    /// that has the only place of the [group](crate::ConcurrencyGroup) in which both are.
    ///
    /// ```
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     let mut future = std::pin::pin!(future);
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     loop {
    /// #         if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
    /// #             return output;
    /// #         }
    /// #         std::thread::yield_now();
    /// #     }
    /// # }
    /// # block_on(async {
    /// let log = cmwq::Workqueue::builder("log").build()?;
    /// log.execute(|| println!("written"))?;
    /// log.flush_async().await?; // the executor's thread runs other tasks meanwhile
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn flush_async(&self) -> Flush {
        Flush {
            core: self.core.clone(),
            awaited: Awaited::default(),
        }
    }

    /// Waits in a task until the queue is empty: a future, like [`drain`](Self::drain). From its
    /// first poll until it is ready, or dropped, only the queue's own items may queue. The first
    /// poll waits for threads that are in the middle of queueing, for some microseconds; the later
    /// ones do not wait. A poll in an item of this very queue, which could not end before that
    /// item, and whose waker could not queue the task again, is an error: [`FlushError::OwnItem`].
    ///
    /// An item that blocks until the future is ready, as in an executor's `block_on`, waits for ever
    /// if items of this queue need a place that the item has: the only one of the
    /// [group](crate::ConcurrencyGroup) in which both queues are, or the only one of its own queue,
    /// if items of this one wait for items of that.
    ///
    /// ```
    /// async fn empty(queue: &cmwq::Workqueue) -> Result<(), cmwq::types::FlushError> {
    ///     queue.drain_async().await
    /// }
    /// ```
    pub fn drain_async(&self) -> Drain {
        Drain {
            core: self.core.clone(),
            closed: false,
            dry: Dry::default(),
        }
    }

    /// Waits as [`flush`](Self::flush) does, for at most `timeout`. On a worker this counts as
    /// blocking.
    ///
    /// ```
    /// # let log = cmwq::Workqueue::builder("log").build()?;
    /// use std::time::Duration;
    ///
    /// log.execute(|| println!("written"))?;
    /// if log.flush_timeout(Duration::from_secs(10)).is_err() {
    ///     eprintln!("{}", log.unfinished()); // the functions that still run
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`FlushError::TimedOut`], and those of [`flush`](Self::flush). The items stay queued.
    pub fn flush_timeout(&self, timeout: Duration) -> Result<(), FlushError> {
        self.core.may_wait()?;
        wait_for(self.flush_async(), timeout)
    }

    /// Waits as [`drain`](Self::drain) does, for at most `timeout`. When it returns, with an error
    /// too, items from outside are accepted again. On a worker this counts as blocking.
    ///
    /// ```
    /// # let log = cmwq::Workqueue::builder("log").build()?;
    /// use std::time::Duration;
    ///
    /// log.drain_timeout(Duration::from_secs(10))?;
    /// log.execute(|| println!("it was empty, and goes on"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`flush_timeout`](Self::flush_timeout).
    pub fn drain_timeout(&self, timeout: Duration) -> Result<(), FlushError> {
        self.core.may_wait()?;
        wait_for(self.drain_async(), timeout)
    }

    /// Ends the queue in order, for all its clones: from this call on only its own items may queue,
    /// and items from outside are [refused](crate::Refused::Draining). What is queued still runs.
    /// The returned future is ready when all of it has ended and the workers are released; a thread
    /// may [wait](Shutdown::wait_timeout) for it instead, up to a deadline. In an item of the queue
    /// both are errors ([`FlushError::OwnItem`]); the shutdown goes on.
    ///
    /// Dropping a queue that was shut down never waits, whether its items have ended or not: a
    /// separate thread does the rest. So this is how a thread of an executor gives a queue up.
    ///
    /// ```
    /// use cmwq::Workqueue;
    /// use std::time::Duration;
    ///
    /// let queue = Workqueue::builder("requests").build()?;
    /// queue.execute(|| std::thread::sleep(Duration::from_millis(1)))?;
    /// match queue.shutdown().wait_timeout(Duration::from_secs(10)) {
    ///     Ok(()) => println!("all requests have ended"),
    ///     Err(unfinished) => eprintln!("{unfinished}"), // which functions still run, and since when
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown(self) -> Shutdown {
        if !self.core.engine.is_inherited() && self.core.begin_shutdown() {
            self.core.close();
        }
        Shutdown {
            queue: self,
            dry: Dry::default(),
        }
    }

    /// Returns what has not ended at this moment. It is for a program whose deadline for
    /// [`flush_async`](Self::flush_async) or [`drain_async`](Self::drain_async) has passed. In the
    /// child of a fork the result is empty.
    pub fn unfinished(&self) -> Unfinished {
        unfinished(&self.core, FlushError::TimedOut)
    }
}

/// Waits for a flush or a drain, up to a deadline. The future is dropped before this returns.
fn wait_for<F>(future: F, timeout: Duration) -> Result<(), FlushError>
where
    F: Future<Output = Result<(), FlushError>> + Unpin,
{
    block_on(future, Some(clock::deadline_after(timeout))).unwrap_or(Err(FlushError::TimedOut))
}

fn unfinished(core: &WqCore, why: FlushError) -> Unfinished {
    let StillBusy { running, waiting } = match core.engine.is_inherited() {
        true => StillBusy::default(),
        false => core.still_busy(),
    };
    Unfinished {
        queue: core.name.clone(),
        why,
        running,
        waiting,
    }
}

/// Waits in a task for what was queued before: see [`Workqueue::flush_async`].
///
/// ```
/// async fn written(log: &cmwq::Workqueue) -> Result<(), cmwq::types::FlushError> {
///     log.flush_async().await
/// }
/// ```
#[must_use = "a future does nothing until it is polled"]
pub struct Flush {
    core: Arc<WqCore>,
    awaited: Awaited,
}

impl Future for Flush {
    type Output = Result<(), FlushError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Flush { core, awaited } = self.get_mut();
        if core.engine.is_inherited() {
            return Poll::Ready(Err(FlushError::Forked));
        }
        match core.flush.poll(awaited, || core.members(), context.waker()) {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        forget(&self.core, &mut self.awaited);
    }
}

/// Removes the waker of a task that does not wait any more. In the child of a fork another thread
/// may hold the lock for ever, so nothing is done there.
fn forget(core: &WqCore, awaited: &mut Awaited) {
    if !core.engine.is_inherited() {
        core.flush.forget(awaited);
    }
}

/// Flushes a closed queue again and again until nothing is in flight.
#[derive(Default)]
struct Dry {
    awaited: Awaited,
    flushes: u32,
}

impl Dry {
    fn poll(&mut self, core: &WqCore, waker: &Waker) -> bool {
        loop {
            if !core.flush.poll(&mut self.awaited, || core.members(), waker) {
                return false;
            }
            if core.is_at_rest() {
                return true;
            }
            core.flushed_once_more(&mut self.flushes);
            self.awaited = Awaited::default();
        }
    }
}

/// Waits in a task until the queue is empty: see [`Workqueue::drain_async`].
///
/// ```
/// async fn empty(log: &cmwq::Workqueue) -> Result<(), cmwq::types::FlushError> {
///     log.drain_async().await
/// }
/// ```
#[must_use = "a future does nothing until it is polled"]
pub struct Drain {
    core: Arc<WqCore>,
    /// Whether this future has closed the queue, and has to open it again.
    closed: bool,
    dry: Dry,
}

impl Drain {
    fn open(&mut self) {
        if std::mem::take(&mut self.closed) {
            // Relaxed: as at the end of `WqCore::drain`.
            self.core.closed.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Future for Drain {
    type Output = Result<(), FlushError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let own = self.get_mut();
        if own.core.engine.is_inherited() {
            return Poll::Ready(Err(FlushError::Forked));
        }
        if let Err(why) = own.core.not_in_own_item() {
            own.open();
            return Poll::Ready(Err(why));
        }
        if !own.closed {
            own.core.close();
            own.closed = true;
        }
        if !own.dry.poll(&own.core, context.waker()) {
            return Poll::Pending;
        }
        own.open();
        Poll::Ready(Ok(()))
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        forget(&self.core, &mut self.dry.awaited);
        self.open();
    }
}

/// Waits until a queue that was [shut down](Workqueue::shutdown) has ended: await it, or
/// [wait](Self::wait_timeout) for it. Dropping it does not wait, and the queue stays shut down.
///
/// ```
/// async fn end(log: cmwq::Workqueue) {
///     if let Err(unfinished) = log.shutdown().await {
///         eprintln!("{unfinished}");
///     }
/// }
/// ```
#[must_use = "the queue is shut down, but this call has not waited for its items"]
pub struct Shutdown {
    queue: Workqueue,
    dry: Dry,
}

impl Shutdown {
    /// Waits until everything queued has run, for at most `timeout`. It may be called again. On a
    /// worker this counts as blocking.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// use std::time::Duration;
    ///
    /// let mut end = queue.shutdown();
    /// if let Err(unfinished) = end.wait_timeout(Duration::from_secs(10)) {
    ///     eprintln!("{unfinished}"); // the functions that still run
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Unfinished`] says what still runs when the time is over. It also says if the caller cannot
    /// wait, and why: see [`FlushError`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<(), Unfinished> {
        self.wait_until(Some(clock::deadline_after(timeout)))
    }

    /// Waits as [`wait_timeout`](Self::wait_timeout) does, without a deadline.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// queue.execute(|| println!("the last one"))?;
    /// queue.shutdown().wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// An error if the caller cannot wait. It says why: see [`FlushError`].
    pub fn wait(&mut self) -> Result<(), Unfinished> {
        self.wait_until(None)
    }

    fn wait_until(&mut self, deadline_ns: Option<u64>) -> Result<(), Unfinished> {
        let core = self.queue.core.clone();
        let ended = core
            .may_wait()
            .and_then(|()| block_on(&mut *self, deadline_ns).unwrap_or(Err(FlushError::TimedOut)));
        ended.map_err(|why| unfinished(&core, why))
    }

    /// Returns what has not ended at this moment.
    pub fn unfinished(&self) -> Unfinished {
        self.queue.unfinished()
    }
}

impl Future for Shutdown {
    type Output = Result<(), FlushError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Shutdown { queue, dry } = self.get_mut();
        if queue.core.engine.is_inherited() {
            return Poll::Ready(Err(FlushError::Forked));
        }
        if !queue.core.is_destroyed() {
            queue.core.not_in_own_item()?;
            if !dry.poll(&queue.core, context.waker()) {
                return Poll::Pending;
            }
            // Nothing is in flight, and the queue accepts nothing any more, so this does not wait.
            queue.end();
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Shutdown {
    fn drop(&mut self) {
        forget(&self.queue.core, &mut self.dry.awaited);
    }
}

/// Says what of a workqueue has not ended, for the log after a deadline has passed. Its text is a
/// line, and one more for each function that runs.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// use std::time::Duration;
///
/// queue.execute(|| std::thread::sleep(Duration::from_millis(1)))?;
/// println!("{}", queue.unfinished()); // a line, and one for each function that runs
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unfinished {
    /// The queue's name.
    pub queue: String,
    /// Why the call returned: [`FlushError::TimedOut`], or the reason for which the caller could
    /// not wait.
    pub why: FlushError,
    /// The items in execution.
    pub running: Vec<RunState>,
    /// How many items have not started.
    pub waiting: usize,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (running, waiting) = (self.running.len(), self.waiting);
        write!(
            f,
            "workqueue {}: {running} running and {waiting} waiting items have not ended",
            self.queue
        )?;
        if self.why != FlushError::TimedOut {
            write!(f, " ({})", self.why)?;
        }
        for run in &self.running {
            let name = name_of(run.func);
            let for_ms = run.for_ns / 1_000_000;
            write!(f, "\n  {name} on thread {} for {for_ms} ms", run.tid)?;
            if run.description != self.queue {
                write!(f, ": {}", run.description)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Unfinished {}

/// Wakes a thread that waits for a future.
struct UnparkWaker(Completion);

impl Wake for UnparkWaker {
    fn wake(self: Arc<Self>) {
        self.0.complete();
    }
}

/// Polls the future until it is ready. `None`: the deadline has passed first.
pub(in crate::workqueue) fn block_on<F: Future + Unpin>(
    mut future: F,
    deadline_ns: Option<u64>,
) -> Option<F::Output> {
    let unpark = Arc::new(UnparkWaker(Completion::new()));
    let waker = Waker::from(unpark.clone());
    loop {
        // The completion is reset before the poll: a wake-up that comes later is a reason for
        // another poll.
        unpark.0.reinit();
        if let Poll::Ready(output) = Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        let Some(deadline_ns) = deadline_ns else {
            unpark.0.wait();
            continue;
        };
        let left_ns = deadline_ns.saturating_sub(clock::now_ns());
        if left_ns == 0 || !unpark.0.wait_timeout(Duration::from_nanos(left_ns)) {
            return None;
        }
    }
}
