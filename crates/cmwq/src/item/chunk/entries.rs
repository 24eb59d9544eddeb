//! Chunks: many items of one thread that are one node of an inbox. See `pool/submit/publish.rs` for
//! when, and `pool/submit/CHUNKS.md` for why nothing is lost.
//!
//! Single items in an inbox link to each other: the taker has to read each item's own line before
//! it knows the next, with the pool's lock held. A chunk is an array instead, of addresses of
//! items, or of [small closures](crate::item::closure). It lies in the inbox like an item, and its
//! maker adds to it until it is taken. The taker gets up to [`MOST`] items without touching one.
//!
//! One word counts the entries. The maker writes the next entry and then counts it; the lock holder
//! that takes the chunk closes it. Both change the word by a read-modify-write, so one comes first:
//! either the entry was counted before the closing and is taken, or the maker finds the chunk
//! closed and publishes the item in another way.
//!
//! A closure with a handle is added to a chunk of closures twice: the closure in its entry, and
//! beside the entries the item that it is as long as the handle exists. A bit of the word says that
//! the last entry is such an item. The thread that drops the handle clears the bit, and only the
//! closure is left; a thread that closes the chunk before that takes the item. Only the last entry
//! can be one: the maker adds nothing more before the bit is cleared.
//!
//! A chunk is used again, for the same pool workqueue, when no thread holds it any more: neither
//! its maker, which may still write to an entry that no thread will read, nor a thread that has
//! taken a part of it.

use super::numbers::ChunkNumbers;
use crate::item::closure::{Payload, Small};
use crate::item::raw::{Pending, RawWork, WorkFn};
use crate::item::ticket::OldestBatch;
use crate::sys::atomic::plain::AtomicU64;
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::cell::Guarded;
use crate::sys::free_list::FreeList;
use crate::sys::prefetch::{self, LINE};
use crate::sys::sync::Mutex;
use crossbeam_utils::CachePadded;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// Entries of a chunk.
pub(crate) const MOST: usize = if cfg!(cmwq_loom) { 4 } else { 128 };
/// Entries that lie together: on one line if they are addresses, on three if they are closures.
pub(in crate::item) const TOGETHER: usize = if cfg!(cmwq_loom) { 2 } else { 8 };
/// How many entries ahead of writing are prefetched.
pub(in crate::item) const AHEAD: usize = 4 * TOGETHER;
/// How many unused chunks are always kept.
pub(in crate::item) const KEPT: usize = 4;
/// How many unused chunks are taken from the list of them in one holding of its lock.
const FREED_AT_ONCE: usize = 64;

/// In the count: the chunk was taken, and nothing can be added.
pub(in crate::item) const CLOSED: u32 = 1 << 31;

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    Items,
    Closures,
}

/// Names the chunks of items, or those of closures, of one pool workqueue; unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Serial {
    pub(in crate::item) number: NonZeroU64,
    pub(in crate::item) contents: Contents,
}

/// What the chunks of a pool workqueue have in common.
#[derive(Clone)]
pub(in crate::item) struct Destination {
    pub(in crate::item) pool: u32,
    pub(in crate::item) pwq: u32,
    pub(in crate::item) contents: Contents,
    pub(in crate::item) oldest: OldestBatch,
    pub(in crate::item) numbers: ChunkNumbers,
    pub(in crate::item) home: Weak<ChunkStore>,
}

/// The first field makes it a node of an inbox.
#[repr(C)]
pub(crate) struct Chunk {
    pub(in crate::item) node: RawWork,
    /// How many threads may still touch it.
    pub(in crate::item) holds: AtomicU32,
    /// Whether it is staged and closed already, with its entries [parked](super::part::Part::park).
    /// Only holders of the pool's lock use this.
    pub(in crate::item) closed_early: Guarded<bool>,
    pub(in crate::item) about: About,
    /// How many entries are filled. The maker writes it all the time.
    pub(in crate::item) filled: CachePadded<AtomicU32>,
}

/// Fields that do not change from the publication of a chunk until its reuse, on a line of their own.
#[repr(align(64))]
pub(in crate::item) struct About {
    pub(in crate::item) destination: Destination,
    /// Its number among the chunks of the pool.
    pub(in crate::item) number_in_pool: u32,
    /// What all entries have in common: the function of the items, or the kind of the closures.
    pub(in crate::item) number: Guarded<usize>,
    /// Whether the items are the first objects in [blocks](crate::sys::blocks).
    pub(in crate::item) in_blocks: Guarded<bool>,
    /// The entries of a [parked](super::part::Part::park) part: the first, and the end.
    pub(in crate::item) parked: Guarded<(usize, usize)>,
    /// The entries. Of `items` and `closures` one is empty.
    pub(in crate::item) items: Box<[Places<Option<NonNull<RawWork>>>]>,
    pub(in crate::item) closures: Box<[Places<Payload>]>,
}

