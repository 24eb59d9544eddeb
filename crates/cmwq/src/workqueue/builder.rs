//! Building a workqueue.

use super::queue::Workqueue;
use crate::engine::Engine;
use crate::error::Error;
use crate::pool::WorkerThreads;
use crate::topology::CpuSet;
use crate::trace::warn_once;
use crate::workqueue::parts::attrs::{
    HIGHPRI_NICE, NAME_MAX, WQ_DFL_ACTIVE, WorkqueueAttrs, clamp_max_active, clamp_max_waiting,
};
use crate::workqueue::parts::core::WqCore;
use crate::workqueue::parts::group::ConcurrencyGroup;
use crate::workqueue::parts::kind::{Deprecated, Wanted, WorkqueueKind};
use crate::workqueue::parts::limits::Limits;
use cmwq_topology::affinity::AffinityScope;

/// Builds a [`Workqueue`]: unbound, with the kernel's defaults unless set otherwise. (The kernel requires per-CPU or unbound to be named;
/// here unbound is the default.)
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct WorkqueueBuilder {
    engine: Option<Engine>,
    name: String,
    wanted: Wanted,
    attrs: WorkqueueAttrs,
    threads: Option<WorkerThreads>,
    group: Option<ConcurrencyGroup>,
}

impl Workqueue {
    /// A builder of a workqueue on the [global engine](crate::Engine::global). `name` is shown by tools; at most 31 bytes
    /// are kept, none of them 0.
    pub fn builder(name: &str) -> WorkqueueBuilder {
        WorkqueueBuilder::new(name)
    }
}

impl WorkqueueBuilder {
    pub(crate) fn new(name: &str) -> Self {
        WorkqueueBuilder {
            engine: None,
            name: name.to_owned(),
            wanted: Wanted::default(),
            attrs: WorkqueueAttrs::default(),
            threads: None,
            group: None,
        }
    }

    fn on(engine: Engine, name: &str) -> Self {
        WorkqueueBuilder {
            engine: Some(engine),
            ..Self::new(name)
        }
    }

    fn with_attribute(mut self, name: &'static str, set: impl FnOnce(&mut WorkqueueAttrs)) -> Self {
        self.wanted.attribute.get_or_insert(name);
        set(&mut self.attrs);
        self
    }

    /// How the machine is cut into pods. Default: `default`.
    pub fn affinity_scope(self, scope: AffinityScope) -> Self {
        self.with_attribute("affinity_scope", |attrs| attrs.affinity_scope = scope)
    }

    /// Whether items never run outside the pod that they were queued from. Default: no.
    pub fn affinity_strict(self, strict: bool) -> Self {
        self.with_attribute("affinity_strict", |attrs| attrs.affinity_strict = strict)
    }

    /// The CPUs that items may run on. Default: all that the process may use.
    pub fn cpumask(self, cpus: CpuSet) -> Self {
        self.with_attribute("cpumask", |attrs| attrs.cpumask = Some(cpus))
    }

    /// The workers' nice level, -20 to 19. Default: 0.
    pub fn nice(mut self, nice: i32) -> Self {
        self.wanted.nice = true;
        self.with_attribute("nice", |attrs| attrs.nice = nice)
    }

    /// All attributes at once.
    pub fn attrs(mut self, attrs: WorkqueueAttrs) -> Self {
        self.wanted.nice |= attrs.nice != 0;
        self.with_attribute("attrs", |own| *own = attrs)
    }

    /// How many items may be active (started or ready to start) at the same time: for an unbound queue per NUMA node by its share of the
    /// CPUs, for a per-CPU queue per CPU. 0, the default, means [`WQ_DFL_ACTIVE`] here, but not where
    /// the limit of an existing queue is [changed](Workqueue::set_max_active); more than
    /// [`WQ_MAX_ACTIVE`](crate::WQ_MAX_ACTIVE) is cut to that, with a warning. 1 does not make a queue ordered: see
    /// [`ordered`](Self::ordered).
    pub fn max_active(mut self, max_active: usize) -> Self {
        self.wanted.max_active = max_active;
        self
    }

    /// Items run one at a time, in the order in which they were queued, across all pods. `max_active` is 1.
    pub fn ordered(mut self) -> Self {
        self.wanted.ordered = true;
        self
    }

    /// Items run on the CPU that they were queued from. While an item runs the next waits, until the first one blocks: so items do not
    /// compete for the CPU, and caches stay warm. While the CPU may not be used they run elsewhere.
    pub fn per_cpu(mut self) -> Self {
        self.wanted.per_cpu = true;
        self
    }

    /// Items run on the CPU that they were queued from, strictly one after the other in the order in which they were queued. They must not
    /// block, since all others would wait. The counterpart of running in softirq context, for short and urgent work. The workers' nice
    /// level is raised as far as permitted. A debug build reports the function of an item that sleeps.
    ///
    /// Combines only with [`highpri`](Self::highpri) and with [`per_cpu`](Self::per_cpu), which it implies.
    pub fn bh(mut self) -> Self {
        self.wanted.bh = true;
        self
    }

    /// Pools of its own, with nice level -20 (as far as permitted), run its items. Normal items are not preempted.
    pub fn highpri(mut self) -> Self {
        self.wanted.flags.highpri = true;
        self
    }

    /// Items compute for long: on a per-CPU queue other items start beside them, and the scheduler divides the CPU. No effect on an unbound
    /// queue, as in the kernel.
    pub fn cpu_intensive(mut self) -> Self {
        self.wanted.flags.cpu_intensive = true;
        self
    }

