//! Publishing: the issuer's side of a pool, without its lock.
//!
//! An item goes to the pool's inbox by itself, or in a [bundle](crate::work::Bundles) with others. Bundles are for threads that publish
//! without waiting for what they have published, into a pool that does not keep up: their items wait in any case, and what counts is that workers
//! find them with few steps, and without touching them while they hold the lock. Where items are long workers take one at a time, and there are none.
#![forbid(unsafe_code)]

use super::{Issuer, Pool, PoolGuard, late};
use crate::sys::atomic::Ordering;
use crate::sys::gate::era;
use crate::work::closure::Small;
use crate::work::{Bundles, BundlesSerial as Serial, OpenBundle, Pending, Pushed, RawWork};
use std::cell::Cell;
use std::sync::Arc;

/// A thread looks after what it has published every so many items: what is accepted at once then is still in its cache.
const HAND_OVER_EVERY: u32 = 128;
/// So many items in a row, without waiting in between, and the thread makes bundles of the next ones.
const FLOODS_AFTER: u32 = if cfg!(cmwq_loom) { 1 } else { 8 };

/// Fewer items in a bundle, and workers keep up with the thread: bundles are not worth it.
const FEW: usize = 4;

/// What a thread remembers of what it has published.
struct Desk {
    /// How many items since it has last waited.
    in_a_row: Cell<u32>,
    /// The number of the pool that the last one went to; 0: there is none.
    pool: Cell<u32>,
    /// The address of the last one that went to an inbox by itself; 0: there is none.
    last: Cell<usize>,
    /// Where it may add the next one.
    open: OpenBundle,
    /// Where it may add the next one without asking for the way.
    route: Cell<Option<Route>>,
}

/// The way of what a thread publishes to its bundle: found once, and the same as long as the thread queues from where it was, without waiting, and the [era] is.
/// No gate is needed on it: the thread holds its bundle, and adds to it before whoever takes it closes it, or not at all.
#[derive(Clone, Copy)]
struct Route {
    issuer: Issuer,
    era: usize,
    /// The bundles.
    to: Serial,
}

#[cfg(not(cmwq_loom))]
thread_local! {
    static DESK: Desk = const { Desk::new() };
}

#[cfg(cmwq_loom)]
loom::thread_local! {
    static DESK: Desk = Desk::new();
}

impl Desk {
    const fn new() -> Self {
        Desk {
            in_a_row: Cell::new(0),
            pool: Cell::new(0),
            last: Cell::new(0),
            open: OpenBundle::none(),
            route: Cell::new(None),
        }
    }

    /// One more is published, in the pool of this number. Returns how many there were in a row.
    #[inline]
    fn count(&self, pool: u32) -> u32 {
        let in_a_row = self.in_a_row.get();
        self.in_a_row.set(in_a_row.wrapping_add(1));
        self.pool.set(pool);
        in_a_row
    }

    /// Where the calling thread, as `issuer`, publishes without asking for the way.
    #[inline]
    fn route_of(&self, issuer: Issuer) -> Option<Serial> {
        let route = self.route.get()?;
        (route.issuer == issuer && route.era == era()).then_some(route.to)
    }

    /// There is no place for the next item. Whether another bundle is worth its while; if not, it will not be for some items more.
    fn is_worth_a_bundle(&self, pool: &Pool) -> bool {
        let few = (1..FEW).contains(&self.open.end());
        let worth = !few && !pool.singles.load(Ordering::Relaxed);
        if !worth {
            self.in_a_row.set(0);
        }
        worth
    }
}

/// Calls `f` with the thread's desk; `None` while the thread is on its way out.
#[inline]
fn with<R>(f: impl FnOnce(&Desk) -> R) -> Option<R> {
    DESK.try_with(f).ok()
}

/// The calling thread is about to wait for what it has published, or for something else.
#[inline]
pub(crate) fn wait_begins() {
    with(|desk| {
        desk.in_a_row.set(0);
        desk.route.set(None);
    });
}

