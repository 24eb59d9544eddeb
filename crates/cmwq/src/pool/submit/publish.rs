//! Publishing: the issuer's side of a pool, without its lock.
//!
//! An item goes to the pool's inbox alone, or in a [chunk](crate::item::ChunkStore) with others.
//! Chunks are for threads that publish without waiting for their items, into a pool that does not keep up.
//! Such items wait in any case; what counts is that a worker takes many of them in few steps, and
//! touches none while it holds the lock. If a thread's chunks stay nearly empty, it makes none for
//! a while.
#![forbid(unsafe_code)]

use super::producer::with;
use super::producer::{FEW, FLOODS_AFTER, Issuer, Producer};
use crate::item::closure::Small;
use crate::item::{ChunkStore, Load, MOST_IN_A_CHUNK, Pending, Pushed};
use crate::pool::queue::pwq_chunks::PwqChunks;
use crate::pool::queue::times::{Sampler, until_sample};
use crate::pool::state::pool::Pool;
use crate::sys::cpu;
use std::sync::Arc;

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

    /// Publishes an item whose destination is this pool, and wakes a worker if that is this
    /// issuer's duty: in a chunk where chunks pay. `chunks`: of the pool workqueue of the item's
    /// destination. An item that is a sample goes alone.
    #[inline]
    pub(crate) fn publish(
        self: &Arc<Self>,
        item: Pending,
        chunks: Option<&PwqChunks>,
        sampler: &Sampler,
        via: Option<(Issuer, usize)>,
    ) {
        let is_sample = sampler.is_due() && sampler.sample(item.address());
        let mut item = Some(item);
        with(|producer| {
            let Some(item) = item.take() else { return };
            let in_a_row = producer.count(self.id);
            // Long items are dealt one by one.
            // Taking an item out of a chunk does not check whether its last run is still in an open
            // batch, so an item for which that may be so is published alone.
            let pays = |_: &&PwqChunks| {
                in_a_row >= FLOODS_AFTER
                    && (!self.deals() || producer.dealing.rests())
                    && !is_sample
                    && self.oldest_batch.is_after(item.noted_batch())
            };
            let Some(chunks) = chunks.filter(pays) else {
                producer.open.leave();
                return self.publish_alone(producer, item);
            };
            let added = producer.open.add_item(chunks.items.serial(), item);
            match added.or_else(|item| self.begin_chunk(producer, item, &chunks.items)) {
                Ok(()) => producer.note_route(chunks.items.serial(), via),
                Err(item) => self.publish_alone(producer, item),
            }
        });
        // The thread is ending and has no producer state any more.
        if let Some(item) = item {
            self.notify_if_due(self.inbox.push(item));
        }
    }

    /// As [`publish`](Self::publish), for a closure, in a chunk. Returns `true` if it was
    /// published, `false` where chunks do not pay.
    #[inline]
    pub(crate) fn publish_closure(
        self: &Arc<Self>,
        closure: &Small,
        chunks: &PwqChunks,
        via: Option<(Issuer, usize)>,
    ) -> bool {
        with(|producer| {
            let chunks = &*chunks.closures;
            let published = producer.in_a_row.get() >= FLOODS_AFTER
                && (producer.open.add_closure(chunks.serial(), closure)
                    || self.begin_chunk(producer, closure, chunks).is_ok());
            if published {
                producer.count(self.id);
                producer.note_route(chunks.serial(), via);
            }
            published
        })
        .unwrap_or(false)
    }

    #[inline(never)]
    fn begin_chunk<L: Load>(
        self: &Arc<Self>,
        producer: &Producer,
        load: L,
        chunks: &ChunkStore,
    ) -> Result<(), L> {
        if !producer.is_worth_a_chunk() {
            return Err(load);
        }
        // The item after the chunk may be one whose times are measured.
        let Some(most) = until_sample(FEW as u32, MOST_IN_A_CHUNK) else {
            return Err(load);
        };
        let pushed = self
            .inbox
            .push_in_chunk(load, chunks, &producer.open, most as usize);
        self.notify_if_due(pushed);
        Ok(())
    }

    #[inline]
    fn publish_alone(self: &Arc<Self>, producer: &Producer, item: Pending) {
        producer.last.set(item.address());
        let pushed = self.inbox.push(item);
        producer.dealing.note(pushed);
        if matches!(pushed, Pushed::MustNotify) && !cfg!(cmwq_loom) {
            // Workers slept, so this thread's earlier items did not wait: it does not flood the
            // pool. (The model checker's threads publish too little to flood otherwise.)
            producer.in_a_row.set(0);
        }
        self.notify_if_due(pushed);
    }

    #[inline]
    pub(in crate::pool) fn notify_if_due(self: &Arc<Self>, pushed: Pushed) {
        match pushed {
            Pushed::MustNotify => self.notify(),
            Pushed::Alone if self.inbox.has_searcher() => self.let_search(),
            _ => {}
        }
    }

    /// Moves the searching worker to another CPU if it waits for the one on which the calling
    /// thread runs: that worker is to take what this thread has published.
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

    /// Non-reentrance across pools: while this pool, the last one that the item was queued on,
    /// still runs it for the queue `front_id`, the new instance goes here too, whatever its
    /// destination was. The caller owns the item, so it cannot begin to run anywhere in between.
    /// Otherwise the item is returned.
    pub(crate) fn publish_if_it_runs(
        self: &Arc<Self>,
        mut item: Pending,
        front_id: usize,
    ) -> Result<(), Pending> {
        // Nearly always that run has ended. The batch goes first: if it was closed during the run,
        // the run is in the busy table.
        let of_batch_ended = self.oldest_batch.is_after(item.noted_batch());
        if of_batch_ended && self.runs.has_none(item.address()) {
            return Err(item);
        }
        let mut guard = self.lock();
        let up_to = guard.reached();
        while let Some(index) = guard.runs_for(&item, front_id) {
            // Items that were published before this one go before it.
            if guard.accept_up_to(up_to) {
                item.set_destination(self.id, index);
                guard.accept_item(item);
                return Ok(());
            }
            guard = self.lock_again(guard);
        }
        Err(item)
    }

    /// What an issuer has to do that found NOTIFY in the inbox: make sure that a worker comes.
    fn notify(self: &Arc<Self>) {
        // A worker that runs a short item will soon end it, take the lock, and take what was
        // published. An empty inbox shows that this has happened: it was not empty after this
        // issuer's exchange, so the thread that has emptied it took the lock later than that, and
        // settles the pool before it unlocks. Waiting for it briefly saves the system call that
        // wakes another worker, and keeps that worker from competing for the CPU and the lock.
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
    use crate::item::ticket;
    use crate::pool::queue::pwq::Traits;
    use crate::pool::stubs;
    use crate::sys::sync::Mutex;
    use crate::{Engine, Work};
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

    /// Otherwise an item that the thread adds to its chunk afterwards would start before that one.
    #[test]
    fn an_item_that_goes_alone_starts_after_those_before_it_and_before_those_after_it() {
        const ITEMS: usize = 5 * FLOODS_AFTER as usize;
        for alone in 0..ITEMS {
            let pool = stubs::pool(7 + alone as u32, 0);
            let pwq = stubs::add_pwq(&pool, Traits::default(), ITEMS as i32);
            let chunks = pool.lock().allow_chunks(pwq, &pool);
            let (sampler, ran) = (Sampler::new(), Arc::new(Mutex::new(Vec::new())));
            let item = |number| {
                let ran = ran.clone();
                Work::new(move || ran.lock().push(number))
            };
            let works: Vec<Work> = (0..ITEMS).map(item).collect();
            for (number, work) in works.iter().enumerate() {
                let mut item = work.claim().expect("idle");
                item.set_destination(pool.id, pwq.index);
                if number == alone {
                    // Its last run may still be in this batch.
                    item.note_batch(ticket(1, 9));
                }
                pool.publish(item, chunks.as_deref(), &sampler, None);
            }
            stubs::run_all(&pool);
            assert_eq!(*ran.lock(), (0..ITEMS).collect::<Vec<_>>());
        }
    }
}
