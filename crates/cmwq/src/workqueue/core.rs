//! The workqueue's working parts: its pool workqueues, the slot of each CPU, and what pools tell it.

use super::attrs::WorkqueueAttrs;
use super::flush::Flush;
use super::limits::Limits;
use super::mapping::Mapping;
use super::pwq::Pwq;
use crate::affinity::AffinityScope;
use crate::engine::{Engine, Queue, Registry, gates};
use crate::error::{Error, FlushError, Refused};
use crate::observe::warn;
use crate::pool::{BlockGuard, FrontEnd, Pool, PwqKey, PwqState, current_front};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;
use crate::sys::gate::{Replaced, Shared};
use crate::sys::sync::Mutex;
use crate::work::Pending;
use std::sync::{Arc, OnceLock};

pub(super) struct WqCore {
    pub(super) name: String,
    pub(super) engine: Engine,
    pub(super) ordered: bool,
    /// By CPU: where an item queued from there goes. Set once, right after the queue was made; its entries are replaced.
    slots: OnceLock<Box<[Shared<Pwq>]>>,
    /// How many drains are going on, destruction included: while not 0, only the queue's own items may queue.
    closed: AtomicU32,
    /// Whether a dropped item has been warned of.
    warned: AtomicU32,
    /// All pool workqueues that may have items, oldest first; retired ones too until they are gone. Only a pool's lock is
    /// taken under it.
    members: Mutex<Vec<Arc<Pwq>>>,
    /// Serialises changes of the attributes.
    control: Mutex<Control>,
    flush: Flush,
    pub(super) limits: Limits,
}

struct Control {
    attrs: WorkqueueAttrs,
    /// The pool workqueues that the slots point to.
    current: Vec<Arc<Pwq>>,
    destroyed: bool,
}

impl WqCore {
    pub(super) fn new(
        name: String,
        engine: Engine,
        ordered: bool,
        attrs: WorkqueueAttrs,
        max_active: usize,
    ) -> Arc<Self> {
        let limits = Limits::new(&engine, &attrs, max_active);
        let core = Arc::new(WqCore {
            name,
            ordered,
            slots: OnceLock::new(),
            closed: AtomicU32::new(0),
            warned: AtomicU32::new(0),
            members: Mutex::new(Vec::new()),
            control: Mutex::new(Control {
                attrs,
                current: Vec::new(),
                destroyed: false,
            }),
            flush: Flush::new(),
            limits,
            engine,
        });
        let weak = Arc::downgrade(&core);
        core.engine.add_queue(weak);
        {
            let mut control = core.control.lock();
            let mapping = core.engine.map(&control.attrs, ordered);
            let pwqs = core.make_pwqs(&mapping, &control.current);
            let slots = mapping
                .of_cpu
                .iter()
                .map(|&index| Shared::new(pwqs[index].clone()))
                .collect();
            // Nobody else has the queue yet.
            let _ = core.slots.set(slots);
            control.current = pwqs;
        }
        core
    }

    /// Who this queue is to its pools and items, for comparing only.
    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether the calling thread runs an item of this queue.
    pub(super) fn runs_here(&self) -> bool {
        current_front() == self.id()
    }

    /// Queues an item that the caller has claimed, from `cpu` or from wherever the caller is.
    #[inline]
    pub(super) fn queue(
        self: &Arc<Self>,
        cpu: Option<usize>,
        mut item: Pending,
    ) -> Result<(), Refused> {
        if self.engine.is_inherited() {
            item.release();
            return Err(Refused::Forked);
        }
        let (cpu, real) = self.engine.issuing_cpu(cpu);
        let gate = gates().enter(real);
        // Inside the gate: a drain that begins waits for us, so it sees the item or we see it.
        if self.closed.load(Ordering::SeqCst) != 0 && !self.runs_here() {
            drop(gate);
            item.release();
            self.warn_dropped();
            return Err(Refused::Draining);
        }
        let slots = self.slots.get().expect("set when the queue was made");
        let slot = slots.get(cpu).unwrap_or(&slots[0]);
        let pwq = slot.load(&gate);
        let last_pool = item.last_pool();
        if last_pool != pwq.pool.id && last_pool != 0 && !self.ordered {
            // Non-reentrance across pools: while the last pool still runs the item for this queue, the new instance
            // goes there too. We own the item, so it cannot begin to run anywhere meanwhile.
            if let Some(pool) = Registry::process().find(last_pool, &gate) {
                let mut guard = pool.lock();
                if let Some(place) = guard.runs_for(item.address(), item.func(), self.id()) {
                    item.aim(pool.id, place);
                    guard.accept_item(item);
                    return Ok(());
                }
            }
        }
        item.aim(pwq.pool.id, pwq.key.place);
        pwq.pool.publish(item);
        Ok(())
    }

