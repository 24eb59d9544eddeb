//! The table of names.

use super::slot::{Name, NameSlot};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicPtr, AtomicUsize};
use crossbeam_utils::CachePadded;
use std::panic::Location;
use std::sync::OnceLock;

const SLOTS: usize = 1024;
/// In how many slots, beginning with its own, a function may be.
const REACH: usize = 16;
/// The function was handed over in several places: those of a function pointer, or of closures of
/// one function whose code is the same.
const SEVERAL: usize = 1;
/// Two types of closures have become the function. The compiler and the linker keep one of several
/// functions whose code is the same, and then they have one address.
const MERGED: usize = 2;
/// The same with more than two.
const MANY: usize = 3;

/// The table of the process. Each closure that is handed over reads a slot, so they share no cache line
/// with what the linker puts beside them.
static TABLE: CachePadded<NameTable> = CachePadded::new(NameTable::new());

struct NameTable([NameSlot; SLOTS]);

#[inline]
fn address(place: &'static Location<'static>) -> usize {
    std::ptr::from_ref(place).addr()
}

/// A closure of type `F`, which becomes the work function at `func`, is handed over at `place`.
#[inline]
pub(crate) fn note<F: ?Sized>(func: usize, place: &'static Location<'static>) {
    TABLE.note::<F>(func, place);
}

/// The type of the closure that became the work function at `func`, and the place where it was handed
/// over, such as `server::handle::{{closure}} (src/main.rs:42)`. `None`: it is no closure's.
pub(super) fn closure_at(func: usize) -> Option<String> {
    TABLE.closure_at(func)
}

impl NameTable {
    const fn new() -> Self {
        NameTable(
            [const {
                NameSlot {
                    pair: AtomicUsize::new(0),
                    name: AtomicPtr::new(std::ptr::null_mut()),
                }
            }; SLOTS],
        )
    }

    #[inline]
    fn slot(&self, func: usize, step: usize) -> &NameSlot {
        // Functions are aligned to 16 bytes.
        &self.0[((func >> 4) + step) % SLOTS]
    }

    #[inline]
    fn note<F: ?Sized>(&self, func: usize, place: &'static Location<'static>) {
        let pair = func.wrapping_add(address(place));
        if self.slot(func, 0).pair.load(Ordering::Relaxed) != pair {
            self.note_anew(func, std::any::type_name::<F>(), place);
        }
    }

    /// The slots in which a function may be, in the order in which they are filled.
    fn slots(&self, func: usize) -> impl Iterator<Item = &NameSlot> {
        (0..REACH).map(move |step| self.slot(func, step))
    }

    #[cold]
    #[inline(never)]
    fn note_anew(&self, func: usize, kind: &str, place: &'static Location<'static>) {
        let mut own = None;
        for slot in self.slots(func) {
            if slot.name().is_none() {
                let name = own.take().unwrap_or_else(|| {
                    Box::new(Name {
                        func,
                        place: AtomicUsize::new(address(place)),
                        kind: kind.to_owned(),
                        place_text: format!("{}:{}", place.file(), place.line()),
                        other_kind: OnceLock::new(),
                    })
                });
                match slot.fill(name) {
                    Ok(()) => {
                        let pair = func.wrapping_add(address(place));
                        slot.pair.store(pair, Ordering::Relaxed);
                        return;
                    }
                    // Another thread has filled it since.
                    Err(back) => own = Some(back),
                }
            }
            let Some(name) = slot.name().filter(|name| name.func == func) else {
                continue;
            };
            let known = name.place.load(Ordering::Relaxed);
            let now = match known {
                MANY => MANY,
                _ if known == address(place) => known,
                MERGED if name.kind == kind => MERGED,
                _ if name.kind == kind => SEVERAL,
                _ if name.other_kind.get_or_init(|| kind.to_owned()) == kind => MERGED,
                _ => MANY,
            };
            if now != known {
                name.place.store(now, Ordering::Relaxed);
                slot.pair.store(0, Ordering::Relaxed);
            }
            return;
        }
    }

