//! What all pools of an engine look up, and can change while they run.
#![forbid(unsafe_code)]

use super::offenders::Offenders;
use crate::sys::atomic::plain::{AtomicU32, AtomicU64};

/// How long an item of a per-CPU pool may compute before others are started beside it.
pub(crate) const CPU_INTENSIVE_NS: u64 = 10_000_000;
/// How often a function must have done so before it is reported.
pub(crate) const CPU_INTENSIVE_WARNINGS: u32 = 4;

pub(crate) struct Params {
    /// 0: items are never marked.
    pub(crate) cpu_intensive_ns: AtomicU64,
    /// 0: nothing is reported.
    pub(crate) cpu_intensive_warnings: AtomicU32,
    /// Functions that hogged a CPU.
    pub(super) hogs: Offenders,
    /// Functions that slept where they must not.
    #[cfg(all(debug_assertions, not(cmwq_loom)))]
    pub(super) sleepers: Offenders,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            cpu_intensive_ns: AtomicU64::new(CPU_INTENSIVE_NS),
            cpu_intensive_warnings: AtomicU32::new(CPU_INTENSIVE_WARNINGS),
            hogs: Offenders::default(),
            #[cfg(all(debug_assertions, not(cmwq_loom)))]
            sleepers: Offenders::default(),
        }
    }
}
