//! Items that are part of a value of the program's, which an `Arc` keeps alive while they are pending or run.
//!
//! **A pending instance owns one reference of the value.** The claimant of PENDING stores the
//! address of the value in the item and leaves a reference (`lend`). The thread that ends the
//! pending instance takes the reference over: the worker that runs the function, a canceller, or
//! the claimant itself if the queue refuses the item. All claimants store the same address, since
//! an item is part of one value only (`locate` makes sure of that), and a value in an `Arc` of
//! which a reference is lent does not move.

use super::raw::{RawWork, WorkFn};
use crate::sys::names;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A work item as a field of a value of type `T`, which is in an [`Arc`]. Its function gets that `Arc`.
///
/// For objects with several tasks: a device with its reset and its statistics, a connection with
/// its input and its output. Each task is a field, and the object's methods are the functions. An
/// item needs no allocation and no unsafe code: a pending item keeps the whole object alive, and
/// the reference goes to the function.
///
/// ```
/// use cmwq::Workqueue;
/// use cmwq::raw::EmbeddedWork;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// struct Device {
///     resets: AtomicU32,
///     reset: EmbeddedWork<Device>,
///     log: EmbeddedWork<Device>,
/// }
///
/// impl Device {
///     fn new() -> Arc<Device> {
///         Arc::new(Device {
///             resets: AtomicU32::new(0),
///             reset: EmbeddedWork::new(Device::reset),
///             log: EmbeddedWork::new(|device: Arc<Device>| println!("{} resets", device.resets.load(Ordering::Relaxed))),
///         })
///     }
///
///     fn reset(self: Arc<Device>) {
///         self.resets.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// let queue = Workqueue::builder("devices").build()?;
/// let device = Device::new();
/// // Which item of the device: a function from the device to its field.
/// let queued = queue.queue_embedded(&device, |device| &device.reset);
/// assert!(queued.will_run());
/// device.reset.flush()?;
/// assert_eq!(device.resets.load(Ordering::Relaxed), 1);
///
/// // An item that is cancelled before it began gives back the reference that it held.
/// let queued = queue.queue_embedded(&device, |device| &device.log);
/// assert!(queued.is_accepted());
/// if let Some(same) = device.log.cancel() {
///     assert!(Arc::ptr_eq(&same, &device));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It is pending at most once, as a [`Work`](crate::Work), and has its guarantees. The object holds
/// what `Work` keeps in a closure.
///
/// A function may drop the last `Arc`: then the worker drops the object, and the item with it. An
/// object's `Drop` need not cancel anything: while an item is pending, there is a reference.
#[repr(C)]
pub struct EmbeddedWork<T> {
    raw: RawWork,
    /// The value that it is part of, as its last claimant stored it. Relaxed: published with the item.
    owner: AtomicPtr<T>,
    /// It hands out `Arc<T>`s.
    _owner: PhantomData<Arc<T>>,
}

impl<T: Send + Sync + 'static> EmbeddedWork<T> {
    /// An item that runs `func`: a function, or a closure that captures nothing. It gets the
    /// reference that the pending instance held.
    #[track_caller]
    pub fn new<F>(func: F) -> Self
    where
        F: Fn(Arc<T>) + Copy + Send + Sync + 'static,
    {
        const {
            assert!(
                size_of::<F>() == 0,
                "the function of an embedded item captures nothing: what it needs is in the value that the item is part of"
            );
        }
        // Nothing to keep: `run` makes another `F` of no bytes.
        let _: F = func;
        names::note::<F>(run::<T, F> as WorkFn as usize, Location::caller());
        EmbeddedWork {
            // One function for each type of `func`: reports of what runs distinguish them.
            raw: RawWork::new(run::<T, F>),
            owner: AtomicPtr::new(ptr::null_mut()),
            _owner: PhantomData,
        }
    }
}

impl<T> EmbeddedWork<T> {
    pub(crate) fn as_raw(&self) -> &RawWork {
        &self.raw
    }

    /// Leaves a reference of `owner` to the pending instance.
    ///
    /// Called by the owner of PENDING, for an item that [is part](locate) of `owner`.
    #[inline]
    pub(crate) fn lend(&self, owner: &Arc<T>) {
        self.belongs_to(owner);
        std::mem::forget(owner.clone());
    }

    /// As [`lend`](Self::lend), but the caller leaves the reference by other means.
    #[inline]
    pub(crate) fn belongs_to(&self, owner: &Arc<T>) {
        self.owner
            .store(Arc::as_ptr(owner).cast_mut(), Ordering::Relaxed);
    }

    /// Takes over the reference that was left to a pending instance.
    ///
    /// # Safety
    /// Called once, by the thread that has ended the pending instance, and not for its run.
    #[inline]
    pub(crate) unsafe fn reclaim(&self) -> Arc<T> {
        // SAFETY: the reference was left to the instance with this address, and no other thread
        // takes it. A later claimant stores the same address.
        unsafe { Arc::from_raw(self.owner.load(Ordering::Relaxed)) }
    }
}

/// The item `field` in the value of `owner`, as a pointer from which the caller may get to all of
/// `E`. `E` is an item, or begins with one.
///
/// The item must be reachable from any reference of the value, not only from this one: then it
/// exists as long as the value does, and no thread can move or replace it while references are
/// shared.
///
/// # Panics
/// The function returns something that is no part of the value.
#[inline]
pub(crate) fn locate<T, E>(
    owner: &Arc<T>,
    field: impl for<'a> FnOnce(&'a T) -> &'a E,
) -> NonNull<E> {
    let whole = Arc::as_ptr(owner);
    let offset = ptr::from_ref(field(owner))
        .addr()
        .wrapping_sub(whole.addr());
    assert!(
        offset < size_of::<T>() && size_of::<E>() <= size_of::<T>() - offset,
        "the item is no part of the value that it was queued with"
    );
    // From the Arc's own pointer, so that the function may get to the whole.
    // SAFETY: the address is inside the value, as was checked, and so not null.
    unsafe { NonNull::new_unchecked(whole.byte_add(offset).cast::<E>().cast_mut()) }
}

/// # Safety
/// `item` is the first field of an `EmbeddedWork<T>` that was made from an `F`, and whose pending
/// instance was left a reference.
unsafe extern "C-unwind" fn run<T, F>(item: NonNull<RawWork>)
where
    F: Fn(Arc<T>) + Copy + Send + Sync + 'static,
{
    // SAFETY: by the contract; the reference keeps the item alive, and is taken over once for each run.
    let owner = unsafe { item.cast::<EmbeddedWork<T>>().as_ref().reclaim() };
    // SAFETY: it has no bytes, is `Copy`, and one existed when the item was made.
    let func = unsafe { NonNull::<F>::dangling().read() };
    func(owner);
}
