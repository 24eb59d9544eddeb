//! Plain memory that is guarded by a rule and not by a lock: the fields of a work item.

#[cfg(not(cmwq_loom))]
use std::cell::UnsafeCell;

#[cfg(cmwq_loom)]
use loom::cell::UnsafeCell;

/// A field that only its owner may touch. The owner is the thread that holds the item's PENDING bit
/// (see [`Pending`](crate::item::raw::Pending)); under loom a second access without a
/// happens-before edge is an error.
#[repr(transparent)]
pub(crate) struct Guarded<T: Copy>(UnsafeCell<T>);

/// States that no other thread uses this plain memory now. The virtual machine checks it if its
/// memory is weak.
#[inline(always)]
#[cfg_attr(cmwq_sim, track_caller)]
pub(crate) fn alone<T>(_memory: *const T) {
    #[cfg(cmwq_sim)]
    cmwq_vm::weak::access_plain(_memory.addr(), cmwq_vm::Access::Write);
}

/// As [`alone`]. The memory goes back to an allocator, of which the virtual machine does not know
/// what it orders.
#[inline(always)]
#[cfg_attr(cmwq_sim, track_caller)]
pub(crate) fn alone_at_last<T>(memory: *const T) {
    alone(memory);
    #[cfg(cmwq_sim)]
    cmwq_vm::weak::forget_plain(memory.addr());
}

/// Whoever uses the memory next comes after all that used it before, by an order of which the virtual
/// machine does not know.
#[cfg(cmwq_sim)]
pub(crate) fn used_for_something_else<T>(memory: *const T) {
    cmwq_vm::weak::forget_plain(memory.addr());
}

/// A value that readers find at a place, and that is dropped when all of them have let go of it.
/// The virtual machine checks that with a weak memory: each use must happen before the end.
#[derive(Clone, Copy)]
pub(crate) struct Watched {
    #[cfg(cmwq_sim)]
    key: usize,
}

impl Watched {
    #[inline(always)]
    pub(crate) fn new<P, V>(_place: *const P, _value: *const V) -> Self {
        Watched {
            // One value may be at several places, each with readers of its own.
            #[cfg(cmwq_sim)]
            key: _place.addr() ^ _value.addr().rotate_left(24),
        }
    }

    #[inline(always)]
    pub(crate) fn nothing() -> Self {
        Watched {
            #[cfg(cmwq_sim)]
            key: 0,
        }
    }

    #[inline(always)]
    #[cfg_attr(cmwq_sim, track_caller)]
    pub(crate) fn is_used(self) {
        #[cfg(cmwq_sim)]
        cmwq_vm::weak::access_plain(self.key, cmwq_vm::Access::Read);
    }

    #[inline(always)]
    #[cfg_attr(cmwq_sim, track_caller)]
    pub(crate) fn is_over(self) {
        #[cfg(cmwq_sim)]
        if self.key != 0 {
            cmwq_vm::weak::end_plain(self.key);
        }
    }

    /// The place goes with its value, and a lock or a count that the machine does not know has
    /// ordered that after all uses.
    #[inline(always)]
    pub(crate) fn is_forgotten(self) {
        #[cfg(cmwq_sim)]
        cmwq_vm::weak::forget_plain(self.key);
    }
}

impl<T: Copy> Guarded<T> {
    #[cfg(not(cmwq_loom))]
    pub(crate) const fn new(value: T) -> Self {
        Guarded(UnsafeCell::new(value))
    }

    #[cfg(cmwq_loom)]
    pub(crate) fn new(value: T) -> Self {
        Guarded(UnsafeCell::new(value))
    }

    /// # Safety
    /// No other thread may write the field at the same time.
    #[inline(always)]
    #[cfg_attr(cmwq_sim, track_caller)]
    pub(crate) unsafe fn get(&self) -> T {
        #[cfg(cmwq_sim)]
        crate::sys::atomic::touch_plain(self, cmwq_vm::Access::Read);
        #[cfg(not(cmwq_loom))]
        // SAFETY: by the caller's promise no thread writes now; `T: Copy` has no destructor.
        unsafe {
            *self.0.get()
        }
        #[cfg(cmwq_loom)]
        // SAFETY: as above; loom checks it.
        self.0.with(|value| unsafe { *value })
    }

    /// # Safety
    /// No other thread may read or write the field at the same time.
    #[inline(always)]
    #[cfg_attr(cmwq_sim, track_caller)]
    pub(crate) unsafe fn set(&self, value: T) {
        #[cfg(cmwq_sim)]
        crate::sys::atomic::touch_plain(self, cmwq_vm::Access::Write);
        #[cfg(not(cmwq_loom))]
        // SAFETY: by the caller's promise no other thread touches the field now.
        unsafe {
            *self.0.get() = value;
        }
        #[cfg(cmwq_loom)]
        // SAFETY: as above; loom checks it.
        self.0.with_mut(|place| unsafe { *place = value });
    }
}