#[repr(align(64))]
pub(in crate::item) struct Places<T: Copy>(pub(in crate::item) [Guarded<T>; TOGETHER]);

// SAFETY: the maker writes an entry before it counts it, and the taker reads it after that; its
// contents are owned as `Pending`s, which are Send, as closures are.
unsafe impl Sync for Chunk {}
// SAFETY: as above.
unsafe impl Send for Chunk {}

impl<T: Copy> Places<T> {
    fn of_most(empty: T) -> Box<[Self]> {
        let places = || Places(std::array::from_fn(|_| Guarded::new(empty)));
        (0..MOST / TOGETHER).map(|_| places()).collect()
    }

    /// Calls `ask` for each cache line of the group of entries to which this one belongs.
    #[inline]
    pub(in crate::item) fn lines(all: &[Self], place: usize, ask: impl Fn(usize)) {
        if let Some(places) = all.get(place / TOGETHER) {
            let first = std::ptr::from_ref(places).addr();
            (0..size_of::<Self>())
                .step_by(LINE)
                .for_each(|at| ask(first + at));
        }
    }
}

/// The chunks of one pool workqueue, of items or of closures.
pub(crate) struct ChunkStore {
    pub(in crate::item) serial: Serial,
    pub(in crate::item) destination: Destination,
    pub(in crate::item) spare: CachePadded<Mutex<Spares>>,
}

/// The unused chunks.
pub(in crate::item) struct Spares {
    /// The next one to be used: its lines were prefetched.
    pub(in crate::item) next: Option<Box<Chunk>>,
    pub(in crate::item) others: FreeList<Box<Chunk>>,
}

impl Spares {
    fn new() -> Self {
        Spares {
            next: None,
            others: FreeList::new(),
        }
    }

    pub(in crate::item) fn take(&mut self) -> Option<Box<Chunk>> {
        let found = self.next.take().or_else(|| self.others.take());
        self.next = self.others.take();
        if let Some(next) = &self.next {
            let first = std::ptr::from_ref::<Chunk>(next).addr();
            (0..size_of::<Chunk>())
                .step_by(LINE)
                .for_each(|at| prefetch::to_write(first + at));
            (0..AHEAD)
                .step_by(TOGETHER)
                .for_each(|place| next.prefetch(place));
        }
        found
    }
}

/// The contents of an entry.
pub(crate) enum Found {
    Item(Pending),
    Closure(Small),
}

impl ChunkStore {
    /// The chunks of items for pool workqueue `pwq` of pool `pool`, whose oldest open batch is
    /// `oldest`, and whose chunks have these numbers.
    pub(crate) fn of_items(
        pool: u32,
        pwq: u32,
        oldest: &OldestBatch,
        numbers: &ChunkNumbers,
    ) -> Arc<Self> {
        Self::new(Contents::Items, pool, pwq, oldest, numbers)
    }

    /// The same for small closures.
    pub(crate) fn of_closures(
        pool: u32,
        pwq: u32,
        oldest: &OldestBatch,
        numbers: &ChunkNumbers,
    ) -> Arc<Self> {
        Self::new(Contents::Closures, pool, pwq, oldest, numbers)
    }

    fn new(
        contents: Contents,
        pool: u32,
        pwq: u32,
        oldest: &OldestBatch,
        numbers: &ChunkNumbers,
    ) -> Arc<Self> {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let number = SERIAL.fetch_add(1, Ordering::Relaxed);
        let number = NonZeroU64::new(number).expect("it does not wrap around in a lifetime");
        Arc::new_cyclic(|home| ChunkStore {
            serial: Serial { number, contents },
            destination: Destination {
                pool,
                pwq,
                contents,
                oldest: oldest.clone(),
                numbers: numbers.clone(),
                home: home.clone(),
            },
            spare: CachePadded::new(Mutex::new(Spares::new())),
        })
    }

    /// Names these chunks.
    #[inline]
    pub(crate) fn serial(&self) -> Serial {
        self.serial
    }

    /// An unused chunk.
    pub(in crate::item) fn take_spare(&self) -> Box<Chunk> {
        // A thread that would have to wait for the lock gets a chunk from the allocator.
        let spare = self.spare.try_lock().and_then(|mut spare| spare.take());
        spare.unwrap_or_else(|| Box::new(Chunk::new(&self.destination)))
    }

    /// Frees the chunks that were not used since the last call, except a few. Called with no lock
    /// held.
    pub(crate) fn trim(&self) {
        let mut left = self.spare.lock().others.look().saturating_sub(KEPT);
        while left > 0 {
            let some = self.spare.lock().others.oldest(left.min(FREED_AT_ONCE));
            if some.is_empty() {
                return;
            }
            left -= some.len();
            // Freed after the lock was released, since workers and issuers need it.
            drop(some);
        }
    }
}

