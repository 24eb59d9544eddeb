//! The state that the owners and the posters of a completion queue share.
#![forbid(unsafe_code)]

use super::posts::{FD, Marks, Posted, Posts, THREAD};
use crate::pool::Pool;
use crate::sys::atomic::{AtomicU32, AtomicUsize, Ordering, plain};
use crate::sys::bell::Ringer;
use crate::sys::sync::Mutex;
use crate::sys::{fork, park};
use crate::trace::Foreign;
use crate::workqueue::parts::core::WqCore;
use crate::workqueue::task::join_error::JoinError;
use crossbeam_utils::CachePadded;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};
use std::task::Waker;

/// One entry of a [`CompletionQueue`](crate::CompletionQueue): which item has ended, and its
/// result.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// let done = cmwq::CompletionQueue::new();
/// done.submit(&queue, 7, || 6 * 7)?;
/// let mut entries = Vec::new();
/// done.wait(1, &mut entries);
/// for cmwq::types::Completed { token, result, .. } in entries {
///     assert_eq!((token, result?), (7, 42));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Completed<T> {
    /// The token that the item was submitted or posted with.
    pub token: u64,
    /// What the item returned, or [what it panicked with](JoinError::Panicked).
    pub result: Result<T, JoinError>,
}

/// What owners and posters share.
pub(in crate::workqueue) struct CompletionQueueState<T> {
    /// The posters write to this, so it has cache lines of its own.
    pub(in crate::workqueue) posts: CachePadded<Posts<Completed<T>>>,
    /// The futex word on which threads sleep in `wait`. Each signal increments it.
    pub(in crate::workqueue) epoch: AtomicU32,
    pub(in crate::workqueue) ringer: Option<Ringer>,
    /// The largest number of entries that may be submitted and not drained. `None`: there is no
    /// limit.
    pub(in crate::workqueue) capacity: Option<usize>,
    /// How many entries are submitted and not drained. It is counted only if there is a limit.
    pub(in crate::workqueue) outstanding: plain::AtomicUsize,
    /// How many owners there are. The last one closes the queue.
    pub(in crate::workqueue) handles: AtomicUsize,
    /// The fork generation of the process that made the queue. In a child of that process another
    /// thread may hold the lock for ever, and the eventfd is shared with the parent.
    born: u32,
    pub(in crate::workqueue) owners: Mutex<Owners<T>>,
    /// The wakers of owners that await an entry, each with the number of its owner. A poster takes
    /// this lock only to signal.
    pub(in crate::workqueue) tasks: Mutex<Vec<(u64, Foreign<Waker>)>>,
    /// How many [`Poster`]s exist. Items are not counted here.
    pub(in crate::workqueue) posters: AtomicUsize,
    /// The workqueues to which items were submitted.
    pub(in crate::workqueue) queues: Mutex<Vec<Weak<WqCore>>>,
    /// The serial number of the workqueue that was entered last into `queues`. 0: there is none.
    pub(in crate::workqueue) last_queue: plain::AtomicU64,
}

/// The state that owners share. No poster takes its lock.
pub(in crate::workqueue) struct Owners<T> {
    /// Entries that were taken off the list of posts and that no owner has got yet, the oldest
    /// first.
    pub(in crate::workqueue) ready: VecDeque<Completed<T>>,
    /// How many owners have armed the eventfd and have not drained since.
    pub(in crate::workqueue) armed: usize,
    /// How many threads sleep in `wait`.
    pub(in crate::workqueue) sleeping: usize,
}

impl<T> CompletionQueueState<T> {
    pub(in crate::workqueue) fn new(ringer: Option<Ringer>, capacity: Option<usize>) -> Self {
        CompletionQueueState {
            posts: CachePadded::new(Posts::new()),
            epoch: AtomicU32::new(0),
            ringer,
            capacity,
            outstanding: plain::AtomicUsize::new(0),
            handles: AtomicUsize::new(1),
            born: {
                fork::notice();
                fork::generation()
            },
            owners: Mutex::new(Owners {
                ready: VecDeque::new(),
                armed: 0,
                sleeping: 0,
            }),
            tasks: Mutex::new(Vec::new()),
            posters: AtomicUsize::new(0),
            queues: Mutex::new(Vec::new()),
            last_queue: plain::AtomicU64::new(0),
        }
    }

