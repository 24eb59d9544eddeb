//! Batch submission: many items for the price of publishing one.
//!
//! The issuer of a batch pins the epoch once, looks up the route to the pool once, and publishes up
//! to [`CHAIN_MOST`] items with one atomic exchange on the pool's inbox. Each item still costs a
//! claim of its PENDING bit, and a prefetch of its memory some items earlier. In all other respects
//! the items behave as if they were queued one after the other: in their order, in the flush colour
//! under which they are counted, in `max_active`, and in that no item runs twice at the same time.

use super::parts::core::pool_of_process;
use super::queue::Workqueue;
use super::task::queued::Queued;
use crate::engine::{Queue, epochs};
use crate::error::Refused;
use crate::item::closure::{self, Small};
use crate::item::{Pending, RawWork, TOO_MANY, Unclaimed, Work};
use crate::pool::spawn_history;
use crate::sys::epoch::EpochPin;
use crate::sys::{names, probe};
use crate::trace::foreign;
use crate::workqueue::parts::core::WqCore;
use crate::workqueue::parts::pwq::Pwq;
use crate::workqueue::task::join::{JoinHandle, JoinableTask};
use std::fmt;
use std::panic::Location;
use std::ptr::NonNull;

/// The largest number of items that one exchange publishes. The first items of a larger batch begin
/// before the issuer has claimed the last.
const CHAIN_MOST: usize = if cfg!(cmwq_loom) { 4 } else { 128 };
/// The prefetch distance: the issuer prefetches the memory of an item this many items before it
/// claims the item.
const AHEAD: usize = 8;

/// Says which items of a [batch](Workqueue::queue_batch) were accepted.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// let works = [(); 3].map(|()| cmwq::Work::new(|| ()));
/// let result = queue.queue_batch(&works);
/// assert_eq!(result.accepted() + result.not_accepted().len(), 3);
/// queue.flush()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "items that were not accepted will not run for this call"]
pub struct BatchQueued {
    accepted: usize,
    rest: Vec<(usize, Queued)>,
}

impl BatchQueued {
    /// How many items of the batch were accepted.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let works = [(); 3].map(|()| cmwq::Work::new(|| ()));
    /// assert_eq!(queue.queue_batch(&works).accepted(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn accepted(&self) -> usize {
        self.accepted
    }

    /// The items that were not accepted: their indices in the batch, ascending, each with the
    /// reason.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let work = cmwq::Work::new(|| ());
    /// let paused = work.disable();
    /// for (index, why) in queue.queue_batch(&[work.clone()]).not_accepted() {
    ///     println!("item {index}: {why}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn not_accepted(&self) -> &[(usize, Queued)] {
        &self.rest
    }

    /// Says whether all items of the batch were accepted.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// assert!(queue.queue_batch(&[cmwq::Work::new(|| ())]).is_complete());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_complete(&self) -> bool {
        self.rest.is_empty()
    }

    fn note(&mut self, index: usize, queued: Queued) {
        match queued {
            Queued::Accepted => self.accepted += 1,
            why => self.rest.push((index, why)),
        }
    }
}

/// The error of a [batch](Workqueue::execute_batch) of closures of which not all were accepted.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// match queue.execute_batch((0..3).map(|n| move || println!("{n}"))) {
///     Ok(accepted) => assert_eq!(accepted, 3),
///     Err(refused) => eprintln!("{refused}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchRefused {
    /// How many were accepted; they precede those that were not.
    pub accepted: usize,
    /// Why the queue did not accept the others.
    pub why: Refused,
}

impl fmt::Display for BatchRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BatchRefused { accepted, why } = self;
        write!(f, "{why} ({accepted} closures were accepted before)")
    }
}

impl std::error::Error for BatchRefused {}

