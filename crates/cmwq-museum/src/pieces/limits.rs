//! Limits, credits and order.

use super::{Piece, edit, line, small, under};

pub(super) const PIECES: &[Piece] = &[
    line(
        "credits-kept",
        "credits are not given back at an item's end",
        &[edit(
            "pool/state/pwqs.rs",
            "                ended.credits_freed = !ended.credits_kept && pwq.give_back_unused();",
            "                ended.credits_freed = !MUTANT && !ended.credits_kept && pwq.give_back_unused();",
        )],
    ),
    line(
        "inactive-overtaken",
        "a new item overtakes those that wait for a credit",
        &[edit(
            "pool/state/pwqs.rs",
            "        if pwq.may_pass() && pwq.use_credit() {",
            "        if (pwq.may_pass() || MUTANT && !pwq.plugged) && pwq.use_credit() {",
        )],
    ),
    line(
        "waiting-chunk-not-entered",
        "a pool workqueue whose first waiting closures are in a chunk does not enter the line for credits",
        &[edit(
            "pool/queue/pwq.rs",
            "        self.inactive.push_part(part, self.colours.current());\n        self.begin_waiting()",
            "        self.inactive.push_part(part, self.colours.current());\n        self.begin_waiting() && !MUTANT",
        )],
    ),
    line(
        "waiting-chunk-other-colour",
        "closures that wait in a chunk end under another flush colour than they were accepted under",
        &[edit(
            "pool/queue/inactive.rs",
            "        item.accept(colour);",
            "        item.accept(if MUTANT { (colour + 1) % 16 } else { colour });",
        )],
    ),
    line(
        "credit-not-entered",
        "a credit that was taken for an inactive item is not entered",
        &[edit(
            "pool/state/pwqs.rs",
            "        pwq.credits.transition_store_to_unused(credits);\n        for _ in 0..credits {",
            "        pwq.credits.transition_store_to_unused(if MUTANT { 0 } else { credits });\n        for _ in 0..credits {",
        )],
    ),
    line(
        "limit-one-too-high",
        "the limit of a per-CPU queue is one too high",
        &[edit(
            "workqueue/parts/limits.rs",
            "WorkqueueKind::PerCpu => vec![self.max_active as i32; cpus],",
            "WorkqueueKind::PerCpu => vec![self.max_active as i32 + i32::from(MUTANT); cpus],",
        )],
    ),
    line(
        "credits-not-collected",
        "a pool workqueue that must wait does not collect the others' unused credits",
        &[edit(
            "workqueue/parts/limits.rs",
            "        collect(members.iter().filter(|other| other.node == pwq.node));",
            "        if !MUTANT {\n            collect(members.iter().filter(|other| other.node == pwq.node));\n        }",
        )],
    ),
    line(
        "served-once",
        "only one inactive item of a pool workqueue is served",
        &[edit(
            "workqueue/parts/node.rs",
            "                Some(true) => line.waiting.push_back(pwq),",
            "                Some(true) if MUTANT => {}\n                Some(true) => line.waiting.push_back(pwq),",
        )],
    ),
    line(
        "credit-of-the-gone",
        "the credit for a pool workqueue that is gone is lost",
        &[edit(
            "workqueue/parts/node.rs",
            "                    self.limit.give(credits);\n                    continue;",
            "                    if !MUTANT {\n                        self.limit.give(credits);\n                    }\n                    continue;",
        )],
    ),
    line(
        "raised-and-not-served",
        "after a change of the limits what waits is not served",
        &[edit(
            "workqueue/parts/limits.rs",
            "        collect(members);\n        self.serve_all();",
            "        collect(members);\n        if !MUTANT {\n            self.serve_all();\n        }",
        )],
    ),
    line(
        "not-plugged",
        "the new pool workqueue of an ordered queue is not plugged",
        &[edit(
            "workqueue/parts/core.rs",
            "        let plugged = self.ordered() && !members.is_empty();",
            "        let plugged = self.ordered() && !members.is_empty() && !MUTANT;",
        )],
    ),
    line(
        "not-frozen",
        "a frozen queue keeps its limit",
        &[edit(
            "workqueue/parts/limits.rs",
            "        if self.frozen {\n            values.fill(0);",
            "        if self.frozen && !MUTANT {\n            values.fill(0);",
        )],
    ),
    line(
        "credits-freed-untold",
        "a queue is not told that credits were freed",
        &[edit(
            "pool/lock/settle.rs",
            "                Event::CreditsFreed(front, node) => front.credits_freed(node),",
            "                Event::CreditsFreed(..) if MUTANT => {}\n                Event::CreditsFreed(front, node) => front.credits_freed(node),",
        )],
    ),
    line(
        "unplugged-untold",
        "an ordered queue's pool workqueue that is unplugged and has no credit does not enter the line",
        &[edit(
            "workqueue/parts/core.rs",
            "            if waits {\n",
            "            if waits && !MUTANT {\n",
        )],
    ),
    small(
        "made-while-frozen",
        "a queue that is made while all are frozen is not",
        "freeze-and-thaw+make-and-drop",
        &[edit(
            "engine/core.rs",
            "        if *frozen {\n            queue.set_frozen(true);",
            "        if *frozen && !MUTANT {\n            queue.set_frozen(true);",
        )],
    ),
    small(
        "ordered-from-anywhere",
        "an ordered queue takes items by the caller's CPU while its slots are replaced one by one",
        "execute-and-move+ordered-attrs",
        &[edit(
            "workqueue/queueing.rs",
            "        let cpu = if self.ordered() {",
            "        let cpu = if self.ordered() && !MUTANT {",
        )],
    ),
    under(
        "time",
        small(
            "joins-tight-uncounted",
            "a queue that joins a group whose limit is reached hoards its credits",
            "join-group+join-group",
            &[edit(
                "pool/queue/credits.rs",
                "        if state.tight {\n            store",
                "        if state.tight && !MUTANT {\n            store",
            )],
        ),
    ),
    under(
        "pct",
        line(
            "overdrawn-and-served",
            "a limit that is overdrawn lets pool workqueues go on with credits of items that end",
            &[edit(
                "pool/queue/credits.rs",
                "        if self.free.load(Ordering::Relaxed) < 0 {\n            // A lowered limit is overdrawn.\n            return 0;",
                "        if !MUTANT && self.free.load(Ordering::Relaxed) < 0 {\n            // A lowered limit is overdrawn.\n            return 0;",
            )],
        ),
    ),
];
