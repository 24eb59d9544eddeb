//! The mechanisms, and what switches each of them off in the sources.

use crate::copy::failed;
use std::path::Path;
use std::{fs, io};

/// A part of the library that serves speed alone: without it all promises hold.
pub(crate) struct Mechanism {
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) about: &'static str,
    /// In which file of the library which text is replaced by which: all places that have it. `OFF`
    /// stands for the question whether the mechanism is off.
    switches: &'static [(&'static str, &'static str, &'static str)],
}

/// By its number.
pub(crate) fn number(name: &str) -> Option<usize> {
    MECHANISMS
        .iter()
        .position(|mechanism| mechanism.name == name)
}

/// Puts all switches into the library's sources.
pub(crate) fn put_in(sources: &Path) -> io::Result<()> {
    for (number, mechanism) in MECHANISMS.iter().enumerate() {
        let off = format!("crate::off::is({number})");
        for (file, from, to) in mechanism.switches {
            let path = sources.join(file);
            let text = fs::read_to_string(&path)?;
            if !text.contains(from) {
                let name = mechanism.name;
                return Err(failed(&format!("{name}: {file} has no text '{from}'")));
            }
            fs::write(&path, text.replace(from, &to.replace("OFF", &off)))?;
        }
    }
    let library = sources.join("lib.rs");
    let text = fs::read_to_string(&library)?;
    fs::write(&library, text + include_str!("switch.txt"))
}

