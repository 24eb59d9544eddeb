//! The calling thread's CPU, how many there are, and how much of them the process may use.

pub(crate) use cmwq_topology::{FollowedQuota, process_cpus};

use cmwq_topology::{CpuQuota, CpuSet};

/// The CPU that the calling thread runs on: a hint, true only at the instant of the call. `None`:
/// the system cannot say.
#[inline]
pub(crate) fn current() -> Option<usize> {
    if cfg!(cmwq_loom) {
        // The real CPU would make runs of a model differ.
        return None;
    }
    // SAFETY: takes no arguments and touches no memory of ours. In glibc it reads the thread's rseq
    // area (1 to 4 ns).
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).ok()
}

/// How many CPUs the system is configured for.
pub(crate) fn configured() -> usize {
    // SAFETY: reads a system constant.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(cpus).unwrap_or(1).max(1)
}

/// Whether these CPUs, which were described, are those of the machine that the process runs on: in the
/// simulator only.
pub(crate) fn are_the_machine(_: &CpuSet) -> bool {
    false
}

/// The CPU quota of the process as it is now.
pub(crate) fn quota() -> CpuQuota {
    CpuQuota::detect()
}
