//! The workqueue's core: its pool workqueues, the slot of each CPU, and the callbacks of its pools.

use super::attrs::{WorkqueueAttrs, clamp_max_active};
use super::flush::FlushGenerations;
use super::kind::{Flags, WorkqueueKind};
use super::limits::Limits;
use super::mapping::Mapping;
use super::pwq::Pwq;
use crate::engine::{Engine, Queue, epochs};
use crate::error::Error;
use crate::pool::{
    FrontEnd, Pool, PwqKey, PwqState, QueueStats, Rescue, Rescuer, Sampler, Traits, WaitingBound,
    WorkerThreads, current, in_waker, is_on_stack,
};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicU32, AtomicU64};
use crate::sys::epoch::{Replaced, Shared};
use crate::sys::sync::Mutex;
use std::sync::{Arc, OnceLock, Weak};

// All issuers read it, and it is written rarely: nothing written often may share its cache lines.
#[repr(align(128))]
pub(crate) struct WqCore {
    /// Unlike the name, unique: no other queue of the process has or had it.
    pub(crate) serial: u64,
    pub(crate) name: String,
    pub(crate) engine: Engine,
    pub(crate) kind: WorkqueueKind,
    pub(crate) flags: Flags,
    pub(crate) rescuer: Option<Arc<Rescuer>>,
    /// By CPU: the pool workqueue of an item queued from there. Set once, right after the queue was made; its entries are replaced.
    pub(crate) slots: OnceLock<Box<[Shared<Pwq>]>>,
    /// Drains in progress, destruction included: while not 0, only the queue's own items may queue.
    pub(crate) closed: AtomicU32,
    /// 1: the queue has warned of a dropped item.
    pub(crate) warned: AtomicU32,
    /// 1: it is deprecated, and has not been used. Read by issuers without a cached route.
    pub(crate) unused: AtomicU32,
    /// 1: it was shut down.
    pub(in crate::workqueue) shut: AtomicU32,
    /// 1: its destruction has begun.
    pub(in crate::workqueue) ending: AtomicU32,
    /// All pool workqueues that may have items, oldest first; retired ones too until they are gone. Under this lock only a pool's lock is
    /// taken.
    pub(in crate::workqueue) members: Mutex<Vec<Arc<Pwq>>>,
    /// Serialises changes of the attributes.
    pub(in crate::workqueue) control: Mutex<Control>,
    pub(in crate::workqueue) flush: FlushGenerations,
    pub(crate) limits: Limits,
    /// Which items have their times measured.
    pub(crate) sampler: Arc<Sampler>,
    /// The bound on how many items wait, if there is one.
    pub(crate) room: Option<Arc<WaitingBound>>,
    /// The attributes of its workers' threads.
    pub(crate) threads: Option<WorkerThreads>,
}

pub(in crate::workqueue) struct Control {
    pub(in crate::workqueue) attrs: WorkqueueAttrs,
    /// The pool workqueues that the slots point to.
    pub(in crate::workqueue) current: Vec<Arc<Pwq>>,
    pub(in crate::workqueue) destroyed: bool,
}

