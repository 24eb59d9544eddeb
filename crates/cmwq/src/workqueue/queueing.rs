//! The destination of an item: from an issuer's CPU to a pool workqueue, or to a caller slot of the issuer.

use crate::engine::{self, Queue, epochs};
use crate::error::{Error, Refused};
use crate::item::closure::{self, Small};
use crate::item::{Pending, address_of};
use crate::pool::{Issuer, PoolFor, publish_closure_again, publish_item_again, spawn_history};
use crate::sys::atomic::Ordering;
use crate::sys::clock;
use crate::sys::epoch::EpochPin;
use crate::sys::probe::{self, bits};
use crate::trace::{events, latency};
use crate::trace::{foreign, warn};
use crate::workqueue::parts::core::{WqCore, pool_of_process};
use crate::workqueue::parts::kind::WorkqueueKind;
use crate::workqueue::parts::pwq::Pwq;
use crate::workqueue::parts::route;

/// Why there is no route to a pool workqueue.
pub(crate) enum NoRoute {
    Refused(Refused),
    /// This is the first use of a deprecated queue. Its warning needs the epoch unpinned.
    FirstUse,
}

/// Whether an item still needs a unit of room (the right to wait) on a queue that limits waiting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The item is refused if there is no room.
    Asks,
    /// Its issuer has taken a unit of room for it.
    Has,
    /// The item is accepted in any case.
    Forces,
}

/// An item that was not published, and why.
pub(crate) type NotPublished = (Pending, NoRoute);

impl WqCore {
    /// The CPU that the calling thread queues from.
    pub(crate) fn issuing_cpu(&self) -> usize {
        let bound = !self.kind.is_unbound();
        self.engine.cpus_now().issuing(engine::here(), bound)
    }

    /// Returns a CPU of the node to queue from: that of the caller, or the first usable one.
    /// `None`: none is usable.
    pub(crate) fn cpu_of_node(&self, node: u32) -> Result<Option<usize>, Error> {
        if !self.kind.is_unbound() {
            return Err(self.exclude("a node to queue on"));
        }
        let nodes = self.engine.topology().nodes();
        let Some((_, cpus)) = nodes.iter().find(|(number, _)| *number == node) else {
            let allowed: Vec<String> = nodes.iter().map(|(node, _)| node.to_string()).collect();
            return Err(Error::NoSuchNode {
                node,
                allowed: allowed.join(", "),
            });
        };
        let now = self.engine.cpus_now();
        // The caller's CPU counts even outside the unbound mask, as if the caller named it.
        let here = now.standing(engine::here());
        if let Some(here) = here.filter(|&here| cpus.contains(here)) {
            return Ok(Some(here));
        }
        Ok(cpus.intersection(now.usable()).first())
    }

    /// Queues an item that the caller has claimed, from `cpu` or from the caller's CPU.
    #[inline]
    pub(crate) fn queue(&self, cpu: Option<usize>, item: Pending) -> Result<(), Refused> {
        self.timed(|| {
            // Earlier spawns of this thread are published first, which keeps its order.
            spawn_history::let_go();
            self.publish(cpu, item)
        })
    }

    /// Queues as [`queue`](Self::queue) does. If an item that has room is refused, its room is given back.
    pub(crate) fn queue_admitted(
        &self,
        cpu: Option<usize>,
        item: Pending,
        admission: Admission,
    ) -> Result<(), Refused> {
        if self.room.is_none() {
            return self.queue(cpu, item);
        }
        spawn_history::let_go();
        let issuer = self.issuer();
        let result = {
            let pin = epochs().pin(issuer.cpu);
            self.publish_within(&pin, issuer, cpu, item, admission)
        };
        result.or_else(|why| {
            if admission == Admission::Has {
                self.give_room_back();
            }
            self.not_published(why, cpu)
        })
    }

    /// Calls `queue`. While timing is enabled it measures some of the calls.
    #[inline]
    fn timed<R>(&self, queue: impl FnOnce() -> R) -> R {
        if probe::switch() & bits::TIME == 0 || !latency::is_due() {
            return queue();
        }
        let begin_ns = clock::now_ns();
        let result = queue();
        latency::note(self.serial, clock::now_ns() - begin_ns);
        result
    }

