//! `spawn()`: a closure as a one-shot item, and the handle that waits for its result, in one block of memory.

use super::control;
use super::counted::{RefCounted, Reference};
use super::own_wait::{may_join, not_in_waker};
use super::shared::ResultState;
use crate::error::Refused;
use crate::item::{RawWork, WorkFn};
use crate::pool::{Waiter, spawn_history};
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::cell::alone;
use crate::sys::names;
use crate::trace::foreign;
use std::cell::UnsafeCell;
use std::mem::offset_of;
use std::panic::Location;
use std::ptr::NonNull;
use std::time::Duration;

mod handle;
pub(crate) mod joinable;

use joinable::{Joinable, REPORTED, Reclaimed};

pub use super::join_error::{JoinError, PanicPayload};

/// The item of one `spawn()`. The engine sees `raw`, the first field; the rest belongs to the
/// closure and its handle.
///
/// It is kept small: a task of up to 120 bytes is in a reused [block](crate::sys::blocks). A
/// closure of 56 bytes fits.
#[repr(C)]
pub(crate) struct JoinableTask<F, T> {
    raw: RawWork,
    shared: ResultState,
    stage: UnsafeCell<Stage<F, T>>,
}

/// The closure exists until it is run or refused; from then on the result, until the handle takes it.
enum Stage<F, T> {
    Closure(F),
    Result(Result<T, JoinError>),
    Taken,
}

// SAFETY: one thread at a time uses `stage`: the only thread that runs or refuses the item, until
// `done` is set, and from then on the only handle. `done` orders the two.
unsafe impl<F: Send, T: Send> Sync for JoinableTask<F, T> {}

// SAFETY: nothing else uses this field.
unsafe impl<F, T> RefCounted for JoinableTask<F, T> {
    fn references(&self) -> &AtomicU32 {
        &self.shared.references
    }
}

impl<F: FnOnce() -> T + Send, T: Send> Joinable<T> for JoinableTask<F, T> {
    fn shared(&self) -> &ResultState {
        &self.shared
    }

    fn raw(&self) -> &RawWork {
        &self.raw
    }

    unsafe fn run_alone(&self) -> bool {
        // SAFETY: by the contract no other thread has a reference, and the item is not run otherwise.
        let panicked = unsafe {
            let result = self.call();
            let panicked = result.as_ref().is_some_and(Result::is_err);
            if let Some(result) = result {
                self.replace(Stage::Result(result));
            }
            panicked
        };
        // Relaxed: only this thread uses it.
        self.shared.references.store(1, Ordering::Relaxed);
        panicked
    }

    unsafe fn abort(&self) {
        // SAFETY: by the contract no thread runs it, and the caller has the queue's reference; the
        // handle's keeps the task.
        unsafe {
            let _queues = Reference::from_raw(NonNull::from(self));
            self.finish_without_run(JoinError::Aborted);
        }
    }

    unsafe fn take_result(&self) -> Result<T, JoinError> {
        // SAFETY: by the contract no other thread uses it now.
        match unsafe { self.replace(Stage::Taken) } {
            Stage::Result(result) => result,
            Stage::Closure(_) | Stage::Taken => Err(JoinError::Taken),
        }
    }
}

impl<F, T> JoinableTask<F, T> {
    /// # Safety
    /// No other thread uses the stage now.
    unsafe fn replace(&self, stage: Stage<F, T>) -> Stage<F, T> {
        alone(self.stage.get());
        // SAFETY: by the contract.
        std::mem::replace(unsafe { &mut *self.stage.get() }, stage)
    }

    /// Runs the closure and returns its result or panic. `None`: the closure is not there any more.
    ///
    /// # Safety
    /// Only for the thread that runs the item, once.
    unsafe fn call(&self) -> Option<Result<T, JoinError>>
    where
        F: FnOnce() -> T,
    {
        // SAFETY: by the contract; the handle waits for the end of the run.
        let Stage::Closure(func) = (unsafe { self.replace(Stage::Taken) }) else {
            return None;
        };
        Some(foreign::run(func).map_err(JoinError::panicked))
    }

