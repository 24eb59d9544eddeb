//! What holds whenever a pool's lock is free. In builds with debug assertions every release of the
//! lock asserts it: in tests with real threads, in the simulator and in exploration. Unit tests,
//! which set counts without workers, and models are left out.
//!
//! When a pool is dropped, nothing is left of what it has counted. Credits, room and slots are
//! checked where they are counted.
//!
//! Transitions assert the states that they come from where they are made
//! ([`Counts`](super::counts::Counts), `HeldCredits`, `Colours`); this file asserts what must agree
//! between them.
#![forbid(unsafe_code)]

use super::pool::Inner;
use super::worker::{Busy, WorkerState};

impl Inner {
    /// The pool is settled, and its lock is about to be released.
    pub(in crate::pool) fn assert_invariants(&self) {
        if std::thread::panicking() {
            return;
        }
        self.assert_that_counts_are_sums();
        self.assert_that_active_items_have_credits();
        self.assert_that_what_waits_is_in_line();
        self.assert_that_closed_caller_slots_run();
        self.assert_that_work_is_seen_to();
    }

    /// The pool goes.
    pub(in crate::pool) fn assert_that_nothing_is_left(&self) {
        let items = self.waiting() + self.busy.iter().count() + self.awaited.len();
        assert_eq!(items, 0, "items, and waits for them");
        let threads = self.workers.len() + self.guests as usize + self.leaving as usize;
        assert_eq!(threads, 0, "workers");
        let others = self.pwqs.iter().count() + self.batches.len();
        assert_eq!(others, 0, "pool workqueues, and open batches");
        assert!(!self.holding.in_line, "it is in line for a slot");
    }

    /// Every worker is counted once, by its state.
    fn assert_that_counts_are_sums(&self) {
        let (mut running, mut searching, mut away, mut idle) = (0, 0, 0, 0);
        for (_, worker) in self.workers.iter() {
            match worker.state {
                WorkerState::Busy(Busy::Running) | WorkerState::Away { counts: true } => {
                    running += 1;
                }
                WorkerState::Searching => searching += 1,
                WorkerState::Away { counts: false } => away += 1,
                WorkerState::Idle { .. } => idle += 1,
                WorkerState::Busy(_) | WorkerState::Starting | WorkerState::Guest => {}
            }
        }
        let counts = &self.counts;
        assert_eq!(counts.running() - counts.joiners(), running, "running");
        assert_eq!(counts.searching(), searching, "searching");
        assert_eq!(counts.away(), away, "away");
        assert_eq!(counts.idle().len(), idle, "idle");
        let is_idle = |&id: &u32| matches!(self.workers[id].state, WorkerState::Idle { .. });
        assert!(
            counts.idle().iter().all(is_idle),
            "the list of idle workers"
        );
    }

    /// Each item on the worklist uses a credit of its pool workqueue.
    fn assert_that_active_items_have_credits(&self) {
        let used = self.pwqs.iter().map(|(_, pwq)| pwq.credits.used() as usize);
        assert!(
            self.worklist.len() <= used.sum(),
            "an item on the worklist has no credit"
        );
    }

    /// A pool workqueue with inactive items is in the line for credits, unless it is plugged. One
    /// that is in the line keeps no credit for later, because others wait too.
    fn assert_that_what_waits_is_in_line(&self) {
        for (_, pwq) in self.pwqs.iter() {
            assert!(
                pwq.inactive.is_empty() || pwq.waiting || pwq.plugged,
                "inactive items are not in line for a credit"
            );
            assert!(
                !pwq.waiting || pwq.credits.unused() == 0,
                "a pool workqueue waits for a credit and has one"
            );
        }
    }

    /// A caller slot that was closed during a run is kept until that run has ended.
    fn assert_that_closed_caller_slots_run(&self) {
        for (_, pwq) in self.pwqs.iter() {
            assert!(
                pwq.closed_caller_slots.len() as u64 <= pwq.colours.in_flight(),
                "a closed caller slot is kept though nothing runs in it"
            );
        }
    }

    /// While something waits, a worker is awake for it or on its way, or as many run as may.
    fn assert_that_work_is_seen_to(&self) {
        assert!(
            !self.has_waiting()
                || self.searching() > 0
                || self.running() >= self.target()
                || self.creating
                || self.dying,
            "work waits, a CPU is free, and no worker comes"
        );
    }
}
