// The museum: known failures of this field, re-created as mutations of the library, and mutations of lines that are essential. Also read by
// build.rs. In `to`, MUTANT stands for the question whether the piece is active.

/// One change of the sources. `from` stands there exactly once.
pub struct Edit {
    /// Below `crates/cmwq/src`.
    pub file: &'static str,
    /// What stands there.
    pub from: &'static str,
    /// What stands there instead.
    pub to: &'static str,
}

/// One piece.
pub struct Piece {
    /// On the command line.
    pub name: &'static str,
    /// Whether it is a known failure of the field, or an essential line of ours.
    pub known: bool,
    /// What is wrong.
    pub what: &'static str,
    /// Faults under which it is looked for.
    pub faults: &'static str,
    /// Seeds within which it must be found.
    pub budget: u64,
    /// The change.
    pub edits: &'static [Edit],
}

const fn known(name: &'static str, what: &'static str, edits: &'static [Edit]) -> Piece {
    Piece {
        name,
        known: true,
        what,
        faults: "all",
        budget: 2000,
        edits,
    }
}

const fn line(name: &'static str, what: &'static str, edits: &'static [Edit]) -> Piece {
    Piece {
        name,
        known: false,
        what,
        faults: "all",
        budget: 2000,
        edits,
    }
}

const fn edit(file: &'static str, from: &'static str, to: &'static str) -> Edit {
    Edit { file, from, to }
}

