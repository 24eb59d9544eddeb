//! How long items wait and run: a sample of the items of each queue, always.
//!
//! An issuer decides whether the item that it queues is a *sample*: it notes the time and the item's
//! address, and publishes the item by itself. The start of that item records its wait, and the end
//! its run.
//!
//! Which items are samples must not depend on how long they wait. Items often come in bursts, and
//! the first of a burst waits for the shortest time. So each issuer takes samples of a burst ever
//! more rarely: of the first items each one, then every second, every fourth and so on
//! ([`Recent::count_sample`]). A wait counts for all items of the burst that have started since the
//! sample before, so the histogram is that of all items. A new burst begins after some
//! [ticks](TICK_SHIFT) of the clock that each start reads anyway. So a queue of up to some thousand
//! items a second has a large part of them sampled, and a faster one about six in each tick.
//!
//! No item of a chunk is a sample, so a chunk ends where the next sample [is due](until_sample).
//!
//! An item that is not sampled costs a comparison when it is queued by itself, and one at its start.
//!
//! Batches are of short items. What a whole batch took, divided by its items, is recorded as one run.
//!
//! A noted address belongs to a pending item, so exactly one thread finds it: the one that starts
//! the item or the one that cancels it. If the slot for an address is in use, the item is not
//! sampled. That depends on earlier samples and not on how long this item waits.
#![forbid(unsafe_code)]

use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicU32, AtomicU64, AtomicUsize};
use crate::sys::clock;
use cmwq_trace::LatencyHistogram;
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::Arc;

/// A tick is 2^21 ns, two milliseconds, or as long as a tick of the coarse clock.
const TICK_SHIFT: u32 = 21;
/// How many sampled items of one queue may wait at the same time, and how many samples issuers take
/// in one tick.
const SLOTS: usize = 32;
/// With more samples waiting than these, hardly any slot is found free.
const MOST_TAKEN: u32 = SLOTS as u32 * 3 / 4;
/// As many ticks may lie between two items that an issuer queues without a pause: a tick of the
/// coarse clock is up to two.
const NO_PAUSE: u32 = 2;
/// In how many queues an issuer counts what it has queued lately.
const RECENT: usize = 8;
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

thread_local! {
    static RECENTLY: Recently = const { Recently::new() };
}

/// What an issuer has queued lately.
struct Recently {
    queues: [Recent; RECENT],
    /// The index of the queue where it has queued last.
    last: Cell<usize>,
}

impl Recently {
    const fn new() -> Self {
        Recently {
            queues: [const { Recent::new() }; RECENT],
            last: Cell::new(0),
        }
    }
}

/// What an issuer has queued lately in one queue.
struct Recent {
    /// The address of the queue's sampler; 0: none.
    queue: Cell<usize>,
    tick: Cell<u32>,
    /// How many samples it has taken in this tick.
    samples: Cell<u32>,
    /// How many more items it queues before the next sample.
    left: Cell<u32>,
}

impl Recent {
    const fn new() -> Self {
        Recent {
            queue: Cell::new(0),
            tick: Cell::new(0),
            samples: Cell::new(0),
            left: Cell::new(0),
        }
    }

    /// Counts an item. Returns whether it should be a sample.
    #[inline]
    fn is_due(&self, queue: usize, tick: u32) -> bool {
        if self.queue.get() != queue || self.tick.get() != tick {
            self.begin(queue, tick);
        }
        match self.left.get() {
            0 => true,
            left => {
                self.left.set(left - 1);
                false
            }
        }
    }

    /// The next item is a sample, the first one in a tick. If the issuer has queued without a pause, it
    /// begins with a quarter of the distance that it has come to; else it begins a new burst.
    #[cold]
    fn begin(&self, queue: usize, tick: u32) {
        let pause = tick.wrapping_sub(self.tick.replace(tick));
        let goes_on = self.queue.replace(queue) == queue && pause <= NO_PAUSE;
        let samples = if goes_on { self.samples.get() } else { 0 };
        self.samples.set(samples.saturating_sub(4));
        self.left.set(0);
    }

    /// Counts a sample, and sets the distance to the next one: 1, 2, 2, 4, 4, 8, 8 and so on.
    fn count_sample(&self) {
        self.samples.set(self.samples.get() + 1);
        let gap = 1 << (self.samples.get() / 2).min(16);
        self.left.set(gap - 1);
    }
}

/// Called when the calling thread begins a chunk for the item for which it was asked last whether it
/// [should be](Sampler::is_due) a sample. Returns how many items the chunk may have, `most` at most,
/// so that the item after them can be the next sample. `None`: fewer than `least`.
pub(in crate::pool) fn until_sample(least: u32, most: u32) -> Option<u32> {
    if !IS_ENABLED {
        return Some(most);
    }
    RECENTLY.with(|recently| {
        let left = &recently.queues[recently.last.get()].left;
        let others = left.get().min(most - 1);
        (1 + others >= least).then(|| {
            left.set(left.get() - others);
            1 + others
        })
    })
}

/// The samples of one queue that wait.
pub(crate) struct Sampler {
    /// The tick of the last start. Issuers read it, and starts write it, once in a tick.
    tick: CachePadded<AtomicU32>,
    /// How many slots are taken.
    taken: CachePadded<AtomicU32>,
    /// How many more samples may be taken in this tick.
    left: AtomicU32,
    slots: [Slot; SLOTS],
}

