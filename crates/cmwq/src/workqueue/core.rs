//! The workqueue's working parts: its pool workqueues, the slot of each CPU, and what pools tell it.

use super::attrs::WorkqueueAttrs;
use super::flush::Flush;
use super::kind::{Flags, WorkqueueKind};
use super::limits::Limits;
use super::mapping::Mapping;
use super::memory_reclaim;
use super::pwq::Pwq;
use crate::affinity::AffinityScope;
use crate::engine::{Engine, Queue, gates};
use crate::error::{Error, FlushError};
use crate::observe::warn;
use crate::pool::{
    BlockGuard, FrontEnd, Pool, PwqKey, PwqState, PwqStats, Rescuer, Traits, current,
};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicU32, AtomicU64};
use crate::sys::gate::{Replaced, Shared};
use crate::sys::symbol;
use crate::sys::sync::Mutex;
use crate::work::{RawWork, WorkFn};
use std::any::Any;
use std::sync::{Arc, OnceLock};

// All issuers read it, and it is hardly ever written: nothing that is may lie on its lines.
#[repr(align(128))]
pub(super) struct WqCore {
    /// Unlike the name, no other queue of the process has or had it.
    pub(super) serial: u64,
    pub(super) name: String,
    pub(super) engine: Engine,
    pub(super) kind: WorkqueueKind,
    pub(super) flags: Flags,
    pub(super) rescuer: Option<Arc<Rescuer>>,
    /// By CPU: where an item queued from there goes. Set once, right after the queue was made; its entries are replaced.
    pub(super) slots: OnceLock<Box<[Shared<Pwq>]>>,
    /// How many drains are going on, destruction included: while not 0, only the queue's own items may queue.
    pub(super) closed: AtomicU32,
    /// Whether a dropped item has been warned of.
    pub(super) warned: AtomicU32,
    /// Whether its destruction has begun.
    ending: AtomicU32,
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
        kind: WorkqueueKind,
        flags: Flags,
        attrs: WorkqueueAttrs,
        max_active: usize,
    ) -> Result<Arc<Self>, Error> {
        let rescuer = flags
            .mem_reclaim
            .then(|| Rescuer::start(&name, engine.resting_place()))
            .transpose()
            .map_err(Error::Thread)?;
        let limits = Limits::new(&engine, kind, &attrs, max_active);
        static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);
        let core = Arc::new(WqCore {
            serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
            name,
            kind,
            flags,
            rescuer,
            slots: OnceLock::new(),
            closed: AtomicU32::new(0),
            warned: AtomicU32::new(0),
            ending: AtomicU32::new(0),
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
        let as_queue: Arc<dyn Queue> = core.clone();
        core.engine.add_queue(&as_queue);
        {
            // Whatever has changed since is seen here, under the lock that those who bring changes take.
            let mut control = core.control.lock();
            let mapping = core.engine.map(&control.attrs, kind);
            let pwqs = core.make_pwqs(&mapping, &control.current);
            let slots = mapping
                .of_cpu
                .iter()
                .map(|&index| Shared::new(pwqs[index].clone()))
                .collect();
            // Nobody else has the queue yet.
            let _ = core.slots.set(slots);
            control.current = pwqs;
            core.limits.recompute(&core.engine, &control.attrs);
        }
        Ok(core)
    }

    pub(super) fn ordered(&self) -> bool {
        self.kind == WorkqueueKind::Ordered
    }

    /// Whether the calling thread runs an item of this queue.
    pub(super) fn runs_here(&self) -> bool {
        current().front == self.id()
    }

    // ---- attributes ----

    pub(super) fn attrs(&self) -> WorkqueueAttrs {
        self.control.lock().attrs.clone()
    }

    /// Builds all that the new attributes need, then switches every slot.
    pub(super) fn apply(self: &Arc<Self>, attrs: WorkqueueAttrs) -> Result<(), Error> {
        self.change(|own| *own = attrs)
    }

    /// As [`apply`](Self::apply), of what `change` makes of the attributes; nobody else changes them in between.
    pub(super) fn change(
        self: &Arc<Self>,
        change: impl FnOnce(&mut WorkqueueAttrs),
    ) -> Result<(), Error> {
        self.engine.must_be_ours()?;
        if !self.kind.is_unbound() {
            return Err(self.exclude("attributes"));
        }
        let mut control = self.control.lock();
        let mut attrs = control.attrs.clone();
        change(&mut attrs);
        attrs.check()?;
        control.attrs = attrs;
        self.limits.recompute(&self.engine, &control.attrs);
        self.remap(&mut control);
        self.limits.settle(&self.members());
        Ok(())
    }

    /// The attributes, and the pool for CPUs that have no pod.
    pub(super) fn attrs_and_default_pool(&self) -> (WorkqueueAttrs, Option<u32>) {
        let control = self.control.lock();
        let default = control.current.first().map(|pwq| pwq.pool.id);
        (control.attrs.clone(), default)
    }

    pub(super) fn is_destroyed(&self) -> bool {
        self.control.lock().destroyed
    }

    /// Empty while the queue is being made.
    pub(super) fn slots(&self) -> &[Shared<Pwq>] {
        self.slots.get().map_or(&[], |slots| slots)
    }

    pub(super) fn rescuer(&self) -> Option<&Rescuer> {
        self.rescuer.as_deref()
    }

    fn remap(self: &Arc<Self>, control: &mut Control) {
        // Not before it is made (it will map itself then), and not when it is gone.
        let Some(slots) = self.slots.get().filter(|_| !control.destroyed) else {
            return;
        };
        let mapping = self.engine.map(&control.attrs, self.kind);
        let pwqs = self.make_pwqs(&mapping, &control.current);
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
        let node = self.limits.node_of(&self.engine, &pool);
        // Entered while no older one can go unnoticed: `pwq_gone` unplugs under the same lock.
        let mut members = self.members.lock();
        let plugged = self.ordered() && !members.is_empty();
        // Where workers take several items at once. One after the other, on the only CPU, they are in an order that threads may know.
        let together = !self.ordered() && pool.attrs.batch > 1 && pool.attrs.cpus.len() > 1;
        let traits = Traits {
            ordered: self.ordered(),
            cpu_intensive: self.flags.cpu_intensive && self.kind == WorkqueueKind::PerCpu,
            rescuer: self.rescuer.clone(),
            waiters_run: self.waiters_run(),
        };
        let state = PwqState::new(self.clone(), traits, self.limits.of(node), node, colour)
            .plugged(plugged);
        let (key, together) = {
            let mut guard = pool.lock();
            let key = guard.add_pwq(state);
            let together = together.then(|| guard.allow_together(key, &pool));
            (key, together.flatten())
        };
        let pwq = Pwq::new(pool, key, node, together);
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
            members
                .first()
                .filter(|_| self.ordered() && at == 0)
                .cloned()
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

    pub(super) fn exclude(&self, other: &'static str) -> Error {
        let one = match self.kind {
            WorkqueueKind::Unbound => "unbound",
            WorkqueueKind::Ordered => "ordered",
            WorkqueueKind::PerCpu => "per_cpu",
            WorkqueueKind::Bh => "bh",
        };
        Error::Incompatible { one, other }
    }

    pub(super) fn set_max_active(&self, max_active: usize) -> Result<(), Error> {
        match self.kind {
            WorkqueueKind::Ordered => return Err(Error::OrderedMaxActive),
            WorkqueueKind::Bh => return Err(self.exclude("max_active")),
            _ => {}
        }
        self.engine.must_be_ours()?;
        let control = self.control.lock();
        self.limits.set_max_active(max_active);
        self.limits.recompute(&self.engine, &control.attrs);
        self.limits.settle(&self.members());
        Ok(())
    }

    pub(super) fn set_min_active(&self, min_active: usize) -> Result<(), Error> {
        if self.kind != WorkqueueKind::Unbound {
            return Err(self.exclude("min_active"));
        }
        self.engine.must_be_ours()?;
        let control = self.control.lock();
        self.limits.set_min_active(min_active);
        self.limits.recompute(&self.engine, &control.attrs);
        self.limits.settle(&self.members());
        Ok(())
    }

    /// Whether items queued from `cpu` have to wait for a place. A hint.
    pub(super) fn is_congested(&self, cpu: usize) -> bool {
        let slots = self.slots.get().expect("set when the queue was made");
        let pwq = {
            let gate = gates().enter(0);
            slots.get(cpu).unwrap_or(&slots[0]).get(&gate)
        };
        let mut guard = pwq.pool.lock();
        guard.drain();
        guard.pwq_load(pwq.key).1 > 0
    }

    /// The nice levels that the queue's workers have, as far as some have begun.
    pub(super) fn effective_nice(&self) -> Option<i32> {
        let members = self.members();
        members.iter().find_map(|pwq| pwq.pool.effective_nice())
    }

    // ---- flush, drain, destroy ----

    /// Whether the caller may wait for the queue.
    fn may_wait(&self) -> Result<(), FlushError> {
        if self.engine.is_inherited() {
            return Err(FlushError::Forked);
        }
        if self.runs_here() {
            static WARNED: AtomicU32 = AtomicU32::new(0);
            if WARNED.swap(1, Ordering::Relaxed) == 0 {
                warn(&format!(
                    "workqueue {}: one of its own items waits for the whole queue, which would never end",
                    self.name
                ));
            }
            return Err(FlushError::OwnItem);
        }
        self.check_dependency(None);
        Ok(())
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
            let completed = guard.pwq_stats(pwq.key).completed;
            let idle = guard.in_flight(pwq.key) == 0;
            drop(guard);
            idle.then_some((pwq, completed))
        });
        looks.collect()
    }

    /// Whether the caller is the one to destroy it.
    pub(super) fn begin_to_end(&self) -> bool {
        self.ending.swap(1, Ordering::Relaxed) == 0
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
        if let Some(rescuer) = &self.rescuer {
            rescuer.stop();
        }
    }

    /// What its pool workqueues have counted so far, those that exist.
    pub(super) fn stats(&self) -> PwqStats {
        let mut sum = PwqStats::default();
        for pwq in self.members() {
            let mut guard = pwq.pool.lock();
            sum.add(&guard.pwq_stats(pwq.key));
        }
        sum
    }
}

