//! Branches that forget to wake or to tell, and second looks that are not taken.

use super::{Piece, edit, line, small, under};

pub(super) const PIECES: &[Piece] = &[
    line(
        "saturated-unwatched",
        "a saturated pool does not call the monitor",
        &[edit(
            "pool/lock/settle.rs",
            "        self.watch();\n    }\n\n    /// A worker is on its way.",
            "        if !MUTANT {\n            self.watch();\n        }\n    }\n\n    /// A worker is on its way.",
        )],
    ),
    line(
        "gone-and-untold",
        "a queue is not told that one of its pool workqueues is gone",
        &[edit(
            "pool/lock/settle.rs",
            "                Event::PwqGone(front, pwq) => front.pwq_gone(pool, pwq),",
            "                Event::PwqGone(front, pwq) => {\n                    if !MUTANT {\n                        front.pwq_gone(pool, pwq)\n                    }\n                }",
        )],
    ),
    line(
        "waits-and-not-entered",
        "a pool workqueue whose first item has to wait does not enter the line for credits",
        &[edit(
            "pool/lock/take.rs",
            "            Accepted::BeginsToWait => {\n                self.must_wait(index);",
            "            Accepted::BeginsToWait => {\n                if !MUTANT {\n                    self.must_wait(index);\n                }",
        )],
    ),
    line(
        "begins-to-wait-uncounted",
        "a pool workqueue that begins to wait is not counted at its limit, so that others keep their credits",
        &[edit(
            "pool/queue/pwq.rs",
            "        self.limit.one_more_waits();\n        true",
            "        if !MUTANT {\n            self.limit.one_more_waits();\n        }\n        true",
        )],
    ),
    line(
        "creating-for-ever",
        "a new worker does not say that it has come: no other one is asked for",
        &[edit(
            "pool/run/worker.rs",
            "        guard.creating = false;\n",
            "        guard.creating = MUTANT;\n",
        )],
    ),
    small(
        "token-kept",
        "a thread that finds its token when it is about to park leaves it there",
        "queue+queue-batch",
        &[edit(
            "sys/waiting/park.rs",
            "                self.0.swap(EMPTY, Ordering::Acquire);\n                return true;",
            "                if !MUTANT {\n                    self.0.swap(EMPTY, Ordering::Acquire);\n                }\n                return true;",
        )],
    ),
    line(
        "woken-only-if-parked-at-first",
        "a waker reads whether the sleeper is parked before it leaves the token",
        &[edit(
            "sys/waiting/park.rs",
            "            if self.0.swap(TOKEN, Ordering::Release) == PARKED {",
            "            let before = if MUTANT { self.0.load(Ordering::Relaxed) } else { PARKED };\n            if self.0.swap(TOKEN, Ordering::Release) == PARKED && before == PARKED {",
        )],
    ),
    line(
        "armed-beside-entries",
        "an owner arms itself though an entry was posted meanwhile",
        &[edit(
            "workqueue/completion_queue/posts.rs",
            "            if is_entry(head) || head.addr() == CLOSED {\n                return false;",
            "            if is_entry(head) || head.addr() == CLOSED {\n                return MUTANT;",
        )],
    ),
    line(
        "flushed-under-the-old-colour",
        "a pool workqueue that is made during a flush begins with the colour before",
        &[edit(
            "workqueue/parts/flush.rs",
            "        f(self.state.lock().colour)",
            "        let state = self.state.lock();\n        let colour = state.colour;\n        f(if MUTANT && colour > 0 { colour - 1 } else { colour })",
        )],
    ),
    line(
        "flushed-at-once",
        "a flush begins its generation with nothing outstanding of its own",
        &[edit(
            "workqueue/parts/flush.rs",
            "            busy: 1,\n        });",
            "            busy: 1 - usize::from(MUTANT),\n        });",
        )],
    ),
    line(
        "retired-before-the-readers",
        "pool workqueues are retired before readers of the old mapping have gone",
        &[edit(
            "workqueue/parts/core.rs",
            "        drop(Replaced::retire(old, epochs()));",
            "        if MUTANT {\n            std::mem::forget(old);\n        } else {\n            drop(Replaced::retire(old, epochs()));\n        }",
        )],
    ),
    line(
        "group-not-collected",
        "a group that becomes tight does not collect its queues' unused credits",
        &[edit(
            "workqueue/parts/group.rs",
            "            for queue in self.queues() {\n                node::collect(&queue.pwqs());",
            "            for queue in self.queues().into_iter().filter(|_| !MUTANT) {\n                node::collect(&queue.pwqs());",
        )],
    ),
    under(
        "time",
        small(
            "delayed-flush-unqueued",
            "a flush of a delayed item stops its timer and does not queue it",
            "move-delayed+flush-delayed",
            &[edit(
                "workqueue/delayed.rs",
                "        let queued = armed.is_some_and(|armed| armed.enqueue(Admission::Forces).is_ok());",
                "        let queued = armed.filter(|_| !MUTANT).is_some_and(|armed| armed.enqueue(Admission::Forces).is_ok());",
            )],
        ),
    ),
    line(
        "timer-sleeps-through",
        "the timers' thread does not note until when it sleeps",
        &[edit(
            "timer/service.rs",
            "        state.sleeps_until = next.unwrap_or(u64::MAX);",
            "        if !MUTANT {\n            state.sleeps_until = next.unwrap_or(u64::MAX);\n        }",
        )],
    ),
    small(
        "group-raised-and-not-served",
        "after the limit of a group is raised what waits is not served",
        "raise-own-group+execute-beside",
        &[edit(
            "workqueue/parts/group.rs",
            "        self.0.shared.change(within_range(self.name(), max_active));\n        self.serve(None);",
            "        self.0.shared.change(within_range(self.name(), max_active));\n        if !MUTANT {\n            self.serve(None);\n        }",
        )],
    ),
];
