//! Timers.

use super::{Piece, edit, line};

pub(super) const PIECES: &[Piece] = &[
    line(
        "earlier-timer-sleeps",
        "the timers' thread is not woken for a timer that is earlier than all others",
        &[edit(
            "timer/service.rs",
            "        if wakes {\n            self.parker().unpark();",
            "        if wakes && !MUTANT {\n            self.parker().unpark();",
        )],
    ),
    line(
        "timer-of-another",
        "a timer is stopped by its number, though the number is another timer's by now",
        &[edit(
            "timer/wheel.rs",
            "entry.serial == key.serial &&",
            "(entry.serial == key.serial || MUTANT) &&",
        )],
    ),
    line(
        "first-moves-down",
        "of the timers that move to a finer level of the wheel only the first does",
        &[edit(
            "timer/wheel.rs",
            "                if index == NONE {\n                    break;\n                }\n            }\n            self.distributing =",
            "                if MUTANT {\n                    self.heads[level * SLOTS + slot] = NONE;\n                    self.occupied[level] &= !(1 << slot);\n                    index = NONE;\n                }\n                if index == NONE {\n                    break;\n                }\n            }\n            self.distributing =",
        )],
    ),
    line(
        "timer-too-early",
        "a timer expires in the tick of its deadline, before that has passed",
        &[edit(
            "timer/service.rs",
            "tick_of(now.saturating_add(delay_ns)) + 1;",
            "tick_of(now.saturating_add(delay_ns)) + u64::from(!MUTANT);",
        )],
    ),
];