impl WqCore {
    /// Looks up the destination of all the items that the calling thread is about to queue, and
    /// calls `publish` with it. `false`, which `publish` may return as well, means that nothing was
    /// published and that the caller has to queue the items one by one.
    fn with_batch_route(&self, publish: impl FnOnce(&Pwq, &EpochPin<'_>) -> bool) -> bool {
        // Tracing reports each item, and an item whose times are measured is published by itself,
        // so both need the items to be queued one by one.
        if probe::switch() != 0 || self.sampler.is_due() {
            return false;
        }
        spawn_history::let_go();
        let issuer = self.issuer();
        let pin = epochs().pin(issuer.cpu);
        match self.route_in_batch(&pin, issuer) {
            Ok(Some((pwq, _))) => publish(pwq, &pin),
            // If the batch is refused, the items are queued one by one, and each call reports why
            // its item was refused.
            Ok(None) | Err(_) => false,
        }
    }

    /// Publishes up to [`CHAIN_MOST`] items with one exchange. It calls `claim` for the indices 0
    /// to `count` - 1 in turn, and `claim` keeps the items that it cannot claim. `false`: nothing
    /// was claimed, and the caller has to queue the items one by one.
    fn publish_chain_of(
        &self,
        count: usize,
        prefetch: impl Fn(usize),
        mut claim: impl FnMut(usize) -> Option<Pending>,
    ) -> bool {
        let (ordered, front) = (self.ordered(), self.id());
        let add_all = |pwq: &Pwq, pin: &EpochPin<'_>| {
            pwq.publish_batch(|batch| {
                (0..AHEAD.min(count)).for_each(&prefetch);
                for index in 0..count {
                    if index + AHEAD < count {
                        prefetch(index + AHEAD);
                    }
                    if let Some(item) = claim(index) {
                        pwq.add_to_batch(batch, item, front, |pool| {
                            (!ordered).then(|| pool_of_process(pool, pin)).flatten()
                        });
                    }
                }
            });
            true
        };
        count > 1 && self.with_batch_route(add_all)
    }

    /// Publishes small closures in chunks (blocks that hold many closures), which leaves `funcs`
    /// empty. `false`: the caller has to queue them as items.
    fn publish_closures<F: FnOnce() + Send + 'static>(&self, funcs: &mut Vec<F>) -> bool {
        if !Small::fits::<F>() || funcs.len() < 2 {
            return false;
        }
        self.with_batch_route(|pwq, _| {
            pwq.publish_closures(|add| {
                for func in funcs.drain(..) {
                    if let Ok(small) = Small::of(func) {
                        add(small);
                    }
                }
            })
        })
    }
}

