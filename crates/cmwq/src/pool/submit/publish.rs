//! Publishing: the issuer's side of a pool, without its lock.
//!
//! An item goes to the pool's inbox alone, or in a [chunk](crate::item::Chunks) with others. Chunks are for threads that publish without
//! waiting for what they have published, into a pool that does not keep up: their items wait in any case, and what counts is that workers
//! find them with few steps, and without touching them while they hold the lock. Where chunks stay nearly empty there are none for a while.
#![forbid(unsafe_code)]

use super::producer::with;
use super::producer::{FLOODS_AFTER, Producer};
use crate::item::closure::Small;
use crate::item::{Chunks, Load, MOST_IN_A_CHUNK, Pending, Pushed, WithHandle};
use crate::pool::lock::guard::PoolGuard;
use crate::pool::queue::pwq_chunks::PwqChunks;
use crate::pool::state::pool::Pool;
use crate::sys::cpu;
use std::sync::Arc;

/// After so many single items in a row, and after so many in chunks, a thread stages what it has published.
const STAGES_AFTER: u32 = 256;
pub(super) const STAGES_AFTER_IN_CHUNKS: u32 = 8192;

impl Pool {
    /// Frees chunks that were not used since the last call.
    pub(crate) fn trim_chunks(self: &Arc<Self>) {
        let chunks: Vec<Arc<PwqChunks>> = {
            let guard = self.lock_beside_batches();
            let chunks = guard.pwqs.iter().map(|(_, pwq)| pwq.chunks.clone());
            chunks.flatten().collect()
        };
        for chunks in chunks {
            chunks.items.trim();
            chunks.closures.trim();
        }
    }

    /// Publishes an item whose destination is this pool, and wakes a worker if that is this issuer's duty.
    #[inline]
    pub(crate) fn publish(self: &Arc<Self>, item: Pending) {
        self.with_producer(item, |producer, item| {
            producer.count(self.id);
            self.publish_alone(producer, item);
        });
    }

    /// As [`publish`](Self::publish), behind what the thread has published in chunks.
    pub(crate) fn publish_apart(self: &Arc<Self>, item: Pending) {
        self.with_producer(item, |producer, item| {
            producer.count(self.id);
            producer.open.leave();
            self.publish_alone(producer, item);
        });
    }

    /// As [`publish`](Self::publish), in a chunk if that is of use. `chunks`: of the pool workqueue of the item's destination.
    #[inline]
    pub(crate) fn publish_in_chunk(self: &Arc<Self>, item: Pending, chunks: &PwqChunks) {
        self.with_producer(item, |producer, item| {
            self.publish_at(producer, item, &chunks.items);
        });
    }

    #[inline]
    fn with_producer(self: &Arc<Self>, item: Pending, publish: impl FnOnce(&Producer, Pending)) {
        let mut item = Some(item);
        with(|producer| {
            if let Some(item) = item.take() {
                publish(producer, item);
            }
        });
        // The thread is on its way out.
        if let Some(item) = item {
            self.notify_if_due(self.inbox.push(item));
        }
    }

    #[inline]
    fn publish_at(self: &Arc<Self>, producer: &Producer, item: Pending, chunks: &Chunks) {
        let in_a_row = producer.count(self.id);
        // An item in a chunk is not looked up in open batches, where it may still run.
        if in_a_row < FLOODS_AFTER || !self.oldest_batch.is_after(item.noted_batch()) {
            producer.open.leave();
            return self.publish_alone(producer, item);
        }
        let Err(item) = producer.open.add_item(chunks.serial(), item) else {
            return;
        };
        if let Err(item) = self.begin_chunk(producer, item, chunks) {
            self.publish_alone(producer, item);
        }
    }

    /// As [`publish_in_chunk`](Self::publish_in_chunk), a closure, if that is of use. `true`: it is published.
    #[inline]
    pub(crate) fn publish_closure(self: &Arc<Self>, closure: &Small, chunks: &PwqChunks) -> bool {
        with(|producer| {
            let chunks = &*chunks.closures;
            let published = producer.in_a_row.get() >= FLOODS_AFTER
                && (producer.open.add_closure(chunks.serial(), closure)
                    || self.begin_chunk(producer, closure, chunks).is_ok());
            if published {
                producer.count(self.id);
            }
            published
        })
        .unwrap_or(false)
    }

    /// The same for a closure with a handle, see [`publish_with_handle_again`](super::producer::publish_with_handle_again). Returns it if
    /// chunks are of no use.
    #[inline]
    pub(crate) fn publish_with_handle(
        self: &Arc<Self>,
        closure: &Small,
        item: Pending,
        chunks: &PwqChunks,
    ) -> Result<(), Pending> {
        let mut item = Some(item);
        with(|producer| {
            let chunks = &*chunks.closures;
            if producer.in_a_row.get() < FLOODS_AFTER {
                return;
            }
            let Some(mine) = item.take() else { return };
            let added = producer
                .open
                .add_with_handle(chunks.serial(), closure, mine)
                .or_else(|item| self.begin_chunk(producer, WithHandle { closure, item }, chunks));
            item = added.err().map(|load| load.item);
            if item.is_none() {
                producer.count(self.id);
            }
        });
        item.map_or(Ok(()), Err)
    }

