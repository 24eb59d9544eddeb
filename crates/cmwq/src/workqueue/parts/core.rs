//! The workqueue's core: its pool workqueues, the slot of each CPU, and the callbacks of its pools.

use super::attrs::{WorkqueueAttrs, clamp_max_active};
use super::flush::FlushGenerations;
use super::kind::{Flags, WorkqueueKind};
use super::limits::Limits;
use super::mapping::Mapping;
use super::pwq::Pwq;
use crate::engine::{Engine, Queue, Registry, epochs};
use crate::error::Error;
use crate::pool::{
    FrontEnd, Pool, PwqKey, PwqState, Rescue, Rescuer, Sampler, Traits, WaitingBound,
    WorkerThreads, current, in_waker, is_on_stack,
};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicU32, AtomicU64};
use crate::sys::epoch::EpochPin;
use crate::sys::epoch::{Replaced, Shared};
use crate::sys::sync::Mutex;
use std::sync::{Arc, OnceLock, Weak};

// Every issuer reads this, and it is rarely written. Data that is written often must not share its
// cache lines.
#[repr(align(128))]
pub(crate) struct WqCore {
    /// The serial number of the queue. Unlike the name it is unique: no other queue of the process
    /// has or had the same.
    pub(crate) serial: u64,
    pub(crate) name: String,
    pub(crate) engine: Engine,
    pub(crate) kind: WorkqueueKind,
    pub(crate) flags: Flags,
    pub(crate) rescuer: Option<Arc<Rescuer>>,
    /// The pool workqueue of an item, indexed by the CPU that it is queued from. The table is set
    /// once, right after the queue was made; its entries are replaced later.
    pub(crate) slots: OnceLock<Box<[Shared<Pwq>]>>,
    /// How many drains are in progress, the destruction included. While it is not 0, only the
    /// queue's own items may queue.
    pub(crate) closed: AtomicU32,
    /// 1: the queue has warned that it dropped an item.
    pub(crate) warned: AtomicU32,
    /// 1: the queue is deprecated and has not been used yet. Only issuers without a cached route
    /// read this.
    pub(crate) unused: AtomicU32,
    /// 1: the queue was shut down.
    pub(in crate::workqueue) shut: AtomicU32,
    /// 1: the destruction of the queue has begun.
    pub(in crate::workqueue) ending: AtomicU32,
    /// All pool workqueues that may have items, the oldest first. A retired one stays here until it
    /// is gone from its pool. A thread that holds this lock takes no other lock than that of a
    /// pool.
    pub(in crate::workqueue) members: Mutex<Vec<Arc<Pwq>>>,
    /// Serialises changes of the attributes.
    pub(in crate::workqueue) control: Mutex<Control>,
    pub(in crate::workqueue) flush: FlushGenerations,
    pub(crate) limits: Limits,
    /// Chooses the items whose times are measured.
    pub(crate) sampler: Arc<Sampler>,
    /// The limit on waiting items, if there is one.
    pub(crate) room: Option<Arc<WaitingBound>>,
    /// The settings of the threads of its workers.
    pub(crate) threads: Option<WorkerThreads>,
}

pub(in crate::workqueue) struct Control {
    pub(in crate::workqueue) attrs: WorkqueueAttrs,
    /// The pool workqueues that the slots point to.
    pub(in crate::workqueue) current: Vec<Arc<Pwq>>,
    pub(in crate::workqueue) destroyed: bool,
}

