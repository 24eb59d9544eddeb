//! Settling: what the holder of a pool's lock does before it unlocks, and what it follows up
//! afterwards. See `PROTOCOL.md`.

use super::guard::{Asks, Event, PoolGuard, Rest};
use crate::pool::state::group::{
    LONG_ENOUGH_ALONE_NS, LONG_ENOUGH_FAR_NS, LONG_ENOUGH_NS, SHARE, WORTH_STEALING_NS,
};
use crate::pool::state::pool::Pool;
use crate::pool::wake::deferred::tell_backlog;
use crate::sys::atomic::Ordering;
use crate::sys::cpu;
use std::sync::Arc;

/// The greatest room that a pool tells. Above it the number would often change, and what issuers do
/// would not.
const MOST_ROOM: u32 = 4 * SHARE;
/// How many idle workers are looked at, at most, to pick the one to be woken.
const LOOKED_AT: usize = 8;

impl PoolGuard<'_> {
    /// Picks the worker to be woken: the most recently idle one that has slept on a CPU which is
    /// free now ([`Occupied::fits`]), or else the most recently idle one (as in the kernel, since its
    /// memory is still in a cache). Returns `false` if no worker is idle.
    ///
    /// [`Occupied::fits`]: crate::pool::wake::placement::Occupied::fits
    pub(in crate::pool) fn wake_idle(&mut self) -> bool {
        let Some(last) = self.idle().len().checked_sub(1) else {
            return false;
        };
        let here = cpu::current();
        let place = |at: usize| &self.workers[self.idle()[at]].place;
        let few = || ((last + 1).saturating_sub(LOOKED_AT)..=last).rev();
        let fitting = few().find(|&at| self.occupied.fits(place(at), here));
        self.wake_at(fitting.unwrap_or(last));
        true
    }

    /// Makes the pool safe to leave: see PROTOCOL.md, "Settling".
    #[inline]
    fn settle(&mut self) {
        if self.keeps.is_some() {
            self.give_back_kept();
        }
        if self.is_limited() {
            self.settle_slots();
        }
        self.tell_waiters();
        self.tell_issuers();
        let target = self.target();
        if self.searching() > 0 {
            if self.pace.item_ns() >= LONG_ENOUGH_ALONE_NS {
                self.wake_more(target);
            }
            if self.has_waiting() {
                self.pool.inbox.tell_accepted();
                // The worker that was woken may have to wait for its CPU, and it wakes the others.
                self.watch_backlog();
            }
            return;
        }
        if self.running() >= target {
            if self.is_limited() && self.borrow_slot() {
                self.wake_or_want(1);
            } else {
                self.settle_saturated();
            }
            return;
        }
        if !self.has_waiting() && self.pool.inbox.ask_notify() {
            if !self.batches.is_empty() {
                // The open batches will have ended before a woken worker could run; if one has not,
                // the monitor finds it.
                self.watch();
            }
            return;
        }
        // Work waits, a CPU is free, and no worker is on the way.
        if self.wake_idle() {
            return self.wake_more(target);
        }
        // A new worker, too, may have to wait for its CPU.
        self.want_worker();
        self.watch_backlog();
    }

    /// Wakes workers until as many come as items wait and CPUs are free, but few
    /// [at once](SHARE). If each worker woke one other, a burst would take a wake-up's time each
    /// time that the number of workers doubles.
    fn wake_more(&mut self, target: u32) {
        let taken = u32::from(
            self.occupied
                .is_left_to_waker(cpu::current(), &self.binding),
        );
        let most = target.saturating_sub(self.running() + taken).min(SHARE);
        while self.searching() < most && !self.idle().is_empty() {
            if !self.has_more_than_come() {
                self.collect();
                if !self.has_more_than_come() {
                    return;
                }
            }
            self.wake_idle();
        }
    }

    /// Whether more items wait than workers come.
    fn has_more_than_come(&self) -> bool {
        self.waiting() > self.searching() as usize
    }

    /// Tells threads that wait for items of this pool whether much waits here.
    #[inline]
    fn tell_waiters(&self) {
        if self.pool.attrs.is_bh() {
            return;
        }
        let waiting = self.waiting();
        if waiting > 0 {
            let at_once = self.running() + self.searching();
            tell_backlog(self.pool.id, self.pace.wait_ns(waiting, at_once));
        } else if self.pool.inbox.is_empty() {
            tell_backlog(self.pool.id, 0);
        }
    }

    /// Wakes up to `most` idle workers. If there are fewer, a worker is to be created.
    pub(in crate::pool) fn wake_or_want(&mut self, most: usize) {
        let woken = (0..most).take_while(|_| self.wake_idle()).count();
        if woken < most {
            self.want_worker();
        }
    }

    /// The pool is saturated: as many workers run as may, so none is woken. But as soon as an item
    /// waits, the monitor has to sample the pool. Until then the pool leaves NOTIFY set, so that
    /// the next issuer takes the lock and has the monitor begin.
    fn settle_saturated(&mut self) {
        // Where there is a limit over all pools this does not hold: without a slot no worker runs
        // here that would find a published item.
        if self.watched && !self.has_waiting() && !self.is_limited() {
            return;
        }
        let empty = !self.has_waiting() && self.batches.is_empty();
        if empty && self.pool.inbox.ask_notify() {
            return;
        }
        // An item was published before NOTIFY could be set.
        if empty && self.is_limited() && self.borrow_slot() {
            return self.wake_or_want(1);
        }
        self.watch();
    }

    /// A worker is on its way. If much waits, or nobody knows how long it will wait, the monitor has
    /// a look: the worker may have to wait for its CPU, and the workers of other pods are idle.
    fn watch_backlog(&mut self) {
        if self.pool.steals()
            && (self.pace.item_ns() == 0 || self.is_worth_stealing(self.waiting()))
        {
            self.watch();
        }
    }

    /// Tells issuers whether to deal items and how many this pool has room for, and idle workers of
    /// other pods whether what waits here is worth a steal.
    #[inline]
    fn tell_issuers(&mut self) {
        if !self.pool.steals() {
            return;
        }
        // Relaxed: hints.
        let pool = self.pool;
        let deals = self.has_long_items() && !self.is_limited();
        if deals != pool.deals() {
            pool.deals.store(deals, Ordering::Relaxed);
        }
        let item_ns = self.pace.item_ns();
        let only_near = item_ns < LONG_ENOUGH_FAR_NS;
        if deals && only_near == pool.deals_far() {
            pool.only_near.store(only_near, Ordering::Relaxed);
        }
        let waiting = self.waiting();
        let free = self.target().saturating_sub(self.running());
        // An item that would wait for longer is worth waking a worker of another pod. Of items whose
        // length nobody knows it takes as many as it has CPUs for.
        let soon = LONG_ENOUGH_ALONE_NS * u64::from(self.at_once());
        let soon = soon.checked_div(item_ns).unwrap_or(0);
        let room = (u64::from(free) + soon).saturating_sub(waiting as u64);
        let mut room = room.min(u64::from(MOST_ROOM)) as u32;
        let before = pool.room();
        if !pool.inbox.is_empty() {
            // What was published and not taken yet is not in `waiting`, so the room does not grow.
            room = room.min(before);
        }
        if room != before {
            pool.room.store(room, Ordering::Relaxed);
        }
        if !deals {
            return;
        }
        let wanted = self.is_worth_stealing(waiting);
        if wanted != pool.wants_thieves.load(Ordering::Relaxed) {
            pool.set_wants_thieves(wanted);
        }
    }

    /// Whether so many items will wait for longer than a neighbour's worker takes to come.
    fn is_worth_stealing(&self, waiting: usize) -> bool {
        self.has_long_items() && self.pace.wait_ns(waiting, self.at_once()) > WORTH_STEALING_NS
    }

    /// Whether the pool has neighbours, and items that take long enough to be carried there.
    fn has_long_items(&self) -> bool {
        self.pool.steals() && self.pace.item_ns() >= LONG_ENOUGH_NS
    }

    /// Does what was noted under the lock, now that it is free.
    #[inline(never)]
    fn follow_up(&mut self) {
        if let Some(worker) = self.wake.take() {
            worker.wake(&self.pool.inbox);
        }
        if let Some(rest) = self.rest.take() {
            rest.follow_up(self.pool);
        }
        self.asks.ask(self.pool);
    }
}