    /// Stores the result for the handle.
    ///
    /// # Safety
    /// Only for the thread that runs or refuses the item, once.
    unsafe fn finish(&self, result: Result<T, JoinError>) {
        // SAFETY: by the contract; this thread has taken the closure, so there is nothing to drop.
        unsafe { self.replace(Stage::Result(result)) };
        // A handle that is gone has left no waker. It reads the result no more, so no thread needs to be
        // told. Relaxed: the thread that drops the last reference, and the result with it, acquires
        // there what the handle did; and to tell a handle that is gone does no harm.
        let has_handle = self.shared.references.load(Ordering::Relaxed) > 1;
        if has_handle && self.shared.done.complete_polled() {
            self.shared.wake();
        }
    }

    /// Drops the closure and stores `why` for the handle, or the panic if dropping panics.
    ///
    /// # Safety
    /// Only for the thread that refuses or aborts the item, once.
    unsafe fn finish_without_run(&self, why: JoinError) {
        // SAFETY: by the contract.
        unsafe {
            let closure = self.replace(Stage::Taken);
            let dropped = foreign::run(|| drop(closure));
            self.finish(Err(dropped.map_or_else(JoinError::panicked, |()| why)));
        }
    }
}

impl<F, T> JoinableTask<F, T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    /// Notes the closure's name for the tools. A thread that spawns items in close succession, or
    /// joins each at once like those before, skips this: earlier spawns have noted the same name.
    #[inline]
    pub(crate) fn note_name(place: &'static Location<'static>)
    where
        F: 'static,
        T: 'static,
    {
        names::note::<F>(run::<F, T> as WorkFn as usize, place);
    }

    /// Notes the type `N` as the name of a closure that may borrow. Such a closure is never copied.
    #[inline]
    pub(crate) fn note_name_within<N>(place: &'static Location<'static>) {
        names::note::<N>(run::<F, T> as WorkFn as usize, place);
    }

    /// Makes a task with one reference for the handle and one for the queue.
    pub(crate) fn new(func: F) -> (Reference<Self>, JoinHandle<T>)
    where
        F: 'static,
        T: 'static,
    {
        // SAFETY: a 'static closure outlives the join of the handle.
        unsafe { Self::make(func) }
    }

    /// Makes a task as [`new`](Self::new) does, for a closure that may borrow.
    ///
    /// # Safety
    /// The borrowed values exist until the handle has been joined.
    pub(crate) unsafe fn new_within(func: F) -> (Reference<Self>, JoinHandle<T>) {
        // SAFETY: by the contract.
        unsafe { Self::make(func) }
    }

    /// # Safety
    /// As for [`new_within`](Self::new_within).
    #[inline]
    unsafe fn make(func: F) -> (Reference<Self>, JoinHandle<T>) {
        let (task, other) = Reference::pair(|| JoinableTask {
            raw: RawWork::new(run::<F, T>),
            shared: ResultState::new(),
            stage: UnsafeCell::new(Stage::Closure(func)),
        });
        let handle = JoinHandle {
            // SAFETY: only the pointer's type changes, to a trait object.
            // The caller ensures its lifetime.
            task: unsafe { other.into_other(|task| forever(task)) },
        };
        (task, handle)
    }

    /// Turns the queue's reference into the raw item to be queued.
    pub(crate) fn into_raw(task: Reference<Self>) -> NonNull<RawWork> {
        let task = task.into_raw();
        // SAFETY: the field lies inside the value.
        unsafe { task.byte_add(offset_of!(Self, raw)).cast() }
    }

    /// # Safety
    /// `item` came from [`into_raw`](Self::into_raw) and its reference was not used.
    unsafe fn from_raw(item: NonNull<RawWork>) -> Reference<Self> {
        // SAFETY: by the contract; the field lies at its offset in the Task that into_raw came from.
        unsafe { Reference::from_raw(item.byte_sub(offset_of!(Self, raw)).cast()) }
    }

    /// Takes the closure out of a task whose item the queue has refused.
    ///
    /// # Safety
    /// As for [`from_raw`](Self::from_raw).
    pub(crate) unsafe fn take_back(item: NonNull<RawWork>) -> F {
        // SAFETY: by the contract; no thread runs it.
        unsafe {
            match Self::from_raw(item).replace(Stage::Taken) {
                Stage::Closure(func) => func,
                Stage::Result(_) | Stage::Taken => unreachable!("it has not run"),
            }
        }
    }

    /// Drops the closure of a task whose item the queue has refused, and completes the handle.
    ///
    /// # Safety
    /// As for [`from_raw`](Self::from_raw).
    pub(crate) unsafe fn reject(item: NonNull<RawWork>, why: Refused) {
        // SAFETY: by the contract; no thread runs it.
        unsafe {
            let task = Self::from_raw(item);
            task.finish_without_run(JoinError::Refused(why));
        }
    }
}

