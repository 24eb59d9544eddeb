//! A thread that waits for an item which nobody has begun runs it itself: it would only sleep meanwhile, and a worker would
//! have to be woken.
//!
//! It runs *that* item and no other, so it meets nothing that it would not wait for anyway. And only one that a worker could
//! take at this instant: it is on the worklist, so it holds its place among the active ones and none of its queue is before
//! it in any order that was promised. If an older instance of it still runs it goes behind that, as with any worker. From the outside the thread is one more worker that took the item and
//! then left: the busy entry, the colour and the credit are accounted for as ever, so whoever flushes, cancels or queues the item
//! meanwhile meets what he would meet otherwise.
#![forbid(unsafe_code)]

use crate::item::{RawWork, Seat};
use crate::pool::lock::guard::PoolGuard;
use crate::pool::state::member;
use crate::pool::state::pool::Pool;
use crate::pool::task::busy::Executor;
use crate::pool::task::call::run_item;
use crate::pool::task::run::Task;
use crate::sys::cpu;
use std::sync::Arc;

impl Pool {
    /// Runs the pending instance of `item` on the calling thread, if it may. `false`: it did not.
    pub(crate) fn run_as_waiter(self: &Arc<Self>, item: &RawWork) -> bool {
        // The nice level and the CPUs of a worker are what those of another thread may not be.
        self.attrs.nice == 0 && !self.attrs.strict && self.run_only(item, cpu::current())
    }

    /// Runs `item` and nothing else, on the calling thread, which is on `cpu` if that is known.
    pub(crate) fn run_only(self: &Arc<Self>, item: &RawWork, cpu: Option<usize>) -> bool {
        // A worker has a place already.
        let lend = member::home().is_none();
        let task = {
            let mut guard = self.lock();
            let task = guard.task_for_waiter(self.id, item, cpu);
            if task.is_some() {
                guard.will_go_on();
                if lend {
                    guard.guest_begins();
                }
            }
            task
        };
        let Some(Task { started, run }) = task else {
            return false;
        };
        let panicked = run_item(started, run);
        let mut guard = self.lock();
        if lend {
            guard.guest_ends();
        }
        guard.end_only_task(run, panicked);
        true
    }
}

impl PoolGuard<'_> {
    fn task_for_waiter(&mut self, pool: u32, item: &RawWork, cpu: Option<usize>) -> Option<Task> {
        self.drain();
        if item.place().pool() == pool {
            self.fetch_from_caller_slot(item.place().pwq(), item);
        }
        let place = item.place();
        if place.pool() != pool
            || place.seat != Seat::Worklist
            || !self.pwqs[place.pwq()].traits.waiters_run
            || !cpu.is_none_or(|cpu| self.binding.contains(cpu))
        {
            return None;
        }
        let pending = self.unlink(pool, item)?;
        let task = self.start_or_hand_over(pending, Executor::worker())?;
        self.pwqs[task.run.pwq].stats.waiter_runs += 1;
        Some(task)
    }
}