impl WqCore {
    pub(crate) fn new(
        name: String,
        engine: Engine,
        kind: WorkqueueKind,
        flags: Flags,
        attrs: WorkqueueAttrs,
        limits: Limits,
        threads: Option<WorkerThreads>,
    ) -> Result<Arc<Self>, Error> {
        let rescuer = flags
            .mem_reclaim
            .then(|| {
                let speaker = engine.service().speaker();
                let rest = engine.resting_place();
                Rescuer::start(&name, rest, threads.as_ref(), engine.params(), speaker)
            })
            .transpose()
            .map_err(Error::Thread)?;
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
            unused: AtomicU32::new(u32::from(flags.deprecated.is_some())),
            shut: AtomicU32::new(0),
            ending: AtomicU32::new(0),
            members: Mutex::new(Vec::new()),
            control: Mutex::new(Control {
                attrs,
                current: Vec::new(),
                destroyed: false,
            }),
            flush: FlushGenerations::default(),
            limits,
            sampler: Sampler::new(),
            room: flags
                .max_waiting
                .map(|bound| Arc::new(WaitingBound::new(bound))),
            threads,
            engine,
        });
        let as_queue: Arc<dyn Queue> = core.clone();
        core.engine.add_queue(&as_queue);
        if let Some(group) = core.limits.group() {
            let own: Weak<WqCore> = Arc::downgrade(&core);
            group.join(own);
        }
        {
            // All changes since the queue was added are visible here, under the lock that callbacks of changes take.
            let mut control = core.control.lock();
            // It was started before the queue was added, for the CPUs of that time.
            core.settle_rescuer(&control);
            let mapping = core.engine.map(&control.attrs, kind, core.threads.as_ref());
            let pwqs = core.make_pwqs(&mapping, &control.current);
            let slots = mapping
                .of_cpu
                .iter()
                .map(|&index| Shared::new(pwqs[index].clone()))
                .collect();
            // No other thread can use the queue yet.
            let _ = core.slots.set(slots);
            control.current = pwqs;
            core.limits.recompute(&core.engine, &control.attrs);
        }
        Ok(core)
    }

    pub(crate) fn ordered(&self) -> bool {
        self.kind == WorkqueueKind::Ordered
    }

    /// Whether the calling thread runs an item of this queue.
    pub(crate) fn runs_here(&self) -> bool {
        current().front == self.id()
    }

    /// Whether the calling thread runs an item of this queue, perhaps inside of which it runs one of another queue. Then a wait for the whole
    /// of this queue would never end.
    pub(crate) fn waits_here(&self) -> bool {
        is_on_stack(|what| what.front == self.id())
    }

    /// Whether the calling thread must not wait for the end of this queue.
    pub(crate) fn ends_elsewhere(&self) -> bool {
        self.waits_here() || in_waker() || self.waits_for_caller()
    }

    pub(crate) fn attrs(&self) -> WorkqueueAttrs {
        if self.engine.is_inherited() {
            // A thread of the parent may hold the lock for ever.
            let control = self.control.try_lock();
            return control.map_or_else(WorkqueueAttrs::default, |own| own.attrs.clone());
        }
        self.control.lock().attrs.clone()
    }

    /// `max_active` and `min_active`; zeros in a fork's child whose parent was changing them.
    pub(crate) fn limits_given(&self) -> [usize; 2] {
        if self.engine.is_inherited() {
            return self.limits.try_numbers().unwrap_or_default();
        }
        [self.limits.max_active(), self.limits.min_active()]
    }

    /// Builds all that the new attributes need, then switches every slot.
    pub(crate) fn apply(self: &Arc<Self>, attrs: WorkqueueAttrs) -> Result<(), Error> {
        self.must_have_attrs()?;
        self.set_attrs(|own| *own = attrs)
    }

    /// As [`apply`](Self::apply), for those attributes that `change` edits.
    pub(crate) fn change(
        self: &Arc<Self>,
        change: impl FnOnce(&mut WorkqueueAttrs),
    ) -> Result<(), Error> {
        self.must_have_attrs()?;
        let before = self.attrs();
        let mut edited = before.clone();
        // Without the lock: it is foreign code, which may use this queue.
        change(&mut edited);
        self.set_attrs(|own| own.take_over(&before, edited))
    }

    fn must_have_attrs(&self) -> Result<(), Error> {
        self.engine.must_be_ours()?;
        match self.kind.is_unbound() {
            true => Ok(()),
            false => Err(self.exclude("attributes")),
        }
    }

    fn set_attrs(self: &Arc<Self>, set: impl FnOnce(&mut WorkqueueAttrs)) -> Result<(), Error> {
        let mut control = self.control.lock();
        let mut attrs = control.attrs.clone();
        set(&mut attrs);
        attrs.check()?;
        control.attrs = attrs;
        self.follow(&mut control);
        Ok(())
    }

    /// Has limits and slots follow the attributes and the CPUs.
    pub(in crate::workqueue) fn follow(self: &Arc<Self>, control: &mut Control) {
        self.limits.recompute(&self.engine, &control.attrs);
        self.remap(control);
        self.limits.settle(&self.members());
    }

    /// Edits the limits, and has the pool workqueues follow them.
    pub(in crate::workqueue) fn change_limits(&self, change: impl FnOnce(&Limits)) {
        let control = self.control.lock();
        change(&self.limits);
        self.limits.recompute(&self.engine, &control.attrs);
        self.limits.settle(&self.members());
    }

    /// The attributes, and the pool for CPUs that have no pod.
    pub(crate) fn attrs_and_default_pool(&self) -> (WorkqueueAttrs, Option<u32>) {
        let control = self.control.lock();
        let default = control.current.first().map(|pwq| pwq.pool.id);
        (control.attrs.clone(), default)
    }

    pub(crate) fn is_destroyed(&self) -> bool {
        self.control.lock().destroyed
    }

    /// Has the rescuer rest on the CPUs as they are now. Under the lock, so that no thread moves it back to the CPUs of before.
    pub(in crate::workqueue) fn settle_rescuer(&self, _control: &Control) {
        if let Some(rescuer) = &self.rescuer {
            rescuer.move_to(&self.engine.resting_place());
        }
    }

    pub(in crate::workqueue) fn remap(self: &Arc<Self>, control: &mut Control) {
        // There is nothing to do before the queue is made (it maps itself then) or after it was
        // destroyed.
        let Some(slots) = self.slots.get().filter(|_| !control.destroyed) else {
            return;
        };
        let mapping = self
            .engine
            .map(&control.attrs, self.kind, self.threads.as_ref());
        let pwqs = self.make_pwqs(&mapping, &control.current);
        let old: Vec<Replaced<Pwq>> = slots
            .iter()
            .zip(&mapping.of_cpu)
            .map(|(slot, &index)| slot.replace(pwqs[index].clone()))
            .collect();
        // After this no issuer uses an old pool workqueue.
        drop(Replaced::retire(old, epochs()));
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
    pub(in crate::workqueue) fn make_pwqs(
        self: &Arc<Self>,
        mapping: &Mapping,
        current: &[Arc<Pwq>],
    ) -> Vec<Arc<Pwq>> {
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

    pub(in crate::workqueue) fn make_pwq(
        self: &Arc<Self>,
        pool: Arc<Pool>,
        colour: u32,
    ) -> Arc<Pwq> {
        let node = self.limits.node_of(&self.engine, &pool);
        // The lock of `forget`, which unplugs: so the end of an older pool workqueue is not missed.
        let mut members = self.members.lock();
        let plugged = self.ordered() && !members.is_empty();
        // Chunks are for pools whose workers claim batches. On a pool of one CPU items run one after the other, in an order that threads
        // may observe.
        let in_chunks = !self.ordered()
            && self.room.is_none()
            && pool.attrs.batch > 1
            && pool.attrs.cpus.len() > 1;
        let traits = Traits {
            ordered: self.ordered(),
            cpu_intensive: self.flags.cpu_intensive && self.kind == WorkqueueKind::PerCpu,
            reclaim: self.rescuer.is_some(),
            waiters_run: self.waiters_run(),
            bounded: self.room.is_some(),
        };
        let rescuer = self.rescuer.clone().map(|own| own as Arc<dyn Rescue>);
        let limit = self.limits.of(node);
        let state = PwqState::of(self.clone(), rescuer, traits, limit, node, colour)
            .plugged(plugged)
            .with_sampler(self.sampler.clone())
            .with_room(self.room.clone());
        let (key, chunks) = {
            // Closing batches would give credits back, and so call the front end, which may need the members.
            let mut guard = pool.lock_beside_batches();
            let key = guard.add_pwq(state);
            let chunks = in_chunks.then(|| guard.allow_chunks(key, &pool));
            (key, chunks.flatten())
        };
        let pwq = Pwq::new(pool, key, node, chunks);
        members.push(pwq.clone());
        pwq
    }

    /// Retires a pool workqueue. It is removed when its last item has ended.
    pub(in crate::workqueue) fn retire(self: &Arc<Self>, pwq: &Arc<Pwq>) {
        let gone = {
            let mut guard = pwq.pool.lock_accepting();
            guard.retire_pwq(pwq.key)
        };
        if gone {
            self.forget(&pwq.pool, pwq.key);
        }
    }

    /// A retired pool workqueue is gone from its pool.
    pub(in crate::workqueue) fn forget(&self, pool: &Arc<Pool>, key: PwqKey) {
        let unplugged = {
            let mut members = self.members.lock();
            let Some(at) = members
                .iter()
                .position(|pwq| pwq.pool.id == pool.id && pwq.key == key)
            else {
                return;
            };
            members.remove(at);
            // Ordered: the next one may run only when it is the oldest left.
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

    pub(crate) fn members(&self) -> Vec<Arc<Pwq>> {
        self.members.lock().clone()
    }

    pub(crate) fn exclude(&self, other: &'static str) -> Error {
        let one = match self.kind {
            WorkqueueKind::Unbound => "unbound",
            WorkqueueKind::Ordered => "ordered",
            WorkqueueKind::PerCpu => "per_cpu",
            WorkqueueKind::Bh => "bh",
        };
        Error::Incompatible { one, other }
    }

    pub(crate) fn set_max_active(&self, max_active: usize) -> Result<(), Error> {
        match self.kind {
            WorkqueueKind::Ordered => return Err(Error::OrderedMaxActive),
            WorkqueueKind::Bh => return Err(self.exclude("max_active")),
            _ => {}
        }
        self.engine.must_be_ours()?;
        let max_active = clamp_max_active(&self.name, max_active);
        self.change_limits(|limits| limits.set_max_active(max_active));
        Ok(())
    }

    pub(crate) fn set_min_active(&self, min_active: usize) -> Result<(), Error> {
        if self.kind != WorkqueueKind::Unbound {
            return Err(self.exclude("min_active"));
        }
        self.engine.must_be_ours()?;
        self.change_limits(|limits| limits.set_min_active(min_active));
        Ok(())
    }

    /// Whether items queued from `cpu` have to wait for a credit. A hint.
    pub(crate) fn is_congested(&self, cpu: usize) -> bool {
        let slots = self.slots.get().expect("set when the queue was made");
        let pwq = {
            let pin = epochs().pin(0);
            slots.get(cpu).unwrap_or(&slots[0]).get(&pin)
        };
        pwq.pool.has_inactive(pwq.key)
    }

    /// The nice level that the queue's workers have, once a worker has begun.
    pub(crate) fn effective_nice(&self) -> Option<i32> {
        let members = self.members();
        members.iter().find_map(|pwq| pwq.pool.effective_nice())
    }

    /// The sum of the counts of its existing pool workqueues.
    pub(crate) fn stats(&self) -> QueueStats {
        let mut sum = QueueStats::default();
        for pwq in self.members() {
            let mut guard = pwq.pool.lock();
            sum.add(&guard.pwq_stats(pwq.key));
        }
        sum.refused = self.room.as_ref().map_or(0, |room| room.refused());
        sum
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