impl Workqueue {
    /// Queues many reusable items, in this order, as [`queue`](Self::queue) does with a single one,
    /// and returns which were accepted. Up to 128 items at a time share the cost of one publish,
    /// and wake at most one worker; workers wake further ones as long as there are items and CPUs.
    ///
    /// Every guarantee of single items holds: an item that is pending already stays as it is and
    /// sees what the caller stored before; `max_active` and the order of an ordered queue are kept;
    /// and a flush that begins after this call waits for all the items. A drain that begins during
    /// the call may cut the batch in two: then the queue [refuses](Queued::Refused) all items from
    /// some index on.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let works: Vec<_> = (0..64).map(|n| cmwq::Work::new(move || drop(n))).collect();
    /// assert!(queue.queue_batch(&works).is_complete());
    /// queue.flush()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn queue_batch(&self, works: &[Work]) -> BatchQueued {
        let prefetch = |work: &Work| RawWork::prefetch(work.as_raw().address());
        self.queue_all(works, prefetch, Work::claim, |work, item| {
            let result = self.core.queue(None, item);
            if result.is_err() {
                work.unlend();
            }
            result.into()
        })
    }

    /// Queues many items as [`queue_batch`](Self::queue_batch) does, in memory of the caller.
    ///
    /// # Safety
    /// As for [`queue_raw`](Self::queue_raw), for each of them.
    pub unsafe fn queue_raw_batch(&self, items: &[NonNull<RawWork>]) -> BatchQueued {
        let prefetch = |item: &NonNull<RawWork>| RawWork::prefetch(item.addr().get());
        // SAFETY: by the caller's promise.
        let claim = |item: &NonNull<RawWork>| unsafe { Pending::claim(*item) };
        self.queue_all(items, prefetch, claim, |_, item| {
            self.core.queue(None, item).into()
        })
    }

    /// Queues all of `items`, each of which `claim` claims: up to [`CHAIN_MOST`] at once or, if
    /// that is not possible, one by one with `queue`.
    fn queue_all<I>(
        &self,
        items: &[I],
        prefetch: impl Fn(&I),
        claim: impl Fn(&I) -> Result<Pending, Unclaimed>,
        queue: impl Fn(&I, Pending) -> Queued,
    ) -> BatchQueued {
        let mut outcome = BatchQueued::default();
        for (number, chunk) in items.chunks(CHAIN_MOST).enumerate() {
            let (first, mut too_many) = (number * CHAIN_MOST, false);
            let mut not_claimed = Vec::new();
            let mut claim = |index: usize| match claim(&chunk[index]) {
                Ok(item) => Some(item),
                Err(Unclaimed::TooMany) => {
                    // The panic comes later: here the items before this one are claimed and not
                    // published yet.
                    too_many = true;
                    None
                }
                Err(why_not) => {
                    not_claimed.push((first + index, why_not.into()));
                    None
                }
            };
            let prefetch = |index: usize| prefetch(&chunk[index]);
            let mut claimed = 0;
            let claim_and_count = |index: usize| claim(index).inspect(|_| claimed += 1);
            if self
                .core
                .publish_chain_of(chunk.len(), prefetch, claim_and_count)
            {
                outcome.accepted += claimed;
            } else {
                for (index, own) in chunk.iter().enumerate() {
                    if let Some(item) = claim(index) {
                        outcome.note(first + index, queue(own, item));
                    }
                }
            }
            outcome.rest.append(&mut not_claimed);
            // The caller sees the items that were not accepted in the order of the batch, whatever
            // the reason.
            outcome.rest.sort_by_key(|(index, _)| *index);
            assert!(!too_many, "{TOO_MANY}");
        }
        outcome
    }

    /// Runs many closures without handles, as [`execute`](Self::execute) does with a single one. Up
    /// to 128 at a time share the cost of one publish, and closures of up to 24 bytes need no
    /// memory of their own. Returns the number of closures.
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let accepted = queue.execute_batch((0..1000).map(|n| move || drop(n)))?;
    /// assert_eq!(accepted, 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BatchRefused`]: the queue is draining, or it belongs to the parent of a fork. Up to 128
    /// closures that were taken from the iterator have been dropped, and no more were taken.
    #[track_caller]
    pub fn execute_batch<F>(
        &self,
        funcs: impl IntoIterator<Item = F>,
    ) -> Result<usize, BatchRefused>
    where
        F: FnOnce() + Send + 'static,
    {
        // The iterator is fused, because it is asked once more after a chunk that was not full, and
        // such a chunk has met its end.
        let mut funcs = funcs.into_iter().fuse();
        let mut accepted = 0;
        loop {
            let mut chunk = next_chunk(&mut funcs);
            let count = chunk.len();
            let Some(first) = chunk.first() else {
                return Ok(accepted);
            };
            names::note::<F>(closure::function_of(first), Location::caller());
            if self.core.publish_closures(&mut chunk) {
                accepted += count;
            } else {
                self.execute_items(chunk, &mut accepted)?;
            }
        }
    }

    /// Queues closures as items: all at once or, if that is not possible, one by one.
    fn execute_items<F>(&self, mut chunk: Vec<F>, accepted: &mut usize) -> Result<(), BatchRefused>
    where
        F: FnOnce() + Send + 'static,
    {
        if chunk.len() > 1 {
            let raws: Vec<_> = chunk.into_iter().map(closure::into_raw).collect();
            if self.publish_one_shots(&raws) {
                *accepted += raws.len();
                return Ok(());
            }
            // SAFETY: none was published.
            let closure = |raw| unsafe { closure::from_raw::<F>(raw) };
            chunk = raws.into_iter().map(closure).collect();
        }
        let mut chunk = chunk.into_iter();
        while let Some(func) = chunk.next() {
            if let Err(why) = self.core.execute(func) {
                // One by one: if two destructors panic, a vector that is dropped ends the process.
                chunk.for_each(foreign::dispose);
                let accepted = *accepted;
                return Err(BatchRefused { accepted, why });
            }
            *accepted += 1;
        }
        Ok(())
    }

    /// Publishes new items that no other thread knows. `false`: none was published.
    fn publish_one_shots(&self, raws: &[NonNull<RawWork>]) -> bool {
        // The items were written just now, so their memory need not be prefetched.
        self.core.publish_chain_of(
            raws.len(),
            |_| (),
            // SAFETY: new items, which exist until their functions run.
            |index| Some(unsafe { Pending::one_shot(raws[index]) }),
        )
    }

    /// Runs many closures as [`spawn`](Self::spawn) does with a single one, and returns their
    /// handles in the same order. Up to 128 at a time share the cost of one publish. The handle of
    /// a closure that the queue refuses [tells why](crate::JoinError::Refused).
    ///
    /// ```
    /// # let queue = cmwq::Workqueue::builder("doc").build()?;
    /// let mut sum = 0;
    /// for handle in queue.spawn_batch((1..=10).map(|n| move || n * n)) {
    ///     sum += handle.join()?;
    /// }
    /// assert_eq!(sum, 385);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn spawn_batch<F, T>(&self, funcs: impl IntoIterator<Item = F>) -> Vec<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // The iterator is fused, because it is asked once more after a chunk that was not full, and
        // such a chunk has met its end.
        JoinableTask::<F, T>::note_name(Location::caller());
        let mut funcs = funcs.into_iter().fuse();
        let mut handles = Vec::with_capacity(funcs.size_hint().0);
        loop {
            let chunk = next_chunk(&mut funcs);
            if chunk.is_empty() {
                return handles;
            }
            let mut raws = Vec::with_capacity(chunk.len());
            for func in chunk {
                let (task, handle) = JoinableTask::new(func);
                raws.push(JoinableTask::into_raw(task));
                handles.push(handle);
            }
            if self.publish_one_shots(&raws) {
                continue;
            }
            for raw in raws {
                // SAFETY: the reference in `raw` keeps the task alive until its function has taken it over.
                let item = unsafe { Pending::one_shot(raw) };
                if let Err(why) = self.core.queue(None, item) {
                    // SAFETY: the queue did not use the reference.
                    unsafe { JoinableTask::<F, T>::reject(raw, why) };
                }
            }
        }
    }
}

/// Returns the next items of the iterator. This runs code of the caller, so the epoch is not pinned
/// here.
fn next_chunk<F>(funcs: &mut impl Iterator<Item = F>) -> Vec<F> {
    let mut chunk = Vec::with_capacity(funcs.size_hint().0.min(CHAIN_MOST));
    chunk.extend(funcs.take(CHAIN_MOST));
    chunk
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::Engine;
    use crate::item::{Callable, Started};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn one_item_with_too_many_instances_strands_no_other_item_of_its_batch() {
        let engine = Engine::builder().build().unwrap();
        let queue = engine.workqueue("batch").build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let works = [0; 3].map(|_| {
            let ran = ran.clone();
            Work::new(move || {
                ran.fetch_add(1, Ordering::Relaxed);
            })
        });
        let start = |_| works[1].claim().unwrap().start();
        let running: Vec<Started> = (0..4095).map(start).collect();
        let error = catch_unwind(AssertUnwindSafe(|| queue.queue_batch(&works))).unwrap_err();
        assert!(error.downcast_ref::<String>().unwrap().contains("4,095"));
        queue.flush().unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), 2);
        let call = |started: Started| started.call().unwrap();
        running.into_iter().for_each(call);
    }
}
