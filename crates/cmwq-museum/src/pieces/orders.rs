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
        "closed-relaxed",
        "that a queue is closed is stored and read with Relaxed everywhere: an issuer that pinned after the drain's grace period may not see it",
        &[
            edit(
                "workqueue/draining.rs",
                "self.closed.fetch_sub(1, Ordering::SeqCst)",
                "self.closed.fetch_sub(1, if MUTANT { Ordering::Relaxed } else { Ordering::SeqCst })",
            ),
            edit(
                "workqueue/draining.rs",
                "self.closed.fetch_add(1, Ordering::SeqCst)",
                "self.closed.fetch_add(1, if MUTANT { Ordering::Relaxed } else { Ordering::SeqCst })",
            ),
            edit(
                "workqueue/queueing.rs",
                "        self.closed.load(Ordering::SeqCst) == 0 && self",
                "        self.closed.load(if MUTANT { Ordering::Relaxed } else { Ordering::SeqCst }) == 0 && self",
            ),
            edit(
                "workqueue/queueing.rs",
                "if self.closed.load(Ordering::SeqCst) != 0 && ",
                "if self.closed.load(if MUTANT { Ordering::Relaxed } else { Ordering::SeqCst }) != 0 && ",
            ),
            edit(
                "workqueue/queueing.rs",
                "        if self.closed.load(Ordering::SeqCst) != 0 {",
                "        if self.closed.load(if MUTANT { Ordering::Relaxed } else { Ordering::SeqCst }) != 0 {",
            ),
        ],
    ),
];