/// The calling thread is about to claim the item at this address and to publish it. One that goes to the inbox by itself is written to all over.
#[inline]
pub(crate) fn publish_begins(item: usize) {
    if with(|desk| desk.in_a_row.get()) == Some(0) {
        RawWork::ask_for(item);
    }
}

/// What the calling thread has waited for, awake, is there. Who queues one item and waits, again and again, has just been told that it has run, and is about to
/// claim it.
#[inline]
pub(crate) fn wait_ends() {
    with(|desk| RawWork::ask_for(desk.last.get()));
}

/// Publishes a closure where the calling thread has published the last one, as `issuer` does now. `true`: it is handed on.
#[inline]
pub(crate) fn publish_closure_again(issuer: Issuer, closure: &Small) -> bool {
    with(|desk| {
        let to = desk.route_of(issuer);
        to.is_some_and(|to| desk.open.add_closure(to, closure))
    })
    .unwrap_or(false)
}

/// Whether the calling thread publishes without waiting for what it has published.
#[inline]
pub(crate) fn floods() -> bool {
    with(|desk| desk.in_a_row.get() >= FLOODS_AFTER).unwrap_or(false)
}

/// As [`publish_closure_again`] for what has a handle, which is `item` as long as the handle is there. Given back if it cannot be.
#[inline]
pub(crate) fn publish_with_handle_again(
    issuer: Issuer,
    closure: &Small,
    item: Pending,
) -> Result<(), Pending> {
    let mut item = Some(item);
    with(|desk| {
        if let Some(to) = desk.route_of(issuer)
            && let Some(mine) = item.take()
        {
            item = desk.open.add_with_handle(to, closure, mine).err();
        }
    });
    item.map_or(Ok(()), Err)
}

/// The calling thread drops the handle of the item at this address. `true`: it was published last, and is only a closure now; the item, which nobody will look at, is the
/// caller's.
#[inline]
pub(super) fn drop_handle(item: usize) -> bool {
    with(|desk| desk.open.drop_handle(item)).unwrap_or(false)
}

/// Publishes an item where the calling thread has published the last one, as `issuer` does now. Given back if that cannot be.
#[inline]
pub(crate) fn publish_item_again(issuer: Issuer, item: Pending) -> Result<(), Pending> {
    let mut item = Some(item);
    match claim_and_publish_again(issuer, || item.take().ok_or(())) {
        Some(Ok(published)) => published,
        _ => item.map_or(Ok(()), Err),
    }
}

/// As [`publish_item_again`], an item that is claimed only if the way is known; `None`: it is not. An error is one of the claim.
#[inline]
pub(crate) fn claim_and_publish_again<E>(
    issuer: Issuer,
    claim: impl FnOnce() -> Result<Pending, E>,
) -> Option<Result<Result<(), Pending>, E>> {
    with(|desk| {
        let to = desk.route_of(issuer)?;
        Some(claim().map(|item| desk.open.add_item_again(to, item)))
    })
    .flatten()
}

/// The calling thread has published something as `issuer`, and has found, in `era`, where all goes that it publishes next. If it has a bundle there now, it
/// will publish the next one without asking for the way.
#[inline]
pub(crate) fn note_way(together: &Together, issuer: Issuer, era: usize) {
    with(|desk| {
        if let Some(to) = desk.open.of()
            && (to == together.items.serial() || to == together.closures.serial())
        {
            desk.route.set(Some(Route { issuer, era, to }));
        }
    });
}

/// Whether the pool where the calling thread has published last has a backlog. A hint.
pub(crate) fn has_backlog() -> bool {
    with(|desk| desk.pool.get()).is_some_and(|pool| pool != 0 && late::has_backlog(pool))
}

/// Where items of a pool workqueue are published together.
pub(crate) struct Together {
    items: Arc<Bundles>,
    closures: Arc<Bundles>,
}

