//! Orderings: what only a weak memory shows.

use super::{Piece, edit, weak, weak_in};

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
    weak_in(
        "published-acquires-only",
        "an item is published with Acquire alone: who takes it need not see what it holds",
        "queue+queue-batch",
        &[edit(
            "item/chunk/inbox.rs",
            "                Ordering::Release,",
            "                if MUTANT { Ordering::Acquire } else { Ordering::Release },",
        )],
    ),
    weak_in(
        "taken-relaxed",
        "published items are taken with Relaxed: who takes them need not see what they hold",
        "queue+queue-batch",
        &[edit(
            "item/chunk/inbox.rs",
            "        NonNull::new(self.head.swap(std::ptr::null_mut(), Ordering::Acquire))",
            "        NonNull::new(self.head.swap(std::ptr::null_mut(), if MUTANT { Ordering::Relaxed } else { Ordering::Acquire }))",
        )],
    ),
    weak(
        "filled-relaxed",
        "an entry of a chunk is filled with Relaxed: who runs it need not see the closure",
        &[edit(
            "item/chunk/open.rs",
            "        if chunk.filled.fetch_add(1, Ordering::Release) & CLOSED != 0 {",
            "        if chunk.filled.fetch_add(1, if MUTANT { Ordering::Relaxed } else { Ordering::Release }) & CLOSED != 0 {",
        )],
    ),
    weak(
        "chunk-closed-relaxed",
        "a chunk is closed with Relaxed: who closes it need not see its closures",
        &[edit(
            "item/chunk/part.rs",
            "            .fetch_or(CLOSED, Ordering::Acquire);",
            "            .fetch_or(CLOSED, if MUTANT { Ordering::Relaxed } else { Ordering::Acquire });",
        )],
    ),
    weak(
        "completed-relaxed",
        "whether a completion is done is read with Relaxed",
        &[edit(
            "item/completion.rs",
            "        self.state.load(Ordering::Acquire) >= ONE",
            "        self.state.load(if MUTANT { Ordering::Relaxed } else { Ordering::Acquire }) >= ONE",
        )],
    ),
    weak_in(
        "completed-all-acquires",
        "a completion is completed for all with Acquire alone: who waited need not see what was done",
        "queue+spawn-and-join",
        &[edit(
            "item/completion.rs",
            "        let before = self.state.swap(ALL, Ordering::AcqRel);",
            "        let before = self.state.swap(ALL, if MUTANT { Ordering::Acquire } else { Ordering::AcqRel });",
        )],
    ),
    weak(
        "polled-releases-nothing",
        "the mark of a future's waker is left with Release alone",
        &[edit(
            "item/completion.rs",
            "        self.state.fetch_or(POLLED, Ordering::AcqRel) & ALL == 0",
            "        self.state.fetch_or(POLLED, if MUTANT { Ordering::Release } else { Ordering::AcqRel }) & ALL == 0",
        )],
    ),
    weak_in(
        "waited-relaxed",
        "a thread that waits for a completion reads it with Relaxed",
        "queue+spawn-and-join",
        &[edit(
            "item/completion.rs",
            "        let mut now = self.state.load(Ordering::Acquire);",
            "        let mut now = self.state.load(if MUTANT { Ordering::Relaxed } else { Ordering::Acquire });",
        )],
    ),
    weak_in(
        "unclaimed-acquires",
        "an item is no longer pending with Acquire alone: who queues it again need not see the run before",
        "queue+queue",
        &[edit(
            "item/raw.rs",
            "            self.item().state.fetch_and(!PENDING, Ordering::AcqRel);",
            "            self.item().state.fetch_and(!PENDING, if MUTANT { Ordering::Acquire } else { Ordering::AcqRel });",
        )],
    ),
    weak(
        "readers-relaxed",
        "a writer reads the counters of readers with Relaxed",
        &[edit(
            "sys/memory/epoch.rs",
            "                while readers.0[old].load(Ordering::SeqCst) != 0 {",
            "                while readers.0[old].load(if MUTANT { Ordering::Relaxed } else { Ordering::SeqCst }) != 0 {",
        )],
    ),
    weak(
        "shared-relaxed",
        "what readers use is loaded with Relaxed",
        &[edit(
            "sys/memory/epoch.rs",
            "        let value = self.0.load(Ordering::SeqCst);",
            "        let value = self.0.load(if MUTANT { Ordering::Relaxed } else { Ordering::SeqCst });",
        )],
    ),
    weak(
        "post-acquires-only",
        "a post is published with Acquire alone",
        &[edit(
            "workqueue/completion_queue/posts.rs",
            "                entry.as_ptr(),\n                Ordering::Release,",
            "                entry.as_ptr(),\n                if MUTANT { Ordering::Acquire } else { Ordering::Release },",
        )],
    ),
    weak(
        "posts-taken-relaxed",
        "posts are taken with Relaxed",
        &[edit(
            "workqueue/completion_queue/posts.rs",
            "        TakenPosts::of(self.head.swap(std::ptr::null_mut(), Ordering::Acquire))",
            "        TakenPosts::of(self.head.swap(std::ptr::null_mut(), if MUTANT { Ordering::Relaxed } else { Ordering::Acquire }))",
        )],
    ),
];