impl Chunk {
    fn new(destination: &Destination) -> Self {
        let (mut items, mut closures) = Default::default();
        match destination.contents {
            Contents::Items => items = Places::of_most(None),
            Contents::Closures => closures = Places::of_most([MaybeUninit::uninit(); 3]),
        }
        Chunk {
            node: RawWork::node(),
            holds: AtomicU32::new(0),
            closed_early: Guarded::new(false),
            about: About {
                destination: destination.clone(),
                number_in_pool: destination.numbers.take(),
                number: Guarded::new(0),
                in_blocks: Guarded::new(false),
                parked: Guarded::new((0, 0)),
                items,
                closures,
            },
            filled: CachePadded::new(AtomicU32::new(CLOSED)),
        }
    }

    /// Prefetches the entries that lie together with this one, which will be written soon.
    #[inline]
    pub(in crate::item) fn prefetch(&self, place: usize) {
        Places::lines(&self.about.items, place, prefetch::to_write);
        Places::lines(&self.about.closures, place, prefetch::to_write);
    }

    /// What all entries have in common. Only its maker may call this before the chunk is published.
    #[inline]
    pub(in crate::item) fn number(&self) -> usize {
        // SAFETY: written before it was published.
        unsafe { self.about.number.get() }
    }

    /// Prefetches the item of a filled entry, which will run soon.
    #[inline]
    pub(in crate::item) fn prefetch_item(&self, place: usize) {
        let item = self.item(place).addr().get();
        prefetch::to_write(item);
        // SAFETY: written before it was published.
        if unsafe { self.about.in_blocks.get() } {
            prefetch::to_write(item + LINE);
        }
    }

    /// The item of a filled entry.
    #[inline]
    pub(in crate::item) fn item(&self, place: usize) -> NonNull<RawWork> {
        // SAFETY: written before it was counted, and the caller has seen the count.
        let item = unsafe { self.about.items[place / TOGETHER].0[place % TOGETHER].get() };
        item.expect("it was put there before it was counted")
    }

    /// The name of a filled entry: its address, and its function.
    #[inline]
    pub(in crate::item) fn name(&self, place: usize) -> (usize, Option<WorkFn>) {
        let number = self.number();
        // SAFETY: it is the number of what was put there: of a function, and an `Option` of one is
        // 0 for `None`; or of a kind of closures.
        unsafe {
            match self.about.destination.contents {
                Contents::Items => (
                    self.item(place).addr().get(),
                    std::mem::transmute::<usize, Option<WorkFn>>(number),
                ),
                Contents::Closures => (self.address(place), Some(Small::func_of(number))),
            }
        }
    }

    #[inline]
    pub(in crate::item) fn address(&self, place: usize) -> usize {
        std::ptr::from_ref(&self.about.closures[place / TOGETHER].0[place % TOGETHER]).addr()
    }

    /// The contents of a filled entry. Called once, by the thread that has taken it. The location
    /// of an item still names the chunk, which misleads no thread once the item runs or is idle.
    #[inline]
    pub(in crate::item) fn take(&self, place: usize) -> Found {
        // SAFETY: put there by the maker before it was counted, and taken out once.
        unsafe {
            match self.about.destination.contents {
                Contents::Items => Found::Item(Pending::from_raw(self.item(place))),
                Contents::Closures => Found::Closure(Small::from_parts(
                    self.about.closures[place / TOGETHER].0[place % TOGETHER].get(),
                    self.number(),
                    self.address(place),
                )),
            }
        }
    }

    /// The same, as an item with the chunk's destination in place of the chunk.
    pub(in crate::item) fn take_item(&self, place: usize) -> Pending {
        let mut item = match self.take(place) {
            Found::Item(item) => item,
            Found::Closure(small) => small.into_item(),
        };
        item.set_destination(self.about.destination.pool, self.about.destination.pwq);
        item
    }

    /// Drops one hold. After the last one the chunk may be used again.
    ///
    /// # Safety
    /// The caller held it, and does not use it any more.
    #[inline]
    pub(in crate::item) unsafe fn let_go(chunk: NonNull<Chunk>) {
        // AcqRel: all use of the chunk comes before its next use.
        // SAFETY: by the contract.
        if unsafe { chunk.as_ref() }
            .holds
            .fetch_sub(1, Ordering::AcqRel)
            != 1
        {
            return;
        }
        // SAFETY: made by `Box::leak`, and no other thread has it.
        let chunk = unsafe { Box::from_raw(chunk.as_ptr()) };
        if let Some(home) = chunk.about.destination.home.upgrade() {
            home.spare.lock().others.put(chunk);
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        #[cfg(all(test, not(cmwq_loom)))]
        crate::item::touched::one();
        let about = &self.about;
        about.destination.numbers.give(about.number_in_pool);
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
