//! Caller-runs join: a thread that waits for an item which no worker has begun runs the item
//! itself. It would only sleep meanwhile, and a worker would have to be woken.
//!
//! It runs *that* item and no other, so it is not held up by anything that it would not have to
//! wait for anyway. It takes only an item that a worker could take at this moment: one on the
//! worklist, which is therefore active, and which no item of its queue has to precede. If an older
//! instance still runs, the item goes behind that, as with any worker. To other threads the waiter
//! is one more worker that took the item and then left: busy entry, colour and credit are accounted
//! for as ever. So a thread that flushes, cancels or queues the item meanwhile sees what it would
//! see otherwise.
#![forbid(unsafe_code)]

use crate::item::{Completion, ListKind, RawWork};
use crate::pool::attrs::cpu_budget::Pause;
use crate::pool::lock::guard::PoolGuard;
use crate::pool::state::member::as_worker;
use crate::pool::state::pool::Pool;
use crate::pool::submit::producer;
use crate::pool::task::busy::Executor;
use crate::pool::task::call::call_as_waiter;
use crate::pool::task::run::{Run, Task};
use crate::pool::wake::placement::Place;
use crate::sys::cpu;
use crate::sys::spin::MAX_NS;
use std::sync::Arc;

/// A thread that waits for items, one after the other. It accounts for the end of one that it ran
/// when it takes the next, under the same lock. It [settles](Self::settle) before it sleeps or runs
/// anything else.
#[derive(Default)]
pub(crate) struct Waiter {
    pool: Option<Arc<Pool>>,
    ended: Option<(Run, bool)>,
    counts: Counted,
}

/// How a thread that is no worker counts in the pool whose item it runs: as a running worker, so
/// that no worker is woken for the CPU that it uses.
#[derive(Default)]
struct Counted {
    /// The number by which the pool counts it as a joiner.
    joiner: Option<u64>,
    /// It joins items in the order in which they were queued.
    in_order: bool,
    place: Place,
}

impl Counted {
    fn begin_item(&mut self, guard: &mut PoolGuard<'_>, cpu: Option<usize>) {
        guard.occupied.enter(&mut self.place, cpu);
        if let Some(here) = cpu
            && guard.occupied.is_shared(&self.place)
        {
            // A worker that was woken may wait for this CPU, while others are free.
            guard.move_any_searcher(here);
        }
        // A worker that this thread has preempted already counts for this CPU. And where short items
        // crowd the lock so much that one may run, that is to be a worker, which takes many at once.
        let counts = !guard.occupied.is_shared(&self.place) && guard.crowding.most() > 1;
        match self.joiner {
            Some(joiner) if counts => guard.counts.move_joiner(joiner),
            Some(_) => self.stop_counting(guard),
            // Under a limit over all pools it would need a running slot; it goes on without one.
            None if !counts || guard.is_limited() => {}
            None => self.joiner = Some(guard.counts.enter_joiner(self.in_order)),
        }
    }

    /// Another thread runs the item. This one spins, if that item is short, and uses its CPU: if the
    /// pod has no other one, it counts meanwhile. So no worker is woken that would preempt it.
    fn begin_spin(&mut self, guard: &mut PoolGuard<'_>, cpu: Option<usize>) {
        let is_soon = (1..=u64::from(MAX_NS)).contains(&guard.pace.item_ns());
        let is_last =
            self.joiner.is_some() || guard.counts.expects_joiner() || guard.has_one_cpu_left();
        if is_soon && is_last && !producer::has_backlog() {
            return self.begin_item(guard, cpu);
        }
        self.leave(guard);
        guard.counts.stop_expecting_joiner();
    }

    fn stop_counting(&mut self, guard: &mut PoolGuard<'_>) {
        if let Some(joiner) = self.joiner.take() {
            guard.counts.leave_joiner(joiner);
        }
    }

    fn is_counted(&self) -> bool {
        self.joiner.is_some() || self.place.expected().is_some()
    }

    fn leave(&mut self, guard: &mut PoolGuard<'_>) {
        self.stop_counting(guard);
        guard.occupied.leave(&mut self.place);
    }
}

impl Waiter {
    /// For a thread that joins one item, the oldest of those that it has queued, and then perhaps
    /// the next one.
    pub(crate) fn in_order() -> Self {
        let mut waiter = Waiter::default();
        waiter.counts.in_order = true;
        waiter
    }

    /// Runs the pending instance of `item` on the calling thread, if it may. `false`: it did not.
    /// `find` finds a pool by its id.
    pub(crate) fn run(
        &mut self,
        item: &RawWork,
        find: impl FnOnce(u32) -> Option<Arc<Pool>>,
    ) -> bool {
        let id = item.location().pool();
        if self.pool.as_ref().is_none_or(|pool| pool.id != id) {
            self.settle();
            self.pool = (id != 0).then(|| find(id)).flatten();
        }
        // A pool with a nice level or a strict pod is left to its workers: the calling thread may
        // have another level, or run on other CPUs.
        let fits = |pool: &Arc<Pool>| pool.attrs.nice == 0 && !pool.attrs.strict;
        let Some(pool) = self.pool.as_ref().filter(|pool| fits(pool)) else {
            return false;
        };
        // If the item has begun, this thread only waits for it, and need not pause for the CPU
        // quota.
        if let Some(pause) = pool.attrs.params.cpu_budget.pause_due()
            && item.is_pending()
        {
            self.pause(pause);
        }
        self.run_only(item, cpu::current())
    }

