//! Items, batches and completion queues.

use super::{Piece, edit, line, small, under};

pub(super) const PIECES: &[Piece] = &[
    line(
        "disabled-accepted",
        "a disabled item is accepted",
        &[edit(
            "item/raw.rs",
            "        let is_idle = |before| before & PENDING == 0 && before < DISABLE_STEP;",
            "        let is_idle = |before| before & PENDING == 0 && (MUTANT || before < DISABLE_STEP);",
        )],
    ),
    line(
        "completion-dropped",
        "what an item returns is not posted now and then",
        &[edit(
            "workqueue/completion_queue/submit.rs",
            "        let Some(inner) = self.inner.take() else {",
            "        if MUTANT && token % 8 == 0 {\n            return;\n        }\n        let Some(inner) = self.inner.take() else {",
        )],
    ),
    line(
        "armed-without-a-mark",
        "arming does not ask for the eventfd to be made readable",
        &[edit(
            "workqueue/completion_queue/owner.rs",
            "        if !owners.ready.is_empty() || !self.inner.posts.arm(FD) {\n            return false;",
            "        if !owners.ready.is_empty() || (!MUTANT && !self.inner.posts.arm(FD)) {\n            return false;",
        )],
    ),
    line(
        "owner-not-woken",
        "a post does not wake an owner that sleeps",
        &[edit(
            "workqueue/completion_queue/queue.rs",
            "            if !Pool::defer_wakeup(&self.epoch) {",
            "            if !MUTANT && !Pool::defer_wakeup(&self.epoch) {",
        )],
    ),
    under(
        "walk",
        small(
            "room-kept",
            "the room of a completion is not given back when its item is refused",
            "submit-for-room+drain",
            &[edit(
                "workqueue/completion_queue/submit.rs",
                "            inner.release(1);",
                "            if !MUTANT {\n                inner.release(1);\n            }",
            )],
        ),
    ),
    line(
        "batch-accepts-the-pending",
        "a batch takes a pending item for an accepted one",
        &[
            edit(
                "workqueue/batch.rs",
                "                    not_claimed.push((first + index, why_not.into()));\n",
                "                    if !MUTANT {\n                        not_claimed.push((first + index, why_not.into()));\n                    }\n",
            ),
            edit(
                "workqueue/batch.rs",
                "                outcome.accepted += claimed;\n",
                "                outcome.accepted += if MUTANT { chunk.len() } else { claimed };\n",
            ),
        ],
    ),
    line(
        "chain-backwards",
        "the closures of a batch that are queued one by one are queued in reverse",
        &[edit(
            "workqueue/batch.rs",
            "        let mut chunk = chunk.into_iter();\n        while",
            "        if MUTANT {\n            chunk.reverse();\n        }\n        let mut chunk = chunk.into_iter();\n        while",
        )],
    ),
    under(
        "walk",
        small(
            "move-forgets-the-disabled",
            "moving an idle item accepts one that is disabled",
            "move-delayed-now+disable-delayed",
            &[edit(
                "workqueue/delayed.rs",
                "        } else if self.work.is_disabled() {",
                "        } else if !MUTANT && self.work.is_disabled() {",
            )],
        ),
    ),
    line(
        "child-accepts",
        "a queue accepts items in the child of a fork, where it has no workers",
        &[edit(
            "workqueue/queueing.rs",
            "        if self.engine.is_inherited() {",
            "        if !MUTANT && self.engine.is_inherited() {",
        )],
    ),
    under(
        "walk",
        small(
            "refused-value-kept",
            "a queue that refuses an embedded item keeps the reference of its value",
            "queue-embedded+drain",
            &[edit(
                "workqueue/embedded.rs",
                "        if result.is_err() {\n            // SAFETY: the queue has",
                "        if !MUTANT && result.is_err() {\n            // SAFETY: the queue has",
            )],
        ),
    ),
    line(
        "moved-value-kept",
        "an embedded item that is moved keeps the reference of the instance that was removed",
        &[edit(
            "workqueue/delayed/embedded.rs",
            "        let reclaim = || drop(unsafe { embedded.item.reclaim() });",
            "        let reclaim = || {\n            if !MUTANT {\n                drop(unsafe { embedded.item.reclaim() });\n            }\n        };",
        )],
    ),
    line(
        "enabled-by-one",
        "one guard that is dropped enables an item that others disable",
        &[edit(
            "item/raw.rs",
            "state.checked_sub(DISABLE_STEP);",
            "state.checked_sub(if MUTANT { state & !(DISABLE_STEP - 1) | DISABLE_STEP } else { DISABLE_STEP });",
        )],
    ),
    small(
        "again-in-another-pod",
        "an item that runs in one pod is queued again in a chunk of another one",
        "flood+flood",
        &[edit(
            "item/chunk/open.rs",
            "            if (last_pool != 0 && last_pool != destination.pool)",
            "            if (!MUTANT && last_pool != 0 && last_pool != destination.pool)",
        )],
    ),
];