/// All of them.
pub const PIECES: &[Piece] = &[
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
            "        let handle = slot.handle.clone();\n        if self.wake.is_none() {",
            "        let handle = slot.handle.clone();\n        let handle = if MUTANT {\n            self.workers.iter().next().map_or(handle, |(_, slot)| slot.handle.clone())\n        } else {\n            handle\n        };\n        if self.wake.is_none() {",
        )],
    ),
    known(
        "two-pools",
        "an item that runs on one pool is queued on another, and runs on both at once",
        &[edit(
            "pool/submit/publish.rs",
            "        match guard.runs_for(&item, front_id) {",
            "        match guard.runs_for(&item, front_id).filter(|_| !MUTANT) {",
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
            "pool/service/thread.rs",
            "            self.reporter.perform(Box::new(move || perform(&job)));",
            "            if !MUTANT {\n                self.reporter.perform(Box::new(move || perform(&job)));\n            }",
        )],
    ),
    known(
        "moved-and-lost",
        "an item that is moved is lost if the thread of the timers cannot be created (found by exploration in this library)",
        &[edit(
            "workqueue/delayed.rs",
            "            Err(armed) if moved => armed.enqueue_now(),",
            "            Err(armed) if moved && !MUTANT => armed.enqueue_now(),",
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
            "        if !self.wake_idle() {\n            self.want_worker();\n        }\n    }\n\n    /// No worker of this pool",
            "        if !self.wake_idle() && !MUTANT {\n            self.want_worker();\n        }\n    }\n\n    /// No worker of this pool",
        )],
    ),
    line(
        "credits-kept",
        "credits are not given back at an item's end",
        &[edit(
            "pool/state/pwqs.rs",
            "                ended.credits_freed = pwq.give_back_unused();",
            "                ended.credits_freed = !MUTANT && pwq.give_back_unused();",
        )],
    ),
    line(
        "inactive-overtaken",
        "a new item overtakes those that wait for a credit",
        &[edit(
            "pool/state/pwqs.rs",
            "        if pwq.inactive.is_empty() && !pwq.waiting && !pwq.plugged && pwq.use_credit() {",
            "        let first = pwq.inactive.is_empty() && !pwq.waiting;\n        if (first || MUTANT) && !pwq.plugged && pwq.use_credit() {",
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
            "        item.accept(*colour);",
            "        item.accept(if MUTANT { (*colour + 1) % 16 } else { *colour });",
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
        "retired-with-staged",
        "a pool workqueue retires without accepting what was published before",
        &[edit(
            "workqueue/parts/core.rs",
            "            let mut guard = pwq.pool.lock();\n            guard.drain();\n            guard.retire_pwq(pwq.key)",
            "            let mut guard = pwq.pool.lock();\n            if !MUTANT {\n                guard.drain();\n            }\n            guard.retire_pwq(pwq.key)",
        )],
    ),
    line(
        "flush-without-staged",
        "a flush does not accept what was published before",
        &[edit(
            "workqueue/parts/flush.rs",
            "            guard.drain();\n            busy +=",
            "            if !MUTANT {\n                guard.drain();\n            }\n            busy +=",
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
            "            self.changed.notify_all();\n        }\n    }\n}",
            "            if !MUTANT {\n                self.changed.notify_all();\n            }\n        }\n    }\n}",
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
        "one-worker-leaves",
        "a pool that goes wakes one of its idle workers only",
        &[edit(
            "pool/lock/pool.rs",
            "        while guard.wake_idle() {}",
            "        while guard.wake_idle() && !MUTANT {}",
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
        "earlier-timer-sleeps",
        "the timers' thread is not woken for a timer that is earlier than all others",
        &[edit(
            "timer/service.rs",
            "        if earlier {\n            self.parker().unpark();",
            "        if earlier && !MUTANT {\n            self.parker().unpark();",
        )],
    ),
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
        "drained-once",
        "a drain looks at each pool once, and at nothing that it saw",
        &[edit(
            "workqueue/draining.rs",
            "            if let Some(seen) = at_rest(self.members())\n",
            "            if MUTANT {\n                return;\n            }\n            if let Some(seen) = at_rest(self.members())\n",
        )],
    ),
    line(
        "no-mayday",
        "the rescuer is not called",
        &[edit(
            "pool/service/rescuer.rs",
            "                    calls.push((rescuer.clone(), place));",
            "                    if !MUTANT {\n                        calls.push((rescuer.clone(), place));\n                    }",
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
    line(
        "room-kept",
        "the room of a completion is not given back when its item is refused",
        &[edit(
            "workqueue/completion_queue/submit.rs",
            "            inner.release(1);",
            "            if !MUTANT {\n                inner.release(1);\n            }",
        )],
    ),
    line(
        "batch-accepts-the-pending",
        "a batch takes a pending item for an accepted one",
        &[edit(
            "workqueue/batch.rs",
            "                Err(why_not) => {\n                    outcome.rest.push((first + index, why_not.into()));\n                    None\n                }",
            "                Err(why_not) => {\n                    if MUTANT {\n                        outcome.accepted += 1;\n                    } else {\n                        outcome.rest.push((first + index, why_not.into()));\n                    }\n                    None\n                }",
        )],
    ),
    line(
        "chain-backwards",
        "the closures of a batch that are queued one by one are queued in reverse",
        &[edit(
            "workqueue/batch.rs",
            "        for func in chunk {\n            let accepted_before",
            "        if MUTANT {\n            chunk.reverse();\n        }\n        for func in chunk {\n            let accepted_before",
        )],
    ),
    line(
        "move-forgets-the-disabled",
        "moving an idle item accepts one that is disabled",
        &[edit(
            "workqueue/delayed.rs",
            "        } else if self.work.is_disabled() {",
            "        } else if !MUTANT && self.work.is_disabled() {",
        )],
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
    line(
        "child-joins",
        "a thread of a fork's child waits for a closure of its parent's",
        &[edit(
            "workqueue/task/join.rs",
            "        if !done && self.born != fork::generation() {",
            "        if !done && !MUTANT && self.born != fork::generation() {",
        )],
    ),
    line(
        "waiters-run-all",
        "a thread that waits runs items of a queue for workers only",
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
            "        self.call(\"on_exit\", |wishes| wishes.exit.as_ref());",
            "        if !MUTANT {\n            self.call(\"on_exit\", |wishes| wishes.exit.as_ref());\n        }",
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
    line(
        "refused-value-kept",
        "a queue that refuses an embedded item keeps the reference of its value",
        &[edit(
            "workqueue/embedded.rs",
            "        if result.is_err() {\n            // SAFETY: the queue has",
            "        if !MUTANT && result.is_err() {\n            // SAFETY: the queue has",
        )],
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
        "unplugged-untold",
        "an ordered queue's pool workqueue that is unplugged and has no credit does not enter the line",
        &[edit(
            "workqueue/parts/core.rs",
            "            if waits {\n",
            "            if waits && !MUTANT {\n",
        )],
    ),
    line(
        "cancelled-untold",
        "threads that wait for an item are not told that it was cancelled",
        &[edit(
            "pool/lock/cancel.rs",
            "        self.all_done(waiters);\n        Some((pending, ordered))",
            "        if !MUTANT {\n            self.all_done(waiters);\n        }\n        Some((pending, ordered))",
        )],
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
        "one-flip",
        "a grace period flips the phase once",
        &[edit(
            "sys/memory/epoch.rs",
            "        for _ in 0..2 {\n            let old = self",
            "        for _ in 0..if MUTANT { 1 } else { 2 } {\n            let old = self",
        )],
    ),
    line(
        "closed-at-once",
        "a drain does not wait for issuers that have found the queue open",
        &[edit(
            "workqueue/draining.rs",
            "        self.closed.fetch_add(1, Ordering::SeqCst);\n        epochs().synchronize();",
            "        self.closed.fetch_add(1, Ordering::SeqCst);\n        if !MUTANT {\n            epochs().synchronize();\n        }",
        )],
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
        "awaited-not-handed-on",
        "threads that wait for a pending item are not told of its end",
        &[edit(
            "pool/lock/take.rs",
            "        if !self.awaited.is_empty()\n            && let",
            "        if !MUTANT\n            && !self.awaited.is_empty()\n            && let",
        )],
    ),
    line(
        "timer-of-another",
        "a timer is stopped by its number, though the number is another timer's by now",
        &[edit(
            "timer/wheel.rs",
            "if entry.serial != key.serial ||",
            "if (entry.serial != key.serial && !MUTANT) ||",
        )],
    ),
    line(
        "first-moves-down",
        "of the timers that move to a finer level of the wheel only the first does",
        &[edit(
            "timer/wheel.rs",
            "                self.link(index);\n                index = next;",
            "                self.link(index);\n                index = if MUTANT { NONE } else { next };",
        )],
    ),
    line(
        "timer-too-early",
        "a timer expires in the tick of its deadline, before that has passed",
        &[edit(
            "timer/service.rs",
            "tick_of(now.saturating_add(delay_ns)) + 1;",
            "tick_of(now.saturating_add(delay_ns)) + u64::from(!MUTANT);",
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
    line(
        "escapes-its-cancel",
        "a cancel that waits does not keep the item from queueing itself",
        &[edit(
            "workqueue/task/control.rs",
            "        let deeper = self.disable_once_more();\n        let removed = self.cancel();\n        wait_for_run(self);",
            "        let deeper = !MUTANT && self.disable_once_more();\n        let removed = self.cancel();\n        wait_for_run(self);",
        )],
    ),
    line(
        "made-while-frozen",
        "a queue that is made while all are frozen is not",
        &[edit(
            "engine/core.rs",
            "        if *frozen {\n            queue.set_frozen(true);",
            "        if *frozen && !MUTANT {\n            queue.set_frozen(true);",
        )],
    ),
    line(
        "ordered-from-anywhere",
        "an ordered queue takes items by the caller's CPU while its slots are replaced one by one",
        &[edit(
            "workqueue/queueing.rs",
            "        let cpu = if self.ordered() {",
            "        let cpu = if self.ordered() && !MUTANT {",
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
            "        if noted == 0 {",
            "        if noted == 0 || MUTANT {",
        )],
    ),
    line(
        "flush-beside-slots",
        "a flush does not see what runs in caller slots",
        &[edit(
            "pool/state/pwqs.rs",
            "        self.close_all_caller_slots(key);\n        let Some(pwq) = self.pwq_mut(key) else {\n            return false;\n        };\n        pwq.colours.transition_current",
            "        if !MUTANT {\n            self.close_all_caller_slots(key);\n        }\n        let Some(pwq) = self.pwq_mut(key) else {\n            return false;\n        };\n        pwq.colours.transition_current",
        )],
    ),
    line(
        "retired-with-slots",
        "a pool workqueue retires with its caller slots open",
        &[edit(
            "pool/state/pwqs.rs",
            "    pub(crate) fn retire_pwq(&mut self, key: PwqKey) -> bool {\n        self.close_all_caller_slots(key);",
            "    pub(crate) fn retire_pwq(&mut self, key: PwqKey) -> bool {\n        if !MUTANT {\n            self.close_all_caller_slots(key);\n        }",
        )],
    ),
    line(
        "on-its-way-unseen",
        "a flush of an item that runs does not wait for the instance on its way to a list",
        &[edit(
            "workqueue/task/control.rs",
            "pending.is_none() && is_known && self.is_queued();",
            "pending.is_none() && is_known && self.is_queued() && !MUTANT;",
        )],
    ),
    line(
        "drain-refuses-its-own",
        "a drain refuses what the queue's own items queue",
        &[edit(
            "workqueue/queueing.rs",
            "if self.closed.load(Ordering::SeqCst) != 0 && !self.runs_here()",
            "if self.closed.load(Ordering::SeqCst) != 0 && (MUTANT || !self.runs_here())",
        )],
    ),
    line(
        "joins-tight-uncounted",
        "a queue that joins a group whose limit is reached hoards its credits",
        &[edit(
            "pool/queue/credits.rs",
            "        if state.tight {\n            store",
            "        if state.tight && !MUTANT {\n            store",
        )],
    ),
    line(
        "overdrawn-and-served",
        "a limit that is overdrawn lets pool workqueues go on with credits of items that end",
        &[edit(
            "pool/queue/credits.rs",
            "        if self.free.load(Ordering::Relaxed) < 0 {\n            // A lowered limit is overdrawn.\n            return 0;",
            "        if !MUTANT && self.free.load(Ordering::Relaxed) < 0 {\n            // A lowered limit is overdrawn.\n            return 0;",
        )],
    ),
];
