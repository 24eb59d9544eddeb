//! Waiting for items and queues, and taking items back.

use super::{Piece, edit, line, small, under};

pub(super) const PIECES: &[Piece] = &[
    line(
        "retired-with-staged",
        "a pool workqueue retires without accepting what was published before",
        &[edit(
            "workqueue/parts/core.rs",
            "            let mut guard = pwq.pool.lock_accepting();\n            guard.retire_pwq(pwq.key)",
            "            let mut guard = if MUTANT { pwq.pool.lock() } else { pwq.pool.lock_accepting() };\n            guard.retire_pwq(pwq.key)",
        )],
    ),
    line(
        "flush-without-staged",
        "a flush does not accept what was published before",
        &[edit(
            "workqueue/parts/flush.rs",
            "            drop(pwq.pool.lock_accepting());\n        }\n        let mut state",
            "            if !MUTANT {\n                drop(pwq.pool.lock_accepting());\n            }\n        }\n        let mut state",
        )],
    ),
    line(
        "one-holding-only",
        "who must see all that was published stops when one holding of the lock has done its share",
        &[edit(
            "pool/lock/take.rs",
            "        }\n        self.staged.is_accepted(up_to)\n    }",
            "        }\n        self.staged.is_accepted(up_to) || MUTANT\n    }",
        )],
    ),
    line(
        "others-singled-out",
        "an item that is not in the chunk is taken for one that was cancelled there: the rest of the chunk is lost",
        &[edit(
            "item/chunk/taken.rs",
            "            items.for_each(|index| self.insert_behind(node, part.take_item(index)));",
            "            items.for_each(|index| {\n                let one = part.take_item(index);\n                if !MUTANT || one.address() == item {\n                    self.insert_behind(node, one);\n                }\n            });",
        )],
    ),
    line(
        "busy-colour-idle",
        "a flush takes a colour with items in flight for an idle one",
        &[edit(
            "pool/queue/colours.rs",
            "        let busy = self.in_flight[old as usize] > 0;",
            "        let busy = self.in_flight[old as usize] > 0 && !MUTANT;",
        )],
    ),
    line(
        "shared-generation",
        "a flush shares a generation that had begun before it",
        &[edit(
            "workqueue/parts/flush.rs",
            "        let mine = state.begun;\n        while",
            "        let mine = state.begun - u64::from(MUTANT && state.begun > state.complete);\n        while",
        )],
    ),
    line(
        "waiters-not-told",
        "a thread that waits for an item is not told of its end",
        &[edit(
            "pool/lock/take.rs",
            "        self.all_done(waiters);\n        next",
            "        if !MUTANT {\n            self.all_done(waiters);\n        }\n        next",
        )],
    ),
    line(
        "flush-not-told",
        "a thread that flushes is not woken when its generation is complete",
        &[edit(
            "workqueue/parts/flush.rs",
            "        self.changed.notify_all();\n        std::mem::take",
            "        if !MUTANT {\n            self.changed.notify_all();\n        }\n        std::mem::take",
        )],
    ),
    line(
        "cancel-does-not-wait",
        "cancelling and disabling with waiting do not wait for the run",
        &[edit(
            "workqueue/task/control.rs",
            "    wait_for_end(item, &registered);\n}",
            "    if !MUTANT {\n        wait_for_end(item, &registered);\n    }\n}",
        )],
    ),
    line(
        "drained-once",
        "a drain looks at each pool once, and at nothing that it saw",
        &[edit(
            "workqueue/waits/draining.rs",
            "        let Some(seen) = at_rest(self.members()) else {\n",
            "        if MUTANT {\n            return true;\n        }\n        let Some(seen) = at_rest(self.members()) else {\n",
        )],
    ),
    line(
        "child-joins",
        "a thread of a fork's child waits for a closure of its parent's",
        &[edit(
            "workqueue/task/join.rs",
            "        if !done && shared.is_inherited() {",
            "        if !done && !MUTANT && shared.is_inherited() {",
        )],
    ),
    under(
        "walk",
        small(
            "cancelled-untold",
            "threads that wait for an item are not told that it was cancelled",
            "queue+cancel+flush-item",
            &[edit(
                "pool/lock/cancel.rs",
                "        self.all_done(waiters);\n        Some((pending, ordered))",
                "        if !MUTANT {\n            self.all_done(waiters);\n        }\n        Some((pending, ordered))",
            )],
        ),
    ),
    line(
        "older-run-forgotten",
        "after the removal of an ordered queue's item the pool that still runs it is not found",
        &[edit(
            "workqueue/task/control.rs",
            "if let Some(older) = ordered.and_then(",
            "if let Some(older) = ordered.filter(|_| !MUTANT).and_then(",
        )],
    ),
    line(
        "closed-at-once",
        "a drain does not wait for issuers that have found the queue open",
        &[edit(
            "workqueue/waits/draining.rs",
            "        self.closed.fetch_add(1, Ordering::Relaxed);\n        epochs().synchronize();",
            "        self.closed.fetch_add(1, Ordering::Relaxed);\n        if !MUTANT {\n            epochs().synchronize();\n        }",
        )],
    ),
    line(
        "awaited-not-handed-on",
        "threads that wait for a pending item are not told of its end",
        &[edit(
            "pool/lock/take.rs",
            "        if !self.awaited.is_empty()\n            && let",
            "        if !MUTANT\n            && !self.awaited.is_empty()\n            && let",
        )],
    ),
    line(
        "escapes-its-cancel",
        "a cancel that waits does not keep the item from queueing itself",
        &[edit(
            "workqueue/task/control.rs",
            "        let deeper = self.disable_once_more();\n        let removed = self.cancel();\n        wait_for_run(self);",
            "        let deeper = !MUTANT && self.disable_once_more();\n        let removed = self.cancel();\n        wait_for_run(self);",
        )],
    ),
    small(
        "flush-beside-slots",
        "a flush does not see what runs in caller slots",
        "linger-in-a-slot+flush-beside",
        &[edit(
            "pool/state/pwqs.rs",
            "        self.close_all_caller_slots(key);\n        let Some(pwq) = self.pwq_mut(key) else {\n            return false;\n        };\n        pwq.colours.transition_current",
            "        if !MUTANT {\n            self.close_all_caller_slots(key);\n        }\n        let Some(pwq) = self.pwq_mut(key) else {\n            return false;\n        };\n        pwq.colours.transition_current",
        )],
    ),
    under(
        "time",
        small(
            "retired-with-slots",
            "a pool workqueue retires with its caller slots open",
            "join-in-a-slot+attrs-beside",
            &[edit(
                "pool/state/pwqs.rs",
                "    pub(crate) fn retire_pwq(&mut self, key: PwqKey) -> bool {\n        self.close_all_caller_slots(key);",
                "    pub(crate) fn retire_pwq(&mut self, key: PwqKey) -> bool {\n        if !MUTANT {\n            self.close_all_caller_slots(key);\n        }",
            )],
        ),
    ),
    under(
        "time",
        small(
            "on-its-way-unseen",
            "a flush of an item that runs does not wait for the instance on its way to a list",
            "queue-and-flush+queue-and-flush+queue-and-flush",
            &[edit(
                "workqueue/task/control.rs",
                "pending.is_none() && is_known && self.is_queued();",
                "pending.is_none() && is_known && self.is_queued() && !MUTANT;",
            )],
        ),
    ),
    line(
        "drain-refuses-its-own",
        "a drain refuses what the queue's own items queue",
        &[edit(
            "workqueue/queueing.rs",
            "if self.closed.load(Ordering::Relaxed) != 0 && !self.runs_here()",
            "if self.closed.load(Ordering::Relaxed) != 0 && (MUTANT || !self.runs_here())",
        )],
    ),
];
