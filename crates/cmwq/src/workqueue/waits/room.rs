//! *Room* on a queue that limits how many items wait: one unit of room is the right of one item to
//! wait. Trying for room, waiting for it and awaiting it.

use super::lifecycle::block_on;
use crate::error::{Error, Refused};
use crate::item::{Pending, Work, closure};
use crate::pool::{Place, RoomAnswer, in_waker};
use crate::sys::atomic::Ordering;
use crate::sys::{clock, names};
use crate::trace::warn_once;
use crate::workqueue::parts::attrs::clamp_max_waiting;
use crate::workqueue::parts::core::WqCore;
use crate::workqueue::parts::flush::wake;
use crate::workqueue::queue::Workqueue;
use crate::workqueue::queueing::Admission;
use crate::workqueue::task::join::{JoinHandle, JoinableTask};
use crate::workqueue::task::queued::Queued;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};
use std::time::Duration;

impl WqCore {
    pub(crate) fn set_max_waiting(&self, max_waiting: usize) -> Result<(), Error> {
        self.engine.must_be_ours()?;
        let room = self.room.as_ref().ok_or(Error::NoMaxWaiting)?;
        room.set_bound(clamp_max_waiting(&self.name, max_waiting));
        wake(room.serve());
        Ok(())
    }

    /// Gives back a unit of room that no item has.
    pub(in crate::workqueue) fn give_room_back(&self) {
        if let Some(room) = &self.room
            && room.give_back()
        {
            self.engine.service().wake_tasks(room.serve());
        }
    }
}

impl Workqueue {
    /// How many items may wait before further ones are refused; `None`: there is no
    /// [limit](crate::WorkqueueBuilder::max_waiting).
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("requests").max_waiting(100).build()?;
    /// assert_eq!(queue.max_waiting(), Some(100));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_waiting(&self) -> Option<usize> {
        self.core.room.as_ref().map(|room| room.bound())
    }

    /// Changes how many items may wait. After lowering the limit, items that wait stay; raising it
    /// lets waiters for room continue, in turn. 0 is taken for 1, with a warning.
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("requests").max_waiting(100).build()?;
    /// queue.set_max_waiting(200)?;
    /// assert_eq!(queue.max_waiting(), Some(200));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMaxWaiting`] if the queue was built without such a limit; [`Error::Forked`].
    pub fn set_max_waiting(&self, max_waiting: usize) -> Result<(), Error> {
        self.core.set_max_waiting(max_waiting)
    }

    /// Runs a closure as [`spawn`](Self::spawn) does, and gives it back if the queue refuses it:
    /// most often the queue is [full](Refused::Full).
    ///
    /// ```
    /// use cmwq::{Refused, Workqueue};
    ///
    /// let queue = Workqueue::builder("requests").max_waiting(1000).build()?;
    /// match queue.try_spawn(|| "handled") {
    ///     Ok(handle) => assert_eq!(handle.join()?, "handled"),
    ///     Err(refused) if refused.why == Refused::Full => println!("503: try again later"),
    ///     Err(refused) => return Err(refused.why.into()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The closure, and why the queue does not take it.
    #[track_caller]
    pub fn try_spawn<F, T>(&self, func: F) -> Result<JoinHandle<T>, NotAccepted<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        spawn_by(func, |item| self.core.queue(None, item))
    }

    /// Runs a closure as [`execute`](Self::execute) does, and gives it back if the queue refuses
    /// it.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// match queue.try_execute(|| println!("done")) {
    ///     Ok(()) => {}
    ///     Err(refused) => (refused.func)(), // run it here instead
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The closure, and why the queue does not take it.
    #[track_caller]
    pub fn try_execute<F>(&self, func: F) -> Result<(), NotAccepted<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        execute_by(func, |item| self.core.queue(None, item))
    }

    /// Reserves room for one item, if there is some now; on a queue without a limit there always
    /// is.
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("requests").max_waiting(1).build()?;
    /// let place = queue.try_room()?; // before a request is read, say
    /// assert!(queue.try_room().is_err());
    /// assert_eq!(place.spawn(|| "handled").map_err(|refused| refused.why)?.join()?, "handled");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_room(&self) -> Result<Room, Refused> {
        if self.core.engine.is_inherited() {
            return Err(Refused::Forked);
        }
        match &self.core.room {
            Some(room) if !room.try_take() => Err(Refused::Full),
            _ => Ok(Room::new(self)),
        }
    }

    /// Waits for room for one item: await it in a task, or [wait](RoomWait::wait) in a thread.
    /// Waiters get room in turn, as items start or are cancelled, and later calls do not overtake
    /// them. On a queue without a limit there always is room.
    ///
    /// ```
    /// use cmwq::Workqueue;
    ///
    /// let queue = Workqueue::builder("blocks").max_waiting(100).build()?;
    /// for block in 0..10_000u64 {
    ///     // At most 100 blocks wait in memory: a slow disk slows the reader down.
    ///     queue.room().wait()?.execute(move || drop(block.to_le_bytes()))?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn room(&self) -> RoomWait {
        RoomWait {
            queue: self.clone(),
            place: None,
        }
    }
}

