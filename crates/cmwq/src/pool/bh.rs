//! BH pools: one worker per CPU that runs items one at a time, in the order of queueing. Items must not sleep: all the
//! CPU's other ones would wait. The kernel runs them in softirq context; here a thread of its own, bound and if permitted
//! raised in priority, comes as close as a process can.
#![forbid(unsafe_code)]

use super::Pool;
use super::guard::Run;
use super::help::run_item;
use crate::sys::clock;
use crate::work::Started;
use std::sync::Arc;

/// What one turn on the CPU may hold, as in the kernel: then others have theirs.
const TURN_ITEMS: u32 = 10;
const TURN_NS: u64 = 2_000_000;

/// What is left of the worker's turn.
pub(super) struct Budget {
    items: u32,
    until_ns: u64,
}

impl Budget {
    pub(super) fn new() -> Self {
        Budget {
            items: TURN_ITEMS,
            until_ns: clock::now_ns() + TURN_NS,
        }
    }

    pub(super) fn renew(&mut self) {
        *self = Self::new();
    }

    /// One more item was run; `true`: the CPU is to be offered to others, and a new turn begins.
    pub(super) fn is_spent(&mut self) -> bool {
        self.items -= 1;
        let spent = self.items == 0 || clock::now_ns() >= self.until_ns;
        if spent {
            self.renew();
        }
        spent
    }
}

impl Pool {
    /// Runs an item that must not sleep; a debug build looks whether it did.
    pub(super) fn run_without_sleep(self: &Arc<Self>, started: Started, run: Run) -> bool {
        #[cfg(all(debug_assertions, not(cmwq_loom)))]
        {
            use crate::sys::{sync::engine_sleeps, thread};

            let sleeps = || thread::voluntary_switches() - engine_sleeps::count();
            let func = started.func();
            let before = sleeps();
            let panicked = run_item(started, run);
            let slept = sleeps() - before;
            if slept > 0 {
                self.report_sleeper(func, run, slept);
            }
            panicked
        }
        #[cfg(not(all(debug_assertions, not(cmwq_loom))))]
        run_item(started, run)
    }

    #[cfg(all(debug_assertions, not(cmwq_loom)))]
    fn report_sleeper(self: &Arc<Self>, func: Option<crate::work::WorkFn>, run: Run, slept: i64) {
        let func = func.map_or(0, |func| func as usize);
        if self.attrs.params.sleepers.one_more(func) != Some(1) {
            return;
        }
        // The item has not ended for its pool workqueue, so that is there.
        let queue = self.lock().pwqs[run.pwq].front.clone();
        crate::observe::warn(&format!(
            "BH workqueue {}: {} went to sleep {slept} times; items of a BH workqueue must not block",
            queue.name(),
            crate::sys::symbol::name_of(func),
        ));
    }
}
