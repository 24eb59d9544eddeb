//! Producer state: what a thread remembers of what it has published.
#![forbid(unsafe_code)]

use crate::item::ChunksSerial as Serial;
use crate::item::closure::Small;
use crate::item::{OpenChunk, Pending, Pushed, RawWork};
use crate::pool::queue::pwq_chunks::PwqChunks;
use crate::pool::wake::deferred;
use crate::sys::epoch::epoch;
#[cfg(not(cmwq_loom))]
use crate::sys::local::thread_local;
use std::cell::Cell;

/// Where a thread's spawns come from and go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Issuer {
    /// The queue, or its handle, for comparing only.
    pub(crate) queue: usize,
    /// The real CPU of the thread.
    pub(crate) cpu: usize,
    /// The CPU that the thread declares, if it does.
    pub(crate) declared: usize,
}

/// After so many items in a row, without a wait in between, the thread makes chunks of the next ones.
pub(in crate::pool) const FLOODS_AFTER: u32 = if cfg!(cmwq_loom) { 1 } else { 8 };

/// With fewer items in a chunk, workers keep up with the thread: chunks do not pay.
pub(in crate::pool) const FEW: usize = 4;

/// The producer state of a thread.
pub(in crate::pool) struct Producer {
    /// How many items since the thread last waited.
    pub(in crate::pool) in_a_row: Cell<u32>,
    /// The number of the pool that the last item went to; 0: none.
    pub(in crate::pool) pool: Cell<u32>,
    /// The address of the last item that was published alone; 0: none.
    pub(in crate::pool) last: Cell<usize>,
    /// The chunk that the thread may add the next item to.
    pub(in crate::pool) open: OpenChunk,
    /// The cached route of the next item.
    pub(in crate::pool) route: Cell<Option<Route>>,
}

/// The cached route from a thread to its chunk. It is looked up once, and stays the same as long as the thread queues from where it was,
/// without waiting, and the [epoch] does. It needs no epoch pin: the thread holds its chunk, and adds to it before a lock holder closes it,
/// or not at all.
#[derive(Clone, Copy)]
pub(in crate::pool) struct Route {
    issuer: Issuer,
    epoch: usize,
    /// The chunks.
    to: Serial,
}

#[cfg(cmwq_loom)]
loom::thread_local! {
    static PRODUCER: Producer = Producer::new();
}

#[cfg(not(cmwq_loom))]
thread_local! {
    static PRODUCER: Producer = const { Producer::new() };
}

impl Producer {
    pub(in crate::pool) const fn new() -> Self {
        Producer {
            in_a_row: Cell::new(0),
            pool: Cell::new(0),
            last: Cell::new(0),
            open: OpenChunk::none(),
            route: Cell::new(None),
        }
    }

    /// One more item is published, in the pool of this number. Returns how many there were in a row.
    #[inline]
    pub(in crate::pool) fn count(&self, pool: u32) -> u32 {
        let in_a_row = self.in_a_row.get();
        self.in_a_row.set(in_a_row.wrapping_add(1));
        self.pool.set(pool);
        in_a_row
    }

    /// Whether one of the last `items` in a row was the last of so many.
    #[inline]
    pub(in crate::pool) fn completes(&self, so_many: u32, items: u32) -> bool {
        let in_a_row = self.in_a_row.get();
        in_a_row >= so_many && in_a_row % so_many < items
    }

    /// The cached route of the calling thread, as `issuer`.
    #[inline]
    pub(in crate::pool) fn route_of(&self, issuer: Issuer) -> Option<Serial> {
        let route = self.route.get()?;
        (route.issuer == issuer && route.epoch == epoch()).then_some(route.to)
    }

    /// `items` were published at once.
    pub(in crate::pool) fn count_chain(&self, pool: u32, items: u32, pushed: Pushed) {
        self.pool.set(pool);
        if pushed == Pushed::MustNotify && !cfg!(cmwq_loom) {
            // Workers sleep, so what came before has not waited.
            self.in_a_row.set(0);
        } else {
            self.in_a_row.set(self.in_a_row.get().wrapping_add(items));
        }
    }

    /// The thread has no chunk for the next item. Tells whether another chunk pays; if not, it will not for some items more.
    pub(in crate::pool) fn is_worth_a_chunk(&self) -> bool {
        let few = (1..FEW).contains(&self.open.end());
        if few {
            self.in_a_row.set(0);
        }
        !few
    }
}

/// Calls `f` with the thread's producer; `None` while the thread is on its way out.
#[inline]
pub(in crate::pool) fn with<R>(f: impl FnOnce(&Producer) -> R) -> Option<R> {
    PRODUCER.try_with(f).ok()
}