pub(crate) const MECHANISMS: &[Mechanism] = &[
    Mechanism {
        name: "yields of waits",
        about: "A thread that waits awake yields its CPU between two rounds of polls.",
        switches: &[(
            "sys/waiting/spin.rs",
            "let yields = self.yields();",
            "let yields = !OFF && self.yields();",
        )],
    },
    Mechanism {
        name: "no yields after preempted waits",
        about: "A thread whose yields often took a whole time slice does not yield in its next waits.",
        switches: &[(
            "sys/waiting/spin.rs",
            "        if often {\n",
            "        if often && !OFF {\n",
        )],
    },
    Mechanism {
        name: "yield epochs",
        about: "A wait is not charged for the time in which other waiting threads of its CPU get their answers.",
        switches: &[(
            "sys/waiting/spin.rs",
            "let theirs = away",
            "let theirs = !OFF && away",
        )],
    },
    Mechanism {
        name: "long rounds",
        about: "While rounds of polls are short, one in several is long.",
        switches: &[(
            "sys/waiting/spin.rs",
            "match rounds.is_multiple_of(LONG_ROUND_EVERY) {",
            "match !OFF && rounds.is_multiple_of(LONG_ROUND_EVERY) {",
        )],
    },
    Mechanism {
        name: "rounds that adapt",
        about: "A waiting thread polls less between yields if a yield brings the answer, and more if polling does.",
        switches: &[(
            "sys/waiting/spin.rs",
            "        let polls = self.polls.load(Ordering::Relaxed);\n        if polls == self.max_polls {",
            "        let polls = if OFF { self.max_polls } else { self.polls.load(Ordering::Relaxed) };\n        if polls == self.max_polls {",
        )],
    },
    Mechanism {
        name: "spin budgets that adapt",
        about: "A thread waits awake for as long as that has paid off lately.",
        switches: &[(
            "sys/waiting/spin.rs",
            "        let ns = self.ns.load(Ordering::Relaxed);\n        if ns >= MIN_NS {",
            "        let ns = if OFF { MAX_NS } else { self.ns.load(Ordering::Relaxed) };\n        if ns >= MIN_NS {",
        )],
    },
    Mechanism {
        name: "spins of workers",
        about: "A worker without an item waits awake before it sleeps.",
        switches: &[
            (
                "pool/run/worker.rs",
                "(false, false) => self.spin_budget",
                "(false, false) if OFF => false,\n            (false, false) => self.spin_budget",
            ),
            (
                "pool/run/worker.rs",
                "            (false, true) => self.spin_for_work_or_a_steal(),",
                "            (false, true) if OFF => false,\n            (false, true) => self.spin_for_work_or_a_steal(),",
            ),
        ],
    },
    Mechanism {
        name: "spins of waiters",
        about: "A thread that waits for an item waits awake before it sleeps.",
        switches: &[
            (
                "pool/run/wait.rs",
                "let is_done = !producer::has_backlog()",
                "let is_done = !OFF && !producer::has_backlog()",
            ),
            (
                "workqueue/completion_queue/owner.rs",
                "if !pool::has_backlog() {",
                "if !OFF && !pool::has_backlog() {",
            ),
        ],
    },
    Mechanism {
        name: "spins of issuers",
        about: "An issuer that would have to wake a worker polls first, in case a running worker takes the item.",
        switches: &[(
            "sys/waiting/brief_spin.rs",
            "        if left_out > 0 {",
            "        if OFF {\n            return false;\n        }\n        if left_out > 0 {",
        )],
    },
    Mechanism {
        name: "short slices",
        about: "Workers that compute little between two sleeps ask the system for a short time slice.",
        switches: &[(
            "pool/run/slice.rs",
            "self.is_short != (is_brief || self.is_small_share())",
            "!OFF && self.is_short != (is_brief || self.is_small_share())",
        )],
    },
    Mechanism {
        name: "brief wake-ups",
        about: "Workers that are woken for little are woken where the system puts them.",
        switches: &[(
            "pool/wake/placement.rs",
            "        self.used_ns < BRIEF_NS",
            "        !OFF && self.used_ns < BRIEF_NS",
        )],
    },
    Mechanism {
        name: "placed wake-ups",
        about: "A worker that the system would put on a used CPU is bound to a free one before it is woken.",
        switches: &[(
            "pool/wake/placement.rs",
            "            self.is_brief() || pod.first()",
            "            OFF || self.is_brief() || pod.first()",
        )],
    },
    Mechanism {
        name: "issuers move workers",
        about: "An issuer moves the worker that waits for the issuer's own CPU to a free one.",
        switches: &[(
            "pool/lock/guard.rs",
            "        let Some(here) = cpu::current() else { return };\n        if let Some(id)",
            "        let Some(here) = cpu::current() else { return };\n        if OFF {\n            return;\n        }\n        if let Some(id)",
        )],
    },
    Mechanism {
        name: "joiners move workers",
        about: "So does a thread that joins items, with any worker.",
        switches: &[(
            "pool/lock/guard.rs",
            "        let found = match self.searching() {",
            "        if OFF {\n            return;\n        }\n        let found = match self.searching() {",
        )],
    },
    Mechanism {
        name: "CPUs of issuers",
        about: "No worker is woken for the CPU of the issuer, except on a system that packs.",
        switches: &[(
            "pool/wake/placement.rs",
            "        self.packs == 0 && waker.is_some_and",
            "        !OFF && self.packs == 0 && waker.is_some_and",
        )],
    },
    Mechanism {
        name: "joiners count",
        about: "A thread that runs an item which it joins counts as a running worker.",
        switches: &[(
            "pool/run/waiter.rs",
            "None if !counts || guard.is_limited() => {}",
            "None if !counts || guard.is_limited() || OFF => {}",
        )],
    },
    Mechanism {
        name: "spinning joiners count",
        about: "On the last CPU of a pod, so does one that waits awake for a short item.",
        switches: &[(
            "pool/run/waiter.rs",
            "if is_soon && is_last",
            "if !OFF && is_soon && is_last",
        )],
    },
    Mechanism {
        name: "expected joiners",
        about: "A worker wakes no other for a pod's last CPU while a joining thread is expected there.",
        switches: &[(
            "pool/state/transitions.rs",
            "if is_short && self.has_one_cpu_left()",
            "if !OFF && is_short && self.has_one_cpu_left()",
        )],
    },
    Mechanism {
        name: "items left to joiners",
        about: "On the last CPU of a pod a worker leaves some items to a thread that joins them in order.",
        switches: &[(
            "pool/run/batch.rs",
            "        let leaves = inner",
            "        let leaves = !OFF && inner",
        )],
    },
    Mechanism {
        name: "deferred wake-ups",
        about: "While items wait for CPUs, threads whose items have ended are woken later, several at once.",
        switches: &[(
            "pool/wake/deferred.rs",
            "    if done == 0 ||",
            "    if OFF || done == 0 ||",
        )],
    },
    Mechanism {
        name: "waiters behind a backlog",
        about: "While much waits, a thread that waits for an item sleeps at once.",
        switches: &[(
            "pool/wake/deferred.rs",
            "    let is_backlog = wait_ns",
            "    let is_backlog = !OFF && wait_ns",
        )],
    },
    Mechanism {
        name: "crowding",
        about: "A pool whose items take less time than its lock lets fewer workers run.",
        switches: &[(
            "pool/wake/crowding.rs",
            "        let short = item_ns",
            "        let short = !OFF && item_ns",
        )],
    },
    Mechanism {
        name: "dealing",
        about: "A thread with more items than its pod takes soon deals them to other pods.",
        switches: &[(
            "pool/lock/settle.rs",
            "        let deals = self.has_long_items()",
            "        let deals = !OFF && self.has_long_items()",
        )],
    },
    Mechanism {
        name: "fed pods",
        about: "Pods that have issuers of their own get nothing dealt.",
        switches: &[(
            "pool/state/pool.rs",
            "        now_ns.saturating_sub(self.fed_ns.load(Ordering::Relaxed)) < FED_NS",
            "        !OFF && now_ns.saturating_sub(self.fed_ns.load(Ordering::Relaxed)) < FED_NS",
        )],
    },
    Mechanism {
        name: "thieves",
        about: "Idle workers of other pods take items that would wait for long.",
        switches: &[(
            "pool/lock/settle.rs",
            "        self.has_long_items() && self.pace.wait_ns",
            "        !OFF && self.has_long_items() && self.pace.wait_ns",
        )],
    },
    Mechanism {
        name: "longer claims of far guests",
        about: "A worker of another last-level cache takes as many items as run for 64 us, others for 16.",
        switches: &[(
            "pool/run/batch.rs",
            "if far { OVERDUE_FAR_NS }",
            "if far && !OFF { OVERDUE_FAR_NS }",
        )],
    },
    Mechanism {
        name: "several wake-ups at once",
        about: "A thread that releases the lock wakes up to four workers.",
        switches: &[(
            "pool/lock/settle.rs",
            "let most = target.saturating_sub(self.running() + taken).min(SHARE);",
            "let most = target.saturating_sub(self.running() + taken).min(if OFF { 1 } else { SHARE });",
        )],
    },
    Mechanism {
        name: "workers beside one that comes",
        about: "More workers are woken while one is on its way, for items of 8 us or more.",
        switches: &[(
            "pool/lock/settle.rs",
            "            if self.pace.item_ns() >= LONG_ENOUGH_ALONE_NS {",
            "            if !OFF && self.pace.item_ns() >= LONG_ENOUGH_ALONE_NS {",
        )],
    },
    Mechanism {
        name: "chunks",
        about: "A thread that queues many items publishes them together.",
        switches: &[
            (
                "pool/submit/publish.rs",
                "in_a_row >= FLOODS_AFTER\n",
                "in_a_row >= FLOODS_AFTER && !OFF\n",
            ),
            (
                "pool/submit/publish.rs",
                "producer.in_a_row.get() >= FLOODS_AFTER\n",
                "!OFF && producer.in_a_row.get() >= FLOODS_AFTER\n",
            ),
        ],
    },
    Mechanism {
        name: "cached routes",
        about: "A thread that adds to its chunk uses the destination that it has found before.",
        switches: &[(
            "pool/submit/producer.rs",
            "        if let Some((issuer, epoch)) = via {",
            "        if let Some((issuer, epoch)) = via.filter(|_| !OFF) {",
        )],
    },
    Mechanism {
        name: "batches from the worklist",
        about: "A worker takes several accepted items at once.",
        switches: &[(
            "pool/run/batch.rs",
            "            if size > 1\n                && let Some(begun) = self.open_worklist",
            "            if size > 1 && !OFF\n                && let Some(begun) = self.open_worklist",
        )],
    },
    Mechanism {
        name: "batches",
        about: "A worker takes several items at once.",
        switches: &[(
            "pool/run/batch.rs",
            "        if claims.most == 1 ||",
            "        if OFF || claims.most == 1 ||",
        )],
    },
    Mechanism {
        name: "prefetches",
        about: "Memory that is needed soon is prefetched.",
        switches: &[
            (
                "sys/memory/prefetch.rs",
                "pub(crate) fn to_write(address: usize) {\n",
                "pub(crate) fn to_write(address: usize) {\n    if OFF {\n        return;\n    }\n",
            ),
            (
                "sys/memory/prefetch.rs",
                "pub(crate) fn to_read(address: usize) {\n",
                "pub(crate) fn to_read(address: usize) {\n    if OFF {\n        return;\n    }\n",
            ),
        ],
    },
    Mechanism {
        name: "prefetches ahead",
        about: "The part of these that is about later entries of chunks and batches.",
        switches: &[
            (
                "item/chunk/entries.rs",
                "    pub(in crate::item) fn prefetch(&self, place: usize) {\n",
                "    pub(in crate::item) fn prefetch(&self, place: usize) {\n        if OFF {\n            return;\n        }\n",
            ),
            (
                "item/chunk/part.rs",
                "    pub(crate) fn prefetch(&self, index: usize) {\n",
                "    pub(crate) fn prefetch(&self, index: usize) {\n        if OFF {\n            return;\n        }\n",
            ),
            (
                "item/batch.rs",
                "    pub(crate) fn prefetch(&self, index: usize) {\n",
                "    pub(crate) fn prefetch(&self, index: usize) {\n        if OFF {\n            return;\n        }\n",
            ),
        ],
    },
    Mechanism {
        name: "caller slots",
        about: "A thread that joins each item right after spawning it runs it itself, without a queue.",
        switches: &[(
            "pool/submit/spawn_history.rs",
            "            let granted = grant()?;",
            "            if OFF {\n                return None;\n            }\n            let granted = grant()?;",
        )],
    },
    Mechanism {
        name: "polls of the pool's lock",
        about: "A thread polls a pool's lock for a while before it sleeps for it.",
        switches: &[(
            "sys/waiting/lock.rs",
            "            if self.poll() {",
            "            if !OFF && self.poll() {",
        )],
    },
    Mechanism {
        name: "kept blocks",
        about: "Threads keep memory of earlier items for later ones.",
        switches: &[
            (
                "sys/memory/blocks.rs",
                "    own(OwnBlocks::take)\n        .flatten()",
                "    if OFF {\n        return from_system(BLOCK);\n    }\n    own(OwnBlocks::take)\n        .flatten()",
            ),
            (
                "sys/memory/blocks.rs",
                "let kept = fits(layout)",
                "let kept = !OFF && fits(layout)",
            ),
        ],
    },
    Mechanism {
        name: "smallest claim",
        about: "A worker takes at least as many items as run for 6 us.",
        switches: &[(
            "pool/run/batch.rs",
            ".clamp(within(WORTH_NS), within(longest_ns))",
            ".clamp(if OFF { 0 } else { within(WORTH_NS) }, within(longest_ns))",
        )],
    },
    Mechanism {
        name: "short items stay under their cache",
        about: "Items below 3 us are not carried to pods of another last-level cache.",
        switches: &[(
            "pool/lock/settle.rs",
            "        let only_near = item_ns < LONG_ENOUGH_FAR_NS;",
            "        let only_near = !OFF && item_ns < LONG_ENOUGH_FAR_NS;",
        )],
    },
    Mechanism {
        name: "backlogs are watched",
        about: "The monitor samples a pool where much waits, also while a worker is on its way.",
        switches: &[(
            "pool/lock/settle.rs",
            "        if self.pool.steals()\n            && (self.pace.item_ns() == 0",
            "        if !OFF && self.pool.steals()\n            && (self.pace.item_ns() == 0",
        )],
    },
    Mechanism {
        name: "issuers rest",
        about: "A thread that finds no other pod with room deals nothing for some items.",
        switches: &[(
            "pool/submit/dealing.rs",
            "        self.rests.set(RESTS);",
            "        self.rests.set(if OFF { 0 } else { RESTS });",
        )],
    },
    Mechanism {
        name: "a quick first tick",
        about: "The monitor samples a pool with neighbours after 20 us, and then every 2 ms.",
        switches: &[(
            "pool/balance/monitor.rs",
            "(1, true) => (pool.first_tick(watched), QUICK_NS)",
            "(1, true) if !OFF => (pool.first_tick(watched), QUICK_NS)",
        )],
    },
    Mechanism {
        name: "prefetch of the last item",
        about: "A thread whose wait has ended prefetches the item that it queued last.",
        switches: &[(
            "pool/submit/producer.rs",
            "    with(|producer| RawWork::prefetch(producer.last.get()));",
            "    if OFF {\n        return;\n    }\n    with(|producer| RawWork::prefetch(producer.last.get()));",
        )],
    },
    Mechanism {
        name: "credits in portions",
        about: "Pods take credits of max_active several at a time.",
        switches: &[(
            "pool/queue/credits.rs",
            "        let mut portion = self.portion.load(Ordering::Relaxed);",
            "        let mut portion = if OFF { 1 } else { self.portion.load(Ordering::Relaxed) };",
        )],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_switch_has_its_place_in_the_sources() {
        let folder = std::env::temp_dir().join(format!("switches-{}", std::process::id()));
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cmwq/src");
        let files = MECHANISMS.iter().flat_map(|mechanism| mechanism.switches);
        for file in files.map(|(file, ..)| *file).chain(["lib.rs"]) {
            let to = folder.join(file);
            fs::create_dir_all(to.parent().expect("it is in the folder")).expect("a folder");
            fs::copy(sources.join(file), to).expect("the file is there");
        }
        let result = put_in(&folder);
        fs::remove_dir_all(&folder).expect("it was made");
        result.expect("each has its place");
    }

    #[test]
    fn names_are_given_once() {
        let names: BTreeSet<&str> = MECHANISMS.iter().map(|mechanism| mechanism.name).collect();
        assert_eq!(names.len(), MECHANISMS.len());
    }
}
