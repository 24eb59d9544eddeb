//! Handles: workqueues named by a number, for callers without a borrow checker.
//!
//! A handle is the number of a slot and the generation of that slot. The generation grows whenever
//! the slot is filled and whenever it is emptied. So any number can be looked up, even one that was
//! never a handle or whose queue is gone. The look-up reads only the table. It does so with the
//! epoch pinned, which queueing needs anyway: while a reader has the epoch pinned, nothing that it
//! may have found is freed.
//!
//! Before a slot is emptied it gets a generation that no handle has. It is filled again only after
//! a *grace period* that begins later, that is, when all readers that had pinned the epoch by then
//! have unpinned it. So a reader that has found its generation in the slot finds its own queue or
//! none, and never the next one.
//!
//! **Several threads may destroy one handle.** Each thread looks the queue up first, and then
//! claims the destruction. In between, another thread may have destroyed the queue, and a third
//! thread may have filled the slot:
//!
//! ```text
//! thread A              thread B                        thread C
//! get(): generation 1
//!                       get(), claim, end: slot free
//!                                                       new(): generation 3
//! claim
//! ```
//!
//! So the claim names the generation ([`HandleSlot::claim_end`]). Here thread A's claim is refused,
//! because the end of generation 1 was claimed before.

use super::batch::BatchQueued;
use super::queue::Workqueue;
use super::queueing::Admission;
use super::task::queued::Queued;
use crate::engine::{self, epochs};
use crate::error::Error;
use crate::item::{Pending, RawWork};
use crate::pool::{Issuer, claim_and_publish_again, publish_begins, spawn_history};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicBool, AtomicU32, AtomicU64};
use crate::sys::clock;
use crate::sys::epoch::{EpochPin, MaybeShared, Replaced};
use crate::sys::probe::{self, bits};
use crate::trace::latency;
use crossbeam_utils::CachePadded;
use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::sync::Arc;

/// The largest number of queues with handles at the same time.
const SLOTS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 16;

struct HandleSlot {
    /// If it is odd, it is the generation of the current handle. If it is even, no handle has it,
    /// and the slot is empty or is being emptied.
    generation: AtomicU64,
    queue: MaybeShared<Workqueue>,
    /// Whether the slot is filled, or is being filled or emptied.
    in_use: AtomicBool,
    /// The last generation whose end was claimed.
    ended: AtomicU64,
}

impl HandleSlot {
    const fn new() -> Self {
        HandleSlot {
            generation: AtomicU64::new(0),
            queue: MaybeShared::empty(),
            in_use: AtomicBool::new(false),
            ended: AtomicU64::new(0),
        }
    }

    /// Reserves the slot for the caller to [fill](Self::fill).
    fn reserve(&self) -> bool {
        // Relaxed: what is changed next is changed by read-modify-writes.
        !self.in_use.swap(true, Ordering::Relaxed)
    }

    /// Fills the slot. Only the thread that has reserved the slot calls this. Returns the
    /// generation of the new handle.
    fn fill(&self, queue: Arc<Workqueue>) -> u64 {
        // The generation changes before the queue is stored, so a reader that finds the queue has
        // compared its number with this generation.
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        let before = self.queue.fill(queue);
        debug_assert!(before.is_none(), "a slot not in use is empty");
        generation
    }

    #[inline]
    fn has(&self, generation: u64) -> bool {
        self.generation.load(Ordering::Relaxed) == generation
    }

    /// Claims the end of the queue of this generation; the generation of the slot is this one or a
    /// later one. `false`: another thread has claimed it.
    fn claim_end(&self, generation: u64) -> bool {
        // This compares and claims in one step, because the slot may have a later generation by
        // now. A later generation exists only if the end of this one was claimed, and then the
        // stored value does not change.
        self.ended.fetch_max(generation, Ordering::Relaxed) < generation
    }

    /// Empties the slot: from now on no handle names it. Only the thread that has claimed the end
    /// calls this, when the queue has ended.
    fn empty(&self) -> Option<Replaced<Workqueue>> {
        // The generation changes before the grace period begins. A reader that pins the epoch later
        // would otherwise compare its number with the old generation, and might then find the next
        // queue. Relaxed: it reads the epoch after its pin. If the grace period does not wait for that
        // pin, the reader finds the epoch that began with the period, and sees what was done before.
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.queue.take()
    }

    /// Frees the slot. The grace period is over by then.
    fn release(&self) {
        // Relaxed: behind the grace period, which has acquired the end of each reader's pin.
        self.in_use.store(false, Ordering::Relaxed);
    }
}