    #[inline]
    pub(in crate::workqueue) fn publish(
        &self,
        requested: Option<usize>,
        mut item: Pending,
    ) -> Result<(), Refused> {
        let issuer = self.issuer();
        // With tracing, every event is reported, so the cached route is not used.
        if requested.is_none() && !probe::events_wanted() {
            match publish_item_again(issuer, item) {
                Ok(()) => return Ok(()),
                Err(otherwise) => item = otherwise,
            }
        }
        let result = {
            let pin = epochs().pin(issuer.cpu);
            self.publish_within(&pin, issuer, requested, item, Admission::Asks)
        };
        result.or_else(|why| self.not_published(why, requested))
    }

    /// Handles an item that was not published. The epoch is unpinned: this may call a handler.
    #[cold]
    #[inline(never)]
    pub(crate) fn not_published(
        &self,
        (item, why): NotPublished,
        requested: Option<usize>,
    ) -> Result<(), Refused> {
        match why {
            NoRoute::Refused(why) => {
                item.release();
                if why == Refused::Draining {
                    self.warn_dropped();
                }
                Err(why)
            }
            NoRoute::FirstUse => {
                // The item is published first: other threads may wait until it is on a list.
                let func = address_of(item.func());
                let first = self.unused.swap(0, Ordering::Relaxed) != 0;
                let result = self.publish(requested, item);
                if first && let Some(deprecated) = self.flags.deprecated {
                    deprecated.warn(func);
                }
                result
            }
        }
    }

    /// Whether the next items of this thread will be accepted and go to the same place.
    fn stays(&self, issuer: Issuer, pin: &EpochPin<'_>) -> bool {
        // Relaxed: see `may_publish`.
        self.closed.load(Ordering::Relaxed) == 0 && self.engine.cpus(pin).stays(issuer.cpu)
    }

    /// Queues as [`queue`](Self::queue) does, with the epoch of the caller's CPU pinned. The caller
    /// has published its earlier spawns. If the item is [not published](Self::not_published), it
    /// unpins first.
    #[inline]
    pub(crate) fn publish_within(
        &self,
        pin: &EpochPin<'_>,
        issuer: Issuer,
        requested: Option<usize>,
        item: Pending,
        admission: Admission,
    ) -> Result<(), NotPublished> {
        let (pwq, stays_in) = match self.route(pin, issuer, requested) {
            Ok(route) => route,
            Err(why) => return Err((item, why)),
        };
        if let Some(room) = &self.room {
            match admission {
                Admission::Asks if !room.try_take() => {
                    return Err((item, NoRoute::Refused(Refused::Full)));
                }
                Admission::Asks | Admission::Has => {}
                Admission::Forces => room.take_anyway(),
            }
        }
        if probe::events_wanted() {
            self.tell_queued(requested, pwq, &item);
        }
        let find = |pool| {
            (!self.ordered())
                .then(|| pool_of_process(pool, pin))
                .flatten()
        };
        let via = stays_in.map(|epoch| (issuer, epoch));
        pwq.publish(item, self.id(), find, &self.sampler, via);
        Ok(())
    }

