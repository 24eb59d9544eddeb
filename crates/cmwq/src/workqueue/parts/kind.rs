//! The kinds of workqueues, their flags, and the valid combinations.

use crate::error::Error;
use crate::pool::PoolFor;
use crate::sys::names;
use crate::trace::warn_once;

/// Says where and in which order a workqueue runs its items. The [builder](crate::WorkqueueBuilder)
/// chooses it.
///
/// ```
/// use cmwq::Workqueue;
/// use cmwq::types::WorkqueueKind;
///
/// assert_eq!(Workqueue::builder("io").build()?.kind(), WorkqueueKind::Unbound);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkqueueKind {
    /// Items run in the pod of the CPU that they were queued from, on as many running workers as
    /// the pod has CPUs.
    Unbound,
    /// Items run one at a time in the whole process, in the order in which they were queued.
    Ordered,
    /// Items run on the CPU that they were queued from, on one running worker.
    PerCpu,
    /// Items run on the CPU that they were queued from, one at a time, in the order in which they
    /// were queued. They must not block.
    Bh,
}

impl WorkqueueKind {
    /// Whether the queue has attributes that can be set.
    pub(crate) fn is_unbound(self) -> bool {
        matches!(self, WorkqueueKind::Unbound | WorkqueueKind::Ordered)
    }

    /// Returns the kind of the pool of a CPU. `None`: the pools belong to pods.
    pub(crate) fn pool_of(self, cpu: usize) -> Option<PoolFor> {
        match self {
            WorkqueueKind::PerCpu => Some(PoolFor::PerCpu(cpu)),
            WorkqueueKind::Bh => Some(PoolFor::Bh(cpu)),
            _ => None,
        }
    }
}

impl std::fmt::Display for WorkqueueKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            WorkqueueKind::Unbound => "unbound",
            WorkqueueKind::Ordered => "ordered",
            WorkqueueKind::PerCpu => "percpu",
            WorkqueueKind::Bh => "bh",
        })
    }
}

/// The flags of a workqueue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) highpri: bool,
    pub(crate) cpu_intensive: bool,
    pub(crate) freezable: bool,
    pub(crate) mem_reclaim: bool,
    pub(crate) power_efficient: bool,
    pub(crate) workers_only: bool,
    pub(crate) deprecated: Option<Deprecated>,
    /// The limit on waiting items, if there is one.
    pub(crate) max_waiting: Option<usize>,
}

/// The warning for a deprecated queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deprecated {
    /// The name of the queue's variable in programs. `instead` is its replacement.
    pub(crate) name: &'static str,
    pub(crate) instead: &'static str,
}

impl Deprecated {
    /// Warns that `func` was queued on the queue. As in the kernel there is one warning per process
    /// for all deprecated queues, since each of them means that the program is old.
    #[cold]
    pub(crate) fn warn(self, func: usize) {
        warn_once!(
            "{} is deprecated, use {}: {} was queued on it (said once, for all deprecated queues)",
            self.name,
            self.instead,
            names::name_of(func)
        );
    }
}

impl std::fmt::Display for Flags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (is_set, name) in [
            (self.highpri, " highpri"),
            (self.cpu_intensive, " cpu_intensive"),
            (self.freezable, " freezable"),
            (self.mem_reclaim, " mem_reclaim"),
            (self.power_efficient, " power_efficient"),
            (self.workers_only, " workers_only"),
        ] {
            if is_set {
                f.write_str(name)?;
            }
        }
        Ok(())
    }
}

/// The options that the builder was given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) per_cpu: bool,
    pub(crate) bh: bool,
    pub(crate) ordered: bool,
    pub(crate) flags: Flags,
    /// The name of the attribute that was set, if any.
    pub(crate) attribute: Option<&'static str>,
    /// Whether a nice level was set.
    pub(crate) nice: bool,
    /// The limit on active items. 0 stands for the default.
    pub(crate) max_active: usize,
}

impl Wanted {
    /// Returns the requested kind, or an error that names two options that exclude each other.
    pub(crate) fn kind(&self) -> Result<WorkqueueKind, Error> {
        let exclude = |one, other| Err(Error::Incompatible { one, other });
        let flags = &self.flags;
        if self.bh {
            let others = [
                (self.ordered, "ordered"),
                (flags.freezable, "freezable"),
                (flags.mem_reclaim, "mem_reclaim"),
                (flags.cpu_intensive, "cpu_intensive"),
                (flags.power_efficient, "power_efficient"),
                (self.max_active != 0, "max_active"),
            ];
            if let Some(&(_, other)) = others.iter().find(|(is_set, _)| *is_set) {
                return exclude("bh", other);
            }
            if let Some(attribute) = self.attribute {
                return exclude("bh", attribute);
            }
            return Ok(WorkqueueKind::Bh);
        }
        if flags.highpri && self.nice {
            return exclude("highpri", "nice");
        }
        if self.ordered {
            return match (self.per_cpu, flags.power_efficient) {
                (true, _) => exclude("ordered", "per_cpu"),
                (_, true) => exclude("ordered", "power_efficient"),
                _ => Ok(WorkqueueKind::Ordered),
            };
        }
        match (self.per_cpu, flags.power_efficient, self.attribute) {
            (false, false, _) => Ok(WorkqueueKind::Unbound),
            (true, _, Some(attribute)) => exclude("per_cpu", attribute),
            (_, true, Some(attribute)) => exclude("power_efficient", attribute),
            _ => Ok(WorkqueueKind::PerCpu),
        }
    }
}