/// Returns the pool with this number, if the pool belongs to this process.
pub(crate) fn pool_of_process<'g>(pool: u32, pin: &'g EpochPin<'_>) -> Option<&'g Arc<Pool>> {
    let pool = Registry::process().find(pool, pin)?;
    (!pool.is_inherited()).then_some(pool)
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
            // The lock is the one that the callbacks of changes take. With it held, every change
            // since the queue was added is visible here.
            let mut control = core.control.lock();
            // The rescuer was started before the queue was added, so it is bound to the CPUs of
            // that time.
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

    /// Whether the calling thread runs an item of this queue, possibly with an item of another
    /// queue inside it. If it does, a wait for the whole queue would never end.
    pub(crate) fn waits_here(&self) -> bool {
        is_on_stack(|what| what.front == self.id())
    }

    /// Whether the calling thread must not wait for the end of this queue.
    pub(crate) fn ends_elsewhere(&self) -> bool {
        self.waits_here() || in_waker() || self.waits_for_caller()
    }

    pub(crate) fn attrs(&self) -> WorkqueueAttrs {
        if self.engine.is_inherited() {
            // In a fork's child a thread that exists only in the parent may hold the lock for ever.
            let control = self.control.try_lock();
            return control.map_or_else(WorkqueueAttrs::default, |own| own.attrs.clone());
        }
        self.control.lock().attrs.clone()
    }

    /// Returns `max_active` and `min_active`. In the child of a fork they are zeros if the parent
    /// was changing them.
    pub(crate) fn limits_given(&self) -> [usize; 2] {
        if self.engine.is_inherited() {
            return self.limits.try_numbers().unwrap_or_default();
        }
        [self.limits.max_active(), self.limits.min_active()]
    }

    /// Builds everything that the new attributes need, and then switches every slot.
    pub(crate) fn apply(self: &Arc<Self>, attrs: WorkqueueAttrs) -> Result<(), Error> {
        self.must_have_attrs()?;
        self.set_attrs(|own| *own = attrs)
    }

    /// Applies attributes as [`apply`](Self::apply) does, but only those that `change` edits.
    pub(crate) fn change(
        self: &Arc<Self>,
        change: impl FnOnce(&mut WorkqueueAttrs),
    ) -> Result<(), Error> {
        self.must_have_attrs()?;
        let before = self.attrs();
        let mut edited = before.clone();
        // This is called without the lock, because it is code of the program, which may use this
        // queue.
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

    /// Makes limits and slots follow the attributes and the CPUs.
    pub(in crate::workqueue) fn follow(self: &Arc<Self>, control: &mut Control) {
        self.limits.recompute(&self.engine, &control.attrs);
        self.remap(control);
        self.limits.settle(&self.members());
    }

    /// Edits the limits, and makes the pool workqueues follow them.
    pub(in crate::workqueue) fn change_limits(&self, change: impl FnOnce(&Limits)) {
        let control = self.control.lock();
        change(&self.limits);
        self.limits.recompute(&self.engine, &control.attrs);
        self.limits.settle(&self.members());
    }

    /// Returns the attributes, and the number of the pool for CPUs that have no pod.
    pub(crate) fn attrs_and_default_pool(&self) -> (WorkqueueAttrs, Option<u32>) {
        let control = self.control.lock();
        let default = control.current.first().map(|pwq| pwq.pool.id);
        (control.attrs.clone(), default)
    }

    pub(crate) fn is_destroyed(&self) -> bool {
        self.control.lock().destroyed
    }

    /// Binds an idle rescuer to the CPUs as they are now. The caller holds the lock of `control`,
    /// so that no thread moves the rescuer back to earlier CPUs.
    pub(in crate::workqueue) fn settle_rescuer(&self, _control: &Control) {
        if let Some(rescuer) = &self.rescuer {
            rescuer.move_to(&self.engine.resting_place());
        }
    }

    pub(in crate::workqueue) fn remap(self: &Arc<Self>, control: &mut Control) {
        // Nothing has to be done before the queue is made, which sets the slots itself, or after it
        // was destroyed.
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
        // This waits for a grace period. After it no issuer uses an old pool workqueue.
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

    /// Returns the pool workqueues of a mapping: those of `current` that fit, and new ones for the
    /// rest.
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
        // All new pool workqueues get the same flush colour. So no flush may begin between the
        // reading of the colour and the moment when they are among the members.
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
        // [`forget`](Self::forget) takes the same lock before it unplugs the next pool workqueue,
        // so the end of an older one is not missed here.
        let mut members = self.members.lock();
        let plugged = self.ordered() && !members.is_empty();
        // Chunks are for pools whose workers claim batches. In a pool of one CPU items run one
        // after the other, in an order that threads may observe.
        let in_chunks = !self.ordered()
            && self.room.is_none()
            && pool.attrs.batch > 1
            && pool.attrs.cpus.len() > 1;
        let traits = Traits {
            ordered: self.ordered(),
            cpu_intensive: self.flags.cpu_intensive && self.kind == WorkqueueKind::PerCpu,
            waiters_run: self.waiters_run(),
            ..Traits::default()
        };
        let rescuer = self.rescuer.clone().map(|own| own as Arc<dyn Rescue>);
        let limit = self.limits.of(node);
        let state = PwqState::of(self.clone(), rescuer, traits, limit, node, colour)
            .plugged(plugged)
            .with_sampler(self.sampler.clone())
            .with_room(self.room.clone());
        let (key, chunks) = {
            // Batches stay open: closing them would give credits back, and that calls the front
            // end, which may need the lock of the members.
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

    /// Forgets a retired pool workqueue that is gone from its pool.
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
            // A pool workqueue of an ordered queue may run items only when it is the oldest one
            // left.
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

    /// Whether items that are queued from `cpu` have to wait for a credit. The answer may be out of
    /// date when the caller reads it.
    pub(crate) fn is_congested(&self, cpu: usize) -> bool {
        let slots = self.slots.get().expect("set when the queue was made");
        let pwq = {
            let pin = epochs().pin(0);
            slots.get(cpu).unwrap_or(&slots[0]).get(&pin)
        };
        pwq.pool.has_inactive(pwq.key)
    }

    /// Returns the nice level that the queue's workers really have, once a worker has begun.
    pub(crate) fn effective_nice(&self) -> Option<i32> {
        let members = self.members();
        members.iter().find_map(|pwq| pwq.pool.effective_nice())
    }

    /// Returns how many items have started and have completed in the pool workqueues that exist now.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let members = self.members();
        let all = members.iter().map(|pwq| pwq.pool.lock().pwq_stats(pwq.key));
        all.fold((0, 0), |sum, one| {
            (sum.0 + one.started, sum.1 + one.completed)
        })
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
