//! `Work`: a reusable, safe work item.

use super::raw::{Pending, RawWork, Unclaimed, WorkFn};
#[cfg(cmwq_loom)]
use crate::sys::atomic::AtomicUsize;
use crate::sys::atomic::Ordering;
#[cfg(not(cmwq_loom))]
use crate::sys::atomic::plain::AtomicUsize;
use crate::sys::names;
use crate::trace::foreign;
use std::mem::offset_of;
use std::panic::Location;
use std::ptr::NonNull;

/// A work item that can be queued again and again without an allocation.
///
/// At any time it is pending at most once, whatever the number of threads that queue it: a
/// [`queue`](crate::Workqueue::queue) that finds it pending changes nothing, and the pending run
/// will see what that caller did before. Its function runs on one worker at a time as long as it is
/// queued on one workqueue only; queued on another while it runs, the two runs may overlap, hence
/// `Sync`. It may queue itself.
///
/// Cloning gives another handle of the same item. A pending or running item keeps itself alive.
/// Queueing it panics if 4,095 instances are pending or running already: it may run on that many
/// workqueues at once.
pub struct Work(NonNull<SharedWork<Func>>);

type Func = dyn Fn() + Send + Sync;

/// References are counted in two places: those of handles here, those of the engine in the item's
/// state word, so that claiming the item lends the engine one in the same step. The thread that
/// gives back the last reference of both kinds destroys the item.
struct SharedWork<F: ?Sized> {
    raw: RawWork,
    handles: AtomicUsize,
    func: F,
}

// SAFETY: a handle gives shared access to the item, which is Sync, and to the function, which is
// Send and Sync; any thread may destroy both.
unsafe impl Send for Work {}
// SAFETY: as above.
unsafe impl Sync for Work {}

/// More handles than this have leaked: the count is about to overflow.
const MOST_HANDLES: usize = isize::MAX as usize;

impl Work {
    /// An item that runs `func`. Tools name it by the type of `func` and the place of this call.
    #[track_caller]
    pub fn new<F: Fn() + Send + Sync + 'static>(func: F) -> Work {
        names::note::<F>(run::<F> as WorkFn as usize, Location::caller());
        let inner: Box<SharedWork<Func>> = Box::new(SharedWork {
            // There is one such function for each type of closure, so reports of what runs can tell
            // closures apart.
            raw: RawWork::new(run::<F>),
            handles: AtomicUsize::new(1),
            func,
        });
        Work(NonNull::from(Box::leak(inner)))
    }

    fn inner(&self) -> &SharedWork<Func> {
        // SAFETY: this handle keeps it alive.
        unsafe { self.0.as_ref() }
    }

    /// Whether it is queued and has not started. A hint: it may have changed when the caller reads
    /// the answer.
    pub fn is_pending(&self) -> bool {
        self.as_raw().is_pending()
    }

    /// The raw item.
    pub(crate) fn as_raw(&self) -> &RawWork {
        &self.inner().raw
    }

    /// The raw item, for queueing: its function gets from it to the whole.
    pub(crate) fn raw(&self) -> NonNull<RawWork> {
        // From the handle's own pointer, so that `run` may get from the field to the whole.
        // SAFETY: the field is inside a live object; the address is not null.
        unsafe { NonNull::new_unchecked(&raw mut (*self.0.as_ptr()).raw) }
    }

    /// [Claims](Pending::claim) the item, with a reference that the queue holds from acceptance
    /// until the function has returned.
    #[inline]
    pub(crate) fn claim(&self) -> Result<Pending, Unclaimed> {
        // SAFETY: this is a handle.
        unsafe { Pending::claim_and_lend(self.raw()) }
    }

    /// A reference for a timer, which its queue takes over: see [`claim`](Self::claim). `None`: the
    /// engine holds as many as it may.
    pub(crate) fn lend(&self) -> Option<Lent> {
        self.as_raw().lend().then(|| Lent(self.0))
    }

    /// Takes a lent reference back: the queue did not accept the item, or gave it back.
    pub(crate) fn unlend(&self) {
        drop(Lent(self.0));
    }
}