    fn warn_dropped(&self) {
        if self.warned.swap(1, Ordering::Relaxed) == 0 {
            warn(&format!(
                "workqueue {}: draining or destroyed, an item queued from outside was dropped",
                self.name
            ));
        }
    }

    // ---- attributes ----

    pub(super) fn attrs(&self) -> WorkqueueAttrs {
        self.control.lock().attrs.clone()
    }

    /// Builds all that the new attributes need, then switches every slot.
    pub(super) fn apply(self: &Arc<Self>, attrs: WorkqueueAttrs) -> Result<(), Error> {
        attrs.check()?;
        self.must_be_ours()?;
        let mut control = self.control.lock();
        control.attrs = attrs;
        self.limits.recompute(&self.engine, &control.attrs);
        self.remap(&mut control);
        self.settle_limits();
        Ok(())
    }

    fn remap(self: &Arc<Self>, control: &mut Control) {
        if control.destroyed {
            return;
        }
        let mapping = self.engine.map(&control.attrs, self.ordered);
        let pwqs = self.make_pwqs(&mapping, &control.current);
        let slots = self.slots.get().expect("set when the queue was made");
        let old: Vec<Replaced<Pwq>> = slots
            .iter()
            .zip(&mapping.of_cpu)
            .map(|(slot, &index)| slot.replace(pwqs[index].clone()))
            .collect();
        // After this no issuer is on its way to an old pool workqueue.
        drop(Replaced::retire(old, gates()));
        let before = std::mem::replace(&mut control.current, pwqs);
        for pwq in before {
            if !control
                .current
                .iter()
                .any(|current| Arc::ptr_eq(current, &pwq))
            {
                self.retire(&pwq);
            }
        }
        self.limits.share_among(&self.members());
    }

    /// The pool workqueues of a mapping: those of `current` that fit, and new ones.
    fn make_pwqs(self: &Arc<Self>, mapping: &Mapping, current: &[Arc<Pwq>]) -> Vec<Arc<Pwq>> {
        let pools: Vec<Arc<Pool>> = mapping
            .keys
            .iter()
            .map(|key| self.engine.acquire_pool(key))
            .collect();
        // One colour for all: no flush may begin between reading it and entering the members.
        self.flush.with_colour(|colour| {
            let made = pools.into_iter().map(|pool| {
                match current.iter().find(|pwq| pwq.pool.id == pool.id) {
                    Some(pwq) => {
                        self.engine.release_pool(&pool);
                        pwq.clone()
                    }
                    None => self.make_pwq(pool, colour),
                }
            });
            made.collect()
        })
    }

    fn make_pwq(self: &Arc<Self>, pool: Arc<Pool>, colour: u32) -> Arc<Pwq> {
        let node = self.limits.node_of(&self.engine, &pool.attrs.cpus);
        // Entered while no older one can go unnoticed: `pwq_gone` unplugs under the same lock.
        let mut members = self.members.lock();
        let plugged = self.ordered && !members.is_empty();
        let state =
            PwqState::new(self.clone(), self.limits.of(node), node, colour).plugged(plugged);
        let key = pool.lock().add_pwq(state);
        let pwq = Arc::new(Pwq { pool, key, node });
        members.push(pwq.clone());
        pwq
    }

    /// Takes a pool workqueue out of use. It goes when its last item has ended.
    fn retire(self: &Arc<Self>, pwq: &Arc<Pwq>) {
        let gone = {
            let mut guard = pwq.pool.lock();
            guard.drain();
            guard.retire_pwq(pwq.key)
        };
        if gone {
            self.forget(&pwq.pool, pwq.key);
        }
    }

    /// A pool workqueue is gone from its pool.
    fn forget(&self, pool: &Arc<Pool>, key: PwqKey) {
        let unplugged = {
            let mut members = self.members.lock();
            let Some(at) = members
                .iter()
                .position(|pwq| pwq.pool.id == pool.id && pwq.key == key)
            else {
                return;
            };
            members.remove(at);
            // Ordered: the next one's turn has come only when it is the oldest left.
            members.first().filter(|_| self.ordered && at == 0).cloned()
        };
        if let Some(pwq) = unplugged {
            let waits = pwq.pool.lock().unplug(pwq.key);
            if waits {
                self.must_wait(&pwq.pool, pwq.key);
            }
        }
        self.engine.release_pool(pool);
    }

    pub(super) fn members(&self) -> Vec<Arc<Pwq>> {
        self.members.lock().clone()
    }

    // ---- limits ----

    pub(super) fn set_max_active(&self, max_active: usize) -> Result<(), Error> {
        if self.ordered {
            return Err(Error::OrderedMaxActive);
        }
        self.must_be_ours()?;
        let control = self.control.lock();
        self.limits
            .set_max_active(&self.engine, &control.attrs, max_active);
        self.settle_limits();
        Ok(())
    }

