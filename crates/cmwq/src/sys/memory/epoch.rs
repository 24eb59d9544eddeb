//! Grace periods: reading a pointer that another thread may replace, without a reference count on a
//! shared line.
//!
//! A reader *pins* the epoch: it counts itself in the counters of its CPU ([`Epochs::pin`]), loads
//! the pointer, uses what it points to, and unpins. A writer replaces the pointer, then waits until
//! every reader that could have seen the old one has unpinned ([`Epochs::synchronize`]).
//!
//! **Invariant.** A reader that loaded the old pointer is counted in some counter, of one of two
//! phases, from before its load until after its last use.
//!
//! **Why one pass over one counter does not do.** Later readers could keep it above zero for ever.
//! So readers count in the phase that is current when they pin. The writer flips the phase and
//! waits for the old phase's counters, which only shrink, except for readers that read the phase
//! just before the flip and count themselves just after the scan. Two rounds catch those: the
//! second round waits for the phase that such a reader counted in (the classic two-flip argument of
//! user-space RCU and SRCU).
//!
//! **Epochs.** What a reader finds stays the same as long as no grace period begins. A reader that
//! owns what it has found need not be pinned to *use* it, and may find it once in an [epoch]
//! instead of each time: it reads the epoch before the look-up, and uses the result as long as the
//! epoch is the same. A reader that does not own what it has found may use it again ([`Kept`])
//! under a later pin, if the epoch, read under that pin, is still the same.
//!
//! **Ordering.** Reader: *count* then *load pointer*. Writer: *store pointer* then *read count*.
//! Both sides are `SeqCst`, so in their single total order either the writer sees the count or the
//! reader sees the new pointer. The same holds for *count* then *read the epoch* and *begin an
//! epoch* then *read count*: the writer waits for a reader that reads the old epoch. Unpinning is a
//! `Release` that the writer's reads acquire: all use of the old object happens before it is
//! dropped.

use crate::sys::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::sys::cell::Watched;
use crate::sys::fork::{Held, Side};
use crate::sys::holds::Hold;
use crate::sys::sync::Mutex;
use crate::sys::task;
use crossbeam_utils::CachePadded;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// How many grace periods have begun in the process, plus the forks that lie between it and the
/// first process. Each item reads it, so it has a cache line of its own.
#[cfg(not(cmwq_loom))]
static EPOCH: CachePadded<AtomicUsize> = CachePadded::new(AtomicUsize::new(0));

#[cfg(cmwq_loom)]
loom::lazy_static! {
    static ref EPOCH: AtomicUsize = AtomicUsize::new(0);
}

/// The current epoch. A thread that reads it sees everything that was replaced before the epoch
/// began. A thread that was told that an epoch has begun reads that one, or a later one.
#[inline]
pub(crate) fn epoch() -> usize {
    EPOCH.load(Ordering::SeqCst)
}

fn advance_epoch() {
    // Release: what was replaced before it.
    EPOCH.fetch_add(1, Ordering::SeqCst);
}

/// Pinned readers, for each phase, on a line that only CPUs mapped to it write.
struct Readers([AtomicUsize; 2]);

/// The epochs of a process (or of one model run).
pub(crate) struct Epochs {
    readers: Box<[CachePadded<Readers>]>,
    phase: CachePadded<AtomicUsize>,
    writer: Mutex<()>,
}

/// An epoch pin of the calling thread.
pub(crate) struct EpochPin<'g> {
    counter: &'g AtomicUsize,
    /// The thread that pinned unpins, so that the pin stays short.
    _not_send: PhantomData<*const ()>,
    _hold: Hold,
}

impl Epochs {
    /// `count` is rounded up to a power of two; CPU numbers wrap around it.
    pub(crate) fn new(count: usize) -> Self {
        let count = count.max(1).next_power_of_two();
        Epochs {
            readers: (0..count)
                .map(|_| CachePadded::new(Readers([AtomicUsize::new(0), AtomicUsize::new(0)])))
                .collect(),
            phase: CachePadded::new(AtomicUsize::new(0)),
            writer: Mutex::new(()),
        }
    }