    fn closure_at(&self, func: usize) -> Option<String> {
        let mut names = self.slots(func).map_while(NameSlot::name);
        let name = names.find(|name| name.func == func)?;
        Some(match name.place.load(Ordering::Relaxed) {
            SEVERAL => name.kind.clone(),
            state @ (MERGED | MANY) => {
                let other = name.other_kind.get().map_or("", String::as_str);
                let others = if state == MANY { " or others" } else { "" };
                format!("{} or {other}{others}", name.kind)
            }
            _ => format!("{} ({})", name.kind, name.place_text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of one test. A name that was noted is never freed, so no table is.
    macro_rules! table {
        () => {{
            static TABLE: NameTable = NameTable::new();
            &TABLE
        }};
    }

    #[test]
    fn a_function_has_the_name_of_its_closure_and_its_place_if_there_is_one() {
        let place = Location::caller();
        let other = Location::caller();
        let closure = || 7;
        let table = table!();
        fn name<F>(table: &NameTable, _: &F, func: usize, place: &'static Location<'static>) {
            table.note::<F>(func, place);
        }
        // No code is there.
        let func = 0x7fff_dead_0010;
        name(table, &closure, func, place);
        name(table, &closure, func, place);
        let text = table.closure_at(func).expect("noted");
        assert!(
            text.contains("its_place_if_there_is_one::{{closure}} (")
                && text.ends_with(&format!("table.rs:{})", place.line())),
            "{text}"
        );
        name(table, &closure, func, other);
        name(table, &closure, func, place);
        let text = table.closure_at(func).expect("noted");
        assert!(text.ends_with("{{closure}}"), "of several places: {text}");
    }

    /// The compiler may keep one function for closures whose code is the same. Which of them runs is
    /// not known then, so none of them alone is named.
    #[test]
    fn a_function_of_several_closures_has_all_their_names() {
        let places = [Location::caller(), Location::caller(), Location::caller()];
        let table = table!();
        let func = 0x7fff_dead_0010;
        let name = || table.closure_at(func).expect("noted");
        table.note::<u8>(func, places[0]);
        assert!(name().starts_with("u8 ("), "{}", name());
        for _ in 0..2 {
            table.note::<u16>(func, places[1]);
            assert_eq!(name(), "u8 or u16");
            // What was known before is not forgotten, nor is another place of it another closure.
            table.note::<u8>(func, places[0]);
            table.note::<u8>(func, places[2]);
            assert_eq!(name(), "u8 or u16");
        }
        table.note::<u32>(func, places[2]);
        table.note::<u16>(func, places[1]);
        assert_eq!(name(), "u8 or u16 or others");
        // First one closure in several places, then another one.
        let func = 0x7fff_dead_0030;
        for place in places {
            table.note::<u8>(func, place);
        }
        assert_eq!(table.closure_at(func).expect("noted"), "u8");
        table.note::<u16>(func, places[0]);
        assert_eq!(table.closure_at(func).expect("noted"), "u8 or u16");
    }

    /// Each function is handed over once, while another thread hands over another one: it has a
    /// name nevertheless.
    #[test]
    fn functions_that_are_noted_at_the_same_time_all_have_their_names() {
        const ROUNDS: usize = 200;
        let place = Location::caller();
        // The two of a round have the same slot.
        let func =
            |round: usize, thread: usize| 0x7ffd_dead_0230 + (4 * round + thread * SLOTS) * 16;
        let (table, arrived) = (table!(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let arrived = &arrived;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        arrived.fetch_add(1, Ordering::Relaxed);
                        while arrived.load(Ordering::Relaxed) < 2 * (round + 1) {
                            std::thread::yield_now();
                        }
                        table.note::<u8>(func(round, thread), place);
                    }
                });
            }
        });
        for round in 0..ROUNDS {
            for thread in 0..2 {
                let name = table.closure_at(func(round, thread));
                assert!(
                    name.is_some_and(|name| name.starts_with("u8 (")),
                    "{round} {thread}"
                );
            }
        }
    }

    #[test]
    fn functions_of_one_slot_have_their_names_until_it_is_full() {
        let place = Location::caller();
        let table = table!();
        let func = |n: usize| 0x7ffe_dead_0020 + n * SLOTS * 16;
        for n in 0..2 * REACH {
            table.note::<u8>(func(n), place);
        }
        let named = (0..2 * REACH).filter(|&n| table.closure_at(func(n)).is_some());
        assert!(named.count() <= REACH);
        assert!(
            table
                .closure_at(func(0))
                .is_some_and(|name| name.starts_with("u8 ("))
        );
        assert_eq!(table.closure_at(func(2 * REACH - 1)), None);
    }
}
