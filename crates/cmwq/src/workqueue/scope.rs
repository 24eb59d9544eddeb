//! Scopes: items that borrow from the thread that waits for them, and a parallel loop on top of them.

use super::parts::attrs::WQ_MAX_ACTIVE;
use super::queue::Workqueue;
use crate::pool::Waiter;
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicUsize;
use crate::sys::sync::Mutex;
use crate::trace::{dispose, foreign};
use crate::workqueue::task::join::JoinHandle;
use crate::workqueue::task::join_error::JoinError;
use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{Location, resume_unwind};

/// Runs items that borrow from the calling function. `f` may [spawn](Scope::spawn) items on `queue`
/// that borrow what outlives the call, as [`std::thread::scope`] allows with threads; the call
/// returns when all of them have ended.
///
/// While the calling thread waits, it runs items of the scope that no worker has begun (caller-runs
/// join) instead of sleeping. On a worker the wait counts as blocking. So scopes nest: an item may
/// open another scope, on any queue whose `max_active` has room for the items that it waits for.
/// Some items of a scope can begin only when the item that has opened the scope ends: both belong
/// to one ordered queue, or items that the calling thread runs use up the limit. Such an item of
/// the scope is dropped without running, and that is an error.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// let (mut left, mut right) = (vec![3, 1, 2], vec![6, 5, 4]);
/// cmwq::scope(&queue, |s| {
///     s.spawn(|| left.sort());
///     s.spawn(|| right.sort());
/// });
/// left.append(&mut right);
/// assert_eq!(left, [1, 2, 3, 4, 5, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// Panics if `f` or an item panics, after all items have ended, with the payload of `f` or else of
/// one of the items. Also panics if the queue refused an item, because it is draining or belongs to
/// the parent of a fork, or if an item [waited for the caller's own end](JoinError::OwnItem).
pub fn scope<'env, F, R>(queue: &'env Workqueue, f: F) -> R
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    run_scope(queue, true, f)
}

/// Runs a scope as [`scope`] does. Without `all` it is no error if the queue refuses an item, and
/// items that no worker has begun when `f` ends are aborted.
fn run_scope<'env, F, R>(queue: &'env Workqueue, all: bool, f: F) -> R
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
{
    let scope = Scope {
        queue,
        handles: Mutex::new(Vec::new()),
        scope: PhantomData,
        env: PhantomData,
    };
    let result = foreign::run(|| f(&scope));
    // The items are joined in any case, because they borrow from here.
    let panicked = scope.join_all(all);
    match (result, panicked) {
        (Ok(result), None) => result,
        (Ok(result), Some(payload)) => {
            // The result is not dropped while the panic unwinds, because a second panic would end
            // the process.
            dispose(result);
            resume_unwind(payload)
        }
        (Err(payload), another) => {
            dispose(another);
            resume_unwind(payload)
        }
    }
}

/// Spawns the items of a [`scope()`], which may borrow.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// let numbers = [1, 2, 3];
/// cmwq::scope(&queue, |s| {
///     for number in &numbers {
///         s.spawn(move || println!("{number}")); // borrows `numbers`
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    queue: &'env Workqueue,
    handles: Mutex<Vec<JoinHandle<()>>>,
    /// Makes the type invariant in both lifetimes, as in the standard library.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope> Scope<'scope, '_> {
    /// Runs a closure as an item of the scope. Items of the scope may call this as well.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let mut total = 0;
    /// cmwq::scope(&queue, |s| s.spawn(|| total += 1));
    /// assert_eq!(total, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn spawn<F: FnOnce() + Send + 'scope>(&'scope self, func: F) {
        self.spawn_named::<F, F>(Location::caller(), func);
    }

    /// Spawns as [`spawn`](Self::spawn) does. Tools name the item by the type `N` and this place.
    fn spawn_named<N, F: FnOnce() + Send + 'scope>(
        &'scope self,
        place: &'static Location<'static>,
        func: F,
    ) {
        // The scope gets the handle before the queue gets the item. So the scope waits for the
        // item, whatever happens after that.
        let hold = |handle| self.handles.lock().push(handle);
        // SAFETY: `scope` joins the handle before it returns or unwinds, and values that live for
        // 'scope exist until then. The handle is never given away.
        unsafe { self.queue.spawn_within::<N, F>(func, place, hold) };
    }

    /// Waits for all items, including those that items spawn meanwhile. It does not unwind. Returns
    /// the payload of the first panic that it found.
    fn join_all(&self, all: bool) -> Option<Box<dyn Any + Send>> {
        let mut panicked = None;
        let mut waiter = Waiter::default();
        loop {
            // The newest item comes first, since it is the one that workers reach last.
            let Some(handle) = self.handles.lock().pop() else {
                return panicked;
            };
            if !all {
                // The item might not begin for a long time, for example if the queue is frozen.
                handle.abort();
            }
            let failed: Box<dyn Any + Send> = match handle.join_by(Some(&mut waiter)) {
                Ok(()) => continue,
                Err(JoinError::Panicked(payload)) => payload.into_inner(),
                Err(error) if all => Box::new(error.to_string()),
                Err(_) => continue,
            };
            if panicked.is_none() {
                panicked = Some(failed);
                continue;
            }
            // The payload is dropped now, since an item of the scope may wait for something that
            // its destructor does. The item that this thread ran last is completed before, since
            // the destructor may wait for that item.
            waiter.settle();
            dispose(failed);
        }
    }
}