    /// Pins the epoch with the counters of `cpu` (a hint: any are correct, the CPU's own are the fast ones).
    #[inline]
    pub(crate) fn pin(&self, cpu: usize) -> EpochPin<'_> {
        let readers = &self.readers[cpu & (self.readers.len() - 1)];
        // Relaxed: the second round of `synchronize` handles a stale phase.
        let counter = &readers.0[self.phase.load(Ordering::Relaxed) & 1];
        counter.fetch_add(1, Ordering::SeqCst);
        EpochPin {
            counter,
            _not_send: PhantomData,
            _hold: Hold::new(),
        }
    }

    /// For a fork: no writer waits for readers meanwhile. In the child, readers that were other
    /// threads of the parent do not exist. Its one thread is not a reader, since no thread is
    /// pinned while user code runs.
    pub(crate) fn hold_during_fork(&'static self) -> Held {
        let writer = self.writer.lock();
        Box::new(move |side| {
            if side == Side::Child {
                for counter in self.readers.iter().flat_map(|readers| &readers.0) {
                    counter.store(0, Ordering::Relaxed);
                }
                advance_epoch();
            }
            drop(writer);
        })
    }

    /// Waits until every reader that pinned before the call has unpinned. The caller must not be pinned.
    pub(crate) fn synchronize(&self) {
        advance_epoch();
        let _one_writer = self.writer.lock();
        for _ in 0..2 {
            let old = self.phase.fetch_add(1, Ordering::SeqCst) & 1;
            for readers in &self.readers {
                // SeqCst: the reader side's counterpart; it also acquires the Release of readers that unpin.
                while readers.0[old].load(Ordering::SeqCst) != 0 {
                    task::yield_now();
                }
            }
        }
    }
}

impl EpochPin<'_> {
    /// The current epoch, for values that are [kept](Kept).
    #[inline]
    pub(crate) fn epoch(&self) -> usize {
        epoch()
    }
}

/// What a reader has found while pinned, for a later pin.
pub(crate) struct Kept<T> {
    value: NonNull<T>,
    /// The epoch, read under the same pin before the look-up.
    epoch: usize,
}

impl<T> Clone for Kept<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Kept<T> {}

impl<T> Kept<T> {
    /// `value` was found after `epoch` was read under the same pin.
    pub(crate) fn new(value: &T, epoch: usize) -> Self {
        Kept {
            value: NonNull::from(value),
            epoch,
        }
    }

    /// The value, if `epoch`, read under `_pin`, is the epoch in which it was found.
    ///
    /// # Safety
    /// The place that it was [loaded](Shared::load) from still exists: it may have been replaced,
    /// but not dropped.
    #[inline]
    pub(crate) unsafe fn again<'g>(self, _pin: &'g EpochPin<'_>, epoch: usize) -> Option<&'g T> {
        if epoch != self.epoch {
            return None;
        }
        // SAFETY: it was the current value when it was found. If a writer has replaced it since,
        // that writer's grace period had not begun when the epoch was read: it waits for `_pin`.
        Some(unsafe { self.value.as_ref() })
    }
}

impl Drop for EpochPin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::Release);
    }
}

/// A place for an `Arc<T>`, or for none, that pinned readers use.
pub(crate) struct MaybeShared<T>(AtomicPtr<T>, PhantomData<Arc<T>>);

impl<T> MaybeShared<T> {
    #[cfg(not(cmwq_loom))]
    pub(crate) const fn empty() -> Self {
        MaybeShared(AtomicPtr::new(std::ptr::null_mut()), PhantomData)
    }

