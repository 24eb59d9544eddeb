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
/// Items are [submitted](Self::submit) to a workqueue with a token, and post what they return with
/// that token. The owner [drains](Self::drain) the entries in batches. It may sleep in
/// [`wait`](Self::wait), or in epoll, poll, tokio's `AsyncFd` or libuv's `uv_poll` on an eventfd
/// that becomes readable when there are entries:
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
/// **System calls.** Posting makes no system call while the owner is awake or has not armed. The
/// first post after an arming makes the eventfd readable; later posts make no call. If the pool has
/// a backlog, a worker signals a little later, so that the owner finds several entries. It waits
/// for about as long as an item that is queued now would wait for its start, at most 500 µs. If all
/// workers are in longer items by then, it is some milliseconds. Draining makes no call, except for
/// one read of the eventfd after it was readable.
///
/// **Order.** Entries are drained in the order in which they were posted, which is the order in
/// which the items ended. An item posts its entry before it counts as ended. So a flush that has
/// returned finds all entries of the items that it waited for, but a drained entry may belong to an
/// item that is still about to end.
///
/// **Owners.** A clone is another owner. Each entry goes to one owner: the oldest entry to the
/// owner that drains first. A signal wakes all sleeping owners, since any of them may be slow. A
/// woken owner should drain until there is no entry left; otherwise other owners may sleep on
/// although there are entries. When the last owner is dropped, the entries are dropped as well.
/// Items that were submitted run all the same, and their results are dropped.
///
/// **Fork.** In a child process an inherited queue is closed: it takes no posts and no items, and
/// nothing is drained from it.
///
/// **Memory.** Each entry is a block of its own, which is reused. Without a
/// [capacity](CompletionQueueBuilder::capacity) the number of entries is that of the items
/// submitted and not drained.
pub struct CompletionQueue<T> {
    pub(in crate::workqueue) inner: Arc<CompletionQueueState<T>>,
    /// The eventfd, which is closed with the last owner.
    bell: Option<Arc<Bell>>,
    /// Whether this owner has armed and has not drained since.
    armed: AtomicBool,
    /// The number of this owner. No other owner of any queue has or had the same.
    number: u64,
}

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// How long this thread spins for an entry before it sleeps, which follows from how its last
    /// waits went.
    static SPIN_BUDGET: SpinBudget = const { SpinBudget::new() };
}

/// How long an item that waits for an entry sleeps before it checks again whether another one can
/// still post.
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
    /// The error of the system if the eventfd cannot be created. A queue without an eventfd never
    /// fails.
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
            // Relaxed is enough: the numbers only have to be unique.
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

    /// Returns the eventfd, if the queue was [built](CompletionQueueBuilder::eventfd) with one. It
    /// is readable when there are entries and an owner has [armed](Self::arm). A program may watch
    /// it level-triggered or edge-triggered and need not read it, since [`drain`](Self::drain) does
    /// that. It is closed with the last owner. A duplicate of the descriptor may be kept longer.
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

    /// Prepares the sleep of this owner: the next entry that is posted makes the eventfd readable.
    /// That holds until this owner drains. `false`: there are entries to drain, and nothing was
    /// changed.
    ///
    /// Call this each time before the owner sleeps on the eventfd: an entry that is posted while no
    /// owner has armed wakes no owner.
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
        // The thread may have spawned items that are not published yet. It may be about to wait for
        // them, so they are published here.
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
            // This owner is awake, so posters need not signal as long as there are no entries.
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
            // The eventfd is read before the entries are taken, so that it stays readable for an
            // entry that is posted later.
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

    /// Arms again, or signals, on behalf of the other armed owners: this owner may have taken their
    /// entries or their signal.
    fn leave_to_others(&self, owners: &Owners<T>) {
        if (!owners.ready.is_empty() || !self.inner.posts.arm(FD))
            && let Some(ringer) = &self.inner.ringer
        {
            ringer.ring();
        }
    }

    /// Waits for the first entry, and takes up to `max` as [`drain`](Self::drain) does. The thread
    /// spins for as long as spinning has saved it a sleep lately, and then sleeps. On a worker this
    /// counts as blocking: the pool runs another worker instead.
    ///
    /// Returns 0 if `max` is 0 and in a child of `fork`. It also returns 0, with a warning, if the
    /// wait would never end. That is so in an item if nothing can post here but that item itself
    /// and items that wait for its place (in an ordered workqueue, in `max_active` or in a group),
    /// and if there is no other owner or poster. (The library does not know of a thread that posts
    /// through a mere reference to this owner: give such a thread a clone or a poster.)
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

    /// Waits as [`wait`](Self::wait) does, for at most `timeout`. It returns 0 if no entry came in
    /// that time, or if the caller would wait for itself.
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
        // If items wait for CPUs, a spinning thread would take a CPU from them.
        if !pool::has_backlog() {
            let has_some = || self.inner.posts.has_entries();
            SPIN_BUDGET.with(|budget| budget.wait_until(deadline_ns, has_some));
        }
        let mut blocked = None;
        loop {
            // This is asked before the thread looks for entries: the last poster may post its entry
            // and go away in between.
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
            // If a poster goes away, that does not wake the caller, so the caller checks again now
            // and then.
            self.sleep(match outlook {
                Outlook::MayChange => Some(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN))),
                _ => left,
            });
        }
    }

    /// Sleeps until an entry is posted. If there is an entry already, it returns at once.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        let inner = &*self.inner;
        // Acquire: the entry of the poster that raised the epoch is visible. The epoch is read
        // before the owner arms, because a poster raises it after it has taken the mark.
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
            // The timeout has passed, or the thread was woken without a reason.
            inner.posts.disarm(THREAD);
        }
    }
}

impl<T> Default for CompletionQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes another owner of the same queue.
impl<T> Clone for CompletionQueue<T> {
    fn clone(&self) -> Self {
        // Relaxed is enough: the handle that is cloned keeps the queue open.
        self.inner.handles.fetch_add(1, Ordering::Relaxed);
        Self::new_owner(self.inner.clone(), self.bell.clone())
    }
}

impl<T> Drop for CompletionQueue<T> {
    fn drop(&mut self) {
        if self.inner.is_inherited() {
            return;
        }
        // AcqRel: whatever the other owners did comes before the close.
        let last = self.inner.handles.fetch_sub(1, Ordering::AcqRel) == 1;
        drop(self.inner.set_task(self.number, None));
        let mut owners = self.inner.owners.lock();
        if last {
            let ready = std::mem::take(&mut owners.ready);
            drop(owners);
            // The entries are dropped after the lock was released and the queue closed, because
            // their destructors are foreign code. Each entry is dropped, even if the destructors of
            // others panic.
            let posted = self.inner.posts.close();
            let entries = ready.into_iter().chain(posted);
            let mut panics = entries.filter_map(|entry| foreign::run(|| drop(entry)).err());
            let first = panics.next();
            panics.for_each(dispose);
            // The panic of a destructor goes on in the owner, whose results these are. If the
            // thread is unwinding already, a second panic would end the process, so its payload is
            // dropped.
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