impl std::fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

/// Says how [`Workqueue::for_each_chunk`] cuts its range.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// use cmwq::types::Chunks;
///
/// let chunks = Chunks { min_chunk: 1000, max_threads: 4 };
/// queue.for_each_chunk(0..100_000, chunks, |range| assert!(!range.is_empty()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// The smallest length of a chunk, at least 1. Only the last chunk may be smaller.
    pub min_chunk: usize,
    /// How many threads, including the calling one, may work on the range at the same time; at most
    /// [`WQ_MAX_ACTIVE`]. 0 stands for the number of CPUs that the process may use.
    pub max_threads: usize,
}

impl Default for Chunks {
    fn default() -> Self {
        Chunks {
            min_chunk: 1,
            max_threads: 0,
        }
    }
}

/// A range from which several threads take chunks.
struct Taker {
    next: AtomicUsize,
    end: usize,
    min_chunk: usize,
    threads: usize,
}

impl Taker {
    /// Takes the next chunk. It is a share of what is left of the range, so that all threads end at
    /// about the same time.
    fn take(&self) -> Option<Range<usize>> {
        let mut start = self.next.load(Ordering::Relaxed);
        loop {
            let left = self.end.saturating_sub(start);
            if left == 0 {
                return None;
            }
            let share = left / (4 * self.threads);
            let end = start + share.max(self.min_chunk).min(left);
            // Relaxed is enough, because this only hands out numbers. The thread that joins the
            // items sees what the chunks did.
            let taken =
                self.next
                    .compare_exchange_weak(start, end, Ordering::Relaxed, Ordering::Relaxed);
            match taken {
                Ok(_) => return Some(start..end),
                Err(now) => start = now,
            }
        }
    }
}

impl Workqueue {
    /// A parallel loop: calls `f` for chunks that make up `range`, on the calling thread and on
    /// workers near it, and returns when all chunks are done. The chunks are large at first and
    /// smaller towards the end. The kernel has the same in its multithreaded padata jobs.
    ///
    /// ```
    /// # use cmwq::types::Chunks;
    /// # use std::sync::atomic::{AtomicU64, Ordering};
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let sum = AtomicU64::new(0);
    /// let chunks = Chunks { min_chunk: 1024, ..Chunks::default() };
    /// queue.for_each_chunk(0..1_000_000, chunks, |chunk| {
    ///     sum.fetch_add(chunk.map(|n| n as u64).sum(), Ordering::Relaxed);
    /// });
    /// assert_eq!(sum.into_inner(), 499_999_500_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Panics as [`scope`] does. But if the queue accepts no items, the calling thread works on the
    /// whole range.
    #[track_caller]
    pub fn for_each_chunk<F>(&self, range: Range<usize>, chunks: Chunks, f: F)
    where
        F: Fn(Range<usize>) + Sync,
    {
        let len = range.len();
        let min_chunk = chunks.min_chunk.max(1);
        let most = match chunks.max_threads {
            0 => self.core.engine.topology().allowed().len(),
            most => most,
        };
        let threads = most.min(len.div_ceil(min_chunk)).clamp(1, WQ_MAX_ACTIVE);
        let taker = Taker {
            next: AtomicUsize::new(range.start),
            end: range.end.max(range.start),
            min_chunk,
            threads,
        };
        let work = || {
            while let Some(chunk) = taker.take() {
                f(chunk);
            }
        };
        if threads == 1 {
            return work();
        }
        let place = Location::caller();
        // If an item is refused, the calling thread does its share.
        run_scope(self, false, |s| {
            for _ in 1..threads {
                s.spawn_named::<F, _>(place, work);
            }
            work();
        });
    }
}