/// Each item that is queued by a handle reads a slot, so they share no cache line with what the linker
/// puts beside them.
static TABLE: CachePadded<[HandleSlot; SLOTS]> =
    CachePadded::new([const { HandleSlot::new() }; SLOTS]);

/// Names a workqueue by a number that can be copied, kept anywhere, and passed through foreign
/// code. Every use looks the number up. If the queue of the handle was destroyed, or if the number
/// never was a handle, the result is an error and nothing worse.
///
/// ```
/// use cmwq::Workqueue;
/// use cmwq::raw::WorkqueueHandle;
///
/// let handle = WorkqueueHandle::new(Workqueue::builder("plug-in").build()?)?;
/// let number = handle.to_bits(); // through foreign code and back
/// let again = WorkqueueHandle::from_bits(number).expect("not 0");
/// again.get()?.execute(|| println!("an item"))?;
/// again.destroy()?;
/// assert!(handle.get().is_err()); // an error, and nothing worse
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkqueueHandle(NonZeroU64);

/// Says that a [`WorkqueueHandle`] names no workqueue, or no longer does.
///
/// ```
/// use cmwq::Workqueue;
/// use cmwq::raw::{NoSuchWorkqueue, WorkqueueHandle};
///
/// let handle = WorkqueueHandle::new(Workqueue::builder("plug-in").build()?)?;
/// handle.destroy()?;
/// assert_eq!(handle.get().err(), Some(NoSuchWorkqueue));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchWorkqueue;

impl std::fmt::Display for NoSuchWorkqueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Error::NoSuchWorkqueue.fmt(f)
    }
}

impl std::error::Error for NoSuchWorkqueue {}

impl From<NoSuchWorkqueue> for Error {
    fn from(_: NoSuchWorkqueue) -> Self {
        Error::NoSuchWorkqueue
    }
}

