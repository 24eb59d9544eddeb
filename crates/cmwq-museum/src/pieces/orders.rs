//! Orderings: what only a weak memory shows.

use super::{Piece, edit, weak};

pub(super) const PIECES: &[Piece] = &[
    weak(
        "pin-relaxed",
        "an epoch pin is counted with Relaxed: the writer that waits for readers may not see it",
        &[edit(
            "sys/memory/epoch.rs",
            "        counter.fetch_add(1, Ordering::SeqCst);",
            "        counter.fetch_add(1, if MUTANT { Ordering::Relaxed } else { Ordering::SeqCst });",
        )],
    ),
    weak(
        "epoch-relaxed",
        "the epoch is read with Relaxed: a thread goes on using what it has kept from an epoch that is over",
        &[edit(
            "sys/memory/epoch.rs",
            "    EPOCH.load(Ordering::SeqCst)",
            "    EPOCH.load(if MUTANT { Ordering::Relaxed } else { Ordering::SeqCst })",
        )],
    ),
    weak(
        "unpin-relaxed",
        "the end of an epoch pin is counted with Relaxed: its reader's last use need not happen before what it has read is dropped",
        &[edit(
            "sys/memory/epoch.rs",
            "        self.counter.fetch_sub(1, Ordering::Release);",
            "        self.counter.fetch_sub(1, if MUTANT { Ordering::Relaxed } else { Ordering::Release });",
        )],
    ),
    weak(
        "claim-acquires-only",
        "an item is claimed with Acquire alone: its run may not see what the issuer stored before",
        &[edit(
            "item/raw.rs",
            "state.compare_exchange_weak(before, after(before), Ordering::AcqRel, Ordering::Relaxed)",
            "state.compare_exchange_weak(before, after(before), if MUTANT { Ordering::Acquire } else { Ordering::AcqRel }, Ordering::Relaxed)",
        )],
    ),
];