impl Queue for WqCore {
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// Queues that are on `default` follow, but for ordered ones.
    fn follow_default_scope(self: Arc<Self>) {
        let mut control = self.control.lock();
        if control.attrs.affinity_scope == AffinityScope::Default
            && self.kind == WorkqueueKind::Unbound
        {
            self.remap(&mut control);
        }
    }

    fn follow_cpus(self: Arc<Self>) {
        if let Some(rescuer) = &self.rescuer {
            rescuer.move_to(&self.engine.resting_place());
        }
        if self.kind.is_unbound() {
            let mut control = self.control.lock();
            self.limits.recompute(&self.engine, &control.attrs);
            self.remap(&mut control);
            self.limits.settle(&self.members());
        }
    }

    fn set_frozen(&self, frozen: bool) {
        if !self.flags.freezable {
            return;
        }
        let control = self.control.lock();
        // What was queued before is accepted before, and active if there was a place for it.
        for pwq in self.members() {
            pwq.pool.lock().drain();
        }
        self.limits.set_frozen(frozen);
        self.limits.recompute(&self.engine, &control.attrs);
        self.limits.settle(&self.members());
    }

    fn is_freezing(&self) -> bool {
        self.flags.freezable
            && self.members().iter().any(|pwq| {
                let mut guard = pwq.pool.lock();
                guard.drain();
                guard.pwq_load(pwq.key).0 > 0
            })
    }
}

