//! How long items wait and run: a sample of the items of each queue, always.
//!
//! A pool *wants a sample* of a queue when one of the queue's items starts, the first one in each
//! [tick](TICK_SHIFT) of the clock that the start reads anyway. The next issuer without a cached
//! route gives one: it notes the time and the item's address, and publishes the item by itself. The
//! start of that item records its wait, and the end its run. So a queue of up to some hundred items
//! a second has nearly all of them sampled, and a faster one some hundred a second for each of its
//! pools. An item that is not sampled costs only a comparison at its start.
//!
//! Batches are of short items. What a whole batch took, divided by its items, is recorded as one run.
//!
//! A noted address belongs to a pending item, so exactly one thread finds it: the one that starts
//! the item or the one that cancels it. If the slot for an address is in use, the item is not
//! sampled. That depends on earlier samples and not on how long this item waits, so the samples are
//! not biased towards short or long waits.
#![forbid(unsafe_code)]

use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicU32, AtomicU64, AtomicUsize};
use crate::sys::clock;
use cmwq_trace::LatencyHistogram;
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// A tick is 2^21 ns, two milliseconds, or as long as a tick of the coarse clock.
const TICK_SHIFT: u32 = 21;
/// How many sampled items of one queue may wait at the same time.
const SLOTS: usize = 32;
/// The model checker and the simulator have no time to measure.
const IS_ENABLED: bool = !cfg!(cmwq_loom) && !cfg!(cmwq_sim);
/// The value of a slot that an issuer has taken and is filling.
const RESERVED: usize = 1;

#[derive(Default)]
struct Slot {
    /// The item's address; 0: free.
    item: AtomicUsize,
    queued_ns: AtomicU64,
}

/// The samples of one queue that wait.
pub(crate) struct Sampler {
    /// 1: the next issuer gives a sample. Issuers read it, and starts write it, once in a tick.
    wanted: CachePadded<AtomicU32>,
    /// How many slots are taken.
    taken: CachePadded<AtomicU32>,
    slots: [Slot; SLOTS],
}

fn slot_of(item: usize) -> usize {
    // As for the busy table: items are aligned to 8 and often to a line.
    ((item as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 59) as usize
}

impl Sampler {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Sampler {
            wanted: CachePadded::new(AtomicU32::new(u32::from(IS_ENABLED))),
            taken: CachePadded::default(),
            slots: Default::default(),
        })
    }

    /// Whether the next item is to be a sample. A hint.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }

    /// Called before the item at this address is published. Publishing orders what is stored here
    /// before the item's start, so all is Relaxed. A thread that looks at the slot of another item
    /// may find the time of an earlier sample; then it shows a wait that has ended a moment ago.
    /// Returns `true` if the item is a sample; then it has to be published by itself, and not in a
    /// chunk.
    #[cold]
    pub(crate) fn sample(&self, item: usize) -> bool {
        let slot = &self.slots[slot_of(item)];
        let is_free = slot.item.load(Ordering::Relaxed) == 0;
        if !is_free || self.wanted.swap(0, Ordering::Relaxed) == 0 {
            return false;
        }
        let reserved =
            slot.item
                .compare_exchange(0, RESERVED, Ordering::Relaxed, Ordering::Relaxed);
        if reserved.is_err() {
            return false;
        }
        slot.queued_ns.store(clock::now_ns(), Ordering::Relaxed);
        self.taken.fetch_add(1, Ordering::Relaxed);
        slot.item.store(item, Ordering::Relaxed);
        true
    }

    /// Ends the sample of this item, if it is one, and returns when the item was queued. Called
    /// with its pool's lock held.
    fn take(&self, item: usize) -> Option<u64> {
        let slot = &self.slots[slot_of(item)];
        if slot.item.load(Ordering::Relaxed) != item {
            return None;
        }
        let queued_ns = slot.queued_ns.load(Ordering::Relaxed);
        slot.item.store(0, Ordering::Relaxed);
        self.taken.fetch_sub(1, Ordering::Relaxed);
        Some(queued_ns)
    }

    /// For how long the oldest sample waits now.
    pub(crate) fn longest_wait_ns(&self, now_ns: u64) -> Option<u64> {
        let waiting = self
            .slots
            .iter()
            .filter(|slot| slot.item.load(Ordering::Relaxed) > RESERVED);
        let queued_ns = waiting.map(|slot| slot.queued_ns.load(Ordering::Relaxed));
        Some(now_ns.saturating_sub(queued_ns.min()?))
    }
}