impl Clone for Work {
    fn clone(&self) -> Work {
        // Relaxed: this handle keeps the item alive.
        let before = self.inner().handles.fetch_add(1, Ordering::Relaxed);
        assert!(before <= MOST_HANDLES, "too many handles of an item");
        Work(self.0)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // AcqRel: the uses of all handles happen before the destruction.
        if self.inner().handles.fetch_sub(1, Ordering::AcqRel) == 1
            && self.as_raw().drop_last_handle()
        {
            // SAFETY: no handle and no reference is left; the memory came from a Box.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work")
            .field("pending", &self.is_pending())
            .finish_non_exhaustive()
    }
}

/// A reference that was lent to the engine; given back when it is dropped.
pub(crate) struct Lent<F: ?Sized = Func>(NonNull<SharedWork<F>>);

// SAFETY: as for `Work`.
unsafe impl Send for Lent {}
// SAFETY: as for `Work`.
unsafe impl Sync for Lent {}

impl<F: ?Sized> Drop for Lent<F> {
    fn drop(&mut self) {
        // SAFETY: the reference keeps it alive until here.
        if unsafe { self.0.as_ref() }.raw.unlend() {
            // The item's function may be panicking at this moment, and a destructor of what it has
            // captured may panic as well. SAFETY: no handle and no reference is left; the memory
            // came from a Box.
            foreign::dispose(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

/// # Safety
/// `item` is the `raw` field of an `Inner<F>` of which a reference was lent for this run.
unsafe extern "C-unwind" fn run<F: Fn() + Send + Sync>(item: NonNull<RawWork>) {
    // SAFETY: by this function's contract the field is at its offset in an `Inner` that `Work::new` made.
    let inner = unsafe { item.byte_sub(offset_of!(SharedWork<F>, raw)) }.cast::<SharedWork<F>>();
    let lent = Lent(inner);
    // SAFETY: the reference keeps it alive.
    let func = unsafe { &lent.0.as_ref().func };
    func();
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::item::{Callable, Started};
    use std::sync::{Arc, Mutex};

    /// An item, and what is referenced twice while it is there.
    fn watched() -> (Work, Arc<()>) {
        let watched = Arc::new(());
        let there = watched.clone();
        (Work::new(move || drop(there.clone())), watched)
    }

    fn is_there(watched: &Arc<()>) -> bool {
        Arc::strong_count(watched) > 1
    }

    fn start(work: &Work) -> Started {
        work.claim().expect("idle").start()
    }

    #[test]
    fn the_last_of_handles_and_instances_destroys_it() {
        // After its run.
        let (work, watched_work) = watched();
        let other = work.clone();
        start(&work).call().unwrap();
        drop(work);
        assert!(is_there(&watched_work));
        drop(other);
        assert!(!is_there(&watched_work));
        // While two instances run, of which one was lent to a timer first.
        let (work, watched_work) = watched();
        let timer = work.lend().expect("few");
        let running = [start(&work), start(&work)];
        drop(work);
        for run in running {
            assert!(is_there(&watched_work));
            run.call().unwrap();
        }
        assert!(is_there(&watched_work));
        drop(timer);
        assert!(!is_there(&watched_work));
        // Refused by its queue.
        let (work, watched_work) = watched();
        work.claim().expect("idle").release();
        work.unlend();
        drop(work);
        assert!(!is_there(&watched_work));
    }

    #[test]
    fn a_function_may_drop_the_last_handle_and_panic() {
        let own: Arc<Mutex<Option<Work>>> = Arc::default();
        let (watched, slot) = (Arc::new(()), own.clone());
        let there = watched.clone();
        let work = Work::new(move || {
            drop(slot.lock().unwrap().take());
            panic!("on purpose, {:?}", there);
        });
        let run = start(&work);
        *own.lock().unwrap() = Some(work);
        assert!(run.call().is_err());
        assert!(!is_there(&watched));
    }

    #[test]
    fn one_instance_too_many_is_an_error_that_changes_nothing() {
        let (work, watched) = watched();
        let mut running: Vec<Started> = (0..4095).map(|_| start(&work)).collect();
        assert!(matches!(work.claim(), Err(Unclaimed::TooMany)));
        assert!(work.lend().is_none() && !work.as_raw().is_disabled());
        running.pop().expect("some").call().unwrap();
        running.push(start(&work));
        running
            .into_iter()
            .for_each(|started| started.call().unwrap());
        drop(work);
        assert!(!is_there(&watched));
    }
}

#[cfg(all(test, cmwq_loom))]
mod model {
    use super::*;
    use crate::item::Callable;
    use crate::item::location::Location;
    use loom::cell::UnsafeCell;
    use loom::thread;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    /// The function reads it, and its destruction writes it.
    struct Watched {
        value: UnsafeCell<u32>,
        destroyed: Arc<AtomicU32>,
    }

    // SAFETY: the cell is what the model is about.
    unsafe impl Sync for Watched {}
    // SAFETY: nothing in it belongs to a thread.
    unsafe impl Send for Watched {}

    impl Drop for Watched {
        fn drop(&mut self) {
            // SAFETY: checked by loom.
            self.value.with_mut(|value| unsafe { *value = 0xdead });
            self.destroyed.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_last_handle_and_the_last_instances_destroy_it_once() {
        loom::model(|| {
            let destroyed = Arc::new(AtomicU32::new(0));
            let watched = Watched {
                value: UnsafeCell::new(7),
                destroyed: destroyed.clone(),
            };
            // SAFETY: checked by loom.
            let look = move || watched.value.with(|value| assert_eq!(unsafe { *value }, 7));
            let work = Work::new(look);
            let runs: Vec<_> = (0..2)
                .map(|_| work.claim().expect("idle").start())
                .map(|started| thread::spawn(move || started.call().unwrap()))
                .collect();
            drop(work);
            runs.into_iter().for_each(|run| run.join().unwrap());
            assert_eq!(destroyed.load(Ordering::Relaxed), 1);
        });
    }

    /// What threads write that have a handle, and the destruction of the item's function reads.
    struct Written(UnsafeCell<u32>);

    // SAFETY: the cell is what the model is about.
    unsafe impl Sync for Written {}
    // SAFETY: nothing in it belongs to a thread.
    unsafe impl Send for Written {}

    struct Reads(Arc<Written>);

    impl Drop for Reads {
        fn drop(&mut self) {
            // SAFETY: checked by loom.
            self.0.0.with(|value| assert_eq!(unsafe { *value }, 7));
        }
    }

    impl Written {
        fn new() -> (Arc<Written>, Work) {
            let written = Arc::new(Written(UnsafeCell::new(0)));
            let reads = Reads(written.clone());
            let func = move || {
                let _ = &reads;
            };
            (written, Work::new(func))
        }

        fn write(&self) {
            // SAFETY: checked by loom.
            self.0.with_mut(|value| unsafe { *value = 7 });
        }
    }

    #[test]
    fn what_was_done_with_any_handle_is_done_before_the_destruction() {
        loom::model(|| {
            let (written, work) = Written::new();
            let other = work.clone();
            let writes = thread::spawn(move || {
                written.write();
                drop(other);
            });
            // The checker takes a thread's first step after a spawn to come before the new thread.
            drop(work.clone());
            drop(work);
            writes.join().unwrap();
        });
    }

    #[test]
    fn what_was_done_with_the_last_handle_is_done_before_an_instance_destroys_the_item() {
        loom::model(|| {
            let (written, work) = Written::new();
            let started = work.claim().expect("idle").start();
            let runs = thread::spawn(move || started.call().unwrap());
            written.write();
            drop(work);
            runs.join().unwrap();
        });
    }

    #[test]
    fn who_claims_an_item_comes_after_the_owner_that_gave_it_up() {
        loom::model(|| {
            let (written, work) = Written::new();
            let claims = |written: Arc<Written>, work: Work| {
                if let Ok(pending) = work.claim() {
                    written.write();
                    pending.release();
                    work.unlend();
                }
            };
            let (other, of_other) = (work.clone(), written.clone());
            let owner = thread::spawn(move || claims(of_other, other));
            // The checker takes a thread's first step after a spawn to come before the new thread.
            drop(work.clone());
            claims(written, work);
            owner.join().unwrap();
        });
    }

    /// A thread that waits for a run looks for it in the pool that the item names.
    #[test]
    fn a_thread_that_finds_an_item_not_pending_finds_the_pool_of_its_run() {
        loom::model(|| {
            let work = Work::new(|| {});
            let pending = work.claim().expect("idle");
            let other = work.clone();
            let waits = thread::spawn(move || {
                if !other.is_pending() {
                    assert_eq!(other.as_raw().location().pool(), 7);
                }
            });
            // The checker takes a thread's first step after a spawn to come before the new thread.
            drop(work.clone());
            pending.item().set_location(Location::in_transit(7, 0));
            pending.start().call().unwrap();
            waits.join().unwrap();
        });
    }

    #[test]
    fn a_run_sees_what_was_done_before_the_item_was_enabled() {
        loom::model(|| {
            let work = Work::new(|| {});
            let done = Arc::new(crate::sys::atomic::AtomicU32::new(0));
            assert!(work.as_raw().deeper() && work.as_raw().deeper());
            let enabler = thread::spawn({
                let (work, done) = (work.clone(), done.clone());
                move || {
                    done.store(7, Ordering::Relaxed);
                    work.as_raw().shallower();
                }
            });
            // Whichever of them is the last one.
            work.as_raw().shallower();
            if let Ok(claimed) = work.claim() {
                let started = claimed.start();
                assert_eq!(done.load(Ordering::Relaxed), 7);
                started.call().unwrap();
            }
            enabler.join().unwrap();
        });
    }
}
