//! Producer state: what a thread remembers of what it has published.
#![forbid(unsafe_code)]

use super::dealing::Dealing;
use crate::item::ChunksSerial as Serial;
use crate::item::closure::Small;
use crate::item::{OpenChunk, Pending, Pushed, RawWork};
use crate::pool::wake::deferred;
use crate::sys::epoch::epoch;
#[cfg(not(cmwq_loom))]
use crate::sys::local::thread_local;
use std::cell::Cell;

/// Where a thread queues from, and to which queue: a cached route is valid as long as none of this
/// changes.
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
    /// How many items the thread has published since it last waited.
    pub(in crate::pool) in_a_row: Cell<u32>,
    /// The number of the pool that the last item went to; 0: none.
    pub(in crate::pool) pool: Cell<u32>,
    /// The address of the last item that was published alone; 0: none.
    pub(in crate::pool) last: Cell<usize>,
    /// The chunk that the thread may add the next item to.
    pub(in crate::pool) open: OpenChunk,
    /// How it deals long items to several pods.
    pub(in crate::pool) dealing: Dealing,
    /// The cached route of the next item.
    pub(in crate::pool) route: Cell<Option<Route>>,
}

/// The cached route from a thread to its chunk. It is looked up once, and stays valid as long as
/// the thread queues from the same place without waiting and the [epoch] does not change. Using it
/// needs no epoch pin, because the thread holds its chunk: either the thread adds to the chunk
/// before a lock holder closes it, or it finds the chunk closed.
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
            dealing: Dealing::new(),
            route: Cell::new(None),
        }
    }

    /// Counts an item that is published in the pool of this number. Returns how many the thread has
    /// published in a row.
    #[inline]
    pub(in crate::pool) fn count(&self, pool: u32) -> u32 {
        let in_a_row = self.in_a_row.get();
        self.in_a_row.set(in_a_row.wrapping_add(1));
        self.pool.set(pool);
        in_a_row
    }

    /// The cached route of the calling thread, as `issuer`.
    #[inline]
    pub(in crate::pool) fn route_of(&self, issuer: Issuer) -> Option<Serial> {
        let route = self.route.get()?;
        (route.issuer == issuer && route.epoch == epoch()).then_some(route.to)
    }

    /// Caches the route to the open chunk, of `to`: it is valid for the issuer in the epoch.
    #[inline]
    pub(in crate::pool) fn note_route(&self, to: Serial, via: Option<(Issuer, usize)>) {
        if let Some((issuer, epoch)) = via {
            self.route.set(Some(Route { issuer, epoch, to }));
        }
    }

    /// Counts `items` items that were published at once.
    pub(in crate::pool) fn count_chain(&self, pool: u32, items: u32, pushed: Pushed) {
        self.pool.set(pool);
        if pushed == Pushed::MustNotify && !cfg!(cmwq_loom) {
            // Workers sleep, so what came before has not waited.
            self.in_a_row.set(0);
        } else {
            self.in_a_row.set(self.in_a_row.get().wrapping_add(items));
        }
    }

    /// Called when the thread has no chunk for the next item: returns whether to begin another one.
    /// If the last chunk stayed nearly empty, it returns `false`, and the thread publishes some
    /// items alone before it tries again.
    pub(in crate::pool) fn is_worth_a_chunk(&self) -> bool {
        let few = (1..FEW).contains(&self.open.end());
        if few {
            self.in_a_row.set(0);
        }
        !few
    }
}

/// Calls `f` with the thread's producer state; `None` if the thread is ending and has none any more.
#[inline]
pub(in crate::pool) fn with<R>(f: impl FnOnce(&Producer) -> R) -> Option<R> {
    PRODUCER.try_with(f).ok()
}

/// As [`with`]; a thread that is ending has a state for this call only.
#[inline]
pub(in crate::pool) fn with_or_new<R>(f: impl FnOnce(&Producer) -> R) -> R {
    let mut f = Some(f);
    let result = with(|producer| f.take().map(|f| f(producer)));
    match (result.flatten(), f) {
        (Some(result), _) => result,
        (None, Some(f)) => f(&Producer::new()),
        (None, None) => unreachable!("it was called"),
    }
}

/// Calls `f` with what the calling thread remembers of items that it deals; `None` if the thread is
/// ending.
#[inline]
pub(crate) fn dealing<R>(f: impl FnOnce(&Dealing) -> R) -> Option<R> {
    with(|producer| f(&producer.dealing))
}

/// The calling thread is about to wait for what it has published, or for something else.
#[inline]
pub(crate) fn wait_begins() {
    with(|producer| {
        producer.in_a_row.set(0);
        producer.dealing.turn_to(None);
        producer.route.set(None);
    });
}

/// Called before the calling thread claims and publishes the item at this address: prefetches the
/// item, if it will be published alone, which writes most of its fields.
#[inline]
pub(crate) fn publish_begins(item: usize) {
    if with(|producer| producer.in_a_row.get()) == Some(0) {
        RawWork::prefetch(item);
    }
}

/// Called when a spin of the calling thread has succeeded: prefetches its last item. A thread that
/// queues one item and waits for it, again and again, will claim that item next.
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

/// Publishes an item by the cached route of the calling thread, as `issuer`. Returns the item if
/// there is no such route.
#[inline]
pub(crate) fn publish_item_again(issuer: Issuer, item: Pending) -> Result<(), Pending> {
    let mut item = Some(item);
    let left = with(|producer| {
        let to = producer.route_of(issuer)?;
        producer.open.add_item_again(to, item.take()?).err()
    });
    left.flatten().or(item).map_or(Ok(()), Err)
}

/// As [`publish_item_again`], but claims the item only if there is a cached route, and returns
/// `None` if there is none. An error is that of the claim.
#[cfg(any(test, not(cmwq_loom)))]
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

/// Whether the pool where the calling thread has published last has a backlog. A hint.
pub(crate) fn has_backlog() -> bool {
    backlogged_pool().is_some()
}

/// The number of that pool, if it has a backlog.
pub(crate) fn backlogged_pool() -> Option<u32> {
    with(|producer| producer.pool.get()).filter(|&pool| pool != 0 && deferred::has_backlog(pool))
}