/// Calls `f` with the thread's open chunk; while the thread is on its way out, with one that is left afterwards.
#[inline]
pub(in crate::pool) fn with_open<R>(f: impl FnOnce(&OpenChunk) -> R) -> R {
    let mut f = Some(f);
    let result = with(|producer| f.take().map(|f| f(&producer.open)));
    match (result.flatten(), f) {
        (Some(result), _) => result,
        (None, Some(f)) => f(&OpenChunk::none()),
        (None, None) => unreachable!("it was called"),
    }
}

/// The calling thread is about to wait for what it has published, or for something else.
#[inline]
pub(crate) fn wait_begins() {
    with(|producer| {
        producer.in_a_row.set(0);
        producer.route.set(None);
    });
}

/// The calling thread is about to claim the item at this address and to publish it. Publishing an item alone writes all over it: prefetch.
#[inline]
pub(crate) fn publish_begins(item: usize) {
    if with(|producer| producer.in_a_row.get()) == Some(0) {
        RawWork::prefetch(item);
    }
}

/// What the calling thread has spun for is there. A thread that queues one item and waits, again and again, has just seen its end, and
/// claims it next: prefetch.
#[inline]
pub(crate) fn wait_ends() {
    with(|producer| RawWork::prefetch(producer.last.get()));
}

/// Publishes a closure by the cached route of the calling thread, as `issuer`. `true`: it is published.
#[inline]
pub(crate) fn publish_closure_again(issuer: Issuer, closure: &Small) -> bool {
    with(|producer| {
        let to = producer.route_of(issuer);
        to.is_some_and(|to| producer.open.add_closure(to, closure))
    })
    .unwrap_or(false)
}

/// Whether the calling thread publishes without waiting for what it has published.
#[inline]
pub(crate) fn floods() -> bool {
    with(|producer| producer.in_a_row.get() >= FLOODS_AFTER).unwrap_or(false)
}

/// As [`publish_closure_again`] for a closure with a handle, which is `item` as long as the handle is there. Returns it if it cannot be
/// published so.
#[inline]
pub(crate) fn publish_with_handle_again(
    issuer: Issuer,
    closure: &Small,
    item: Pending,
) -> Result<(), Pending> {
    let mut item = Some(item);
    with(|producer| {
        if let Some(to) = producer.route_of(issuer)
            && let Some(mine) = item.take()
        {
            item = producer.open.add_with_handle(to, closure, mine).err();
        }
    });
    item.map_or(Ok(()), Err)
}

/// The calling thread drops the handle of the item at this address. `true`: it was published last, and is only a closure now. The item,
/// which no other thread will read, is the caller's.
#[inline]
pub(in crate::pool) fn drop_handle(item: usize) -> bool {
    with(|producer| producer.open.drop_handle(item)).unwrap_or(false)
}

/// Publishes an item by the cached route of the calling thread, as `issuer`. Returns it if that cannot be.
#[inline]
pub(crate) fn publish_item_again(issuer: Issuer, item: Pending) -> Result<(), Pending> {
    let mut item = Some(item);
    match claim_and_publish_again(issuer, || item.take().ok_or(())) {
        Some(Ok(published)) => published,
        _ => item.map_or(Ok(()), Err),
    }
}

/// As [`publish_item_again`], an item that is claimed only if there is a cached route; `None`: there is none. An error is one of the claim.
#[inline]
pub(crate) fn claim_and_publish_again<E>(
    issuer: Issuer,
    claim: impl FnOnce() -> Result<Pending, E>,
) -> Option<Result<Result<(), Pending>, E>> {
    with(|producer| {
        let to = producer.route_of(issuer)?;
        Some(claim().map(|item| producer.open.add_item_again(to, item)))
    })
    .flatten()
}

/// The calling thread has published something as `issuer`, and has found, in `epoch`, the destination of all that it publishes next. If it
/// has a chunk there now, the route is cached.
#[inline]
pub(crate) fn note_route(chunks: &PwqChunks, issuer: Issuer, epoch: usize) {
    with(|producer| {
        if let Some(to) = producer.open.of()
            && (to == chunks.items.serial() || to == chunks.closures.serial())
        {
            producer.route.set(Some(Route { issuer, epoch, to }));
        }
    });
}

/// Whether the pool where the calling thread has published last has a backlog. A hint.
pub(crate) fn has_backlog() -> bool {
    backlogged_pool().is_some()
}

/// The number of that pool, if it has a backlog.
pub(crate) fn backlogged_pool() -> Option<u32> {
    with(|producer| producer.pool.get()).filter(|&pool| pool != 0 && deferred::has_backlog(pool))
}