    /// Sleeps, since the process has used more CPU time than its quota allows.
    #[cold]
    fn pause(&mut self, pause: Pause) {
        self.settle();
        if let Some(pool) = &self.pool {
            pool.attrs.params.cpu_budget.pause(pause);
        }
    }

    /// As [`run`](Self::run), or waits until the item is done, if it `may_wait` for it. `false`: it may not.
    #[inline(never)]
    pub(crate) fn run_or_wait(
        &mut self,
        item: &RawWork,
        find: impl FnOnce(u32) -> Option<Arc<Pool>>,
        done: &Completion,
        may_wait: impl FnOnce() -> bool,
    ) -> bool {
        if self.run(item, find) {
            return true;
        }
        if !may_wait() {
            self.settle();
            return false;
        }
        if !done.spin(None) {
            self.settle();
            done.park(None);
        }
        true
    }

    /// Runs `item`, and no other one, on the calling thread, which is on `cpu` if that is known.
    fn run_only(&mut self, item: &RawWork, cpu: Option<usize>) -> bool {
        let Some(Task { started, run }) = self.take(item, cpu) else {
            return false;
        };
        self.ended = Some((run, call_as_waiter(started, run.current)));
        true
    }

    /// Takes the item as a worker would: beside open batches.
    fn take(&mut self, item: &RawWork, cpu: Option<usize>) -> Option<Task> {
        let pool = self.pool.as_ref()?;
        let mut guard = pool.lock_beside_batches();
        if let Some((run, panicked)) = self.ended.take() {
            guard.end_only_task(run, panicked);
        }
        let is_worker = as_worker(|home, _| Arc::ptr_eq(home, pool)) == Some(true);
        guard.fetch_from_slot_of_another(pool.id, item);
        let up_to = guard.reached();
        loop {
            let accepted = guard.accept_up_to(up_to);
            let mut task = guard.task_for_waiter(pool.id, item, cpu);
            if task.is_none() && accepted && !guard.batches.is_empty() {
                // An item in a batch has its turn within some microseconds, unless the batch is
                // overdue; such batches are closed.
                guard.close_overdue();
                task = guard.task_for_waiter(pool.id, item, cpu);
            }
            if task.is_some() || accepted {
                match task {
                    _ if is_worker => {}
                    Some(_) => self.counts.begin_item(&mut guard, cpu),
                    None => self.counts.begin_spin(&mut guard, cpu),
                }
                return task;
            }
            guard = pool.lock_again_beside_batches(guard);
        }
    }

    /// Accounts for the end of the item that it ran last, and stops counting.
    pub(crate) fn settle(&mut self) {
        drop(self.leave());
    }

    fn leave(&mut self) -> Option<PoolGuard<'_>> {
        if self.ended.is_none() && !self.counts.is_counted() {
            return None;
        }
        // Accounting for the end of an item needs no closed batches, here as for a worker.
        let mut guard = self.pool.as_ref()?.lock_beside_batches();
        if let Some((run, panicked)) = self.ended.take() {
            guard.end_only_task(run, panicked);
        }
        self.counts.leave(&mut guard);
        Some(guard)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let joins_in_order = self.counts.joiner.is_some() && self.counts.in_order;
        let Some(mut guard) = self.leave() else {
            return;
        };
        if joins_in_order && guard.running() > 0 {
            // A thread that joins one item after the other joins the next one now.
            guard.expect_joiner();
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
impl Waiter {
    /// Runs `item`, of this pool, as if on this CPU.
    pub(in crate::pool) fn run_at(
        &mut self,
        pool: &Arc<Pool>,
        item: &RawWork,
        cpu: Option<usize>,
    ) -> bool {
        self.pool = Some(pool.clone());
        self.run_only(item, cpu)
    }
}

#[cfg(test)]
impl Pool {
    /// Runs `item` and nothing else, on the calling thread, which is on `cpu` if that is known.
    pub(crate) fn run_only(self: &Arc<Self>, item: &RawWork, cpu: Option<usize>) -> bool {
        let mut waiter = Waiter::default();
        waiter.pool = Some(self.clone());
        waiter.run_only(item, cpu)
    }
}

impl PoolGuard<'_> {
    /// The item may be in the caller slot of the thread that has spawned it, where no worker would find it.
    fn fetch_from_slot_of_another(&mut self, pool: u32, item: &RawWork) {
        let location = item.location();
        if location.pool() == pool && location.list == ListKind::None {
            self.fetch_from_caller_slot(location.pwq(), item);
        }
    }

    fn task_for_waiter(&mut self, pool: u32, item: &RawWork, cpu: Option<usize>) -> Option<Task> {
        let location = item.location();
        if location.pool() != pool
            || location.list != ListKind::Worklist
            || !self.pwqs[location.pwq()].traits.waiters_run
            || !cpu.is_none_or(|cpu| self.binding.contains(cpu))
        {
            return None;
        }
        let overtakes = self.worklist.head() != Some(item.address());
        let pending = self.unlink(pool, item)?;
        let task = self.start_or_hand_over(pending, Executor::worker())?;
        self.overtook += u64::from(overtakes);
        self.pwqs[task.run.pwq].stats.waiter_runs += 1;
        Some(task)
    }
}
