//! The owner's side: arming, draining, waiting.

use super::outlook::Outlook;
use super::posts::{FD, THREAD};
use super::queue::{
    Completed, CompletionQueueBuilder, CompletionQueueState, NotPosted, Owners, Poster,
};
use crate::pool::{self, BlockGuard, spawn_history};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicBool, AtomicU64};
use crate::sys::bell::Bell;
use crate::sys::local::thread_local;
use crate::sys::spin::SpinBudget;
use crate::sys::{clock, park};
use crate::trace::{dispose, foreign, warn_once};
#[cfg(not(cmwq_loom))]
use std::os::fd::BorrowedFd;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

mod awaiting;

/// Collects the results of items for a thread that waits in an event loop of its own.
///
/// Items are [submitted](Self::submit) to a workqueue with a token, and post what they return with that token. The owner
/// [drains](Self::drain) the entries in batches. It may sleep in [`wait`](Self::wait), or in epoll, poll, tokio's `AsyncFd` or libuv's
/// `uv_poll` on an eventfd that becomes readable when there are entries:
///
/// ```no_run
/// # use cmwq::{CompletionQueue, Workqueue};
/// # fn epoll_wait(_: std::os::fd::BorrowedFd<'_>) {}
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let hash = Workqueue::builder("hash").build()?;
/// let done = CompletionQueue::<u64>::builder().eventfd().build()?;
/// for request in 0..10 {
///     done.submit(&hash, request, move || request * request)?;
/// }
/// let mut entries = Vec::new();
/// loop {
///     while done.drain(64, &mut entries) > 0 {
///         for entry in entries.drain(..) {
///             println!("{}: {}", entry.token, entry.result?);
///         }
///     }
///     // `false`: an entry has come meanwhile.
///     if done.arm() {
///         epoll_wait(done.fd().expect("it was asked for"));
///     }
/// }
/// # }
/// ```
///
/// **System calls.** Posting makes none while the owner is awake or has not armed. The first post after an arming makes the eventfd
/// readable; later posts make no call. Where the pool has a backlog, a worker signals a little later, and the owner finds several entries:
/// after the time that an item queued now will wait, at most 500 µs; if all workers are in longer items by then, some milliseconds.
/// Draining makes none but one read of the eventfd after it was readable.
///
/// **Order.** Entries are drained in the order in which they were posted, which is that in which the items ended. An entry is posted before
/// its item counts as ended: a flush that has returned finds all entries of the items that it waited for, but a drained entry may be of an
/// item that is still about to end.
///
/// **Owners.** A clone is another owner. Each entry goes to one owner, the oldest to the first that drains. A signal wakes all sleeping
/// owners, since any of them may be slow. A woken owner should drain until there is nothing; otherwise other owners may sleep on although
/// there are entries. When the last owner is dropped, so are the entries; submitted items run all the same, and their results are dropped.
///
/// **Fork.** In a child process an inherited queue is closed: it takes no posts and no items, and nothing is drained from it.
///
/// **Memory.** Each entry is a block of its own, which is reused. Without a [capacity](CompletionQueueBuilder::capacity) the number of
/// entries is that of the items submitted and not drained.
pub struct CompletionQueue<T> {
    pub(in crate::workqueue) inner: Arc<CompletionQueueState<T>>,
    /// Closed with the last owner.
    bell: Option<Arc<Bell>>,
    /// Whether this owner has armed and has not drained since.
    armed: AtomicBool,
    /// Unique among the owners of all queues.
    number: u64,
}

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The spin budget of this thread for waits for an entry.
    static SPIN_BUDGET: SpinBudget = const { SpinBudget::new() };
}

/// How long an item of the queue sleeps before it looks again whether another one can still post.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

impl<T> CompletionQueueBuilder<T> {
    /// Makes the queue.
    /// ```
    /// let done = cmwq::CompletionQueue::<u64>::builder().capacity(64).eventfd().build()?;
    /// assert!(done.fd().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The eventfd cannot be created. Only for a queue with an eventfd.
    pub fn build(self) -> io::Result<CompletionQueue<T>> {
        let bell = self.eventfd.then(Bell::new).transpose()?;
        let ringer = bell.as_ref().map(Bell::ringer);
        let inner = Arc::new(CompletionQueueState::new(ringer, self.capacity));
        Ok(CompletionQueue::new_owner(inner, bell.map(Arc::new)))
    }
}