    /// Whether this process is the child of a fork and the queue belongs to its parent.
    pub(in crate::workqueue) fn is_inherited(&self) -> bool {
        self.born != fork::generation()
    }

    /// Reserves capacity for one more entry. `false`: the queue is full.
    pub(in crate::workqueue) fn reserve(&self) -> bool {
        let Some(capacity) = self.capacity else {
            return true;
        };
        // Relaxed is enough: the count orders no other data.
        let more = |now: usize| (now < capacity).then_some(now + 1);
        self.outstanding
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    pub(in crate::workqueue) fn release(&self, entries: usize) {
        if self.capacity.is_some() && entries > 0 {
            self.outstanding.fetch_sub(entries, Ordering::Relaxed);
        }
    }

    /// Posts an entry for which capacity was reserved, and signals if this poster has to.
    pub(in crate::workqueue) fn post(&self, entry: Completed<T>) -> Result<(), Completed<T>> {
        match self.posts.post(entry) {
            Posted::Quiet => Ok(()),
            Posted::MustSignal(marks) => {
                self.signal(marks);
                Ok(())
            }
            Posted::Closed(entry) => Err(entry),
        }
    }

    /// Signals to the owners whose marks this poster has taken.
    #[cold]
    pub(in crate::workqueue) fn signal(&self, marks: Marks) {
        if marks.contains(THREAD) {
            // Release: a thread that reads the new epoch finds the entry.
            self.epoch.fetch_add(1, Ordering::Release);
            if !Pool::defer_wakeup(&self.epoch) {
                park::wake_all_at(&self.epoch);
            }
            self.wake_tasks();
        }
        if marks.contains(FD)
            && let Some(ringer) = &self.ringer
        {
            #[cfg(not(cmwq_loom))]
            if Pool::ring_later(*ringer) {
                return;
            }
            ringer.ring();
        }
    }
}

impl<T> CompletionQueueState<T> {
    /// Wakes all owners that await an entry. It always takes the lock, and does not ask a flag
    /// first whether there are such owners: an owner that gets the lock after this poster finds
    /// that the poster has removed the mark, so it sets the mark anew or finds an entry.
    fn wake_tasks(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for (_, waker) in tasks {
            Pool::wake_task(Box::new(waker));
        }
    }

    /// Stores the waker of the owner with this number, or removes it. Returns the waker that was
    /// stored before, which the caller drops without a lock.
    pub(in crate::workqueue) fn set_task(
        &self,
        owner: u64,
        waker: Option<Foreign<Waker>>,
    ) -> Option<Foreign<Waker>> {
        let mut tasks = self.tasks.lock();
        let own = tasks.iter().position(|(of, _)| *of == owner);
        let before = own.map(|at| tasks.swap_remove(at).1);
        tasks.extend(waker.map(|waker| (owner, waker)));
        before
    }
}

/// Sets up a [`CompletionQueue`](crate::CompletionQueue) whose entries carry a `T`.
///
/// ```
/// let done = cmwq::CompletionQueue::<String>::builder().capacity(1000).eventfd().build()?;
/// assert!(done.fd().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct CompletionQueueBuilder<T> {
    pub(in crate::workqueue) capacity: Option<usize>,
    pub(in crate::workqueue) eventfd: bool,
    entries: PhantomData<fn() -> T>,
}

impl<T> CompletionQueueBuilder<T> {
    pub(in crate::workqueue) fn new() -> Self {
        CompletionQueueBuilder {
            capacity: None,
            eventfd: false,
            entries: PhantomData,
        }
    }

    /// Limits how many items may be submitted and not drained; further ones are refused as
    /// [full](crate::types::NotSubmitted::Full). The smallest limit is 1. By default there is none.
    ///
    /// ```
    /// let done = cmwq::CompletionQueue::<()>::builder().capacity(1).build()?;
    /// done.post(1, ())?;
    /// assert!(done.post(2, ()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.capacity = Some(capacity.max(1));
        self
    }

    /// Adds an eventfd, for epoll, poll or the like: see
    /// [`CompletionQueue::fd`](crate::CompletionQueue::fd).
    ///
    /// ```
    /// let done = cmwq::CompletionQueue::<()>::builder().eventfd().build()?;
    /// assert!(done.fd().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn eventfd(mut self) -> Self {
        self.eventfd = true;
        self
    }
}

