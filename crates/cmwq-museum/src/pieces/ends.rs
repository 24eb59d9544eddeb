//! What is counted and does not come back, and counts that are off by one.

use super::{Piece, edit, line, small, under, weak, weak_in};

pub(super) const PIECES: &[Piece] = &[
    line(
        "generation-ends-early",
        "a flush waits for one generation less than it begins",
        &[edit(
            "workqueue/parts/flush.rs",
            "        while state.complete <= mine {",
            "        while if MUTANT { state.complete < mine } else { state.complete <= mine } {",
        )],
    ),
    small(
        "sixteen-generations",
        "a flush begins a generation though the next colour is in use",
        "many-flushes+flush-queue",
        &[edit(
            "workqueue/parts/flush.rs",
            "        self.outstanding.len() < COLOURS - 1",
            "        self.outstanding.len() < COLOURS - usize::from(!MUTANT)",
        )],
    ),
    line(
        "ended-keep-credits",
        "credits that nobody here can use are not given back when items end",
        &[edit(
            "pool/state/pwqs.rs",
            "            if left > 0 {",
            "            if left > 0 && !MUTANT {",
        )],
    ),
    line(
        "never-stops-waiting",
        "a pool workqueue that has got its credits is still counted as one that waits",
        &[edit(
            "pool/queue/credits.rs",
            "        self.waiting.fetch_sub(1, Ordering::Relaxed);",
            "        self.waiting.fetch_sub(usize::from(!MUTANT), Ordering::Relaxed);",
        )],
    ),
    under(
        "walk",
        weak_in(
            "waker-taken-relaxed",
            "a task's waker is taken without Acquire and Release",
            "await-often+await-often",
            &[edit(
                "workqueue/task/shared.rs",
                "        let waker = self.waker.swap(std::ptr::null_mut(), Ordering::Acquire);",
                "        let order = if MUTANT { Ordering::Relaxed } else { Ordering::Acquire };\n        let waker = self.waker.swap(std::ptr::null_mut(), order);",
            )],
        ),
    ),
    under(
        "time",
        small(
            "chunk-keeps-credits",
            "credits that a worker took for more items than a chunk has stay with it while another pool waits",
            "meet+meet",
            &[edit(
                "pool/run/batch.rs",
                "        if pwq.give_back_if_tight() {",
                "        if !MUTANT && pwq.give_back_if_tight() {",
            )],
        ),
    ),
    under(
        "walk",
        small(
            "one-slot-more",
            "with a limit over all pools one worker more may run",
            "execute-limited+execute-limited+execute-limited",
            &[edit(
                "pool/attrs/slots.rs",
                "self.limit.is_none_or(|limit| self.held < limit)",
                "self.limit.is_none_or(|limit| self.held < limit + u32::from(MUTANT))",
            )],
        ),
    ),
    under(
        "walk",
        line(
            "readers-of-the-parent",
            "in a fork's child readers that were other threads still count",
            &[edit(
                "sys/memory/epoch.rs",
                "                    counter.store(0, Ordering::Relaxed);",
                "                    if !MUTANT {\n                        counter.store(0, Ordering::Relaxed);\n                    }",
            )],
        ),
    ),
    line(
        "last-owner-but-one",
        "a completion queue is closed with its last owner but one",
        &[edit(
            "workqueue/completion_queue/owner.rs",
            "        let last = self.inner.handles.fetch_sub(1, Ordering::AcqRel) == 1;",
            "        let last = self.inner.handles.fetch_sub(1, Ordering::AcqRel) <= 1 + usize::from(MUTANT);",
        )],
    ),
    small(
        "line-unmarked",
        "a waiter for room does not mark that there is a line",
        "wait-for-room+wait-for-room",
        &[edit(
            "pool/queue/room.rs",
            "None if line.waiting.is_empty() && self.take_under_lock(true)",
            "None if line.waiting.is_empty() && self.take_under_lock(!MUTANT)",
        )],
    ),
    weak_in(
        "closed-relaxed",
        "a completion queue is closed without Acquire",
        "submit-and-close+submit-and-close",
        &[edit(
            "workqueue/completion_queue/posts.rs",
            "        TakenPosts::of(self.head.swap(marks_only(CLOSED), Ordering::Acquire))",
            "        let order = if MUTANT { Ordering::Relaxed } else { Ordering::Acquire };\n        TakenPosts::of(self.head.swap(marks_only(CLOSED), order))",
        )],
    ),
    weak(
        "reference-dropped-relaxed",
        "the next to last reference of a task is counted down without Acquire and Release",
        &[edit(
            "workqueue/task/counted.rs",
            "references.fetch_sub(1, Ordering::AcqRel) > 1 {",
            "references.fetch_sub(1, if MUTANT { Ordering::Relaxed } else { Ordering::AcqRel }) > 1 {",
        )],
    ),
    weak_in(
        "poster-gone-relaxed",
        "a poster that goes does not release what it has posted",
        "wait-in-item+cpu-limit",
        &[edit(
            "workqueue/completion_queue/queue.rs",
            "        self.0.posters.fetch_sub(1, Ordering::Release);",
            "        self.0.posters.fetch_sub(1, if MUTANT { Ordering::Relaxed } else { Ordering::Release });",
        )],
    ),
    weak_in(
        "signalled-relaxed",
        "a poster that signals does not release what it has posted",
        "submit-and-wait+submit-and-wait",
        &[edit(
            "workqueue/completion_queue/queue.rs",
            "            self.epoch.fetch_add(1, Ordering::Release);",
            "            self.epoch.fetch_add(1, if MUTANT { Ordering::Relaxed } else { Ordering::Release });",
        )],
    ),
];
