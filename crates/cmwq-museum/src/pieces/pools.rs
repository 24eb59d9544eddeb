//! Workers and pools.

use super::{Piece, edit, line, small, under};

pub(super) const PIECES: &[Piece] = &[
    line(
        "busy-not-searched",
        "an item is started although a worker of the pool runs it",
        &[edit(
            "pool/lock/take.rs",
            "            && let Some(run) = inner.busy.find(address, func)\n",
            "            && let Some(run) = inner.busy.find(address, func).filter(|_| !MUTANT)\n",
        )],
    ),
    line(
        "no-worker-asked-for",
        "settling does not ask for a worker when none is idle",
        &[edit(
            "pool/lock/settle.rs",
            "        if woken < most {",
            "        if woken < most && !MUTANT {",
        )],
    ),
    line(
        "one-worker-leaves",
        "a pool that goes wakes one of its idle workers only",
        &[edit(
            "pool/lock/pool.rs",
            "        while guard.wake_idle() {}",
            "        while guard.wake_idle() && !MUTANT {}",
        )],
    ),
    line(
        "no-mayday",
        "the rescuer is not called",
        &[edit(
            "pool/service/rescuer.rs",
            "                    calls.push((rescuer.clone(), index));",
            "                    if !MUTANT {\n                        calls.push((rescuer.clone(), index));\n                    }",
        )],
    ),
    small(
        "waiters-run-all",
        "a thread that waits runs items of a queue for workers only",
        "join-for-workers+join-for-workers",
        &[edit(
            "workqueue/queueing.rs",
            "self.kind == WorkqueueKind::Unbound && !self.flags.workers_only && !self.flags.highpri",
            "self.kind == WorkqueueKind::Unbound\n            && (MUTANT || !self.flags.workers_only)\n            && !self.flags.highpri",
        )],
    ),
    line(
        "threads-of-all",
        "a queue that was given threads of its own uses the workers of all",
        &[edit(
            "workqueue/builder.rs",
            "        let threads = self.threads.or_else(",
            "        let threads = self.threads.filter(|_| !MUTANT).or_else(",
        )],
    ),
    line(
        "exit-hook-forgotten",
        "a thread that ends does not call its hook",
        &[edit(
            "pool/attrs/threads.rs",
            "        self.call(Callee::ExitHook, |wishes| wishes.exit.as_ref());",
            "        if !MUTANT {\n            self.call(Callee::ExitHook, |wishes| wishes.exit.as_ref());\n        }",
        )],
    ),
    line(
        "any-node",
        "an item for a node is queued from the caller's CPU, wherever that is",
        &[edit(
            "workqueue/queueing.rs",
            "here.filter(|&here| cpus.contains(here))",
            "here.filter(|&here| MUTANT || cpus.contains(here))",
        )],
    ),
    under(
        "walk",
        small(
            "one-flip",
            "a grace period flips the phase once",
            "queue-on+mask",
            &[edit(
                "sys/memory/epoch.rs",
                "        for _ in 0..2 {\n            let old = self",
                "        for _ in 0..if MUTANT { 1 } else { 2 } {\n            let old = self",
            )],
        ),
    ),
    line(
        "called-once",
        "a pool workqueue calls its rescuer once only",
        &[edit(
            "pool/service/rescuer.rs",
            "            pwq.mayday = false;",
            "            pwq.mayday = MUTANT;",
        )],
    ),
    line(
        "route-kept",
        "a thread goes on using its cached route after a grace period",
        &[edit(
            "sys/memory/epoch.rs",
            "        if epoch != self.epoch {",
            "        if !MUTANT && epoch != self.epoch {",
        )],
    ),
    line(
        "put-back-other-colour",
        "items of a closed batch that were not begun end under another colour",
        &[edit(
            "pool/lock/batches.rs",
            "            item.accept(open.colour);",
            "            item.accept(if MUTANT { (open.colour + 1) % 16 } else { open.colour });",
        )],
    ),
    line(
        "batch-not-closed",
        "an item that comes again does not close the batch that may still run it",
        &[edit(
            "pool/lock/batches.rs",
            "        let its_own = |&&(id, serial): &&(u32, u32)| ticket(id, serial) == noted;",
            "        let its_own = |&&(id, serial): &&(u32, u32)| ticket(id, serial) == noted && !MUTANT;",
        )],
    ),
];
