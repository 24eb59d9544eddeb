//! `Work`: a reusable, safe work item.

use super::raw::RawWork;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;

/// A work item that can be queued again and again without an allocation.
///
/// At any time it is pending at most once, whatever the number of threads that queue it: a
/// [`queue`](crate::Workqueue::queue) that finds it pending changes nothing, and the pending run will see what that caller did before.
/// Its function runs on one worker at a time as long as it is queued on one workqueue only; queued on another while it
/// runs, the two runs may overlap, hence `Sync`. It may queue itself.
///
/// Cloning gives another handle of the same item. A pending or running item keeps itself alive.
#[derive(Clone)]
pub struct Work(Arc<Inner<dyn Fn() + Send + Sync>>);

struct Inner<F: ?Sized> {
    raw: RawWork,
    func: F,
}

impl Work {
    /// An item that runs `func`.
    pub fn new<F: Fn() + Send + Sync + 'static>(func: F) -> Work {
        Work(Arc::new(Inner {
            // One function for each type of closure: reports of what runs distinguish them.
            raw: RawWork::new(run::<F>),
            func,
        }))
    }

    /// Whether it is queued and has not started. A hint: it may have changed when the caller reads the answer.
    pub fn is_pending(&self) -> bool {
        self.0.raw.is_pending()
    }

    /// The raw item.
    pub(crate) fn as_raw(&self) -> &RawWork {
        &self.0.raw
    }

    /// The raw item, for queueing: its function gets from it to the whole.
    pub(crate) fn raw(&self) -> NonNull<RawWork> {
        // From the Arc's own pointer, so that `run` may get from the field to the whole.
        let inner = Arc::as_ptr(&self.0);
        // SAFETY: the Arc is alive, so the field is inside a live object; the address is not null.
        unsafe { NonNull::new_unchecked((&raw const (*inner).raw).cast_mut()) }
    }

    /// The reference that the queue holds from acceptance until the function is called.
    pub(crate) fn lend(&self) {
        std::mem::forget(self.0.clone());
    }

    /// Takes a lent reference back: the queue did not accept the item.
    pub(crate) fn unlend(&self) {
        // SAFETY: the caller lent one before and the queue has not used it.
        unsafe { Arc::decrement_strong_count(Arc::as_ptr(&self.0)) };
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work")
            .field("pending", &self.is_pending())
            .finish_non_exhaustive()
    }
}

/// # Safety
/// `item` is the `raw` field of an `Inner<F>` whose queue holds a lent reference.
unsafe extern "C-unwind" fn run<F: Fn() + Send + Sync>(item: NonNull<RawWork>) {
    // SAFETY: by this function's contract the field is at its offset in an `Inner` that an Arc made by `Work::new` holds,
    // and one reference was lent for this run.
    let inner = unsafe {
        Arc::from_raw(
            item.as_ptr()
                .byte_sub(offset_of!(Inner<F>, raw))
                .cast::<Inner<F>>()
                .cast_const(),
        )
    };
    (inner.func)();
}