    /// The current value, usable while the pin lasts; `None`: it is empty. For every place that is
    /// read under a pin of `epochs`, the caller of [`fill`](Self::fill) or [`take`](Self::take)
    /// must keep the old value alive until `epochs.synchronize()` has returned.
    #[inline]
    pub(crate) fn load<'g>(&self, _pin: &'g EpochPin<'_>) -> Option<&'g T> {
        let value = self.0.load(Ordering::SeqCst);
        if !value.is_null() {
            Watched::new(self, value).is_used();
        }
        // SAFETY: a pointer that is not null came from Arc::into_raw. `swap` hands the old Arc back
        // wrapped in `Replaced`, which is only unwrapped by a synchronize() that started after the
        // replacement; this reader pinned before the load, so either it loaded the new value or
        // that synchronize() waits for `_pin` to be dropped.
        unsafe { value.as_ref() }
    }

    /// As [`load`](Self::load), and keeps the value beyond the pin.
    pub(crate) fn get(&self, pin: &EpochPin<'_>) -> Option<Arc<T>> {
        let value: *const T = self.load(pin)?;
        // SAFETY: the pointer came from Arc::into_raw, and by `load`'s argument that reference is
        // not given up while the pin lasts: there is at least one to add to.
        Some(unsafe {
            Arc::increment_strong_count(value);
            Arc::from_raw(value)
        })
    }

    /// Puts `value` in place. The old value stays alive inside the returned wrapper until a grace
    /// period has passed.
    pub(crate) fn fill(&self, value: Arc<T>) -> Option<Replaced<T>> {
        self.swap(Arc::into_raw(value).cast_mut())
    }

    /// As [`fill`](Self::fill), without a new value: the place is empty afterwards.
    pub(crate) fn take(&self) -> Option<Replaced<T>> {
        self.swap(std::ptr::null_mut())
    }

    fn swap(&self, value: *mut T) -> Option<Replaced<T>> {
        let old = self.0.swap(value, Ordering::SeqCst);
        // A value that replaces itself stays in use.
        let watched = match old == value {
            true => Watched::nothing(),
            false => Watched::new(self, old),
        };
        // SAFETY: a pointer that is not null came from Arc::into_raw, and the swap gives up its reference.
        (!old.is_null()).then(|| Replaced(unsafe { Arc::from_raw(old) }, watched))
    }
}

impl<T> Drop for MaybeShared<T> {
    fn drop(&mut self) {
        // `&mut self` shows that no reader is left: their borrows of the place have ended.
        if let Some(Replaced(_, watched)) = self.take() {
            watched.is_forgotten();
        }
    }
}

/// As [`MaybeShared`], for a place that is never empty.
pub(crate) struct Shared<T>(MaybeShared<T>);

impl<T> Shared<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        let value = Arc::into_raw(value).cast_mut();
        Shared(MaybeShared(AtomicPtr::new(value), PhantomData))
    }

    #[inline]
    pub(crate) fn load<'g>(&self, pin: &'g EpochPin<'_>) -> &'g T {
        // SAFETY: filled when it was made, and never emptied.
        unsafe { self.0.load(pin).unwrap_unchecked() }
    }

    pub(crate) fn get(&self, pin: &EpochPin<'_>) -> Arc<T> {
        self.0.get(pin).expect("it is never empty")
    }

    pub(crate) fn replace(&self, value: Arc<T>) -> Replaced<T> {
        self.0.fill(value).expect("it is never empty")
    }
}

/// An old value that readers may still be using.
#[must_use = "an old value may be dropped only after a grace period"]
pub(crate) struct Replaced<T>(Arc<T>, Watched);

impl<T> Replaced<T> {
    /// Waits out one grace period for all of `old` and gives the values back.
    pub(crate) fn retire(old: Vec<Self>, epochs: &Epochs) -> Vec<Arc<T>> {
        epochs.synchronize();
        let let_go = |Replaced(value, watched): Self| {
            watched.is_over();
            value
        };
        old.into_iter().map(let_go).collect()
    }
}

#[cfg(all(test, cmwq_loom))]
mod model {
    //! Readers and a writer under the model checker. An old value that is dropped while a reader
    //! uses it is an access of its cell by two threads without order, which loom reports.
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::thread;

    struct Watched(UnsafeCell<u32>);