impl Together {
    /// For pool workqueue `pwq` of this pool.
    pub(crate) fn new(pool: &Pool, pwq: u32) -> Self {
        let oldest = &pool.oldest_batch;
        Together {
            items: Bundles::of_items(pool.id, pwq, oldest),
            closures: Bundles::of_closures(pool.id, pwq, oldest),
        }
    }
}

impl Pool {
    /// Frees bundles that were not used since this was called last.
    pub(crate) fn trim_bundles(self: &Arc<Self>) {
        let guard = self.lock_beside_batches();
        let together = guard
            .pwqs
            .iter()
            .filter_map(|(_, pwq)| pwq.together.as_ref());
        for together in together {
            together.items.trim();
            together.closures.trim();
        }
    }

    /// Publishes an item that was aimed at this pool, and wakes a worker if that is this publisher's duty.
    #[inline]
    pub(crate) fn publish(self: &Arc<Self>, item: Pending) {
        self.at_desk(item, |desk, item| {
            let in_a_row = desk.count(self.id);
            self.publish_alone(desk, item, in_a_row);
        });
    }

    /// As [`publish`](Self::publish), together with others if that is of use. `together`: of the pool workqueue that the item was aimed at.
    #[inline]
    pub(crate) fn publish_together(self: &Arc<Self>, item: Pending, together: &Together) {
        self.at_desk(item, |desk, item| {
            self.publish_at(desk, item, &together.items);
        });
    }

    #[inline]
    fn at_desk(self: &Arc<Self>, item: Pending, publish: impl FnOnce(&Desk, Pending)) {
        let mut item = Some(item);
        with(|desk| {
            if let Some(item) = item.take() {
                publish(desk, item);
            }
        });
        // The thread is on its way out.
        if let Some(item) = item {
            self.see_to(self.inbox.push(item));
        }
    }

    #[inline]
    fn publish_at(self: &Arc<Self>, desk: &Desk, item: Pending, bundles: &Bundles) {
        let in_a_row = desk.count(self.id);
        // In a bundle nobody looks whether it is in an open batch, where it may still run.
        if in_a_row < FLOODS_AFTER || !self.oldest_batch.is_after(item.noted_batch()) {
            desk.open.leave();
            return self.publish_alone(desk, item, in_a_row);
        }
        let Err(item) = desk.open.add_item(bundles.serial(), item) else {
            return;
        };
        if desk.is_worth_a_bundle(self) {
            let pushed = self.inbox.push_bundle(item, bundles, &desk.open);
            self.see_to(pushed);
        } else {
            self.publish_alone(desk, item, in_a_row);
        }
    }

    /// As [`publish_together`](Self::publish_together), a closure, if that is of use. `true`: it is handed on.
    #[inline]
    pub(crate) fn publish_closure(self: &Arc<Self>, closure: &Small, together: &Together) -> bool {
        with(|desk| {
            let bundles = &*together.closures;
            let published = desk.in_a_row.get() >= FLOODS_AFTER
                && (desk.open.add_closure(bundles.serial(), closure)
                    || self.begin_bundle(desk, closure, bundles));
            if published {
                desk.count(self.id);
            }
            published
        })
        .unwrap_or(false)
    }

    /// The same for what has a handle, see [`publish_with_handle_again`]. Given back if it is of no use.
    #[inline]
    pub(crate) fn publish_with_handle(
        self: &Arc<Self>,
        closure: &Small,
        item: Pending,
        together: &Together,
    ) -> Result<(), Pending> {
        let mut item = Some(item);
        with(|desk| {
            let bundles = &*together.closures;
            if desk.in_a_row.get() < FLOODS_AFTER {
                return;
            }
            let Some(mine) = item.take() else { return };
            let added = desk
                .open
                .add_with_handle(bundles.serial(), closure, mine)
                .or_else(|mine| self.begin_with_handle(desk, closure, mine, bundles));
            item = added.err();
            if item.is_none() {
                desk.count(self.id);
            }
        });
        item.map_or(Ok(()), Err)
    }

