//! `spawn()`: a closure as a one-shot item, and the handle that waits for its result. One allocation for both.

use super::control;
use crate::error::Refused;
use crate::pool::spawner;
use crate::sys::fork;
use crate::sys::sync::Mutex;
use crate::work::{Completion, RawWork};
use std::any::Any;
use std::future::Future;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Why there is no result.
pub enum JoinError {
    /// The closure panicked; this is what it panicked with.
    Panicked(Box<dyn Any + Send>),
    /// The queue did not take the closure, which was dropped without running; or it will not run, since the queue belongs to
    /// the process that this one was forked from.
    Refused(Refused),
    /// The result was taken already: the handle was polled to its end before.
    Taken,
}

impl std::fmt::Debug for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JoinError({self})")
    }
}

impl std::fmt::Display for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JoinError::Refused(refused) => refused.fmt(f),
            JoinError::Taken => f.write_str("the result was taken already"),
            JoinError::Panicked(payload) => {
                let text = payload
                    .downcast_ref::<&str>()
                    .copied()
                    .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
                    .unwrap_or("(not a text)");
                write!(f, "the work function panicked: {text}")
            }
        }
    }
}

impl std::error::Error for JoinError {}

/// The item of one `spawn()`. `raw` is the first thing the engine sees; the rest belongs to the closure and its handle.
#[repr(C)]
pub(crate) struct Task<F, T> {
    raw: RawWork,
    shared: Shared<T>,
    func: Mutex<Option<F>>,
}

struct Shared<T> {
    outcome: Mutex<Outcome<T>>,
    done: Completion,
}

struct Outcome<T> {
    result: Option<Result<T, JoinError>>,
    waker: Option<Waker>,
}

/// What a handle needs of a task, whatever its closure.
trait Joinable<T>: Send + Sync {
    fn shared(&self) -> &Shared<T>;
    fn raw(&self) -> &RawWork;
}

impl<F: Send, T: Send> Joinable<T> for Task<F, T> {
    fn shared(&self) -> &Shared<T> {
        &self.shared
    }

    fn raw(&self) -> &RawWork {
        &self.raw
    }
}

impl<F, T> Task<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    /// The task, referred to once by the handle and once by the queue.
    pub(crate) fn new(func: F) -> (Arc<Self>, JoinHandle<T>) {
        let task = Arc::new(Task {
            raw: RawWork::new(run::<F, T>),
            shared: Shared {
                outcome: Mutex::new(Outcome {
                    result: None,
                    waker: None,
                }),
                done: Completion::new(),
            },
            func: Mutex::new(Some(func)),
        });
        let handle = JoinHandle {
            task: task.clone(),
            born: fork::generation(),
        };
        (task, handle)
    }

    /// Turns the queue's reference into the raw item to be queued.
    pub(crate) fn into_raw(self: Arc<Self>) -> NonNull<RawWork> {
        let task = Arc::into_raw(self);
        // SAFETY: the pointer is that of a live Task; the field's address is not null.
        unsafe { NonNull::new_unchecked((&raw const (*task).raw).cast_mut()) }
    }

    /// # Safety
    /// `item` came from [`into_raw`](Self::into_raw) and its reference was not used.
    unsafe fn from_raw(item: NonNull<RawWork>) -> Arc<Self> {
        // SAFETY: by the contract; the field lies at its offset in the Task that into_raw came from.
        unsafe {
            Arc::from_raw(
                item.as_ptr()
                    .byte_sub(offset_of!(Self, raw))
                    .cast::<Self>()
                    .cast_const(),
            )
        }
    }

    /// The queue did not take the item: the closure is dropped and the handle told.
    ///
    /// # Safety
    /// As for [`from_raw`](Self::from_raw).
    pub(crate) unsafe fn reject(item: NonNull<RawWork>, why: Refused) {
        // SAFETY: by the contract.
        let task = unsafe { Self::from_raw(item) };
        let func = task.func.lock().take();
        drop(func);
        task.shared.finish(Err(JoinError::Refused(why)));
    }
}

impl<T> Shared<T> {
    fn finish(&self, result: Result<T, JoinError>) {
        let waker = {
            let mut outcome = self.outcome.lock();
            outcome.result = Some(result);
            outcome.waker.take()
        };
        self.done.complete();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// # Safety
/// `item` is the `raw` field of a `Task<F, T>` whose queue holds a reference.
unsafe extern "C-unwind" fn run<F, T>(item: NonNull<RawWork>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    // SAFETY: by this function's contract.
    let task = unsafe { Task::<F, T>::from_raw(item) };
    let func = task.func.lock().take();
    let Some(func) = func else { return };
    match catch_unwind(AssertUnwindSafe(func)) {
        Ok(value) => task.shared.finish(Ok(value)),
        Err(payload) => {
            task.shared.finish(Err(JoinError::Panicked(payload)));
            drop(task);
            // Let the engine count it; the hook has printed its message already.
            std::panic::resume_unwind(Box::new("reported through the join handle"));
        }
    }
}

/// Waits for what a spawned closure returns: block on [`join`](JoinHandle::join), or `.await` it.
///
/// Dropping the handle lets the closure run all the same; its result is dropped. What the closure did is visible after
/// `join` has returned.
#[must_use = "dropping a handle does not cancel the item, but its result is lost"]
pub struct JoinHandle<T> {
    task: Arc<dyn Joinable<T>>,
    /// In a child of the process that spawned it, the closure will not run.
    born: u32,
}

impl<T> JoinHandle<T> {
    /// Waits for the closure and returns its result. If no worker has begun with it, the calling thread may run it itself, and no
    /// other item, instead of sleeping: see [`workers_only`](crate::WorkqueueBuilder::workers_only).
    ///
    /// On a worker this counts as blocking: its pool runs another in its place, so items may join items of their own queue
    /// as long as `max_active` lets those run.
    ///
    /// # Errors
    /// [`JoinError::Panicked`] with what the closure panicked with; [`JoinError::Refused`] if the queue did not take it;
    /// [`JoinError::Taken`] if the handle was polled to its end before.
    pub fn join(self) -> Result<T, JoinError> {
        let shared = self.task.shared();
        let done = shared.done.is_done();
        if !done && self.born != fork::generation() {
            return Err(JoinError::Refused(Refused::Forked));
        }
        if !spawner::join(self.task.raw()) && !done {
            control::run_as_waiter(self.task.raw());
            shared.done.wait();
        }
        let result = shared.outcome.lock().result.take();
        result.unwrap_or(Err(JoinError::Taken))
    }

    /// Whether the closure has ended.
    pub fn is_finished(&self) -> bool {
        spawner::let_go_of(self.task.raw());
        self.task.shared().done.is_done()
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        // Nobody will join it.
        spawner::let_go_of(self.task.raw());
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Whoever polls does not wait here.
        spawner::let_go_of(self.task.raw());
        let mut outcome = self.task.shared().outcome.lock();
        match outcome.result.take() {
            Some(result) => Poll::Ready(result),
            None if self.born != fork::generation() => {
                Poll::Ready(Err(JoinError::Refused(Refused::Forked)))
            }
            None if self.is_finished() => Poll::Ready(Err(JoinError::Taken)),
            None => {
                let waker = context.waker();
                if outcome
                    .waker
                    .as_ref()
                    .is_none_or(|known| !known.will_wake(waker))
                {
                    outcome.waker = Some(waker.clone());
                }
                Poll::Pending
            }
        }
    }
}

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinHandle")
            .field("finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}