impl FrontEnd for WqCore {
    fn name(&self) -> &str {
        &self.name
    }

    fn flags(&self) -> String {
        format!("{}{}", self.kind, self.flags)
    }

    fn check_dependency(&self, func: Option<WorkFn>) {
        let caller = current();
        if self.flags.mem_reclaim || !(caller.reclaim || memory_reclaim::is_marked()) {
            return;
        }
        static WARNED: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];
        let target = match func {
            Some(func) => format!(
                "{} of workqueue {}",
                symbol::name_of(func as usize),
                self.name
            ),
            None => format!("workqueue {}", self.name),
        };
        if memory_reclaim::is_marked() && WARNED[0].swap(1, Ordering::Relaxed) == 0 {
            warn(&format!(
                "a thread that frees memory waits for {target}, which has no rescuer"
            ));
        }
        if caller.reclaim && WARNED[1].swap(1, Ordering::Relaxed) == 0 {
            warn(&format!(
                "{} of workqueue {}, which has a rescuer, waits for {target}, which has none",
                symbol::name_of(caller.func),
                self.engine.queue_name(caller.front),
            ));
        }
    }

    fn pool_that_runs(&self, item: &RawWork, but: u32) -> Option<u32> {
        let members = self.members();
        let mut others = members.iter().map(|pwq| &pwq.pool);
        let runs = others.find(|pool| pool.id != but && pool.lock().runs(item));
        runs.map(|pool| pool.id)
    }

    fn colour_done(&self, colour: u32) {
        self.flush.colour_done(colour);
    }

    fn must_wait(&self, pool: &Arc<Pool>, key: PwqKey) {
        self.limits.must_wait(&self.members(), pool, key);
    }

    fn credits_freed(&self, node: usize) {
        self.limits.serve(node);
    }

    fn pwq_gone(&self, pool: &Arc<Pool>, key: PwqKey) {
        self.forget(pool, key);
    }
}
