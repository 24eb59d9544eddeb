//! A workqueue's attributes, and the limits on its numbers.

use crate::error::Error;
use crate::topology::CpuSet;
use crate::trace::warn;
use cmwq_topology::affinity::AffinityScope;

/// Says where the items of an unbound workqueue run and with which priority. All attributes can be
/// changed at once while the queue is in use, with
/// [`Workqueue::apply_attrs`](crate::Workqueue::apply_attrs).
///
/// ```
/// use cmwq::Workqueue;
/// use cmwq::types::WorkqueueAttrs;
///
/// let queue = Workqueue::builder("io").build()?;
/// queue.apply_attrs(WorkqueueAttrs { nice: 5, ..queue.attrs() })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkqueueAttrs {
    /// The nice level of the workers, from -20 (runs first) to 19 (runs last). A higher priority
    /// than that of the process needs a privilege; without it the workers run at the level of the
    /// process.
    pub nice: i32,
    /// The CPUs on which items may run. `None`: all CPUs that the process may use. CPUs that do not
    /// exist or may not be used are ignored, and if none is left the whole mask is. The mask is
    /// kept as it was given.
    pub cpumask: Option<CpuSet>,
    /// How the machine is cut into pods, each with a worker pool of its own.
    pub affinity_scope: AffinityScope,
    /// If it is `true`, items always stay in the pod that they were queued from. If it is `false`,
    /// idle workers of another pod may steal them when their own pod has too much to do.
    pub affinity_strict: bool,
}

impl WorkqueueAttrs {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if (-20..=19).contains(&self.nice) {
            Ok(())
        } else {
            Err(Error::Nice(self.nice))
        }
    }

    /// Takes over the attributes in which `edited` differs from `before`, and leaves the others as
    /// they are.
    pub(crate) fn take_over(&mut self, before: &Self, edited: Self) {
        fn one<T: PartialEq>(own: &mut T, before: &T, edited: T) {
            if edited != *before {
                *own = edited;
            }
        }
        let WorkqueueAttrs {
            nice,
            cpumask,
            affinity_scope,
            affinity_strict,
        } = edited;
        one(&mut self.nice, &before.nice, nice);
        one(&mut self.cpumask, &before.cpumask, cpumask);
        one(
            &mut self.affinity_scope,
            &before.affinity_scope,
            affinity_scope,
        );
        one(
            &mut self.affinity_strict,
            &before.affinity_strict,
            affinity_strict,
        );
    }
}

/// The `max_active` of a queue that is built with 0, or without a limit.
pub const WQ_DFL_ACTIVE: usize = 1024;
/// The largest `max_active`.
pub const WQ_MAX_ACTIVE: usize = 2048;
/// The largest initial `min_active`.
pub(crate) const WQ_DFL_MIN_ACTIVE: usize = 8;
/// The nice level of highpri pools.
pub(crate) const HIGHPRI_NICE: i32 = -20;
/// The nice level of BH pools that are not highpri, which is raised because the kernel's softirqs
/// come before all threads.
pub(crate) const BH_NICE: i32 = -10;
/// How many bytes of a name are kept.
pub(crate) const NAME_MAX: usize = 31;

/// Returns the allowed limit on waiting items that is nearest to `wanted`, and warns if it is
/// another value.
pub(crate) fn clamp_max_waiting(name: &str, wanted: usize) -> usize {
    if wanted == 0 {
        warn(&format!(
            "workqueue {name}: max_waiting 0 is out of range, 1 is used"
        ));
    }
    wanted.max(1)
}

/// Returns the allowed `max_active` that is nearest to `wanted`, and warns if it is another value.
/// 0 is below the range: the builder handles the 0 that stands for the default of a new queue.
pub(crate) fn clamp_max_active(name: &str, wanted: usize) -> usize {
    let used = wanted.clamp(1, WQ_MAX_ACTIVE);
    if used != wanted {
        warn(&format!(
            "workqueue {name}: max_active {wanted} is out of range, {used} is used (1 to {WQ_MAX_ACTIVE})"
        ));
    }
    used
}