    /// Returns the destination of an item that is queued now. If the thread's next items have the
    /// same one, the epoch in which that holds comes with it.
    #[inline]
    fn route<'g>(
        &self,
        pin: &'g EpochPin<'_>,
        issuer: Issuer,
        requested: Option<usize>,
    ) -> Result<(&'g Pwq, Option<usize>), NoRoute> {
        // The epoch is read before anything else.
        let epoch = pin.epoch();
        if requested.is_none()
            && let Some(pwq) = route::again(self.serial, issuer, pin, epoch)
        {
            return Ok(self.dealt(pin, issuer, (pwq, Some(epoch))));
        }
        let found = self.find_route(pin, issuer, requested, epoch)?;
        // An item for a named CPU stays there.
        match requested {
            Some(_) => Ok(found),
            None => Ok(self.dealt(pin, issuer, found)),
        }
    }

    /// The destination of an item whose own is `own`: another one if long items are
    /// [dealt](Self::deal).
    #[inline]
    fn dealt<'g>(
        &self,
        pin: &'g EpochPin<'_>,
        issuer: Issuer,
        own: (&'g Pwq, Option<usize>),
    ) -> (&'g Pwq, Option<usize>) {
        if !own.0.pool.deals() || self.ordered() {
            return own;
        }
        self.deal(pin, issuer, own.0)
            .map_or(own, |other| (other, None))
    }

    /// Finds the route for batches and chunks. `None`: each item needs its own look-up, because the
    /// items go to the CPUs in turn, or to pods, or each needs room, or this is the first use of a
    /// deprecated queue.
    #[inline]
    pub(crate) fn route_in_batch<'g>(
        &self,
        pin: &'g EpochPin<'_>,
        issuer: Issuer,
    ) -> Result<Option<(&'g Pwq, Option<usize>)>, Refused> {
        let epoch = pin.epoch();
        if let Some(pwq) = route::again(self.serial, issuer, pin, epoch) {
            return Ok((!pwq.pool.deals()).then_some((pwq, Some(epoch))));
        }
        if self.room.is_some() || self.kind.is_unbound() && !self.engine.cpus(pin).stays(issuer.cpu)
        {
            return Ok(None);
        }
        match self.find_route(pin, issuer, None, epoch) {
            Ok(route) => Ok((!route.0.pool.deals() || self.ordered()).then_some(route)),
            Err(NoRoute::FirstUse) => Ok(None),
            Err(NoRoute::Refused(why)) => Err(why),
        }
    }

    #[inline(never)]
    fn find_route<'g>(
        &self,
        pin: &'g EpochPin<'_>,
        issuer: Issuer,
        requested: Option<usize>,
        epoch: usize,
    ) -> Result<(&'g Pwq, Option<usize>), NoRoute> {
        self.may_publish().map_err(NoRoute::Refused)?;
        if self.unused.load(Ordering::Relaxed) != 0 {
            return Err(NoRoute::FirstUse);
        }
        let pwq = self.pwq_from(pin, issuer.cpu, requested);
        // An ordered queue's routes are not cached: while its slots are replaced, a later item could
        // go to the old pool workqueue after another thread's item went to the new one.
        let stays = requested.is_none()
            && !self.ordered()
            && self.room.is_none()
            && self.stays(issuer, pin);
        if stays {
            route::note(self.serial, issuer, pwq, epoch);
        }
        Ok((pwq, stays.then_some(epoch)))
    }

    /// Whether items may be queued now. The epoch is pinned, and a drain that begins waits for this
    /// pin. So the drain sees the item, or this issuer sees the drain.
    ///
    /// Relaxed is enough for `closed`, because these are `SeqCst`: the pin, the epoch that
    /// the issuer reads after it, the new epoch of the drain, and the drain's look at the pins. If
    /// the drain does not see the pin, the issuer reads the drain's epoch, and then sees what was
    /// stored before.
    #[inline]
    fn may_publish(&self) -> Result<(), Refused> {
        if self.engine.is_inherited() {
            return Err(Refused::Forked);
        }
        if self.closed.load(Ordering::Relaxed) != 0 && !self.runs_here() {
            return Err(Refused::Draining);
        }
        Ok(())
    }

    /// Returns the pool workqueue of items queued from `requested`, or else from the CPU `real`.
    #[inline]
    fn pwq_from<'g>(
        &self,
        pin: &'g EpochPin<'_>,
        real: usize,
        requested: Option<usize>,
    ) -> &'g Pwq {
        let bound = !self.kind.is_unbound();
        let cpu = if self.ordered() {
            // All slots are alike, but are replaced one after the other. With two slots in use, an
            // item could go to the new pool workqueue, and a later one to the old.
            0
        } else {
            requested.unwrap_or_else(|| self.engine.cpus(pin).issuing(real, bound))
        };
        let slots = self.slots.get().expect("set when the queue was made");
        slots.get(cpu).unwrap_or(&slots[0]).load(pin)
    }

    /// Queues a closure without a handle.
    #[inline]
    pub(crate) fn execute<F: FnOnce() + Send + 'static>(&self, func: F) -> Result<(), Refused> {
        let func = match Small::of(func) {
            Ok(small) => {
                let queued = self.queue_small(&small);
                if queued == Ok(true) {
                    return Ok(());
                }
                // SAFETY: `small` was made of an `F`, and not handed on.
                let func = unsafe { small.into_inner::<F>() };
                if queued == Err(Refused::Draining) {
                    self.warn_dropped();
                }
                if let Err(refused) = queued {
                    foreign::dispose(func);
                    return Err(refused);
                }
                func
            }
            Err(func) => func,
        };
        self.execute_item(func)
    }

    /// Queues a closure as an item.
    fn execute_item<F: FnOnce() + Send + 'static>(&self, func: F) -> Result<(), Refused> {
        let raw = closure::into_raw(func);
        // SAFETY: the item exists until its function runs.
        let item = unsafe { Pending::one_shot(raw) };
        self.queue(None, item).inspect_err(|_| {
            // SAFETY: the queue did not take it.
            foreign::dispose(unsafe { closure::from_raw::<F>(raw) });
        })
    }

    /// Queues a small closure if it need not be visible as an item. `true`: the queue has it.
    #[inline]
    fn queue_small(&self, closure: &Small) -> Result<bool, Refused> {
        // With tracing, every event is reported, so the closure is queued as an item.
        if probe::switch() != 0 {
            return Ok(false);
        }
        spawn_history::let_go();
        let issuer = self.issuer();
        Ok(publish_closure_again(issuer, closure) || self.queue_small_from(issuer, closure)?)
    }

    #[inline(never)]
    fn queue_small_from(&self, issuer: Issuer, closure: &Small) -> Result<bool, Refused> {
        if self.sampler.is_due() {
            return Ok(false);
        }
        let pin = epochs().pin(issuer.cpu);
        let Some((pwq, stays_in)) = self.route_in_batch(&pin, issuer)? else {
            return Ok(false);
        };
        Ok(pwq.publish_closure(closure, stays_in.map(|epoch| (issuer, epoch))))
    }

    /// Returns the calling thread's identity as an issuer on this queue.
    #[inline]
    pub(crate) fn issuer(&self) -> Issuer {
        Issuer {
            queue: self.id(),
            cpu: engine::here(),
            declared: engine::declared(),
        }
    }

    /// Whether a thread may have a caller slot, if it spawns items and joins each at once.
    #[inline]
    pub(crate) fn waiters_run(&self) -> bool {
        self.kind == WorkqueueKind::Unbound && !self.flags.workers_only && !self.flags.highpri
    }

    /// Queues a new item whose only handle the caller has. `note` is not called if the item is put
    /// into a caller slot.
    #[inline]
    pub(crate) fn spawn(&self, item: Pending, note: impl FnOnce()) -> Result<(), Refused> {
        // With tracing, every item takes the path that reports all events.
        if !self.waiters_run() || probe::events_wanted() {
            note();
            return self.queue(None, item);
        }
        self.timed(|| self.spawn_in_caller_slot(item, note))
    }

    #[cold]
    #[inline(never)]
    fn tell_queued(&self, requested: Option<usize>, pwq: &Pwq, item: &Pending) {
        let cpu = match pwq.pool.attrs.kind {
            PoolFor::PerCpu(cpu) | PoolFor::Bh(cpu) => Some(cpu),
            PoolFor::Unbound => None,
        };
        let func = address_of(item.func());
        let queue = (Queue::id(self), self.name.as_str());
        events::queued(item.address(), func, queue, requested, cpu);
    }

    pub(crate) fn warn_dropped(&self) {
        if self.warned.swap(1, Ordering::Relaxed) == 0 {
            warn(&format!(
                "workqueue {}: draining or destroyed, an item queued from outside was dropped",
                self.name
            ));
        }
    }
}