    /// Takes part in [freezing](crate::Engine::freeze_workqueues_begin).
    pub fn freezable(mut self) -> Self {
        self.wanted.flags.freezable = true;
        self
    }

    /// Has a rescuer: a thread created with the queue that runs its items when no worker can be created. For work on which others depend
    /// when resources are short, such as writing out what can then be freed.
    pub fn mem_reclaim(mut self) -> Self {
        self.wanted.flags.mem_reclaim = true;
        self
    }

    /// Per-CPU, but unbound on an engine that is to [save power](crate::EngineBuilder::power_efficient).
    pub fn power_efficient(mut self) -> Self {
        self.wanted.flags.power_efficient = true;
        self
    }

    /// Its items run on workers only. By default a thread that [joins](crate::JoinHandle::join) or [flushes](crate::Work::flush) an item of
    /// an unbound queue that no worker has taken runs that item itself (caller-runs join), which saves a wake-up and two switches. It does
    /// so only if the item is about to start, the queue has the default nice level and is neither ordered nor strict, and the thread is on
    /// a CPU of the item's pod; and it never runs another item than the one it waits for.
    ///
    /// For items that must not run in the context of the waiting thread: its thread-local state, a small stack, a blocked signal, a lock
    /// that the thread may take again.
    pub fn workers_only(mut self) -> Self {
        self.wanted.flags.workers_only = true;
        self
    }

    /// At most so many items wait: queued and not started. A further one is refused as [full](crate::Refused::Full);
    /// [`Workqueue::try_spawn`] gives the closure back, and [`Workqueue::room`] waits for room, in a thread or a task. At least 1: 0 is taken for 1, with a
    /// warning. Default: no bound.
    ///
    /// Items that a timer holds do not wait yet; when the timer fires they are accepted in any case, beyond the bound if need be. The queue
    /// counts each item by itself, on a line that all its issuers share, and its items do not run in batches: for items of less than a
    /// microsecond that costs more than the items.
    pub fn max_waiting(mut self, max_waiting: usize) -> Self {
        self.wanted.flags.max_waiting = Some(max_waiting);
        self
    }

    /// Its items also count against the limit of `group`.
    pub fn group(mut self, group: &ConcurrencyGroup) -> Self {
        self.group = Some(group.clone());
        self
    }

    /// Attributes of the threads that run its items, instead of those of the [engine](crate::EngineBuilder::worker_threads). The queue then
    /// has worker pools of its own, which it shares with queues that were given a clone of the same value.
    pub fn worker_threads(mut self, threads: WorkerThreads) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Warns at the first use.
    pub(crate) fn deprecated(mut self, deprecated: Deprecated) -> Self {
        self.wanted.flags.deprecated = Some(deprecated);
        self
    }

    /// Builds the queue.
    ///
    /// # Errors
    /// What [`Engine::global`] returns; [`Error::Name`]; [`Error::ThreadName`]; [`Error::Nice`]; [`Error::Incompatible`], naming the two
    /// options that exclude each other; [`Error::OrderedMaxActive`] if an ordered queue was given another `max_active` than 1;
    /// [`Error::Thread`] if the engine's first thread, or the queue's rescuer, cannot be created; [`Error::Forked`] if the engine or the
    /// group is the parent's.
    pub fn build(mut self) -> Result<Workqueue, Error> {
        if self.name.contains('\0') {
            return Err(Error::Name(self.name));
        }
        let mut kind = self.wanted.kind()?;
        self.attrs.check()?;
        self.threads.as_ref().map_or(Ok(()), WorkerThreads::check)?;
        let engine = match self.engine {
            Some(engine) => engine,
            None => Engine::global()?,
        };
        engine.must_be_ours()?;
        let threads = self.threads.or_else(|| engine.worker_threads().cloned());
        if let Some(group) = &self.group {
            if kind == WorkqueueKind::Bh {
                let (one, other) = ("bh", "group");
                return Err(Error::Incompatible { one, other });
            }
            if group.is_inherited() {
                return Err(Error::Forked);
            }
        }
        let mut flags = self.wanted.flags;
        flags.workers_only |= threads.as_ref().is_some_and(WorkerThreads::run_all);
        if flags.power_efficient && engine.is_power_efficient() {
            kind = WorkqueueKind::Unbound;
        }
        if flags.highpri {
            self.attrs.nice = HIGHPRI_NICE;
        }
        let max_active = match (kind, self.wanted.max_active) {
            (WorkqueueKind::Ordered, 0 | 1) => 1,
            (WorkqueueKind::Ordered, _) => return Err(Error::OrderedMaxActive),
            (_, 0) => WQ_DFL_ACTIVE,
            (_, wanted) => clamp_max_active(&self.name, wanted),
        };
        flags.max_waiting = flags
            .max_waiting
            .map(|wanted| clamp_max_waiting(&self.name, wanted));
        engine.service().ensure_started().map_err(Error::Thread)?;
        let name = cut_name(self.name);
        let limits = Limits::new(&engine, kind, &self.attrs, max_active, self.group);
        let core = WqCore::new(name, engine, kind, flags, self.attrs, limits, threads)?;
        Ok(Workqueue::new(core))
    }
}

fn cut_name(mut name: String) -> String {
    if name.len() > NAME_MAX {
        let mut end = NAME_MAX;
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        warn_once!("workqueue name '{name}' is cut to {NAME_MAX} bytes");
        name.truncate(end);
    }
    name
}

impl Engine {
    /// A builder of a workqueue of this engine. `name`: shown by tools, at most 31 bytes are kept, none of them 0.
    pub fn workqueue(&self, name: &str) -> WorkqueueBuilder {
        WorkqueueBuilder::on(self.clone(), name)
    }
}