    #[inline(never)]
    fn begin_with_handle(
        self: &Arc<Self>,
        desk: &Desk,
        closure: &Small,
        item: Pending,
        bundles: &Bundles,
    ) -> Result<(), Pending> {
        if !desk.is_worth_a_bundle(self) {
            return Err(item);
        }
        let pushed = self
            .inbox
            .push_with_handle(closure, item, bundles, &desk.open);
        self.see_to(pushed);
        Ok(())
    }

    #[inline(never)]
    fn begin_bundle(self: &Arc<Self>, desk: &Desk, closure: &Small, bundles: &Bundles) -> bool {
        if !desk.is_worth_a_bundle(self) {
            return false;
        }
        let pushed = self.inbox.push_closure(closure, bundles, &desk.open);
        self.see_to(pushed);
        true
    }

    #[inline]
    fn publish_alone(self: &Arc<Self>, desk: &Desk, item: Pending, in_a_row: u32) {
        desk.last.set(item.address());
        let pushed = self.inbox.push(item);
        match pushed {
            Pushed::Quiet if (in_a_row + 1).is_multiple_of(HAND_OVER_EVERY) => self.hand_over(),
            // Workers sleep, so what came before has not waited. (The model checker's threads publish too little to flood otherwise.)
            Pushed::MustNotify if !cfg!(cmwq_loom) => desk.in_a_row.set(0),
            _ => {}
        }
        self.see_to(pushed);
    }

    #[inline]
    fn see_to(self: &Arc<Self>, pushed: Pushed) {
        if pushed == Pushed::MustNotify {
            self.call_somebody();
        }
    }

    /// A worker has found out whether it takes single items only.
    #[inline]
    pub(super) fn tell_singles(&self, singles: bool) {
        // Nearly always it is so already.
        if self.singles.load(Ordering::Relaxed) != singles {
            self.singles.store(singles, Ordering::Relaxed);
        }
    }

    /// The duty of a publisher who took the mark.
    fn call_somebody(self: &Arc<Self>) {
        // A worker that ends a short item takes the lock in a moment, and with it what was published. Then the inbox is empty, as it
        // has not been since this publisher's exchange: whoever emptied it held the lock after that, and has settled or
        // will. That spares the system call which wakes another worker, and that one's fight for the CPU and the lock.
        let taken = || self.inbox.is_empty();
        if self.inbox.is_worked() && self.returns.look(taken) {
            return;
        }
        // Settling picks a worker, or finds one that searches, or asks for a new one.
        let goes_on = self.publisher_goes_on();
        let mut guard = self.lock_beside_batches();
        if goes_on {
            guard.will_go_on();
        }
    }

    /// Collects what was published, if the lock is free. A long inbox would be turned around by a worker, far from the cache
    /// that it is in, with the lock held. But a worker that waits awake will take what is there.
    #[cold]
    fn hand_over(self: &Arc<Self>) {
        if cfg!(cmwq_loom) {
            return;
        }
        let Some(inner) = self.inner.try_lock() else {
            return;
        };
        let mut guard = PoolGuard::new(self, inner);
        if guard.searching == 0 {
            guard.collect();
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::Engine;
    use std::sync::atomic::AtomicU32;

    /// They would be no gain: such an item is taken before the next one comes.
    #[test]
    fn a_thread_whose_items_meet_sleeping_workers_makes_no_bundles() {
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
            assert!(with(|desk| desk.in_a_row.get()) < Some(FLOODS_AFTER));
            // Not one of the library's waits, which would begin anew.
            while ran.load(Ordering::Acquire) != number || !all_sleep() {
                std::thread::yield_now();
            }
        }
    }
}