/// Returns the task as the handle's trait object, for as long as the handle exists.
fn forever<'a, F, T>(task: NonNull<JoinableTask<F, T>>) -> NonNull<dyn Joinable<T>>
where
    F: FnOnce() -> T + Send + 'a,
    T: Send + 'a,
{
    let task: NonNull<dyn Joinable<T> + 'a> = task;
    // SAFETY: the same pointer; the maker of the task ensures that no borrow is used after its end.
    unsafe { std::mem::transmute::<NonNull<dyn Joinable<T> + 'a>, NonNull<dyn Joinable<T>>>(task) }
}

/// # Safety
/// `item` is the `raw` field of a `Task<F, T>` whose queue holds a reference.
unsafe extern "C-unwind" fn run<F, T>(item: NonNull<RawWork>)
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    // SAFETY: by this function's contract.
    let task = unsafe { JoinableTask::<F, T>::from_raw(item) };
    // SAFETY: the item is run once.
    let Some(result) = (unsafe { task.call() }) else {
        return;
    };
    let panicked = result.is_err();
    // SAFETY: as above.
    unsafe { task.finish(result) };
    drop(task);
    if panicked {
        // The engine catches and counts this panic. The panic hook has printed the message already.
        std::panic::resume_unwind(Box::new(REPORTED));
    }
}

/// Waits for the result of a spawned closure: block on [`join`](JoinHandle::join), or `.await` it.
///
/// Dropping the handle *detaches* the closure, as tokio's `spawn_blocking` does: it runs all the
/// same, and its result is dropped. [`abort`](JoinHandle::abort) takes back a closure that has not
/// begun, and [`abort_on_drop`](JoinHandle::abort_on_drop) does so when the handle, or the future
/// that awaits it, is dropped. A closure that has begun always runs to its end.
///
/// `join` is an [error](JoinError::OwnItem) inside the closure itself, and inside an item that the
/// closure joins and runs itself. It is the same error inside an item that has the place which the
/// closure waits for: that of an [ordered](crate::WorkqueueBuilder::ordered) workqueue, or all
/// places of its `max_active` or its [group](crate::ConcurrencyGroup), if items that the calling
/// thread runs have them. A poll in such an item is pending and no error, because the item may run
/// an executor, of which another task awaits the closure. But an item that blocks on the future
/// there, as in an executor's `block_on`, waits for ever.
///
/// Two items that run on two workers and join each other wait for ever, as two threads that join
/// each other do: neither can end first. Nothing detects such a cycle.
///
/// As a future the handle keeps one waker, that of the last poll, and wakes it at most once. A poll
/// that has to wait may call the wakers of other tasks that await items of the same pool, if their
/// wake-ups were deferred: do not poll while you hold a lock that such a waker takes. A waker must
/// not wait for items, because a worker or the pool's monitor may call it. What the closure did is
/// visible when `join` has returned or the future is ready.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// let handle = queue.spawn(|| (1..=100).sum::<u32>());
/// // ... do something else meanwhile ...
/// assert_eq!(handle.join()?, 5050); // in an async function: `handle.await?`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a handle does not cancel the item, but its result is lost"]
pub struct JoinHandle<T> {
    task: Reference<dyn Joinable<T>>,
}

impl<T> JoinHandle<T> {
    /// Waits for the closure and returns its result. If no worker has begun the closure, the
    /// calling thread may run it, and no other item, instead of sleeping: see
    /// [`workers_only`](crate::WorkqueueBuilder::workers_only).
    ///
    /// On a worker this counts as blocking, and the pool runs another worker instead. So items may
    /// join items of their own queue as long as `max_active` lets those run.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// assert_eq!(queue.spawn(|| 6 * 7).join()?, 42);
    /// let panicked = queue.spawn(|| panic!("out of range")).join();
    /// assert!(panicked.is_err_and(|error| error.is_panic()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`JoinError::Panicked`] with the closure's panic payload; [`JoinError::Refused`] if the
    /// queue refused it; [`JoinError::Taken`] if the handle was polled to completion before;
    /// [`JoinError::OwnItem`] from inside the closure itself; [`JoinError::InWaker`].
    pub fn join(self) -> Result<T, JoinError> {
        self.join_by(None)
    }