impl Drop for PoolGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.settle();
        #[cfg(all(debug_assertions, not(any(test, cmwq_loom))))]
        self.assert_invariants();
        drop(self.inner.take());
        self.hold.leave();
        #[cfg(all(test, not(cmwq_loom)))]
        self.held.end();
        // Nearly always there is nothing to do.
        if self.wake.is_some() || self.rest.is_some() || self.asks != Asks::default() {
            self.follow_up();
        }
    }
}

impl Asks {
    fn ask(self, pool: &Arc<Pool>) {
        if self.create_worker {
            pool.service.create_worker(pool);
        }
        if self.watch {
            pool.service.watch(pool);
        }
        if self.cull_later {
            pool.service.cull_later(pool);
        }
        if self.slots {
            pool.service.slots_wanted();
        }
        if self.hand_out_slots {
            pool.attrs.params.slots.hand_out(0);
        }
    }
}

impl Rest {
    #[cold]
    fn follow_up(self, pool: &Arc<Pool>) {
        for worker in self.wake_more {
            worker.wake(&pool.inbox);
        }
        for event in self.events {
            match event {
                Event::ColourDone(front, colour) => front.colour_done(colour),
                Event::MustWait(front, pwq) => front.must_wait(pool, pwq),
                Event::CreditsFreed(front, node) => front.credits_freed(node),
                Event::RoomFreed(front) => front.room_freed(),
                Event::PwqGone(front, pwq) => front.pwq_gone(pool, pwq),
                Event::Done(waiters) => waiters.iter().for_each(|waiter| waiter.complete()),
            }
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::{LONG_ENOUGH_ALONE_NS, LONG_ENOUGH_NS, MOST_ROOM, SHARE, WORTH_STEALING_NS};
    use crate::Work;
    use crate::pool::queue::pwq::Traits;
    use crate::pool::state::group::Group;
    use crate::pool::state::pool::{Inner, Pool};
    use crate::pool::stubs;
    use crate::sys::atomic::Ordering;
    use std::sync::Arc;

    /// A pool of eight CPUs where so many items wait, with eight idle workers. The system packs, so
    /// it does not matter on which CPU this thread is.
    fn idle_beside(waiting: usize) -> Arc<Pool> {
        let cpus: Vec<usize> = (0..8).collect();
        let pool = stubs::saturated(&Group::new(), 7, &cpus, waiting);
        (0..8).for_each(|since| drop(stubs::idle(&pool, since)));
        pool.lock().occupied.note_that_it_packs();
        pool
    }

    #[test]
    fn as_many_workers_are_woken_as_items_wait_and_cpus_are_free_but_few_at_once() {
        for (running, waiting, woken) in [
            (0, 1, 1),
            (0, 3, 3),
            (0, 50, SHARE),
            (6, 50, 2),
            (7, 50, 1),
            (8, 50, 0),
        ] {
            let pool = idle_beside(waiting);
            pool.lock().counts.set_running(running);
            let searching = pool.lock().searching();
            assert_eq!(searching, woken, "{running} run, {waiting} wait");
        }
    }

    #[test]
    fn where_a_worker_comes_more_are_woken_for_items_that_are_worth_it_one_by_one() {
        let (short, long) = (LONG_ENOUGH_ALONE_NS - 1, LONG_ENOUGH_ALONE_NS);
        for (item_ns, running, waiting, searching) in [
            (short, 0, 3, 1),
            (long, 0, 3, 3),
            (long, 0, 50, SHARE),
            (long, 0, 0, 1),
            (long, 6, 50, 2),
            (long, 8, 50, 1),
        ] {
            let pool = idle_beside(waiting);
            let mut guard = pool.lock();
            guard.pace.note(item_ns);
            guard.counts.set_running(running);
            assert!(guard.wake_idle());
            drop(guard);
            let case = format!("{item_ns} ns, {running} run, {waiting} wait");
            assert_eq!(pool.lock().searching(), searching, "{case}");
        }
    }

    /// The issuer computes there. Only a system that packs wakes a worker on its waker's CPU.
    #[test]
    fn no_more_are_woken_for_the_cpu_of_an_issuer() {
        // Whichever CPU this thread is on.
        let cpus: Vec<usize> = (0..1024).collect();
        for (packs, woken) in [(false, 2), (true, 3)] {
            let pool = stubs::saturated(&Group::new(), 7, &cpus, 50);
            (0..8).for_each(|since| drop(stubs::idle(&pool, since)));
            let mut guard = pool.lock();
            if packs {
                guard.occupied.note_that_it_packs();
            }
            guard.counts.set_running(1024 - 3);
            drop(guard);
            assert_eq!(pool.lock().searching(), woken, "packs: {packs}");
        }
    }

    #[test]
    fn items_that_were_only_published_count_for_those_who_are_woken() {
        let pool = idle_beside(1);
        let pwq = stubs::add_pwq(&pool, Traits::default(), 10);
        (0..2).for_each(|_| stubs::queue(&pool, pwq, &Work::new(|| ())));
        let mut guard = pool.lock();
        assert_eq!(guard.waiting(), 1, "two are in the inbox");
        guard.counts.set_running(0);
        drop(guard);
        assert_eq!(pool.lock().searching(), 3);
    }

    /// What an issuer reads, and whether the monitor was asked, of a pool of two CPUs with a
    /// neighbour.
    fn told(prepare: impl FnOnce(&mut Inner)) -> (Arc<Pool>, bool) {
        let group = Group::new();
        let pool = stubs::saturated(&group, 7, &[0, 1], 1);
        let _neighbour = stubs::pool_on(&group, 8, &[2, 3]);
        let mut guard = pool.lock();
        guard.watched = false;
        prepare(&mut guard);
        drop(guard);
        let watched = pool.lock().watched;
        (pool, watched)
    }

    #[test]
    fn issuers_are_told_how_many_items_would_not_wait_for_long() {
        let (soon, worth) = (LONG_ENOUGH_ALONE_NS, WORTH_STEALING_NS);
        // One waits. Soon each CPU has run so many.
        for (item_ns, running, guests, room, wants) in [
            (0, 2, 0, 0, false),
            (0, 0, 0, 1, false),
            (LONG_ENOUGH_NS / 2, 2, 0, MOST_ROOM, false),
            (LONG_ENOUGH_NS - 1, 2, 0, 15, false),
            (LONG_ENOUGH_NS, 2, 0, 15, false),
            (soon, 2, 0, 1, false),
            (soon, 1, 0, 2, false),
            (soon, 0, 0, 3, false),
            (soon / 2, 0, 0, 5, false),
            (soon, 2, 2, 3, false),
            (2 * soon, 2, 0, 0, false),
            (2 * worth, 2, 0, 0, false),
            (2 * worth + 2, 2, 0, 0, true),
            (100 * worth, 1, 0, 0, true),
            (100 * worth, 0, 0, 1, true),
            (100 * worth, 2, 9, 0, true),
        ] {
            let (pool, _) = told(|inner| {
                inner.pace.note(item_ns);
                inner.counts.set_running(running);
                inner.guests = guests;
            });
            let case = format!("{item_ns} ns, {running} run, {guests} guests");
            let told_wants = pool.wants_thieves.load(Ordering::Relaxed);
            assert_eq!((pool.room(), told_wants), (room, wants), "{case}");
            assert_eq!(pool.deals(), item_ns >= LONG_ENOUGH_NS, "{case}");
        }
    }

    #[test]
    fn a_pool_without_neighbours_deals_nothing() {
        let pool = stubs::saturated(&Group::new(), 7, &[0, 1], 50);
        pool.lock().pace.note(1_000_000);
        drop(pool.lock());
        assert!(!pool.deals());
    }

    /// It may have to wait for its CPU.
    #[test]
    fn while_a_worker_comes_the_monitor_looks_at_what_waits() {
        for (item_ns, watched) in [(0, true), (1_000, false), (100_000, true)] {
            // Without a worker that searches, a new one is on its way.
            for searching in [1, 0] {
                let (_, told_watched) = told(|inner| {
                    inner.pace.note(item_ns);
                    inner.counts.set_running(1);
                    inner.counts.set_searching(searching);
                });
                assert_eq!(told_watched, watched, "{item_ns} ns, {searching} search");
            }
        }
    }
}
