//! Handles: workqueues named by a number, for callers that no borrow checker watches.
//!
//! A handle is the number of a slot and the slot's generation, which grows whenever the slot is filled. So any number at all can be
//! looked up, one that was never a handle or whose queue is gone too: nothing is read but the table. The table is read inside
//! the gate that queueing needs anyway, and a slot is filled again only after a grace period: a reader that found the right
//! generation finds the right queue, or none.

use super::core::WqCore;
use super::{Queued, Workqueue};
use crate::engine::{self, gates};
use crate::error::{Error, Refused};
use crate::observe::warn;
use crate::pool::{Issuer, claim_and_publish_again, publish_begins, spawner};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicBool, AtomicU32, AtomicU64};
use crate::sys::gate::{GateGuard, MaybeShared, Replaced};
use crate::sys::{probe, thread};
use crate::work::{Pending, RawWork};
use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::sync::Arc;

/// How many queues may have handles at the same time.
const SLOTS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 16;

struct Slot {
    /// Changes only while no handle of it is valid.
    generation: AtomicU64,
    queue: MaybeShared<Workqueue>,
    /// Filled, or being filled or emptied.
    in_use: AtomicBool,
    /// Somebody destroys the queue.
    ending: AtomicBool,
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        generation: AtomicU64::new(0),
        queue: MaybeShared::empty(),
        in_use: AtomicBool::new(false),
        ending: AtomicBool::new(false),
    }
}; SLOTS];

/// Names a workqueue by a number that can be copied, kept anywhere, and passed through foreign code. Every use looks it up: a
/// handle whose queue was destroyed, or a number that never was a handle, is an error and nothing worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkqueueHandle(NonZeroU64);

/// There is no workqueue of this handle, or no longer.
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
    /// A new handle of `queue`, which it keeps until it is [destroyed](Self::destroy).
    ///
    /// # Errors
    /// [`Error::TooManyHandles`].
    pub fn new(queue: impl Into<Arc<Workqueue>>) -> Result<Self, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        for _ in 0..SLOTS {
            let index = NEXT.fetch_add(1, Ordering::Relaxed) as usize % SLOTS;
            let slot = &TABLE[index];
            if slot.in_use.swap(true, Ordering::Acquire) {
                continue;
            }
            // Before the queue is there: who finds the queue has compared with this.
            let generation = slot.generation.load(Ordering::Relaxed) + 1;
            slot.generation.store(generation, Ordering::SeqCst);
            slot.ending.store(false, Ordering::Relaxed);
            let before = slot.queue.fill(queue.into());
            debug_assert!(before.is_none(), "a slot not in use is empty");
            let bits = generation << INDEX_BITS | index as u64;
            return Ok(WorkqueueHandle(
                NonZeroU64::new(bits).expect("generations begin at 1"),
            ));
        }
        Err(Error::TooManyHandles { most: SLOTS })
    }

    /// The handle as a number. Never 0.
    pub fn to_bits(self) -> u64 {
        self.0.get()
    }

    /// A number as a handle. 0 is none; any other may turn out to name no queue.
    pub fn from_bits(bits: u64) -> Option<Self> {
        NonZeroU64::new(bits).map(WorkqueueHandle)
    }

    #[inline]
    fn slot(self) -> &'static Slot {
        &TABLE[self.0.get() as usize % SLOTS]
    }

    #[inline]
    fn is_current(self) -> bool {
        self.slot().generation.load(Ordering::SeqCst) == self.0.get() >> INDEX_BITS
    }

    #[inline]
    fn load<'g>(self, gate: &'g GateGuard<'_>) -> Result<&'g Workqueue, NoSuchWorkqueue> {
        if !self.is_current() {
            return Err(NoSuchWorkqueue);
        }
        self.slot().queue.load(gate).ok_or(NoSuchWorkqueue)
    }

    /// The workqueue. It may be destroyed while the caller has it: then it takes nothing any more.
    ///
    /// # Errors
    /// There is none.
    pub fn get(self) -> Result<Arc<Workqueue>, NoSuchWorkqueue> {
        let gate = gates().enter(0);
        if !self.is_current() {
            return Err(NoSuchWorkqueue);
        }
        self.slot().queue.get(&gate).ok_or(NoSuchWorkqueue)
    }

    /// As [`Workqueue::queue_raw`], at no more than the cost of the look-up.
    ///
    /// # Errors
    /// There is no such workqueue; the item is as it was.
    ///
    /// # Safety
    /// As for [`Workqueue::queue_raw`].
    #[inline]
    pub unsafe fn queue_raw(self, item: NonNull<RawWork>) -> Result<Queued, NoSuchWorkqueue> {
        spawner::let_go();
        let issuer = self.issuer();
        // SAFETY: by the caller's promise.
        let claimed = match unsafe { queue_again(issuer, item) } {
            Again::Done(queued) => return Ok(queued),
            Again::Otherwise(claimed) => claimed,
        };
        let outcome = {
            let gate = gates().enter(issuer.cpu);
            let queue = match self.load(&gate) {
                Ok(queue) => queue,
                Err(none) => {
                    // It has gone since the last time.
                    if let Some(item) = claimed {
                        item.release();
                    }
                    return Err(none);
                }
            };
            if claimed.is_none() {
                publish_begins(item.addr().get());
            }
            // SAFETY: by the caller's promise.
            let item = match claimed.map_or_else(|| unsafe { claim(item) }, Ok) {
                Ok(item) => item,
                Err(why_not) => return Ok(why_not),
            };
            result_of(queue, queue.core.publish_within(&gate, issuer, None, item))
        };
        Ok(outcome.unwrap_or_else(say_dropped))
    }

    /// Who the calling thread is as one that queues by this handle. A queue that is not named by a handle has an even number.
    #[inline]
    fn issuer(self) -> Issuer {
        Issuer {
            queue: (self.to_bits() as usize) << 1 | 1,
            cpu: engine::here(),
            declared: engine::declared(),
        }
    }

    /// As [`Workqueue::queue_raw_on`], at no more than the cost of the look-up.
    ///
    /// # Errors
    /// [`Error::NoSuchWorkqueue`], [`Error::NoSuchCpu`]; the item is as it was.
    ///
    /// # Safety
    /// As for [`Workqueue::queue_raw`].
    pub unsafe fn queue_raw_on(self, cpu: usize, item: NonNull<RawWork>) -> Result<Queued, Error> {
        spawner::let_go();
        let outcome = {
            let issuer = self.issuer();
            let gate = gates().enter(issuer.cpu);
            let queue = self.load(&gate)?;
            queue.must_have(cpu)?;
            // SAFETY: by the caller's promise.
            let item = match unsafe { claim(item) } {
                Ok(item) => item,
                Err(why_not) => return Ok(why_not),
            };
            result_of(
                queue,
                queue.core.publish_within(&gate, issuer, Some(cpu), item),
            )
        };
        Ok(outcome.unwrap_or_else(say_dropped))
    }

    /// Runs everything that is queued, then ends the workqueue: the handle names none any more. Meanwhile the queue's own items
    /// may queue on it; what others queue is dropped. From one of its own items it returns at once, since an item cannot wait
    /// for itself, and all this happens on a thread of its own.
    ///
    /// # Errors
    /// There is none, or somebody else destroys it already.
    pub fn destroy(self) -> Result<(), NoSuchWorkqueue> {
        let queue = self.get()?;
        if self.slot().ending.swap(true, Ordering::Relaxed) {
            return Err(NoSuchWorkqueue);
        }
        if !queue.core.runs_here() {
            self.end(&queue);
        } else if let Err(error) = thread::spawn("cmwq-destroy", move || self.end(&queue)) {
            warn(&format!("a workqueue is never destroyed: {error}"));
        }
        Ok(())
    }

    /// By the one who set `ending`.
    fn end(self, queue: &Workqueue) {
        queue.end();
        let slot = self.slot();
        let old = slot.queue.take();
        if queue.core.engine.is_inherited() {
            // The parent's, and nobody may wait for a grace period: who held its lock is not here.
            std::mem::forget(old);
            return;
        }
        let queue = Replaced::retire(old.into_iter().collect(), gates());
        slot.in_use.store(false, Ordering::Release);
        drop(queue);
    }
}

