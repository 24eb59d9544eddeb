//! Closures that borrow: what is queued is a task whose lifetime is forgotten, and whose future
//! waits in its destructor.

use crate::{Outcome, Threadpool, outcome};
use async_task::{Runnable, Task};
use cmwq::Workqueue;
use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// What [`Threadpool::spawn_local`] returns. Its closure is queued with the first poll. Dropping it
/// cancels a closure that has not begun, and waits for one that runs.
#[must_use = "it does nothing unless it is polled"]
pub struct SpawnFuture<'pool, R> {
    /// Until the first poll.
    unscheduled: Option<Runnable>,
    /// Until the result was taken.
    task: Option<Task<Outcome<R>>>,
    _pool: PhantomData<&'pool Threadpool>,
}

impl<'pool, R: Send + 'pool> SpawnFuture<'pool, R> {
    /// # Safety
    /// As [`Threadpool::spawn_local`].
    pub(crate) unsafe fn new(
        queue: Arc<Workqueue>,
        func: impl FnOnce() -> R + Send + 'pool,
    ) -> Self {
        let schedule = move |runnable: Runnable| {
            // Refused in a fork's child only: the task is then cancelled.
            let _ = queue.execute(move || {
                runnable.run();
            });
        };
        let future = async move { outcome(func) };
        // SAFETY: future and closure are used until the task was cancelled or has completed, for
        // which the destructor waits; that it is run while `'pool` lasts is the caller's part. Both
        // may be used on any thread; `schedule` is 'static, and so is what it captures.
        let (runnable, task) = unsafe { async_task::spawn_unchecked(future, schedule) };
        SpawnFuture {
            unscheduled: Some(runnable),
            task: Some(task),
            _pool: PhantomData,
        }
    }
}

impl<R> Future for SpawnFuture<'_, R> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        // Nothing in it is pinned.
        let this = Pin::into_inner(self);
        if let Some(runnable) = this.unscheduled.take() {
            runnable.schedule();
        }
        let task = this.task.as_mut().expect("it is not polled after its end");
        let Poll::Ready(outcome) = Pin::new(task).poll(cx) else {
            return Poll::Pending;
        };
        this.task = None;
        Poll::Ready(outcome.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl<R> Drop for SpawnFuture<'_, R> {
    fn drop(&mut self) {
        let was_scheduled = self.unscheduled.take().is_none();
        // One that was never queued is dropped with its runnable.
        if let Some(task) = self.task.take().filter(|_| was_scheduled) {
            cmwq::blocking(|| wait_for(task.cancel()));
        }
    }
}

/// Blocks the calling thread.
fn wait_for(future: impl Future) {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    while future.as_mut().poll(&mut cx).is_pending() {
        thread::park();
    }
}