/// Queues `func` with `queue`. If the queue refuses it, the caller gets `func` back.
#[track_caller]
fn spawn_by<F, T>(
    func: F,
    queue: impl FnOnce(Pending) -> Result<(), Refused>,
) -> Result<JoinHandle<T>, NotAccepted<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    JoinableTask::<F, T>::note_name(Location::caller());
    let (task, handle) = JoinableTask::new(func);
    let raw = JoinableTask::into_raw(task);
    // SAFETY: the reference in `raw` keeps the task alive until its function has taken it over.
    queue(unsafe { Pending::one_shot(raw) }).map_err(|why| NotAccepted {
        why,
        // SAFETY: the queue did not use the reference.
        func: unsafe { JoinableTask::<F, T>::take_back(raw) },
    })?;
    Ok(handle)
}

/// Queues a closure without a handle with `queue`. If the queue refuses it, the caller gets `func`
/// back.
#[track_caller]
fn execute_by<F>(
    func: F,
    queue: impl FnOnce(Pending) -> Result<(), Refused>,
) -> Result<(), NotAccepted<F>>
where
    F: FnOnce() + Send + 'static,
{
    names::note::<F>(closure::function_of(&func), Location::caller());
    let raw = closure::into_raw(func);
    // SAFETY: the item exists until its function runs.
    queue(unsafe { Pending::one_shot(raw) }).map_err(|why| NotAccepted {
        why,
        // SAFETY: the queue did not take it.
        func: unsafe { closure::from_raw::<F>(raw) },
    })
}

/// A closure that a queue refused, given back to the caller, and why the queue refused it.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// match queue.try_spawn(|| 6 * 7) {
///     Ok(handle) => assert_eq!(handle.join()?, 42),
///     Err(refused) => {
///         println!("{}", refused.why);
///         assert_eq!((refused.func)(), 42); // run it here
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NotAccepted<F> {
    /// Why the queue refused it.
    pub why: Refused,
    /// The closure, which has not run.
    pub func: F,
}

impl<F> fmt::Debug for NotAccepted<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotAccepted")
            .field("why", &self.why)
            .finish_non_exhaustive()
    }
}

impl<F> fmt::Display for NotAccepted<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl<F> std::error::Error for NotAccepted<F> {}

/// Room for one item that was reserved on a queue, which one call uses up. If it is dropped, the
/// next waiter gets it.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// let room = queue.room().wait()?;
/// room.execute(|| println!("there was room")).map_err(|refused| refused.why)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "room that is not used goes to the next waiter"]
pub struct Room {
    queue: Workqueue,
    /// Whether this value holds a unit of room.
    holds: bool,
}

impl Room {
    /// Makes a `Room` after a unit was taken. On a queue without a limit it holds none.
    fn new(queue: &Workqueue) -> Self {
        Room {
            queue: queue.clone(),
            holds: queue.core.room.is_some(),
        }
    }

    /// Queues an item in this room.
    fn queue_item(mut self, item: Pending) -> Result<(), Refused> {
        self.holds = false;
        let core = &self.queue.core;
        core.queue_admitted(None, item, Admission::Has)
    }

