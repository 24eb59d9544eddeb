//! Memory that is not atomic: two accesses of which one is a write must be ordered.
#![forbid(unsafe_code)]

use super::clock::{Clock, Step};
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