impl<T> CompletionQueue<T> {
    pub(in crate::workqueue) fn new_owner(
        inner: Arc<CompletionQueueState<T>>,
        bell: Option<Arc<Bell>>,
    ) -> Self {
        CompletionQueue {
            inner,
            bell,
            armed: AtomicBool::new(false),
            // Relaxed: only uniqueness matters.
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Makes a completion queue without an eventfd, and without a limit.
    ///
    /// ```
    /// use cmwq::{CompletionQueue, Workqueue};
    ///
    /// let queue = Workqueue::builder("io").build()?;
    /// let done = CompletionQueue::new();
    /// done.submit(&queue, 7, || "result")?;
    /// let mut entries = Vec::new();
    /// done.wait(16, &mut entries);
    /// assert_eq!(entries[0].token, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new() -> Self {
        Self::new_owner(Arc::new(CompletionQueueState::new(None, None)), None)
    }

    /// Begins a completion queue with a limit, or with an eventfd.
    ///
    /// ```
    /// let done = cmwq::CompletionQueue::<()>::builder().eventfd().build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> CompletionQueueBuilder<T> {
        CompletionQueueBuilder::new()
    }

    /// Returns a handle that posts entries to this queue, from any thread.
    ///
    /// ```
    /// let done = cmwq::CompletionQueue::new();
    /// let poster = done.poster();
    /// std::thread::spawn(move || poster.post(1, "from any thread")).join().unwrap()?;
    /// assert_eq!(done.try_next().map(|entry| entry.token), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn poster(&self) -> Poster<T> {
        Poster::of(&self.inner)
    }

    /// Posts an entry, as [`Poster::post`] does.
    ///
    /// ```
    /// let done = cmwq::CompletionQueue::new();
    /// done.post(1, "from the owner itself")?;
    /// assert!(done.try_next().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Poster::post`].
    pub fn post(&self, token: u64, value: T) -> Result<(), NotPosted<T>> {
        self.inner.post_value(token, value)
    }

    /// The eventfd, if the queue was [built](CompletionQueueBuilder::eventfd) with one. It is readable when there are entries and an owner
    /// has [armed](Self::arm). It may be watched level-triggered or edge-triggered, and need not be read: [`drain`](Self::drain) does that.
    /// It is closed with the last owner; a duplicate of the descriptor may be kept longer.
    ///
    /// ```
    /// let done = cmwq::CompletionQueue::<()>::builder().eventfd().build()?;
    /// let eventfd = done.fd().expect("it was asked for"); // for epoll, poll and the like
    /// assert!(cmwq::CompletionQueue::<()>::new().fd().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(not(cmwq_loom))]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.bell.as_deref().map(Bell::as_fd)
    }

    #[cfg(all(test, cmwq_loom))]
    pub(crate) fn bell(&self) -> &Bell {
        self.bell.as_deref().expect("models have one")
    }

    /// Prepares the owner's sleep: the next entry that is posted makes the eventfd readable.
    /// `false`: there are entries to drain, and nothing was changed. Holds until this owner drains.
    ///
    /// Call it each time before the owner sleeps on the eventfd; an entry that is posted to a queue which was not armed wakes no owner.
    ///
    /// ```
    /// let done = cmwq::CompletionQueue::builder().eventfd().build()?;
    /// done.post(1, "an entry")?;
    /// assert!(!done.arm()); // do not sleep: drain first
    /// done.drain(16, &mut Vec::new());
    /// assert!(done.arm()); // now wait until the eventfd is readable
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// The queue has no eventfd.
    #[must_use = "an owner that sleeps although it was not armed may miss entries"]
    pub fn arm(&self) -> bool {
        assert!(
            self.bell.is_some(),
            "a completion queue without an eventfd cannot be armed"
        );
        // Publishes the thread's own unpublished spawns: the caller may be about to wait for them.
        spawn_history::let_go();
        pool::wait_begins();
        if self.inner.is_inherited() {
            return true;
        }
        let mut owners = self.inner.owners.lock();
        if !owners.ready.is_empty() || !self.inner.posts.arm(FD) {
            return false;
        }
        if !self.armed.swap(true, Ordering::Relaxed) {
            owners.armed += 1;
        }
        true
    }

    /// Takes the entries that are there: appends up to `max` of them to `entries`, oldest first,
    /// and returns how many. Does not wait. Afterwards this owner is not armed.
    ///
    /// ```
    /// let done = cmwq::CompletionQueue::new();
    /// (0..3).try_for_each(|token| done.post(token, "an entry"))?;
    /// let mut entries = Vec::new();
    /// assert_eq!(done.drain(16, &mut entries), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain(&self, max: usize, entries: &mut Vec<Completed<T>>) -> usize {
        if self.inner.is_inherited() {
            return 0;
        }
        let was_armed = self.armed.load(Ordering::Relaxed);
        let mut owners = self.inner.owners.lock();
        if was_armed {
            self.step_down(&mut owners);
        }
        let drained = self.take(&mut owners, max, entries);
        if owners.armed > 0 {
            self.leave_to_others(&owners);
        } else if was_armed {
            // This owner is awake: without entries, posters need not signal.
            self.inner.posts.disarm(FD);
        }
        drop(owners);
        self.inner.release(drained);
        drained
    }

    /// Takes the oldest entry, if there is one.
    ///
    /// ```
    /// let done = cmwq::CompletionQueue::new();
    /// done.post(1, "an entry")?;
    /// assert_eq!(done.try_next().map(|entry| entry.token), Some(1));
    /// assert!(done.try_next().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_next(&self) -> Option<Completed<T>> {
        let mut entry = Vec::with_capacity(1);
        self.drain(1, &mut entry);
        entry.pop()
    }

    /// Disarms this owner.
    fn step_down(&self, owners: &mut Owners<T>) {
        if self.armed.swap(false, Ordering::Relaxed) {
            owners.armed -= 1;
        }
        if let Some(bell) = &self.bell {
            // Before entries are taken: a later signal must stay readable.
            bell.clear();
        }
    }

    fn take(&self, owners: &mut Owners<T>, max: usize, entries: &mut Vec<Completed<T>>) -> usize {
        let before = entries.len();
        let old = owners.ready.len().min(max);
        entries.extend(owners.ready.drain(..old));
        if old < max && self.inner.posts.has_entries() {
            let mut taken = self.inner.posts.take();
            entries.extend(taken.by_ref().take(max - old));
            owners.ready.extend(taken);
        }
        entries.len() - before
    }

    /// Arms again or signals for the other armed owners: this owner may have taken their entries or their signal.
    fn leave_to_others(&self, owners: &Owners<T>) {
        if (!owners.ready.is_empty() || !self.inner.posts.arm(FD))
            && let Some(ringer) = &self.inner.ringer
        {
            ringer.ring();
        }
    }

    /// Waits for the first entry, and takes up to `max` as [`drain`](Self::drain) does. It spins
    /// for as long as that has paid off lately, then sleeps. On a worker this counts as blocking:
    /// the pool runs another worker instead.
    ///
    /// Returns 0 only if `max` is 0, in a child of `fork`, or, with a warning, if the wait would
    /// never end: in an item, when all that could still post here are that item and items that wait
    /// for its place (in an ordered workqueue, `max_active` or a group), and there is no other
    /// owner or poster. (A thread that posts through a mere reference to this owner is not known:
    /// give it a clone, or a poster.)
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let done = cmwq::CompletionQueue::new();
    /// done.submit(&queue, 1, || "an entry")?;
    /// let mut entries = Vec::new();
    /// assert_eq!(done.wait(16, &mut entries), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait(&self, max: usize, entries: &mut Vec<Completed<T>>) -> usize {
        self.wait_until(max, entries, None)
    }

    /// Waits as [`wait`](Self::wait) does, for at most `timeout`. 0: there was no entry, or it
    /// would wait for itself.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let done = cmwq::CompletionQueue::<()>::new();
    /// assert_eq!(done.wait_timeout(16, &mut Vec::new(), Duration::from_millis(1)), 0);
    /// ```
    pub fn wait_timeout(
        &self,
        max: usize,
        entries: &mut Vec<Completed<T>>,
        timeout: Duration,
    ) -> usize {
        self.wait_until(max, entries, Some(clock::deadline_after(timeout)))
    }

    fn wait_until(
        &self,
        max: usize,
        entries: &mut Vec<Completed<T>>,
        deadline_ns: Option<u64>,
    ) -> usize {
        let drained = self.drain(max, entries);
        if drained > 0 || max == 0 || self.inner.is_inherited() {
            return drained;
        }
        spawn_history::let_go();
        pool::wait_begins();
        // Where items wait for CPUs, a spinning thread would take one from them.
        if !pool::has_backlog() {
            let has_some = || self.inner.posts.has_entries();
            SPIN_BUDGET.with(|budget| budget.wait_until(deadline_ns, has_some));
        }
        let mut blocked = None;
        loop {
            // Before entries are looked for: the last poster may have posted one and gone.
            let outlook = self.inner.outlook();
            let drained = self.drain(max, entries);
            let left_ns = deadline_ns.map(|deadline| deadline.saturating_sub(clock::now_ns()));
            if drained > 0 || left_ns == Some(0) {
                return drained;
            }
            if outlook == Outlook::Never {
                warn_once!(
                    "an item waits for its own entry in a completion queue, or for that of an item which waits for its place: it would never come"
                );
                return 0;
            }
            blocked.get_or_insert_with(BlockGuard::enter);
            let left = left_ns.map(Duration::from_nanos);
            // A poster that goes away does not wake the caller.
            self.sleep(match outlook {
                Outlook::MayChange => Some(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN))),
                _ => left,
            });
        }
    }

    /// Sleeps until an entry is posted, unless there is one.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        let inner = &*self.inner;
        // Acquire: with the entry of the poster that raised it. Before arming: the poster raises it after it has taken the mark.
        let epoch = inner.epoch.load(Ordering::Acquire);
        {
            let mut owners = inner.owners.lock();
            if !owners.ready.is_empty() || !inner.posts.arm(THREAD) {
                return;
            }
            owners.sleeping += 1;
        }
        park::wait_on(&inner.epoch, epoch, timeout);
        let mut owners = inner.owners.lock();
        owners.sleeping -= 1;
        if owners.sleeping == 0 && inner.tasks.lock().is_empty() {
            // The timeout has passed, or the wake-up was spurious.
            inner.posts.disarm(THREAD);
        }
    }
}

