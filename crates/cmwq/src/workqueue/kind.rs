//! The kinds of workqueues, their flags, and which go together.

use crate::error::Error;
use crate::pool::PoolKind;

/// Where and how a workqueue's items run. Chosen with the [builder](crate::WorkqueueBuilder).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkqueueKind {
    /// In the pod of the CPU that they were queued from, on as many running workers as it has CPUs.
    Unbound,
    /// One at a time, in the order in which they were queued, in the whole process.
    Ordered,
    /// On the CPU that they were queued from, on one running worker.
    PerCpu,
    /// On the CPU that they were queued from, one at a time, in the order in which they were queued. They must not block.
    Bh,
}

impl WorkqueueKind {
    /// Whether attributes apply.
    pub(super) fn is_unbound(self) -> bool {
        matches!(self, WorkqueueKind::Unbound | WorkqueueKind::Ordered)
    }

    /// The kind of the pool of a CPU; `None`: pods have the pools.
    pub(super) fn pool_of(self, cpu: usize) -> Option<PoolKind> {
        match self {
            WorkqueueKind::PerCpu => Some(PoolKind::PerCpu(cpu)),
            WorkqueueKind::Bh => Some(PoolKind::Bh(cpu)),
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

/// What else a workqueue can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags {
    pub(super) highpri: bool,
    pub(super) cpu_intensive: bool,
    pub(super) freezable: bool,
    pub(super) mem_reclaim: bool,
    pub(super) power_efficient: bool,
    pub(super) workers_only: bool,
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

/// What a builder was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) per_cpu: bool,
    pub(super) bh: bool,
    pub(super) ordered: bool,
    pub(super) flags: Flags,
    /// Attributes were given: which.
    pub(super) attribute: Option<&'static str>,
    /// A nice level was given.
    pub(super) nice: bool,
    /// A limit was given.
    pub(super) max_active: bool,
}

impl Wanted {
    /// The kind that was asked for, or two things that exclude each other.
    pub(super) fn kind(&self) -> Result<WorkqueueKind, Error> {
        let exclude = |one, other| Err(Error::Incompatible { one, other });
        let flags = &self.flags;
        if self.bh {
            let others = [
                (self.ordered, "ordered"),
                (flags.freezable, "freezable"),
                (flags.mem_reclaim, "mem_reclaim"),
                (flags.cpu_intensive, "cpu_intensive"),
                (flags.power_efficient, "power_efficient"),
                (self.max_active, "max_active"),
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

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    fn names(wanted: &Wanted) -> (&'static str, &'static str) {
        match wanted.kind() {
            Err(Error::Incompatible { one, other }) => (one, other),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_excludes_each_other_is_named() {
        let bh = Wanted {
            bh: true,
            ..Wanted::default()
        };
        assert_eq!(bh.kind().unwrap(), WorkqueueKind::Bh);
        let mut both = bh.clone();
        both.per_cpu = true;
        both.flags.highpri = true;
        assert_eq!(both.kind().unwrap(), WorkqueueKind::Bh);
        let with = |change: &dyn Fn(&mut Wanted)| {
            let mut wanted = bh.clone();
            change(&mut wanted);
            names(&wanted)
        };
        assert_eq!(with(&|w| w.ordered = true), ("bh", "ordered"));
        assert_eq!(with(&|w| w.flags.freezable = true), ("bh", "freezable"));
        assert_eq!(with(&|w| w.flags.mem_reclaim = true), ("bh", "mem_reclaim"));
        assert_eq!(
            with(&|w| w.flags.cpu_intensive = true),
            ("bh", "cpu_intensive")
        );
        assert_eq!(
            with(&|w| w.flags.power_efficient = true),
            ("bh", "power_efficient")
        );
        assert_eq!(with(&|w| w.max_active = true), ("bh", "max_active"));
        assert_eq!(with(&|w| w.attribute = Some("cpumask")), ("bh", "cpumask"));
        let ordered = Wanted {
            ordered: true,
            per_cpu: true,
            ..Wanted::default()
        };
        assert_eq!(names(&ordered), ("ordered", "per_cpu"));
        let per_cpu = Wanted {
            per_cpu: true,
            attribute: Some("nice"),
            ..Wanted::default()
        };
        assert_eq!(names(&per_cpu), ("per_cpu", "nice"));
    }
}
