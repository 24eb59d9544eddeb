//! One function's place in the table of names.

#[cfg(cmwq_loom)]
use crate::sys::atomic::AtomicPtr;
use crate::sys::atomic::Ordering;
#[cfg(not(cmwq_loom))]
use crate::sys::atomic::plain::AtomicPtr;
use crate::sys::atomic::plain::AtomicUsize;
use std::sync::OnceLock;

#[repr(align(16))]
#[cfg_attr(all(cmwq_loom, not(test)), allow(dead_code, reason = "a model has it"))]
pub(super) struct NameSlot {
    /// The sum of the addresses of the function and of its only place. If another pair has the same
    /// sum, it stays without a name.
    #[cfg_attr(cmwq_loom, allow(dead_code, reason = "models have no table"))]
    pub(super) pair: AtomicUsize,
    /// Null if the slot is empty. A name is never freed.
    pub(super) name: AtomicPtr<Name>,
}

/// The texts are copied, since the file that they came from may be unloaded.
#[cfg_attr(cmwq_loom, allow(dead_code, reason = "models have no table"))]
pub(super) struct Name {
    /// The address of the function.
    pub(super) func: usize,
    /// The address of the `Location`, for comparing only, or `SEVERAL`, `MERGED` or `MANY`.
    pub(super) place: AtomicUsize,
    pub(super) kind: String,
    pub(super) place_text: String,
    /// The type of another closure that has become this function, too.
    pub(super) other_kind: OnceLock<String>,
}

#[cfg_attr(all(cmwq_loom, not(test)), allow(dead_code, reason = "a model has it"))]
impl NameSlot {
    /// The name of the function that the slot belongs to.
    pub(super) fn name(&self) -> Option<&'static Name> {
        // Acquire: with what `fill` has written before.
        let name = self.name.load(Ordering::Acquire);
        // SAFETY: it comes from a box that is never freed.
        unsafe { name.as_ref() }
    }

    /// The slot gets this name, unless another thread has filled it.
    pub(super) fn fill(&self, name: Box<Name>) -> Result<(), Box<Name>> {
        let name = Box::into_raw(name);
        let empty = std::ptr::null_mut();
        // Release: a thread that finds the name finds what is in it.
        let filled = self
            .name
            .compare_exchange(empty, name, Ordering::Release, Ordering::Relaxed);
        match filled {
            Ok(_) => Ok(()),
            // SAFETY: it is the box from above, which no other thread has seen.
            Err(_) => Err(unsafe { Box::from_raw(name) }),
        }
    }
}

#[cfg(all(test, cmwq_loom))]
mod model {
    use super::*;
    use crate::sys::atomic::AtomicU32;
    use std::sync::Arc;

    /// Two threads fill one slot, each with the name of its own function, and a third thread reads it.
    #[test]
    fn who_finds_a_function_finds_its_name() {
        loom::model(|| {
            let slot = Arc::new(NameSlot {
                pair: AtomicUsize::new(0),
                name: AtomicPtr::new(std::ptr::null_mut()),
            });
            // Stands for what is in the name, since loom does not see that.
            let content = Arc::new(AtomicU32::new(0));
            let fill = |slot: &NameSlot, func| {
                slot.fill(Box::new(Name {
                    func,
                    place: AtomicUsize::new(7),
                    kind: String::new(),
                    place_text: String::new(),
                    other_kind: OnceLock::new(),
                }))
            };
            let other = {
                let slot = slot.clone();
                loom::thread::spawn(move || fill(&slot, 32).is_ok())
            };
            let reader = {
                let (slot, content) = (slot.clone(), content.clone());
                loom::thread::spawn(move || {
                    if slot.name().is_some_and(|name| name.func == 16) {
                        assert_eq!(content.load(Ordering::Relaxed), 16, "no name");
                    }
                })
            };
            content.store(16, Ordering::Relaxed);
            let own = fill(&slot, 16).is_ok();
            let others = other.join().unwrap();
            reader.join().unwrap();
            assert_ne!(own, others, "one of them");
            let name = slot.name().expect("filled");
            assert_eq!(name.func, if own { 16 } else { 32 });
            // SAFETY: it comes from a box, and no thread uses the slot any more.
            drop(unsafe { Box::from_raw(slot.name.load(Ordering::Relaxed)) });
        });
    }
}