impl<T> fmt::Debug for CompletionQueueBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueueBuilder")
            .field("eventfd", &self.eventfd)
            .field("capacity", &self.capacity)
            .finish()
    }
}

/// Posts entries to a [`CompletionQueue`](crate::CompletionQueue) from reusable items, or from any
/// other code. It may be cloned freely.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// let done = cmwq::CompletionQueue::new();
/// let poster = done.poster();
/// let work = cmwq::Work::new(move || drop(poster.post(1, "a reusable item has run")));
/// queue.queue(&work);
/// done.wait(1, &mut Vec::new());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Poster<T>(Arc<CompletionQueueState<T>>);

/// Why an entry was not posted. It gives the value back.
///
/// ```
/// use cmwq::CompletionQueue;
/// use cmwq::types::NotPosted;
///
/// let done = CompletionQueue::builder().capacity(1).build()?;
/// done.post(1, "first")?;
/// match done.post(2, "second") {
///     Err(NotPosted::Full(value)) => assert_eq!(value, "second"),
///     other => println!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPosted<T> {
    /// Entries that are posted, and entries for which capacity is reserved, have used up the
    /// capacity of the queue.
    Full(T),
    /// The owners of the queue are gone, or they belong to the parent of this forked process.
    Closed(T),
}

impl<T> CompletionQueueState<T> {
    /// Posts a value: see [`Poster::post`].
    pub(in crate::workqueue) fn post_value(
        &self,
        token: u64,
        value: T,
    ) -> Result<(), NotPosted<T>> {
        if self.is_inherited() {
            return Err(NotPosted::Closed(value));
        }
        if !self.reserve() {
            // The capacity of entries that were dropped at the close does not come back, so a
            // closed queue may look full.
            return Err(match self.posts.is_closed() {
                true => NotPosted::Closed(value),
                false => NotPosted::Full(value),
            });
        }
        let result = Ok(value);
        match self.post(Completed { token, result }) {
            Ok(()) => Ok(()),
            Err(Completed {
                result: Ok(value), ..
            }) => Err(NotPosted::Closed(value)),
            Err(_) => unreachable!("a value was posted"),
        }
    }
}

impl<T> Poster<T> {
    pub(in crate::workqueue) fn of(inner: &Arc<CompletionQueueState<T>>) -> Self {
        inner.posters.fetch_add(1, Ordering::Relaxed);
        Poster(inner.clone())
    }

    /// Posts an entry of a token and a result. What the caller did before is visible to the owner
    /// that drains it.
    ///
    /// This makes no system call, unless it is the first post after an owner has
    /// [armed](crate::CompletionQueue::arm) or gone to sleep in
    /// [`wait`](crate::CompletionQueue::wait). In that case an item of a pool with a backlog defers
    /// the wake-up a little, so that one wake-up serves several entries. Any thread may call this,
    /// whatever locks it holds.
    ///
    /// ```
    /// let done = cmwq::CompletionQueue::new();
    /// done.poster().post(1, "done")?;
    /// assert!(done.try_next().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The queue is full, or has no owner any more.
    pub fn post(&self, token: u64, value: T) -> Result<(), NotPosted<T>> {
        self.0.post_value(token, value)
    }
}

impl<T> Clone for Poster<T> {
    fn clone(&self) -> Self {
        Poster::of(&self.0)
    }
}

impl<T> Drop for Poster<T> {
    fn drop(&mut self) {
        // Release: an owner that finds this poster gone finds what it has posted.
        self.0.posters.fetch_sub(1, Ordering::Release);
    }
}

impl<T> fmt::Debug for Poster<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poster").finish_non_exhaustive()
    }
}

impl<T> fmt::Display for NotPosted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotPosted::Full(_) => FULL,
            NotPosted::Closed(_) => "the completion queue has no owner any more",
        })
    }
}

impl<T: fmt::Debug> std::error::Error for NotPosted<T> {}

pub(in crate::workqueue) const FULL: &str = "the completion queue is full: drain it first";
