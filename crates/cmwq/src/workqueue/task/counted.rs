//! A counted reference to a value in a reused [block](crate::sys::blocks): like `Arc`, but on
//! free-list memory.

use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::blocks;
use crate::sys::cell::Watched;
use std::alloc::Layout;
use std::ops::Deref;
use std::ptr::NonNull;

/// A value that holds the count of the references to it.
///
/// # Safety
/// `references` returns the same field of the value each time, and only [`Reference`] changes that
/// field.
pub(crate) unsafe trait RefCounted {
    fn references(&self) -> &AtomicU32;
}

/// A reference to a value; dropping the last one drops the value.
pub(crate) struct Reference<T: RefCounted + ?Sized>(NonNull<T>);

// SAFETY: as for Arc: a reference lets any thread use the value, and the last one drops it on any thread.
unsafe impl<T: RefCounted + Send + Sync + ?Sized> Send for Reference<T> {}
// SAFETY: as above.
unsafe impl<T: RefCounted + Send + Sync + ?Sized> Sync for Reference<T> {}

impl<T: RefCounted> Reference<T> {
    /// Makes a value with two references to it. `make` runs when the memory is allocated, so that
    /// the value is made in place and not copied.
    #[inline]
    pub(crate) fn pair(make: impl FnOnce() -> T) -> (Self, Self) {
        let memory = blocks::take(Layout::new::<T>()).cast::<T>();
        // SAFETY: this function owns the memory, which is of this layout; no other thread has the value yet.
        unsafe {
            memory.write(make());
            memory.as_ref()
        }
        .references()
        .store(2, Ordering::Relaxed);
        (Reference(memory), Reference(memory))
    }

    /// Turns the reference into a pointer. The reference still counts.
    pub(crate) fn into_raw(self) -> NonNull<T> {
        std::mem::ManuallyDrop::new(self).0
    }

    /// # Safety
    /// `value` came from [`into_raw`](Self::into_raw), once.
    pub(crate) unsafe fn from_raw(value: NonNull<T>) -> Self {
        Reference(value)
    }

    /// Returns the same reference, with the value as another type.
    ///
    /// # Safety
    /// `other` returns its argument, with another type.
    pub(crate) unsafe fn into_other<U: RefCounted + ?Sized>(
        self,
        other: impl FnOnce(NonNull<T>) -> NonNull<U>,
    ) -> Reference<U> {
        Reference(other(self.into_raw()))
    }
}

impl<T: RefCounted + ?Sized> Deref for Reference<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value exists while there are references.
        unsafe { self.0.as_ref() }
    }
}

impl<T: RefCounted + ?Sized> Drop for Reference<T> {
    #[inline]
    fn drop(&mut self) {
        // Release: all use of the value comes before its end. Acquire: its end comes after all use
        // by other threads. A sole reference need not be counted down, since no other thread can
        // make another one.
        let watched = Watched::new(self.0.as_ptr().cast::<()>(), self.0.as_ptr().cast::<()>());
        watched.is_used();
        let references = self.references();
        if references.load(Ordering::Acquire) > 1 && references.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        watched.is_over();
        // SAFETY: this was the last reference.
        unsafe {
            let _memory = Memory(self.0.cast(), Layout::for_value(self.0.as_ref()));
            self.0.drop_in_place();
        }
    }
}

/// The memory of a value that is being dropped. It is given back even if the destructor of the
/// value, which may be foreign code, panics.
struct Memory(NonNull<u8>, Layout);

impl Drop for Memory {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it was taken for a value of this layout, which is gone.
        unsafe { blocks::give(self.0, self.1) };
    }
}
