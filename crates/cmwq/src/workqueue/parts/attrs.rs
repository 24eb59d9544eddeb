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
/// use cmwq::{Workqueue, WorkqueueAttrs};
///
/// let queue = Workqueue::builder("io").build()?;
/// queue.apply_attrs(WorkqueueAttrs { nice: 5, ..queue.attrs() })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkqueueAttrs {
    /// The workers' nice level, -20 (first) to 19 (last). A higher priority than the process's own needs a privilege; without it the queue
    /// works at the process's level.
    pub nice: i32,
    /// The CPUs that items may run on; `None`: all that the process may use. CPUs that do not exist or may not be used are
    /// ignored; if none is left, the mask is ignored. Kept as given.
    pub cpumask: Option<CpuSet>,
    /// How the machine is cut into pods.
    pub affinity_scope: AffinityScope,
    /// Whether items always stay in the pod that they were queued from (`true`), or idle workers of another pod may steal them when their
    /// own pod has too much to do (`false`).
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

    /// Takes over what has been edited, and leaves the rest as it is.
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
/// The cap of the initial `min_active`.
pub(crate) const WQ_DFL_MIN_ACTIVE: usize = 8;
/// The nice level of highpri pools.
pub(crate) const HIGHPRI_NICE: i32 = -20;
/// The nice level of BH pools that are not highpri: the kernel's softirqs come before all threads.
pub(crate) const BH_NICE: i32 = -10;
/// Bytes of a name that are kept.
pub(crate) const NAME_MAX: usize = 31;

/// The bound on how many items wait that is nearest to `wanted`; a warning says if it is another one.
pub(crate) fn clamp_max_waiting(name: &str, wanted: usize) -> usize {
    if wanted == 0 {
        warn(&format!(
            "workqueue {name}: max_waiting 0 is out of range, 1 is used"
        ));
    }
    wanted.max(1)
}

/// The value within the range that is nearest to `wanted`; a warning says if it is another one. 0 is below the range: that it
/// stands for the default when a queue is built is up to the builder.
pub(crate) fn clamp_max_active(name: &str, wanted: usize) -> usize {
    let used = wanted.clamp(1, WQ_MAX_ACTIVE);
    if used != wanted {
        warn(&format!(
            "workqueue {name}: max_active {wanted} is out of range, {used} is used (1 to {WQ_MAX_ACTIVE})"
        ));
    }
    used
}