/// The times of one pool workqueue's items. Guarded by the pool's lock.
pub(crate) struct Times {
    sampler: Arc<Sampler>,
    /// The tick of the last start.
    tick: u64,
    wait: LatencyHistogram,
    run: LatencyHistogram,
}

impl Times {
    pub(in crate::pool) fn new(sampler: Arc<Sampler>) -> Self {
        Times {
            sampler,
            tick: 0,
            wait: LatencyHistogram::default(),
            run: LatencyHistogram::default(),
        }
    }

    /// Called when the item at this address starts; `coarse_ns` may be a little earlier. Returns the
    /// exact time if the item is a sample, and 0 otherwise.
    #[inline]
    pub(in crate::pool) fn start(&mut self, item: usize, coarse_ns: u64) -> u64 {
        self.tick(coarse_ns);
        self.start_in_batch(item)
    }

    /// As [`start`](Self::start), for an item of a batch. The whole batch counts as one start.
    #[inline]
    pub(in crate::pool) fn start_in_batch(&mut self, item: usize) -> u64 {
        match self.sampler.taken.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.start_if_sample(item),
        }
    }

    /// Something of the queue starts. The first time in a tick, a sample is wanted.
    #[inline]
    pub(in crate::pool) fn tick(&mut self, coarse_ns: u64) {
        let tick = coarse_ns >> TICK_SHIFT;
        if tick != self.tick && IS_ENABLED {
            self.tick = tick;
            self.sampler.wanted.store(1, Ordering::Relaxed);
        }
    }

    #[inline(never)]
    fn start_if_sample(&mut self, item: usize) -> u64 {
        let Some(queued_ns) = self.sampler.take(item) else {
            return 0;
        };
        let now_ns = clock::now_ns();
        self.wait.add(now_ns.saturating_sub(queued_ns));
        now_ns
    }

    /// Called when a sampled item ends that started at `started_ns`.
    #[cold]
    pub(in crate::pool) fn end(&mut self, started_ns: u64) {
        self.run.add(clock::now_ns().saturating_sub(started_ns));
    }

    /// A batch of so many items took so long.
    pub(in crate::pool) fn batch(&mut self, items: usize, took_ns: u64) {
        self.run.add(took_ns / items.max(1) as u64);
    }

    /// The item at this address is cancelled.
    pub(in crate::pool) fn forget(&mut self, item: usize) {
        let _ = self.sampler.take(item);
    }

    /// The waits and the runs.
    pub(in crate::pool) fn histograms(&self) -> [&LatencyHistogram; 2] {
        [&self.wait, &self.run]
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_start_in_a_tick_wants_a_sample_and_one_issuer_gives_it() {
        let sampler = Sampler::new();
        let mut times = Times::new(sampler.clone());
        assert!(sampler.is_wanted(), "the very first item is one");
        assert!(sampler.sample(0x1000));
        assert!(!sampler.is_wanted() && !sampler.sample(0x2000));
        let now_ns = clock::now_ns();
        assert!(
            sampler
                .longest_wait_ns(now_ns + 5_000)
                .is_some_and(|ns| ns >= 5_000)
        );
        let coarse_ns = 7 << TICK_SHIFT;
        assert_eq!(times.start(0x3000, coarse_ns), 0, "another item");
        let started_ns = times.start(0x1000, coarse_ns);
        assert!(started_ns > 0);
        assert_eq!(sampler.longest_wait_ns(now_ns), None);
        times.end(started_ns);
        times.batch(10, 5_000);
        let counts = times.histograms().map(LatencyHistogram::count);
        assert_eq!(counts, [1, 2]);
        // One sample for this tick.
        assert!(sampler.sample(0x1000) && !sampler.is_wanted());
        times.start(0x3000, coarse_ns + 1);
        times.start_in_batch(0x3000);
        times.start(0x3000, coarse_ns + 1);
        assert!(!sampler.is_wanted());
        times.start(0x3000, coarse_ns + (1 << TICK_SHIFT));
        assert!(sampler.is_wanted());
        // A taken slot, and a sample that is cancelled.
        assert!(!sampler.sample(0x1000));
        times.forget(0x1000);
        assert!(sampler.sample(0x1000));
    }
}