/// The item, if it may be queued.
///
/// # Safety
/// As for [`Workqueue::queue_raw`].
#[inline]
unsafe fn claim(item: NonNull<RawWork>) -> Result<Pending, Queued> {
    // SAFETY: by the caller's promise.
    unsafe { Pending::claim(item) }.map_err(Queued::from)
}

/// What comes of queueing where the thread has queued before.
enum Again {
    Done(Queued),
    /// It has to ask for the way; the item, if that was claimed.
    Otherwise(Option<Pending>),
}

/// Queues it where the calling thread has queued the last one, if it did so as `issuer`.
///
/// # Safety
/// As for [`Workqueue::queue_raw`].
#[inline]
unsafe fn queue_again(issuer: Issuer, item: NonNull<RawWork>) -> Again {
    // Watched, all that happens to it is told.
    if probe::events_wanted() {
        return Again::Otherwise(None);
    }
    // SAFETY: by the caller's promise.
    match claim_and_publish_again(issuer, || unsafe { claim(item) }) {
        None => Again::Otherwise(None),
        Some(Ok(Ok(()))) => Again::Done(Queued::Accepted),
        Some(Ok(Err(item))) => Again::Otherwise(Some(item)),
        Some(Err(why_not)) => Again::Done(why_not),
    }
}

/// The error is the queue that has dropped the item: that is said outside the gate, whoever hears it may do anything.
#[inline]
fn result_of(queue: &Workqueue, result: Result<(), Refused>) -> Result<Queued, Arc<WqCore>> {
    match result {
        Ok(()) => Ok(Queued::Accepted),
        Err(Refused::Draining) => Err(queue.core.clone()),
        Err(why) => Ok(Queued::Refused(why)),
    }
}

#[cold]
fn say_dropped(queue: Arc<WqCore>) -> Queued {
    queue.warn_dropped();
    Queued::Refused(Refused::Draining)
}