    #[inline(never)]
    fn begin_chunk<L: Load>(
        self: &Arc<Self>,
        producer: &Producer,
        load: L,
        chunks: &Chunks,
    ) -> Result<(), L> {
        if !producer.is_worth_a_chunk() {
            return Err(load);
        }
        let pushed = self.inbox.push_in_chunk(load, chunks, &producer.open);
        self.notify_if_due(pushed);
        if producer.completes(STAGES_AFTER_IN_CHUNKS, MOST_IN_A_CHUNK) {
            self.stage();
        }
        Ok(())
    }

    #[inline]
    fn publish_alone(self: &Arc<Self>, producer: &Producer, item: Pending) {
        producer.last.set(item.address());
        let pushed = self.inbox.push(item);
        if pushed == Pushed::MustNotify && !cfg!(cmwq_loom) {
            // Workers sleep, so what came before has not waited. (The model checker's threads publish too little to flood otherwise.)
            producer.in_a_row.set(0);
        }
        self.notify_if_due(pushed);
        if producer.completes(STAGES_AFTER, 1) {
            self.stage();
        }
    }

    /// A thread that floods the pool stages what it has published, unless the lock is taken: no thread that looks for one item has to turn round a long
    /// chain, and this thread has the items in its cache.
    #[cold]
    pub(in crate::pool) fn stage(self: &Arc<Self>) {
        if let Some(inner) = self.inner.try_lock() {
            PoolGuard::new(self, inner).collect();
        }
    }

    #[inline]
    pub(in crate::pool) fn notify_if_due(self: &Arc<Self>, pushed: Pushed) {
        match pushed {
            Pushed::MustNotify => self.notify(),
            Pushed::Alone if self.inbox.has_searcher() => self.let_search(),
            _ => {}
        }
    }

    /// The worker that will find what the calling thread has published may wait for the CPU on which this thread runs.
    fn let_search(self: &Arc<Self>) {
        let on_this_cpu = |cpu| self.inbox.searcher_on(cpu);
        if cpu::current().and_then(on_this_cpu).is_some() {
            self.move_searcher();
        }
    }

    #[cold]
    #[inline(never)]
    fn move_searcher(self: &Arc<Self>) {
        self.lock_beside_batches().move_searcher();
    }

    /// Non-reentrance across pools: while this pool, the last one that the item was queued on, still runs it for the queue `front_id`, the
    /// new instance goes here too, whatever its destination was. The caller owns the item, so it cannot begin to run anywhere in between.
    /// Otherwise the item is returned.
    pub(crate) fn publish_if_it_runs(
        self: &Arc<Self>,
        mut item: Pending,
        front_id: usize,
    ) -> Result<(), Pending> {
        let mut guard = self.lock();
        let up_to = guard.reached();
        while let Some(index) = guard.runs_for(&item, front_id) {
            // What was published before goes before.
            if guard.accept_up_to(up_to) {
                item.set_destination(self.id, index);
                guard.accept_item(item);
                return Ok(());
            }
            guard = self.lock_again(guard);
        }
        Err(item)
    }

    /// The duty of an issuer that took the mark.
    fn notify(self: &Arc<Self>) {
        // A worker that ends a short item soon takes the lock, and with it what was published. Then the inbox is empty, as it has not been
        // since this issuer's exchange: the thread that emptied it held the lock after that, and has settled or will. That saves the system
        // call that wakes another worker, and that worker's fight for the CPU and the lock.
        let taken = || self.inbox.is_empty();
        if self.inbox.is_worked() && self.returns.spin(taken) {
            return;
        }
        // Settling picks a worker, or finds one that searches, or asks for a new one.
        self.lock_beside_batches().move_searcher();
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::Engine;
    use crate::pool::stubs;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Chunks would be no gain: such an item is taken before the next one comes.
    #[test]
    fn a_thread_whose_items_meet_sleeping_workers_makes_no_chunks() {
        let engine = Engine::builder().build().unwrap();
        let queue = engine.workqueue("rare").build().unwrap();
        let all_sleep = || {
            let pools = engine.pool_states();
            let mut workers = pools.iter().flat_map(|pool| &pool.workers);
            workers.all(|worker| worker.doing == "idle")
        };
        let ran = Arc::new(AtomicU32::new(0));
        for number in 1..=4 * FLOODS_AFTER {
            let ran_there = ran.clone();
            let count = move || ran_there.store(number, Ordering::Release);
            queue.execute(count).unwrap();
            assert!(with(|producer| producer.in_a_row.get()) < Some(FLOODS_AFTER));
            // Not by one of the library's waits, which would begin anew.
            stubs::eventually(|| ran.load(Ordering::Acquire) == number && all_sleep());
        }
    }
}
