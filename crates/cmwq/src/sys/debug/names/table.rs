//! The table of names, and the thread that writes it.

use super::slot::{Name, NameSlot};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicPtr, AtomicUsize};
use std::panic::Location;
use std::sync::Mutex;

const SLOTS: usize = 1024;
/// In how many slots, beginning with its own, a function may be.
const REACH: usize = 16;
/// The function was handed over in several places: those of a function pointer, or of closures whose code is the same.
const SEVERAL: usize = 1;

static TABLE: [NameSlot; SLOTS] = [const {
    NameSlot {
        pair: AtomicUsize::new(0),
        func: AtomicUsize::new(0),
        place: AtomicUsize::new(0),
        name: AtomicPtr::new(std::ptr::null_mut()),
    }
}; SLOTS];

/// Guards the writing of slots.
static WRITES: Mutex<()> = Mutex::new(());

#[inline]
fn slot(func: usize, step: usize) -> &'static NameSlot {
    // Functions are aligned to 16 bytes.
    &TABLE[((func >> 4) + step) % SLOTS]
}

#[inline]
fn address(place: &'static Location<'static>) -> usize {
    std::ptr::from_ref(place).addr()
}

/// A closure of type `F`, which becomes the work function at `func`, is handed over at `place`.
#[inline]
pub(crate) fn note<F: ?Sized>(func: usize, place: &'static Location<'static>) {
    let pair = func.wrapping_add(address(place));
    if slot(func, 0).pair.load(Ordering::Relaxed) != pair {
        note_anew(func, std::any::type_name::<F>(), place);
    }
}

/// The slot of the function, and whether it is filled. Returns `None` if all slots in which it
/// could be belong to other functions.
fn find(func: usize) -> Option<(&'static NameSlot, bool)> {
    (0..REACH).find_map(|step| {
        let slot = slot(func, step);
        match slot.func() {
            0 => Some((slot, false)),
            other => (other == func).then_some((slot, true)),
        }
    })
}

#[cold]
#[inline(never)]
fn note_anew(func: usize, kind: &str, place: &'static Location<'static>) {
    let is_known = |slot: &NameSlot| {
        let known = slot.place.load(Ordering::Relaxed);
        known == SEVERAL || known == address(place)
    };
    match find(func) {
        None => return,
        Some((slot, true)) if is_known(slot) => return,
        Some(_) => {}
    }
    // If another thread writes, the next spawn notes this one. In a fork's child a thread of the parent may hold the lock for ever.
    let Ok(_writes) = WRITES.try_lock() else {
        return;
    };
    match find(func) {
        Some((slot, true)) if !is_known(slot) => {
            slot.place.store(SEVERAL, Ordering::Relaxed);
            slot.pair.store(0, Ordering::Relaxed);
        }
        Some((slot, false)) => {
            let name = Box::new(Name {
                kind: kind.to_owned(),
                place: format!("{}:{}", place.file(), place.line()),
            });
            slot.fill(func, address(place), Box::into_raw(name));
        }
        _ => {}
    }
}

/// The type of the closure that became the work function at `func`, and the place where it was handed over, such as
/// `server::handle::{{closure}} (src/main.rs:42)`. `None`: it is no closure's.
pub(super) fn closure_at(func: usize) -> Option<String> {
    let (slot, true) = find(func)? else {
        return None;
    };
    // SAFETY: it was stored before the function, from a box that is never freed.
    let name = unsafe { &*slot.name.load(Ordering::Relaxed) };
    Some(match slot.place.load(Ordering::Relaxed) {
        SEVERAL => name.kind.clone(),
        _ => format!("{} ({})", name.kind, name.place),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_the_name_of_its_closure_and_its_place_if_there_is_one() {
        let place = Location::caller();
        let other = Location::caller();
        let closure = || 7;
        fn name<F>(_: &F, func: usize, place: &'static Location<'static>) {
            note::<F>(func, place);
        }
        // No code is there.
        let func = 0x7fff_dead_0010;
        name(&closure, func, place);
        name(&closure, func, place);
        let text = closure_at(func).expect("noted");
        assert!(
            text.contains("its_place_if_there_is_one::{{closure}} (")
                && text.ends_with(&format!("table.rs:{})", place.line())),
            "{text}"
        );
        name(&closure, func, other);
        name(&closure, func, place);
        let text = closure_at(func).expect("noted");
        assert!(text.ends_with("{{closure}}"), "of several places: {text}");
    }

    #[test]
    fn functions_of_one_slot_have_their_names_until_it_is_full() {
        let place = Location::caller();
        let func = |n: usize| 0x7ffe_dead_0020 + n * SLOTS * 16;
        for n in 0..2 * REACH {
            note::<u8>(func(n), place);
        }
        let named = (0..2 * REACH).filter(|&n| closure_at(func(n)).is_some());
        assert!(named.count() <= REACH);
        assert!(closure_at(func(0)).is_some_and(|name| name.starts_with("u8 (")));
        assert_eq!(closure_at(func(2 * REACH - 1)), None);
    }
}