    /// Runs a closure in this room, as [`Workqueue::spawn`] does.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let handle = queue.room().wait()?.spawn(|| 6 * 7).map_err(|refused| refused.why)?;
    /// assert_eq!(handle.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Workqueue::try_spawn`], but never [`Refused::Full`].
    #[track_caller]
    pub fn spawn<F, T>(self, func: F) -> Result<JoinHandle<T>, NotAccepted<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        spawn_by(func, |item| self.queue_item(item))
    }

    /// Runs a closure in this room without a handle, as [`Workqueue::execute`] does.
    ///
    /// # Errors
    /// As [`Workqueue::try_execute`], but never [`Refused::Full`].
    #[track_caller]
    pub fn execute<F>(self, func: F) -> Result<(), NotAccepted<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        execute_by(func, |item| self.queue_item(item))
    }

    /// Queues a reusable item in this room, as [`Workqueue::queue`] does. If the item is not
    /// accepted, the next waiter gets the room.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let work = cmwq::Work::new(|| ());
    /// assert!(queue.room().wait()?.queue(&work).will_run());
    /// work.flush()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn queue(self, work: &Work) -> Queued {
        let item = match work.claim() {
            Ok(item) => item,
            Err(why_not) => return why_not.into(),
        };
        let result = self.queue_item(item);
        if result.is_err() {
            work.unlend();
        }
        result.into()
    }

    /// Queues an item in this room, as [`Workqueue::queue_raw`] does. If the item is not accepted,
    /// the next waiter gets the room.
    ///
    /// # Safety
    /// As for [`Workqueue::queue_raw`].
    pub unsafe fn queue_raw(self, item: NonNull<crate::item::RawWork>) -> Queued {
        // SAFETY: by the caller's promise.
        match unsafe { Pending::claim(item) } {
            Ok(item) => self.queue_item(item).into(),
            Err(why_not) => why_not.into(),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.holds && !self.queue.core.engine.is_inherited() {
            self.queue.core.give_room_back();
        }
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room")
            .field("queue", &self.queue.name())
            .finish_non_exhaustive()
    }
}

/// A wait for room on a queue: see [`Workqueue::room`]. As a future it keeps one waker, that of the
/// last poll.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// let room = queue.room().wait()?; // in an async function: `queue.room().await?`
/// drop(room);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it waits when it is awaited, or by `wait`"]
pub struct RoomWait {
    queue: Workqueue,
    place: Place,
}

impl RoomWait {
    /// Waits for room in the calling thread. On a worker this counts as blocking.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// queue.room().wait()?.execute(|| ()).map_err(|refused| refused.why)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Refused::Draining`]: the queue was drained or shut down, or is being drained.
    /// [`Refused::OwnItem`]: the caller is an item of this queue, and its own end may be what makes
    /// room; or the queue is full and its items wait for the caller's place in their group.
    /// [`Refused::Forked`].
    pub fn wait(self) -> Result<Room, Refused> {
        self.wait_until(None)
    }

    /// Waits as [`wait`](Self::wait) does, for at most `timeout`.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// use std::time::Duration;
    ///
    /// let room = queue.room().wait_timeout(Duration::from_secs(1))?;
    /// room.execute(|| ()).map_err(|refused| refused.why)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`wait`](Self::wait); [`Refused::Full`] if there was no room in that time.
    pub fn wait_timeout(self, timeout: Duration) -> Result<Room, Refused> {
        self.wait_until(Some(clock::deadline_after(timeout)))
    }

    fn wait_until(mut self, deadline_ns: Option<u64>) -> Result<Room, Refused> {
        let core = &self.queue.core;
        if core.room.is_some() && !core.engine.is_inherited() && (core.waits_here() || in_waker()) {
            warn_once!(
                "workqueue {}: one of its own items, or a waker of a task, waits for room in it, which might never come",
                core.name
            );
            return Err(Refused::OwnItem);
        }
        if core.room.is_some() && core.waits_for_caller() {
            return self.queue.try_room().map_err(|why| match why {
                Refused::Full => Refused::OwnItem,
                other => other,
            });
        }
        block_on(&mut self, deadline_ns).unwrap_or(Err(Refused::Full))
    }
}

impl Future for RoomWait {
    type Output = Result<Room, Refused>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let RoomWait { queue, place } = self.get_mut();
        let core = &queue.core;
        if core.engine.is_inherited() {
            return Poll::Ready(Err(Refused::Forked));
        }
        let Some(room) = &core.room else {
            return Poll::Ready(Ok(Room::new(queue)));
        };
        // Relaxed: it is asked under the lock of the room, which a drain takes after it has closed
        // the queue.
        let is_closed = || core.closed.load(Ordering::Relaxed) != 0 && !core.runs_here();
        match room.ask(place, is_closed, context.waker()) {
            RoomAnswer::Waits => Poll::Pending,
            RoomAnswer::Taken => Poll::Ready(Ok(Room::new(queue))),
            RoomAnswer::Closed => Poll::Ready(Err(Refused::Draining)),
        }
    }
}

impl Drop for RoomWait {
    fn drop(&mut self) {
        let core = &self.queue.core;
        if let Some(room) = &core.room
            && !core.engine.is_inherited()
            && room.leave(&mut self.place)
        {
            core.give_room_back();
        }
    }
}