impl WorkqueueHandle {
    /// Makes a handle of `queue`. The handle keeps the queue until it is
    /// [destroyed](Self::destroy).
    ///
    /// # Errors
    /// [`Error::TooManyHandles`].
    pub fn new(queue: impl Into<Arc<Workqueue>>) -> Result<Self, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        for _ in 0..SLOTS {
            let index = NEXT.fetch_add(1, Ordering::Relaxed) as usize % SLOTS;
            let slot = &TABLE[index];
            if slot.reserve() {
                let bits = slot.fill(queue.into()) << INDEX_BITS | index as u64;
                return Ok(WorkqueueHandle(
                    NonZeroU64::new(bits).expect("generations begin at 1"),
                ));
            }
        }
        Err(Error::TooManyHandles { most: SLOTS })
    }

    /// Returns the handle as a number, which is never 0.
    pub fn to_bits(self) -> u64 {
        self.0.get()
    }

    /// Makes a handle of a number. `None`: the number is 0. Any other number is looked up when the
    /// handle is used.
    pub fn from_bits(bits: u64) -> Option<Self> {
        NonZeroU64::new(bits).map(WorkqueueHandle)
    }

    #[inline]
    fn slot(self) -> &'static HandleSlot {
        &TABLE[self.0.get() as usize % SLOTS]
    }

    #[inline]
    fn generation(self) -> u64 {
        self.0.get() >> INDEX_BITS
    }

    #[inline]
    fn is_current(self, pin: &EpochPin<'_>) -> bool {
        // Reading the epoch comes before reading the generation: see `HandleSlot::empty`.
        let _ = pin.epoch();
        self.slot().has(self.generation())
    }

    #[inline]
    fn load<'g>(self, pin: &'g EpochPin<'_>) -> Result<&'g Workqueue, NoSuchWorkqueue> {
        if !self.is_current(pin) {
            return Err(NoSuchWorkqueue);
        }
        self.slot().queue.load(pin).ok_or(NoSuchWorkqueue)
    }

    /// Returns the workqueue. If it is destroyed while the caller holds it, it accepts nothing any
    /// more.
    ///
    /// # Errors
    /// The handle names no workqueue.
    pub fn get(self) -> Result<Arc<Workqueue>, NoSuchWorkqueue> {
        let pin = epochs().pin(0);
        if !self.is_current(&pin) {
            return Err(NoSuchWorkqueue);
        }
        self.slot().queue.get(&pin).ok_or(NoSuchWorkqueue)
    }

    /// Queues an item as [`Workqueue::queue_raw`] does. It costs at most the look-up more.
    ///
    /// # Errors
    /// An error if the handle names no workqueue. The item is unchanged then.
    ///
    /// # Safety
    /// As for [`Workqueue::queue_raw`].
    #[inline]
    pub unsafe fn queue_raw(self, item: NonNull<RawWork>) -> Result<Queued, NoSuchWorkqueue> {
        if probe::switch() != 0 {
            // SAFETY: by the caller's promise.
            return unsafe { self.queue_observed(item) };
        }
        spawn_history::let_go();
        let issuer = self.issuer();
        // SAFETY: by the caller's promise.
        match unsafe { queue_again(issuer, item) } {
            Ok(queued) => Ok(queued),
            Err(claimed) => {
                // SAFETY: as above.
                let queued = unsafe { self.queue_anew(issuer, None, item, claimed) };
                queued.map_err(|_| NoSuchWorkqueue)
            }
        }
    }

    /// Queues an item while a tool observes: measures some of the calls, and reports every event if
    /// that is wanted; then the cached route is not used.
    ///
    /// # Safety
    /// As for [`queue_raw`](Self::queue_raw).
    #[inline(never)]
    unsafe fn queue_observed(self, item: NonNull<RawWork>) -> Result<Queued, NoSuchWorkqueue> {
        let is_timed = probe::switch() & bits::TIME != 0 && latency::is_due();
        let begin_ns = is_timed.then(clock::now_ns);
        spawn_history::let_go();
        let issuer = self.issuer();
        let again = match probe::events_wanted() {
            true => Err(None),
            // SAFETY: by the caller's promise.
            false => unsafe { queue_again(issuer, item) },
        };
        let queued = again.or_else(|claimed| {
            // SAFETY: as above.
            unsafe { self.queue_anew(issuer, None, item, claimed) }.map_err(|_| NoSuchWorkqueue)
        });
        if let Some(begin_ns) = begin_ns {
            let took_ns = clock::now_ns() - begin_ns;
            // The item may have destroyed the queue meanwhile.
            if let Ok(queue) = self.get() {
                latency::note(queue.core.serial, took_ns);
            }
        }
        queued
    }

    /// Queues an item, which may be claimed already, and looks up its route. This function is not
    /// inlined, so that the common path saves no registers for it.
    ///
    /// # Safety
    /// As for [`queue_raw`](Self::queue_raw).
    #[inline(never)]
    unsafe fn queue_anew(
        self,
        issuer: Issuer,
        requested: Option<usize>,
        item: NonNull<RawWork>,
        claimed: Option<Pending>,
    ) -> Result<Queued, Error> {
        let (queue, why) = {
            let pin = epochs().pin(issuer.cpu);
            let queue = match self.load(&pin) {
                Ok(queue) => queue,
                Err(none) => {
                    // The queue was destroyed since this thread queued on it last.
                    if let Some(item) = claimed {
                        item.release();
                    }
                    return Err(none.into());
                }
            };
            requested.map_or(Ok(()), |cpu| queue.must_have(cpu))?;
            if claimed.is_none() {
                publish_begins(item.addr().get());
            }
            // SAFETY: by the caller's promise.
            let item = match claimed.map_or_else(|| unsafe { claim(item) }, Ok) {
                Ok(item) => item,
                Err(why_not) => return Ok(why_not),
            };
            let core = &queue.core;
            match core.publish_within(&pin, issuer, requested, item, Admission::Asks) {
                Ok(()) => return Ok(Queued::Accepted),
                Err(why) => (queue.core.clone(), why),
            }
        };
        Ok(queue.not_published(why, requested).into())
    }

    /// Returns the calling thread's identity as an issuer that uses this handle. A queue that is
    /// used without a handle has an even number there.
    #[inline]
    fn issuer(self) -> Issuer {
        Issuer {
            queue: (self.to_bits() as usize) << 1 | 1,
            cpu: engine::here(),
            declared: engine::declared(),
        }
    }

    /// Queues an item as [`Workqueue::queue_raw_on`] does. It costs at most the look-up more.
    ///
    /// # Errors
    /// [`Error::NoSuchWorkqueue`], [`Error::NoSuchCpu`]; the item is unchanged.
    ///
    /// # Safety
    /// As for [`Workqueue::queue_raw`].
    pub unsafe fn queue_raw_on(self, cpu: usize, item: NonNull<RawWork>) -> Result<Queued, Error> {
        spawn_history::let_go();
        // SAFETY: by the caller's promise.
        unsafe { self.queue_anew(self.issuer(), Some(cpu), item, None) }
    }

    /// Queues items as [`Workqueue::queue_raw_batch`] does.
    ///
    /// # Errors
    /// An error if the handle names no workqueue. The items are unchanged then.
    ///
    /// # Safety
    /// As for [`Workqueue::queue_raw`], for each of them.
    pub unsafe fn queue_raw_batch(
        self,
        items: &[NonNull<RawWork>],
    ) -> Result<BatchQueued, NoSuchWorkqueue> {
        // SAFETY: by the caller's promise.
        Ok(unsafe { self.get()?.queue_raw_batch(items) })
    }

    /// Runs all queued items, and then ends the workqueue; the handle does not name a workqueue any
    /// more. Meanwhile the queue's own items may queue on it, and items that are queued from
    /// outside are dropped. If one of the queue's own items calls this, it returns at once, since
    /// an item cannot wait for itself, and a separate thread does the rest.
    ///
    /// # Errors
    /// An error if the handle names no workqueue, or if another thread is destroying it.
    pub fn destroy(self) -> Result<(), NoSuchWorkqueue> {
        let queue = self.get()?;
        if !self.slot().claim_end(self.generation()) {
            return Err(NoSuchWorkqueue);
        }
        if queue.core.engine.is_inherited() || !queue.core.ends_elsewhere() {
            self.end(&queue);
        } else {
            let engine = queue.core.engine.clone();
            let end = move || self.end(&queue);
            engine.service().perform_elsewhere("cmwq-destroy", end);
        }
        Ok(())
    }

    /// Ends the queue. Only the thread that has claimed the end calls this.
    fn end(self, queue: &Workqueue) {
        queue.end();
        let slot = self.slot();
        let old = slot.empty();
        if queue.core.engine.is_inherited() {
            // The queue belongs to the parent of a fork. There is no grace period here, since a
            // thread that exists only in the parent may have held a lock that it needs.
            std::mem::forget(old);
            return;
        }
        let queue = Replaced::retire(old.into_iter().collect(), epochs());
        slot.release();
        drop(queue);
    }
}

