//! What costs speed or memory, so much that `explore --rates` finds it.

use super::{Piece, edit, rated};

pub(super) const PIECES: &[Piece] = &[
    rated(
        "all-in-one-hold",
        "who takes what was published takes all of it in one holding of the pool's lock, however much it is",
        &[edit(
            "pool/lock/holds.rs",
            "    return explored::MOST.load(std::sync::atomic::Ordering::Relaxed);",
            "    return match MUTANT {\n        true => usize::MAX / 4,\n        false => explored::MOST.load(std::sync::atomic::Ordering::Relaxed),\n    };",
        )],
    ),
    rated(
        "no-thief-called",
        "a pool with a backlog calls no worker of another pool",
        &[edit(
            "pool/balance/thieves.rs",
            "        self.ask_neighbours(most);",
            "        if !MUTANT {\n            self.ask_neighbours(most);\n        }",
        )],
    ),
    rated(
        "thieves-without-bound",
        "as many workers of a pod steal as find something, not as many as it has CPUs",
        &[
            edit(
                "pool/run/worker.rs",
                "        let may_steal = guard.spare_cpus() > 0;",
                "        let may_steal = MUTANT || guard.spare_cpus() > 0;",
            ),
            edit(
                "pool/run/worker.rs",
                "        let finds_victim = guard.spare_cpus() > 0 &&",
                "        let finds_victim = (MUTANT || guard.spare_cpus() > 0) &&",
            ),
        ],
    ),
    rated(
        "blocks-never-freed",
        "the memory of an item is lost when the item has ended",
        &[edit(
            "sys/memory/blocks.rs",
            "    let kept = fits(layout) && own(",
            "    let kept = MUTANT || fits(layout) && own(",
        )],
    ),
];
