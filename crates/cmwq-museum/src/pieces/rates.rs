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
        "nothing-dealt",
        "a pool tells no issuer to deal, and the monitor calls no worker of another pool",
        &[
            edit(
                "pool/lock/settle.rs",
                "        let deals = self.has_long_items() && ",
                "        let deals = !MUTANT && self.has_long_items() && ",
            ),
            edit(
                "pool/balance/monitor.rs",
                "            self.ask_neighbours(",
                "            if MUTANT {\n                return;\n            }\n            self.ask_neighbours(",
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
    rated(
        "thieves-one-by-one",
        "what ended with the first run on 16 CPUs: nothing is dealt, thieves come for short items too, however many are away, close all batches and take one item at a time; workers of short items take one at a time too, crowd, and sleep for the pool's lock at once",
        &[
            edit(
                "pool/lock/settle.rs",
                "        self.pool.steals() && self.pace.item_ns() >= LONG_ENOUGH_NS",
                "        self.pool.steals() && (MUTANT || self.pace.item_ns() >= LONG_ENOUGH_NS)",
            ),
            edit(
                "pool/lock/settle.rs",
                "        if deals != pool.deals() {",
                "        let deals = deals && !MUTANT;\n        if deals != pool.deals() {",
            ),
            edit(
                "pool/balance/thieves.rs",
                "(self.counts.running() + self.counts.away() + self.hogs.workers)",
                "(self.counts.running() + if MUTANT { 0 } else { self.counts.away() } + self.hogs.workers)",
            ),
            edit(
                "pool/run/steal.rs",
                "        let most = if guard.is_limited() { 1 }",
                "        let most = if guard.is_limited() || MUTANT { 1 }",
            ),
            edit(
                "pool/run/steal.rs",
                "        let mut guard = self.lock_beside_batches();\n        let slot",
                "        let mut guard = match MUTANT {\n            true => self.lock(),\n            false => self.lock_beside_batches(),\n        };\n        let slot",
            ),
            edit(
                "sys/waiting/lock.rs",
                "            if self.poll() {",
                "            if !MUTANT && self.poll() {",
            ),
            edit(
                "pool/wake/crowding.rs",
                "    pub(in crate::pool) fn most(&self) -> u32 {\n        self.most",
                "    pub(in crate::pool) fn most(&self) -> u32 {\n        if MUTANT {\n            return u32::MAX;\n        }\n        self.most",
            ),
            edit(
                "pool/run/batch.rs",
                "        if claims.most == 1 || waiting <= 1 {",
                "        if MUTANT || claims.most == 1 || waiting <= 1 {",
            ),
        ],
    ),
];
