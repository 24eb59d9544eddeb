//! One function's place in the table of names.

use crate::sys::atomic::Ordering;
#[cfg(not(cmwq_loom))]
use crate::sys::atomic::plain::{AtomicPtr, AtomicUsize};
#[cfg(cmwq_loom)]
use crate::sys::atomic::{AtomicPtr, AtomicUsize};

#[repr(align(32))]
#[cfg_attr(all(cmwq_loom, not(test)), allow(dead_code, reason = "a model has it"))]
pub(super) struct NameSlot {
    /// The sum of the addresses of the function and of its only place. If another pair has the same
    /// sum, it stays without a name.
    pub(super) pair: AtomicUsize,
    /// The address of the function; 0 if the slot is empty. It is written last.
    pub(super) func: AtomicUsize,
    /// The address of the `Location`, for comparing only, or `SEVERAL`.
    pub(super) place: AtomicUsize,
    pub(super) name: AtomicPtr<Name>,
}

/// The texts are copied, since the file that they came from may be unloaded.
#[cfg_attr(cmwq_loom, allow(dead_code, reason = "models have no table"))]
pub(super) struct Name {
    pub(super) kind: String,
    pub(super) place: String,
}

#[cfg_attr(all(cmwq_loom, not(test)), allow(dead_code, reason = "a model has it"))]
impl NameSlot {
    /// The function that it belongs to; 0: it is empty.
    pub(super) fn func(&self) -> usize {
        // Acquire: with the name, which was written before.
        self.func.load(Ordering::Acquire)
    }

    /// The caller is the only one that writes, and the slot is empty.
    pub(super) fn fill(&self, func: usize, place: usize, name: *mut Name) {
        self.place.store(place, Ordering::Relaxed);
        self.name.store(name, Ordering::Relaxed);
        // Release: a thread that finds the function finds its name.
        self.func.store(func, Ordering::Release);
        self.pair.store(func.wrapping_add(place), Ordering::Relaxed);
    }
}

#[cfg(all(test, cmwq_loom))]
mod model {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn who_finds_a_function_finds_its_name() {
        loom::model(|| {
            let slot = Arc::new(NameSlot {
                pair: AtomicUsize::new(0),
                func: AtomicUsize::new(0),
                place: AtomicUsize::new(0),
                name: AtomicPtr::new(std::ptr::null_mut()),
            });
            let reader = {
                let slot = slot.clone();
                loom::thread::spawn(move || {
                    if slot.func() == 16 {
                        assert!(!slot.name.load(Ordering::Relaxed).is_null(), "no name");
                        assert_eq!(slot.place.load(Ordering::Relaxed), 7);
                    }
                })
            };
            let name = Name {
                kind: String::new(),
                place: String::new(),
            };
            let name = Box::into_raw(Box::new(name));
            slot.fill(16, 7, name);
            reader.join().unwrap();
            // SAFETY: it comes from a box, and no thread uses the slot any more.
            drop(unsafe { Box::from_raw(name) });
        });
    }
}