    /// Joins as [`join`](Self::join) does. `waiter` is given if the thread joins several items and
    /// waits for each of them in any case.
    #[inline]
    pub(crate) fn join_by(self, mut waiter: Option<&mut Waiter>) -> Result<T, JoinError> {
        let shared = self.task.shared();
        let done = shared.done.is_done();
        if !done && shared.is_inherited() {
            return Err(JoinError::Refused(Refused::Forked));
        }
        let task = &*self.task;
        let ran = spawn_history::join(task.raw(), |item| {
            waiter.iter_mut().for_each(|waiter| waiter.settle());
            Reclaimed { task, item }
        });
        if !ran && !done {
            if waiter.is_none() && not_in_waker().is_err() {
                return Err(JoinError::InWaker);
            }
            // Items of a scope borrow from the caller. So this returns only when the item has ended
            // or when it is certain that the item will not run.
            let is_scope = waiter.is_some();
            let mut own = Waiter::in_order();
            let waiter = waiter.unwrap_or(&mut own);
            let may_wait = || may_join(task.raw()) || (is_scope && !self.abort());
            if !waiter.run_or_wait(task.raw(), control::registered, &shared.done, may_wait) {
                return Err(JoinError::OwnItem);
            }
        }
        // SAFETY: it is done, or ran on this thread, and this is the handle.
        unsafe { self.task.take_result() }
    }

    /// Waits as [`join`](Self::join) does, for at most `timeout`. `None`: the closure has not ended
    /// yet, and the handle can be joined again. So it can after [`JoinError::OwnItem`]. The calling
    /// thread does not run the closure, which might take longer.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// use std::time::Duration;
    ///
    /// let mut handle = queue.spawn(|| 6 * 7);
    /// match handle.join_timeout(Duration::from_secs(10)) {
    ///     Some(result) => assert_eq!(result?, 42),
    ///     None => println!("still waiting"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn join_timeout(&mut self, timeout: Duration) -> Option<Result<T, JoinError>> {
        spawn_history::let_go_of(self.task.raw());
        let shared = self.task.shared();
        if !shared.done.is_done() && shared.is_inherited() {
            return Some(Err(JoinError::Refused(Refused::Forked)));
        }
        if !shared.done.is_done() && !may_join(self.task.raw()) {
            return Some(Err(JoinError::OwnItem));
        }
        if !shared.done.wait_timeout(timeout) {
            return None;
        }
        // SAFETY: it is done, and this is the handle.
        Some(unsafe { self.task.take_result() })
    }

    /// If the closure has not begun, this takes it off its queue and drops it, and the handle's
    /// result is [`JoinError::Aborted`]. `false`: the closure has begun or ended, and its result is
    /// available when it has ended. This does not wait.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let handle = queue.spawn(|| 6 * 7);
    /// match handle.abort() {
    ///     true => assert!(handle.join().is_err_and(|error| error.is_aborted())),
    ///     false => assert_eq!(handle.join()?, 42), // a worker was faster
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn abort(&self) -> bool {
        let raw = self.task.raw();
        spawn_history::let_go_of(raw);
        let shared = self.task.shared();
        if shared.is_inherited() || shared.done.is_done() {
            return false;
        }
        let Some(item) = control::reclaim(raw) else {
            return false;
        };
        // No thread claims it again, but another thread that aborts it meanwhile must see that it
        // is not pending any more.
        item.release();
        // SAFETY: the queue's reference was in the item, and this is the handle.
        unsafe { self.task.abort() };
        true
    }

    /// Says whether a join would return at once: the closure has ended, was refused or was aborted.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let handle = queue.spawn(|| 6 * 7);
    /// queue.flush()?;
    /// assert!(handle.is_finished());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_finished(&self) -> bool {
        spawn_history::let_go_of(self.task.raw());
        self.task.shared().done.is_done()
    }
}
