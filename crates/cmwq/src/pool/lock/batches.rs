//! Open batches under the pool's lock: closing one shows how many of its items have begun. See
//! `run/batch.rs`.
#![forbid(unsafe_code)]

use super::guard::PoolGuard;
use crate::item::ticket;
use crate::pool::state::pool::Inner;
use crate::pool::task::busy::Executor;
use crate::pool::task::run::{Interrupted, Open, Run};
use crate::sys::clock;

/// A batch that takes longer than this has an item that is not short: a worker that looks for work
/// may close it. A worker claims no more items than are expected to run for this long.
pub(in crate::pool) const OVERDUE_NS: u64 = 16_000;
/// The same for a guest from another last-level cache: a guest moves some twenty cache lines from
/// there for each batch.
pub(in crate::pool) const OVERDUE_FAR_NS: u64 = 64_000;

impl PoolGuard<'_> {
    /// Closes all open batches: the worklist, the busy table and all counts are exact until the
    /// lock is released.
    #[inline]
    pub(in crate::pool) fn close_batches(&mut self) {
        while let Some(&(id, _)) = self.batches.last() {
            self.close_batch(id);
        }
    }

    /// Closes batches that take longer than expected.
    pub(in crate::pool) fn close_overdue(&mut self) {
        let now_ns = clock::now_ns();
        let overdue = |inner: &Inner, id: u32| {
            let open = inner.workers[id].batch.as_ref();
            cfg!(cmwq_loom) || open.is_some_and(|open| now_ns > open.due_ns)
        };
        while let Some(&(id, _)) = self.batches.iter().find(|&&(id, _)| overdue(self, id)) {
            self.close_batch(id);
        }
    }

    /// Called for an item whose last run was begun from the batch of this number. Closes that batch
    /// if it is still open: the item may still run there, and only a closed batch shows that.
    pub(in crate::pool) fn close_batch_noted(&mut self, noted: usize) {
        let its_own = |&&(id, serial): &&(u32, u32)| ticket(id, serial) == noted;
        if let Some(&(id, _)) = self.batches.iter().find(its_own) {
            self.close_batch(id);
        }
    }

    /// Removes the batch of worker `id` from the list of open ones.
    #[inline]
    pub(in crate::pool) fn forget_batch(&mut self, id: u32) {
        let inner: &mut Inner = self;
        inner.batches.retain(|&(worker, _)| worker != id);
        let oldest = inner
            .batches
            .first()
            .map_or(inner.next_batch, |&(_, serial)| serial);
        self.pool.oldest_batch.set(oldest);
    }

    #[cold]
    fn close_batch(&mut self, id: u32) {
        let inner: &mut Inner = self;
        let slot = &mut inner.workers[id];
        let open = slot.batch.take().expect("it is among the open ones");
        let handle = slot.handle.clone();
        let begun = handle.batch.close();
        for index in (begun..open.len).rev() {
            let mut item = match &open.part {
                Some(part) => part.take_item(index),
                None => handle.batch.take(index),
            };
            item.accept(open.colour);
            inner.worklist.push_front(item);
        }
        // The item that was begun last counts as running. Only the worker of the batch knows
        // whether it does; the worker reports its end.
        let (address, func) = match &open.part {
            Some(part) => part.name(begun - 1),
            None => handle.batch.name(begun - 1),
        };
        let by = Executor::thread(handle.tid());
        let busy = inner.busy.insert_last(address, func, open.pwq, by);
        // The batch counts as closed from here on: its run is in the busy table.
        self.forget_batch(id);
        let inner: &mut Inner = self;
        let current = inner.pwqs[open.pwq].current().of(address, func);
        let run = Run {
            busy,
            pwq: open.pwq,
            colour: open.colour,
            timed_ns: 0,
            current,
        };
        inner.workers[id].interrupted = Some(Interrupted { run, begun });
        self.account(id, &open, begun, begun - 1);
    }

    /// `started` of a batch's items were started, and `ended` of them have ended.
    pub(in crate::pool) fn account(&mut self, id: u32, open: &Open, started: usize, ended: usize) {
        let inner: &mut Inner = self;
        let (started, ended) = (started as u64, ended as u64);
        // The first item was counted when the batch was opened.
        inner.workers[id].runs += started - 1;
        inner.stats.started += started;
        inner.stats.completed += ended;
        let pwq = &mut inner.pwqs[open.pwq];
        pwq.stats.started += started;
        pwq.stats.completed += ended;
        if ended > 0 {
            let set_in_motion =
                inner.leave_flight(open.pwq, open.colour, ended as u32, ended as u32);
            self.after(open.pwq, open.colour, set_in_motion);
        }
    }
}