impl<T> Default for CompletionQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Another owner.
impl<T> Clone for CompletionQueue<T> {
    fn clone(&self) -> Self {
        // Relaxed: this handle keeps the queue open.
        self.inner.handles.fetch_add(1, Ordering::Relaxed);
        Self::new_owner(self.inner.clone(), self.bell.clone())
    }
}

impl<T> Drop for CompletionQueue<T> {
    fn drop(&mut self) {
        if self.inner.is_inherited() {
            return;
        }
        // AcqRel: all use by other owners comes before the close.
        let last = self.inner.handles.fetch_sub(1, Ordering::AcqRel) == 1;
        drop(self.inner.set_task(self.number, None));
        let mut owners = self.inner.owners.lock();
        if last {
            let ready = std::mem::take(&mut owners.ready);
            drop(owners);
            // Dropped after the lock was released and the queue closed, because dropping runs
            // foreign code. Each entry is dropped, even if others panic.
            let posted = self.inner.posts.close();
            let entries = ready.into_iter().chain(posted);
            let mut panics = entries.filter_map(|entry| foreign::run(|| drop(entry)).err());
            let first = panics.next();
            panics.for_each(dispose);
            // The owner drops its own results. But a second panic would end the process.
            match first {
                Some(payload) if std::thread::panicking() => dispose(payload),
                Some(payload) => resume_unwind(payload),
                None => {}
            }
        } else if *self.armed.get_mut() {
            self.step_down(&mut owners);
            match owners.armed > 0 {
                true => self.leave_to_others(&owners),
                false => self.inner.posts.disarm(FD),
            }
        }
    }
}

impl<T> fmt::Debug for CompletionQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue")
            .field("eventfd", &self.bell.is_some())
            .field("capacity", &self.inner.capacity)
            .finish_non_exhaustive()
    }
}