    /// After a change of the limits. Lowered: unused credits go back at once, used ones as their items end. Raised: whoever
    /// waits is served.
    fn settle_limits(&self) {
        let members = self.members();
        self.limits.share_among(&members);
        self.limits.collect(&members);
        self.limits.serve_all();
    }

    // ---- flush, drain, destroy ----

    /// In a fork's child the queue is only memory, and its locks may be held for ever.
    fn must_be_ours(&self) -> Result<(), Error> {
        if self.engine.is_inherited() {
            Err(Error::Forked)
        } else {
            Ok(())
        }
    }

    /// Whether the caller may wait for the queue.
    fn may_wait(&self) -> Result<(), FlushError> {
        if self.engine.is_inherited() {
            return Err(FlushError::Forked);
        }
        if self.runs_here() {
            Err(FlushError::OwnItem)
        } else {
            Ok(())
        }
    }

    pub(super) fn flush(&self) -> Result<(), FlushError> {
        self.may_wait()?;
        let _blocked = BlockGuard::enter();
        self.flush.run(|| self.members());
        Ok(())
    }

    /// Waits until nothing is queued any more; meanwhile only the queue's own items may queue on it.
    pub(super) fn drain(&self) -> Result<(), FlushError> {
        self.may_wait()?;
        self.close();
        let _blocked = BlockGuard::enter();
        self.run_dry();
        self.closed.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    /// From here on items from outside are dropped; none that was not is still on its way.
    fn close(&self) {
        self.closed.fetch_add(1, Ordering::SeqCst);
        gates().synchronize();
    }

    fn run_dry(&self) {
        let mut flushes: u32 = 0;
        loop {
            self.flush.run(|| self.members());
            // Twice: an item may have hopped behind the first look, from a pool not looked at yet to one looked at before. It
            // ended somewhere in between then, which the second look sees.
            if let Some(seen) = self.at_rest()
                && let Some(again) = self.at_rest()
                && seen.len() == again.len()
                && seen
                    .iter()
                    .zip(&again)
                    .all(|(before, now)| Arc::ptr_eq(&before.0, &now.0) && before.1 == now.1)
            {
                return;
            }
            flushes += 1;
            if flushes == 10 || (flushes.is_multiple_of(100) && flushes <= 1000) {
                warn(&format!(
                    "workqueue {}: draining takes long, {flushes} flushes so far",
                    self.name
                ));
            }
        }
    }

    /// The pool workqueues, each with the number of its items completed so far; `None` if one was found to have items in
    /// flight. They are looked at one after the other, not at one instant.
    fn at_rest(&self) -> Option<Vec<(Arc<Pwq>, u64)>> {
        let looks = self.members().into_iter().map(|pwq| {
            let mut guard = pwq.pool.lock();
            guard.drain();
            let completed = guard.pwq_counts(pwq.key).1;
            let idle = guard.in_flight(pwq.key) == 0;
            drop(guard);
            idle.then_some((pwq, completed))
        });
        looks.collect()
    }

    /// Runs everything that is queued, then lets go of the pools.
    pub(super) fn destroy(self: &Arc<Self>) {
        self.close();
        {
            let _blocked = BlockGuard::enter();
            self.run_dry();
        }
        let mut control = self.control.lock();
        control.destroyed = true;
        for pwq in std::mem::take(&mut control.current) {
            self.retire(&pwq);
        }
    }

    /// Items started and completed so far, on pool workqueues that exist.
    pub(super) fn counts(&self) -> (u64, u64) {
        self.members()
            .iter()
            .fold((0, 0), |(started, completed), pwq| {
                let counts = pwq.pool.lock().pwq_counts(pwq.key);
                (started + counts.0, completed + counts.1)
            })
    }
}

impl Queue for WqCore {
    /// Queues that are on `default` follow, but for ordered ones.
    fn follow_default_scope(self: Arc<Self>) {
        let mut control = self.control.lock();
        if control.attrs.affinity_scope == AffinityScope::Default && !self.ordered {
            self.remap(&mut control);
        }
    }
}

impl FrontEnd for WqCore {
    fn colour_done(&self, colour: u32) {
        self.flush.colour_done(colour);
    }

    fn must_wait(&self, pool: &Arc<Pool>, key: PwqKey) {
        let members = self.members();
        if let Some(pwq) = members
            .iter()
            .find(|pwq| pwq.pool.id == pool.id && pwq.key == key)
        {
            self.limits.wait(pwq);
            self.limits.collect(&members);
            self.limits.serve(pwq.node);
        }
    }

    fn credits_freed(&self, node: usize) {
        self.limits.serve(node);
    }

    fn pwq_gone(&self, pool: &Arc<Pool>, key: PwqKey) {
        self.forget(pool, key);
    }
}
