//! One too many or too few: credits, colours, limits, workers.

use super::{Piece, edit, line, small};

pub(super) const PIECES: &[Piece] = &[
    line(
        "raised-by-one-less",
        "a limit that is raised has one credit less than it says",
        &[edit(
            "pool/queue/credits.rs",
            "        self.free.fetch_add(to - from, Ordering::Relaxed);",
            "        self.free\n            .fetch_add(to - from - i32::from(MUTANT && to > from), Ordering::Relaxed);",
        )],
    ),
    line(
        "lowered-by-one-less",
        "a limit that is lowered keeps one credit more than it says",
        &[edit(
            "pool/queue/credits.rs",
            "        self.limit.store(to, Ordering::Relaxed);",
            "        self.limit.store(to, Ordering::Relaxed);\n        let to = to + i32::from(MUTANT && to < from);",
        )],
    ),
    line(
        "one-credit-too-many",
        "a visit to the store takes one credit more than there is",
        &[edit(
            "pool/queue/credits.rs",
            "            let taken = free.min(most);",
            "            let taken = free.min(most) + i32::from(MUTANT);",
        )],
    ),
    line(
        "given-back-twice",
        "credits that are given back are counted twice",
        &[edit(
            "pool/queue/credits.rs",
            "                self.free.fetch_add(credits, Ordering::Release);",
            "                self.free\n                    .fetch_add(credits + i32::from(MUTANT), Ordering::Release);",
        )],
    ),
    line(
        "group-overdrawn",
        "a group hands out more credits than it has",
        &[edit(
            "pool/queue/credits.rs",
            "        let taken = taken.min(state.free);",
            "        let taken = if MUTANT { taken } else { taken.min(state.free) };",
        )],
    ),
    line(
        "group-loses-one",
        "a group loses a credit each time that some are given back",
        &[edit(
            "pool/queue/credits.rs",
            "        state.free += credits;",
            "        state.free += credits - i32::from(MUTANT);",
        )],
    ),
    line(
        "colour-done-too-early",
        "a flush colour is done with one item of it in flight",
        &[edit(
            "pool/queue/colours.rs",
            "        let done = self.in_flight[colour as usize] == 0 &&",
            "        let done = self.in_flight[colour as usize] <= u64::from(MUTANT) &&",
        )],
    ),
    line(
        "wrong-colour-flushed",
        "a flush waits for the end of the colour that begins",
        &[edit(
            "pool/queue/colours.rs",
            "            self.flushing |= 1 << old;",
            "            self.flushing |= 1 << if MUTANT { next } else { old };",
        )],
    ),
    line(
        "inactive-counts-as-active",
        "an item that is cancelled while it waits for a credit gives one back",
        &[edit(
            "pool/lock/cancel.rs",
            "            let active = u32::from(location.list != ListKind::Inactive);",
            "            let active = u32::from(MUTANT || location.list != ListKind::Inactive);",
        )],
    ),
    line(
        "active-counts-as-inactive",
        "an item that is cancelled on the worklist keeps its credit",
        &[edit(
            "pool/lock/cancel.rs",
            "location.list != ListKind::Inactive);",
            "location.list != ListKind::Inactive) * u32::from(!MUTANT);",
        )],
    ),
    line(
        "staged-counts-as-accepted",
        "an item that is cancelled before it was accepted is taken out of the counts",
        &[edit(
            "pool/lock/cancel.rs",
            "        if location.list != ListKind::Staged {",
            "        if MUTANT || location.list != ListKind::Staged {",
        )],
    ),
    line(
        "leaver-still-searches",
        "a worker that leaves is still counted as searching",
        &[edit(
            "pool/state/counts.rs",
            "        self.leave_search(&mut worker, WorkerState::Starting);",
            "        self.leave_search(&mut worker, WorkerState::Starting);\n        self.searching += u32::from(MUTANT);",
        )],
    ),
    line(
        "joiner-stays",
        "a thread that has run what it waited for still counts as running",
        &[edit(
            "pool/state/counts.rs",
            "        self.running -= (before - self.joiners.len()) as u32;",
            "        self.running -= if MUTANT { 0 } else { (before - self.joiners.len()) as u32 };",
        )],
    ),
    small(
        "group-limit-unchanged",
        "the credits of a group stay as they are when its limit is changed",
        "raise-own-group+execute-beside",
        &[edit(
            "pool/queue/credits.rs",
            "        state.free += to - state.limit;",
            "        state.free += if MUTANT { 0 } else { to - state.limit };",
        )],
    ),
];