    // SAFETY: the cell is what the model is about.
    unsafe impl Sync for Watched {}
    // SAFETY: as above.
    unsafe impl Send for Watched {}

    impl Drop for Watched {
        fn drop(&mut self) {
            // SAFETY: checked by loom.
            self.0.with_mut(|value| unsafe { *value = 0xdead });
        }
    }

    fn value(of: u32) -> Arc<Watched> {
        Arc::new(Watched(UnsafeCell::new(of)))
    }

    fn explore(readers: usize, reads: usize, writes: u32) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let epochs = loom::sync::Arc::new(Epochs::new(1));
            let shared = loom::sync::Arc::new(Shared::new(value(1)));
            let readers: Vec<_> = (0..readers)
                .map(|cpu| {
                    let (epochs, shared) = (epochs.clone(), shared.clone());
                    thread::spawn(move || {
                        for _ in 0..reads {
                            let pin = epochs.pin(cpu);
                            let watched: &Watched = shared.load(&pin);
                            // SAFETY: checked by loom.
                            let seen = watched.0.with(|value| unsafe { *value });
                            assert_ne!(seen, 0xdead, "a value was used after it was dropped");
                        }
                    })
                })
                .collect();
            for write in 0..writes {
                let old = shared.replace(value(2 + write));
                drop(Replaced::retire(vec![old], &epochs));
            }
            for reader in readers {
                reader.join().unwrap();
            }
        });
    }

    /// A reader that keeps what it has found, and uses it again under its next pins.
    fn keep(reads: usize, writes: u32) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let epochs = loom::sync::Arc::new(Epochs::new(1));
            let shared = loom::sync::Arc::new(Shared::new(value(1)));
            let reader = {
                let (epochs, shared) = (epochs.clone(), shared.clone());
                thread::spawn(move || {
                    let mut kept: Option<Kept<Watched>> = None;
                    for _ in 0..reads {
                        let pin = epochs.pin(0);
                        let epoch = pin.epoch();
                        // SAFETY: the thread holds the `Shared` that it is loaded from.
                        let again = kept.and_then(|kept| unsafe { kept.again(&pin, epoch) });
                        let watched = again.unwrap_or_else(|| shared.load(&pin));
                        kept = Some(Kept::new(watched, epoch));
                        // SAFETY: checked by loom.
                        let seen = watched.0.with(|value| unsafe { *value });
                        assert_ne!(seen, 0xdead, "a value was used after it was dropped");
                    }
                })
            };
            for write in 0..writes {
                let old = shared.replace(value(2 + write));
                drop(Replaced::retire(vec![old], &epochs));
            }
            reader.join().unwrap();
        });
    }

    /// A drain closes its queue and then waits for readers. An issuer pins, reads the epoch, and
    /// then reads whether the queue is closed.
    #[test]
    fn an_issuer_sees_the_drain_or_the_drain_sees_what_it_has_published() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let [closed, published] = [0; 2].map(|_| Arc::new(AtomicUsize::new(0)));
            let epochs = loom::sync::Arc::new(Epochs::new(1));
            let issuer = {
                let (epochs, closed) = (epochs.clone(), closed.clone());
                let published = published.clone();
                thread::spawn(move || {
                    let pin = epochs.pin(0);
                    let _ = pin.epoch();
                    let accepts = closed.load(Ordering::Relaxed) == 0;
                    published.store(usize::from(accepts), Ordering::Relaxed);
                    drop(pin);
                    accepts
                })
            };
            closed.store(1, Ordering::Relaxed);
            epochs.synchronize();
            let sees = published.load(Ordering::Relaxed) == 1;
            assert_eq!(sees, issuer.join().unwrap());
        });
    }

    #[test]
    fn what_is_kept_is_not_used_after_it_was_dropped() {
        keep(3, 1);
        keep(2, 2);
    }

    #[test]
    fn an_old_value_outlives_its_readers() {
        explore(2, 1, 1);
    }

    #[test]
    fn a_reader_between_phases_is_waited_for_too() {
        explore(1, 2, 2);
    }
}
