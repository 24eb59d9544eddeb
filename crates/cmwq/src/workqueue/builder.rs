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

/// Sets up a [`Workqueue`] before it is made: its limits, its kind and where its items run.
///
/// Without a further call the queue is unbound: its items run on any CPU of the pod (the group of
/// CPUs with a common worker pool) that they were queued from, and idle workers of other pods steal
/// them when that pod has too much to do. (The kernel requires per-CPU or unbound to be named; here
/// unbound is the default.)
///
/// ```
/// use cmwq::Workqueue;
///
/// let resize = Workqueue::builder("resize") // the name that tools show
///     .max_active(64) // at most 64 images at a time
///     .max_waiting(1000) // a further request is refused, and the service says so to its client
///     .build()?;
/// assert_eq!(resize.spawn(|| "resized").join()?, "resized");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// Begins a new workqueue on the [global engine](crate::Engine::global), which runs the
    /// process's queues. Tools show the queue by its `name`, of which at most 31 bytes are kept;
    /// none of them may be 0.
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("thumbnails").build()?;
    /// assert_eq!(queue.name(), "thumbnails");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// Sets how the machine is cut into pods, each with a worker pool of its own. Without this call
    /// the queue follows the engine's [default](crate::types::EngineBuilder::default_affinity_scope).
    ///
    /// ```
    /// use cmwq::affinity::AffinityScope;
    ///
    /// // Items may run on any CPU that shares the last-level cache of the CPU they were queued from.
    /// let queue = cmwq::Workqueue::builder("parse").affinity_scope(AffinityScope::Cache).build()?;
    /// assert_eq!(queue.attrs().affinity_scope, AffinityScope::Cache);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn affinity_scope(self, scope: AffinityScope) -> Self {
        self.with_attribute("affinity_scope", |attrs| attrs.affinity_scope = scope)
    }

    /// Sets whether items only ever run in the pod that they were queued from. By default idle
    /// workers of other pods steal them when that pod has too much to do.
    ///
    /// ```
    /// // The items use memory of their own NUMA node: they wait rather than run elsewhere.
    /// let queue = cmwq::Workqueue::builder("index").affinity_strict(true).build()?;
    /// assert!(queue.attrs().affinity_strict);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn affinity_strict(self, strict: bool) -> Self {
        self.with_attribute("affinity_strict", |attrs| attrs.affinity_strict = strict)
    }

    /// Sets the CPUs that items may run on. By default these are all that the process may use.
    ///
    /// ```
    /// use cmwq::topology::CpuSet;
    ///
    /// let cpus: CpuSet = "0".parse()?;
    /// let queue = cmwq::Workqueue::builder("background").cpumask(cpus).build()?;
    /// assert_eq!(queue.spawn(|| 6 * 7).join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cpumask(self, cpus: CpuSet) -> Self {
        self.with_attribute("cpumask", |attrs| attrs.cpumask = Some(cpus))
    }

    /// Sets the nice level of the workers, from -20 (runs first) to 19 (runs last). The default is
    /// 0. A level below the process's own needs a privilege; without it the workers have the
    /// process's level.
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("compaction").nice(10).build()?; // behind other threads
    /// assert_eq!(queue.attrs().nice, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn nice(mut self, nice: i32) -> Self {
        self.wanted.nice = true;
        self.with_attribute("nice", |attrs| attrs.nice = nice)
    }

    /// Sets all attributes at once, such as those of another queue.
    ///
    /// ```
    /// use cmwq::Workqueue;
    /// use cmwq::types::WorkqueueAttrs;
    ///
    /// let first = Workqueue::builder("first").nice(5).build()?;
    /// let like_it = Workqueue::builder("like_it").attrs(first.attrs()).build()?;
    /// assert_eq!(like_it.attrs().nice, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attrs(mut self, attrs: WorkqueueAttrs) -> Self {
        self.wanted.nice |= attrs.nice != 0;
        self.with_attribute("attrs", |own| *own = attrs)
    }

    /// Sets how many items of the queue may be active (started, or ready to start) at the same
    /// time; further ones wait their turn. On an unbound queue each NUMA node gets its share of the
    /// limit, by its CPUs; on a per-CPU queue the limit holds for each CPU.
    ///
    /// 0, the default, means [`WQ_DFL_ACTIVE`] here, but not where the limit of an existing queue
    /// is [changed](Workqueue::set_max_active). More than
    /// [`WQ_MAX_ACTIVE`](crate::raw::WQ_MAX_ACTIVE) is cut to that, with a warning. A limit of 1
    /// does not make a queue ordered: see [`ordered`](Self::ordered).
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("uploads").max_active(16).build()?;
    /// assert_eq!(queue.max_active(), 16);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_active(mut self, max_active: usize) -> Self {
        self.wanted.max_active = max_active;
        self
    }

    /// Makes items run one at a time, in the order in which they were queued, wherever that was.
    /// `max_active` is 1 then.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// let log = Arc::new(Mutex::new(Vec::new()));
    /// let queue = cmwq::Workqueue::builder("log").ordered().build()?;
    /// for line in 0..3 {
    ///     let log = log.clone();
    ///     queue.execute(move || log.lock().unwrap().push(line))?;
    /// }
    /// queue.flush()?;
    /// assert_eq!(*log.lock().unwrap(), [0, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ordered(mut self) -> Self {
        self.wanted.ordered = true;
        self
    }

    /// Makes items run on the CPU that they were queued from. While one item of a CPU runs the next
    /// one waits, until the first one ends or blocks: so items do not compete for the CPU, and its
    /// caches stay warm. While the CPU may not be used its items run on others.
    ///
    /// ```
    /// use cmwq::Workqueue;
    /// use cmwq::types::WorkqueueKind;
    ///
    /// let queue = Workqueue::builder("counters").per_cpu().build()?;
    /// assert_eq!(queue.kind(), WorkqueueKind::PerCpu);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn per_cpu(mut self) -> Self {
        self.wanted.per_cpu = true;
        self
    }

    /// Makes items run on the CPU that they were queued from, strictly one after the other in the
    /// order in which they were queued: for short and urgent work that never blocks. A BH item that
    /// blocked would keep all others waiting; a debug build reports the function of an item that
    /// sleeps. A BH item that waits for another item of its CPU, which cannot begin before it ends, gets
    /// `OwnItem`. The workers' nice level is raised as far as permitted. The name is the kernel's,
    /// where such items run in softirq context ("bottom half").
    ///
    /// Combines only with [`highpri`](Self::highpri) and with [`per_cpu`](Self::per_cpu), which it implies.
    ///
    /// ```
    /// use cmwq::Workqueue;
    /// use cmwq::types::WorkqueueKind;
    ///
    /// let queue = Workqueue::builder("acks").bh().build()?;
    /// assert_eq!(queue.kind(), WorkqueueKind::Bh);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bh(mut self) -> Self {
        self.wanted.bh = true;
        self
    }

    /// Runs the items on worker pools of their own, whose workers have nice level -20 as far as the
    /// process is permitted that. An item of another queue that already runs is not stopped for
    /// them.
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("heartbeat").highpri().build()?;
    /// assert_eq!(queue.spawn(|| "alive").join()?, "alive");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn highpri(mut self) -> Self {
        self.wanted.flags.highpri = true;
        self
    }

    /// Declares that items compute for long: on a per-CPU queue other items then start beside them,
    /// and the scheduler divides the CPU. On an unbound queue it has no effect, as in the kernel.
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("hash").per_cpu().cpu_intensive().build()?;
    /// assert_eq!(queue.spawn(|| (1..=100u64).sum::<u64>()).join()?, 5050);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cpu_intensive(mut self) -> Self {
        self.wanted.flags.cpu_intensive = true;
        self
    }

    /// Makes the queue stop starting items while the engine is
    /// [frozen](crate::Engine::freeze_workqueues_begin), so that a program can be brought to rest.
    ///
    /// ```
    /// use cmwq::{Engine, Workqueue};
    ///
    /// let writes = Workqueue::builder("writes").freezable().build()?;
    /// Engine::global()?.freeze_workqueues_begin();
    /// let later = writes.spawn(|| "written"); // waits, as the queue is frozen
    /// Engine::global()?.thaw_workqueues();
    /// assert_eq!(later.join()?, "written");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn freezable(mut self) -> Self {
        self.wanted.flags.freezable = true;
        self
    }

    /// Gives the queue a rescuer: a thread, made together with the queue, that runs its items when
    /// no worker can be created. It is for work on which others depend when memory or threads are
    /// short, such as writing out what can then be freed.
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("writeback").mem_reclaim().build()?;
    /// assert_eq!(queue.spawn(|| "written").join()?, "written");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mem_reclaim(mut self) -> Self {
        self.wanted.flags.mem_reclaim = true;
        self
    }

    /// Makes the queue per-CPU, except on an engine that is to [save
    /// power](crate::types::EngineBuilder::power_efficient), where it is unbound and need not wake a
    /// CPU that sleeps.
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("refresh").power_efficient().build()?;
    /// assert_eq!(queue.spawn(|| 1 + 1).join()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn power_efficient(mut self) -> Self {
        self.wanted.flags.power_efficient = true;
        self
    }

    /// Keeps items off the threads that wait for them. By default a thread that
    /// [joins](crate::JoinHandle::join) or [flushes](crate::Work::flush) an item of an unbound
    /// queue that no worker has taken runs that item itself (a *caller-runs join*), which saves a
    /// wake-up and two switches between threads. It does so only if the item is about to start, the
    /// queue has the default nice level and is neither ordered nor strict, and the thread is on a
    /// CPU of the item's pod; and it never runs another item than the one that it waits for.
    ///
    /// For items that must not run in the context of the waiting thread: its thread-local state, a
    /// small stack, a blocked signal, a lock that the thread may take again.
    ///
    /// ```
    /// let queue = cmwq::Workqueue::builder("render").workers_only().build()?;
    /// let caller = std::thread::current().id();
    /// let item = queue.spawn(|| std::thread::current().id()).join()?;
    /// assert_ne!(item, caller);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn workers_only(mut self) -> Self {
        self.wanted.flags.workers_only = true;
        self
    }

    /// Limits how many items may wait, that is, are queued and have not started. A further one is
    /// refused as [full](crate::Refused::Full); [`Workqueue::try_spawn`] gives the closure back,
    /// and [`Workqueue::room`] waits for room, in a thread or a task. The smallest limit is 1: 0 is
    /// taken for 1, with a warning. By default there is none.
    ///
    /// Items that a timer holds do not wait yet; when the timer fires they are accepted in any
    /// case, beyond the bound if need be. The queue counts each item by itself, on a line that all
    /// its issuers share, and its items do not run in batches: for items of less than a microsecond
    /// that costs more than the items.
    ///
    /// ```
    /// use cmwq::{Refused, Workqueue};
    /// use std::sync::Arc;
    ///
    /// let queue = Workqueue::builder("requests").max_active(1).max_waiting(1).build()?;
    /// let gate = Arc::new(cmwq::Completion::new());
    /// let open = gate.clone();
    /// let begun = Arc::new(cmwq::Completion::new());
    /// let tell = begun.clone();
    /// queue.execute(move || { tell.complete(); gate.wait() })?;
    /// begun.wait(); // the first item runs, and waits no more
    /// queue.execute(|| println!("waits"))?;
    /// assert_eq!(queue.execute(|| println!("too many")), Err(Refused::Full));
    /// open.complete();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_waiting(mut self, max_waiting: usize) -> Self {
        self.wanted.flags.max_waiting = Some(max_waiting);
        self
    }

    /// Makes the queue's active items count against the limit of `group` as well, which several
    /// queues share.
    ///
    /// ```
    /// use cmwq::{ConcurrencyGroup, Workqueue};
    ///
    /// let disk = ConcurrencyGroup::new("disk", 8); // at most 8 items of both queues together
    /// let reads = Workqueue::builder("reads").group(&disk).build()?;
    /// let writes = Workqueue::builder("writes").max_active(2).group(&disk).build()?;
    /// assert_eq!(reads.spawn(|| 1).join()? + writes.spawn(|| 1).join()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn group(mut self, group: &ConcurrencyGroup) -> Self {
        self.group = Some(group.clone());
        self
    }

    /// Sets hooks, names and stacks of the threads that run the queue's items, instead of those of
    /// the [engine](crate::types::EngineBuilder::worker_threads). The queue then has worker pools of
    /// its own, which it shares with queues that were given a clone of the same value.
    ///
    /// ```
    /// use cmwq::{WorkerThreads, Workqueue};
    ///
    /// let threads = WorkerThreads::new().name("io/%i").stack_size(256 << 10);
    /// let queue = Workqueue::builder("io").worker_threads(threads).build()?;
    /// let name = queue.spawn(|| std::thread::current().name().map(str::to_owned));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn worker_threads(mut self, threads: WorkerThreads) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Makes the queue warn when it is first used.
    pub(crate) fn deprecated(mut self, deprecated: Deprecated) -> Self {
        self.wanted.flags.deprecated = Some(deprecated);
        self
    }

    /// Makes the queue. Its workers are created when there are items to run.
    ///
    /// ```
    /// use cmwq::{Error, Workqueue};
    ///
    /// let queue = Workqueue::builder("io").build()?;
    /// assert_eq!(queue.spawn(|| 6 * 7).join()?, 42);
    /// let wrong = Workqueue::builder("odd").ordered().per_cpu().build();
    /// assert!(matches!(wrong, Err(Error::Incompatible { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What [`Engine::global`] returns; [`Error::Name`]; [`Error::ThreadName`]; [`Error::Nice`];
    /// [`Error::Incompatible`], which names the two options that exclude each other;
    /// [`Error::OrderedMaxActive`] if an ordered queue was given a `max_active` other than 1;
    /// [`Error::Thread`] if the engine's first thread, or the queue's rescuer, cannot be created;
    /// [`Error::Forked`] if the engine or the group belongs to the parent of a fork.
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
    /// Begins a new workqueue on this engine. Tools show it by its `name`, of which at most 31
    /// bytes are kept; none of them may be 0.
    ///
    /// ```
    /// let engine = cmwq::Engine::builder().build()?; // its own pools, apart from the global engine's
    /// let queue = engine.workqueue("tests").build()?;
    /// assert_eq!(queue.spawn(|| 6 * 7).join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn workqueue(&self, name: &str) -> WorkqueueBuilder {
        WorkqueueBuilder::on(self.clone(), name)
    }
}
