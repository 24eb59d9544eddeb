//! Known failures of the field.

use super::{Piece, edit, known};

pub(super) const PIECES: &[Piece] = &[
    known(
        "sleeper-counts",
        "the counter of searching workers is changed by the sleeper, when it is awake again, instead of by its waker (the hang for which a sharded blocking pool was reverted)",
        &[
            edit(
                "pool/state/counts.rs",
                "        self.searching += 1;\n        let worker = &mut workers[id];",
                "        if !MUTANT {\n            self.searching += 1;\n        }\n        let worker = &mut workers[id];",
            ),
            edit(
                "pool/state/counts.rs",
                "        self.leave_search(worker, WorkerState::Idle { since_ns });",
                "        if MUTANT {\n            self.searching += 1;\n        }\n        self.leave_search(worker, WorkerState::Idle { since_ns });",
            ),
        ],
    ),
    known(
        "wake-before-visible",
        "the wake-up is issued before what the sleeper waits for is visible",
        &[edit(
            "sys/waiting/park.rs",
            "            if self.0.swap(TOKEN, Ordering::Release) == PARKED {\n                wake_one(&self.0);\n            }",
            "            if MUTANT {\n                if self.0.load(Ordering::Relaxed) == PARKED {\n                    wake_one(&self.0);\n                }\n                self.0.swap(TOKEN, Ordering::Release);\n                return;\n            }\n            if self.0.swap(TOKEN, Ordering::Release) == PARKED {\n                wake_one(&self.0);\n            }",
        )],
    ),
    known(
        "double-claim",
        "an idle worker is claimed without being taken off the list: two wakers pick it",
        &[edit(
            "pool/state/counts.rs",
            "        worker.state = WorkerState::Searching;\n        id\n    }",
            "        worker.state = WorkerState::Searching;\n        if MUTANT && !worker.woken {\n            self.idle.insert(chosen, id);\n        }\n        id\n    }",
        )],
    ),
    known(
        "culled-and-picked",
        "a worker that is to go is left on the idle list, where it is picked for an item",
        &[edit(
            "pool/service/cull.rs",
            "            guard.leaving += 1;\n            guard.wake_at(0);",
            "            guard.leaving += 1;\n            if MUTANT {\n                let handle = guard.workers[oldest].handle.clone();\n                handle.wake();\n                guard.cull_armed = false;\n                return None;\n            } else {\n                guard.wake_at(0);\n            }",
        )],
    ),
    known(
        "no-second-look",
        "the mark that asks for a notification is taken for set without a second look at the queue",
        &[edit(
            "pool/lock/settle.rs",
            "        if !self.has_waiting() && self.pool.inbox.ask_notify() {\n            if",
            "        if !self.has_waiting() && (self.pool.inbox.ask_notify() || MUTANT) {\n            if",
        )],
    ),
    known(
        "other-stripe",
        "the post goes to another sleeper than the one that was chosen",
        &[edit(
            "pool/lock/guard.rs",
            "        let wake = Wake {\n            worker: slot.handle.clone(),",
            "        let first = self.workers.iter().next().map(|(_, slot)| slot.handle.clone());\n        let first = first.filter(|_| MUTANT);\n        let wake = Wake {\n            worker: first.unwrap_or_else(|| slot.handle.clone()),",
        )],
    ),
    known(
        "two-pools",
        "an item that runs on one pool is queued on another, and runs on both at once",
        &[edit(
            "pool/submit/publish.rs",
            "        while let Some(index) = guard.runs_for(&item, front_id) {",
            "        while let Some(index) = guard.runs_for(&item, front_id).filter(|_| !MUTANT) {",
        )],
    ),
    known(
        "never-unplugged",
        "the waiting items of a plugged ordered queue are never released",
        &[edit(
            "workqueue/parts/core.rs",
            "        if let Some(pwq) = unplugged {",
            "        if let Some(pwq) = unplugged.filter(|_| !MUTANT) {",
        )],
    ),
    known(
        "refused-once",
        "a worker that could not be created is not asked for again: what waits for it waits for ever",
        &[edit(
            "pool/service/creator.rs",
            "                attempts.refused(next, clock::now_ns());",
            "                if !MUTANT {\n                    attempts.refused(next, clock::now_ns());\n                }",
        )],
    ),
    known(
        "never-destroyed",
        "a queue that is dropped from its own item is never destroyed if no thread can be created (found by exploration in this library)",
        &[edit(
            "pool/service/creator.rs",
            "        self.refused.extend(refused);",
            "        if MUTANT {\n            refused.for_each(drop);\n        } else {\n            self.refused.extend(refused);\n        }",
        )],
    ),
    known(
        "moved-and-lost",
        "an item that is moved is lost if the thread of the timers cannot be created (found by exploration in this library)",
        &[edit(
            "workqueue/delayed.rs",
            "            Err(armed) if moved => armed.enqueue_now(admission),",
            "            Err(armed) if moved && !MUTANT => armed.enqueue_now(admission),",
        )],
    ),
    known(
        "no-grace-period",
        "what readers may still use is let go of without a grace period",
        &[edit(
            "sys/memory/epoch.rs",
            "        advance_epoch();\n        let _one_writer",
            "        if MUTANT {\n            return;\n        }\n        advance_epoch();\n        let _one_writer",
        )],
    ),
];
