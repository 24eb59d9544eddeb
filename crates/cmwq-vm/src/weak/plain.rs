//! Memory that is not atomic: two accesses of which one is a write must be ordered.
#![forbid(unsafe_code)]

use super::clock::{Clock, Step};
use super::{is_weak, on_thread, with_memory};
use crate::memory::Access;
use std::panic::Location;

type Place = &'static Location<'static>;

/// The last write of a plain variable, and the reads since.
#[derive(Debug, Default)]
pub(super) struct Plain {
    write: Option<(Step, Place)>,
    reads: Vec<(Step, Place)>,
}

impl Plain {
    /// The thread with this clock accesses the variable in `step`. Returns an earlier access that
    /// does not happen before this one and must.
    pub(super) fn access(
        &mut self,
        access: Access,
        clock: &Clock,
        step: Step,
        place: Place,
    ) -> Option<Place> {
        let unordered = |(step, _): &&(Step, Place)| !clock.knows(*step);
        let race = self.write.iter().find(unordered).copied();
        if access == Access::Read {
            self.reads.retain(|(read, _)| read.thread != step.thread);
            self.reads.push((step, place));
            return race.map(|(_, place)| place);
        }
        let race = race.or_else(|| self.reads.iter().find(unordered).copied());
        self.reads.clear();
        self.write = Some((step, place));
        race.map(|(_, place)| place)
    }
}

/// An access of plain memory, of the variable at this address.
///
/// # Panics
/// When it races with an earlier one of another thread: no happens-before edge, and one of them writes.
#[track_caller]
pub fn access_plain(address: usize, access: Access) {
    if is_weak() {
        check_plain(address, access, Location::caller());
    }
}

/// The end of plain memory, which is a write: what comes there next is new.
///
/// # Panics
/// When it races with an earlier access of another thread.
#[track_caller]
pub fn end_plain(address: usize) {
    if is_weak() {
        check_plain(address, Access::Write, Location::caller());
        with_memory(|memory| memory.plain.remove(&address));
    }
}

/// What comes at this address next is new: the end of what was there is ordered in a way that the
/// machine does not know.
pub fn forget_plain(address: usize) {
    with_memory(|memory| memory.plain.remove(&address));
}

fn check_plain(address: usize, access: Access, place: Place) {
    let race = on_thread(|memory, thread, _| {
        let clock = &mut memory.views[thread].clock;
        let step = clock.step(thread);
        let plain = memory.plain.entry(address).or_default();
        plain.access(access, clock, step, place)
    });
    if let Some(earlier) = race.flatten() {
        let race = format!("a race: {access:?} at {place}, and the access before at {earlier}");
        with_memory(|memory| {
            memory.race.get_or_insert_with(|| race.clone());
        });
        panic!("{race}");
    }
}

/// The first race of this run: code under test may have caught the panic.
pub(crate) fn race() -> Option<String> {
    with_memory(|memory| memory.race.clone()).flatten()
}