fn slot_of(item: usize) -> usize {
    // As for the busy table: items are aligned to 8 and often to a line.
    ((item as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 59) as usize
}

impl Sampler {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Sampler {
            tick: CachePadded::default(),
            taken: CachePadded::default(),
            left: AtomicU32::new(SLOTS as u32),
            slots: Default::default(),
        })
    }

    #[inline]
    fn with_recent<R>(&self, f: impl FnOnce(usize, &Recent) -> R) -> R {
        let queue = std::ptr::from_ref(self).addr();
        RECENTLY.with(|recently| {
            let at = slot_of(queue) % RECENT;
            recently.last.set(at);
            f(queue, &recently.queues[at])
        })
    }

    /// Counts an item that the calling thread queues by itself, or a batch. Returns whether the item
    /// should be a sample; as long as none is [taken](Self::sample), the next one should.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let tick = self.tick.load(Ordering::Relaxed);
        IS_ENABLED
            && self
                .with_recent(|queue, recent| recent.is_due(queue, tick) && self.has_place(recent))
    }

    /// Whether a sample may be taken now. If it may not, the issuer waits for the next tick, or goes
    /// on as if it had taken one.
    #[cold]
    fn has_place(&self, recent: &Recent) -> bool {
        if self.left.load(Ordering::Relaxed) == 0 {
            recent.left.set(u32::MAX);
            return false;
        }
        let has_slots = self.taken.load(Ordering::Relaxed) < MOST_TAKEN;
        if !has_slots {
            recent.count_sample();
        }
        has_slots
    }

    /// Called before the item at this address is published, if it [should be](Self::is_due) a
    /// sample. Publishing orders what is stored here before the item's start, so all is Relaxed. A
    /// thread that looks at the slot of another item may find the time of an earlier sample; then
    /// it shows a wait that has ended a moment ago. Returns `true` if the item is a sample; then it
    /// has to be published by itself, and not in a chunk.
    #[cold]
    pub(crate) fn sample(&self, item: usize) -> bool {
        // If the slot is in use, the next item may find another one.
        let is_sample = self.reserve(item);
        if is_sample {
            self.with_recent(|_, recent| recent.count_sample());
        }
        is_sample
    }

    fn reserve(&self, item: usize) -> bool {
        let slot = &self.slots[slot_of(item)];
        let reserved =
            slot.item
                .compare_exchange(0, RESERVED, Ordering::Relaxed, Ordering::Relaxed);
        if reserved.is_err() {
            return false;
        }
        // Several threads may take the last one; the next tick makes up for it.
        let less = |left: u32| Some(left.saturating_sub(1));
        let _ = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        slot.queued_ns.store(clock::now_ns(), Ordering::Relaxed);
        self.taken.fetch_add(1, Ordering::Relaxed);
        slot.item.store(item, Ordering::Relaxed);
        true
    }

    /// A tick begins.
    fn begin_tick(&self, tick: u32) {
        self.left.store(SLOTS as u32, Ordering::Relaxed);
        self.tick.store(tick, Ordering::Relaxed);
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
    /// How many items had started with the last sample, and when that was queued.
    counted: u64,
    counted_ns: u64,
    wait: LatencyHistogram,
    run: LatencyHistogram,
}

impl Times {
    pub(in crate::pool) fn new(sampler: Arc<Sampler>) -> Self {
        Times {
            sampler,
            tick: 0,
            counted: 0,
            counted_ns: 0,
            wait: LatencyHistogram::default(),
            run: LatencyHistogram::default(),
        }
    }

    /// Called when the item at this address starts, the number `started` of its pool workqueue;
    /// `coarse_ns` may be a little earlier. Returns the exact time if the item is a sample, and 0
    /// otherwise.
    #[inline]
    pub(in crate::pool) fn start(&mut self, item: usize, started: u64, coarse_ns: u64) -> u64 {
        self.tick(coarse_ns);
        self.start_in_batch(item, started)
    }

    /// As [`start`](Self::start), for an item of a batch. The whole batch counts as one start.
    #[inline]
    pub(in crate::pool) fn start_in_batch(&mut self, item: usize, started: u64) -> u64 {
        match self.sampler.taken.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.start_if_sample(item, started),
        }
    }

    /// Something of the queue starts. Issuers begin anew with their samples if it is the first time
    /// in a tick.
    #[inline]
    pub(in crate::pool) fn tick(&mut self, coarse_ns: u64) {
        let tick = coarse_ns >> TICK_SHIFT;
        if tick != self.tick && IS_ENABLED {
            self.tick = tick;
            // Ticks are compared for equality only, and 2^32 are 100 days.
            self.sampler.begin_tick(tick as u32);
        }
    }

    #[inline(never)]
    fn start_if_sample(&mut self, item: usize, started: u64) -> u64 {
        let Some(queued_ns) = self.sampler.take(item) else {
            return 0;
        };
        let now_ns = clock::now_ns();
        let (before, before_ns) = (self.counted, self.counted_ns);
        (self.counted, self.counted_ns) = (started, queued_ns);
        // If no item was a sample for longer, those in between were not queued together with this
        // one, and waited for another time.
        let is_of_burst = queued_ns.abs_diff(before_ns) >> TICK_SHIFT == 0;
        let stands_for = if is_of_burst {
            (started - before).max(1)
        } else {
            1
        };
        let stands_for = u32::try_from(stands_for).unwrap_or(u32::MAX);
        self.wait
            .add_many(now_ns.saturating_sub(queued_ns), stands_for);
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
mod tests;