/// Claims the item, if it may be queued now.
///
/// # Safety
/// As for [`Workqueue::queue_raw`].
#[inline]
unsafe fn claim(item: NonNull<RawWork>) -> Result<Pending, Queued> {
    // SAFETY: by the caller's promise.
    unsafe { Pending::claim(item) }.map_err(Queued::from)
}

/// Queues the item by the cached route, if the calling thread's last route was for `issuer`. An
/// error means that the route has to be looked up; it contains the item if that was claimed.
///
/// # Safety
/// As for [`Workqueue::queue_raw`].
#[inline]
unsafe fn queue_again(issuer: Issuer, item: NonNull<RawWork>) -> Result<Queued, Option<Pending>> {
    // SAFETY: by the caller's promise.
    match claim_and_publish_again(issuer, || unsafe { claim(item) }) {
        None => Err(None),
        Some(Ok(Ok(()))) => Ok(Queued::Accepted),
        Some(Ok(Err(item))) => Err(Some(item)),
        Some(Err(why_not)) => Ok(why_not),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;

    /// Performs the interleaving of the module documentation step by step.
    #[test]
    fn a_thread_that_comes_late_claims_nothing_of_the_queue_that_follows() {
        let engine = Engine::builder().build().expect("an engine");
        let queue = || Arc::new(engine.workqueue("follows").build().expect("a queue"));
        let slot = HandleSlot::new();
        assert!(slot.reserve() && !slot.reserve());
        let first = slot.fill(queue());
        let found = slot.has(first);
        assert!(slot.claim_end(first), "the first to come");
        drop(Replaced::retire(
            slot.empty().into_iter().collect(),
            epochs(),
        ));
        assert!(
            !slot.has(first),
            "a reader would find the queue that is filled in meanwhile"
        );
        slot.release();
        assert!(slot.reserve());
        let second = slot.fill(queue());
        assert!(found && !slot.claim_end(first), "it has found the first");
        assert!(slot.has(second) && !slot.has(first));
        assert!(slot.claim_end(second) && !slot.claim_end(second));
        drop(Replaced::retire(
            slot.empty().into_iter().collect(),
            epochs(),
        ));
    }

    /// The queue may be destroyed after a thread has found its way to it in its own memory.
    #[test]
    fn an_item_that_was_claimed_for_a_queue_that_is_gone_is_idle_again() {
        let engine = Engine::builder().build().expect("an engine");
        let queue = engine.workqueue("gone").build().expect("a queue");
        let handle = WorkqueueHandle::new(queue).expect("a handle");
        handle.destroy().expect("it exists");
        let item = RawWork::new(crate::pool::stubs::nothing);
        let at = NonNull::from(&item);
        // SAFETY: the item stays where it is, and nothing takes it.
        let queued = unsafe {
            let claimed = Pending::claim(at).expect("it is idle");
            handle.queue_anew(handle.issuer(), None, at, Some(claimed))
        };
        assert!(matches!(queued, Err(Error::NoSuchWorkqueue)));
        assert!(!item.is_pending());
    }
}
