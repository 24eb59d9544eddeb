//! What all pools of an engine read, and can change while they run.
#![forbid(unsafe_code)]

use super::cpu_budget::CpuBudget;
use super::function_counts::FunctionCounts;
use super::slots::RunningSlots;
use crate::sys::atomic::plain::{AtomicU32, AtomicU64};
use crate::sys::signals::SignalMask;

/// How long an item of a per-CPU pool may compute before others are started beside it.
pub(crate) const CPU_INTENSIVE_NS: u64 = 10_000_000;
/// How often a function must have done that before it is reported.
pub(crate) const CPU_INTENSIVE_WARNINGS: u32 = 4;

pub(crate) struct Params {
    /// How many workers may run at once.
    pub(crate) slots: RunningSlots,
    /// How much CPU time the process may use.
    pub(crate) cpu_budget: CpuBudget,
    /// How long an item may compute before it is marked as a CPU hog. 0: none is marked.
    pub(crate) cpu_intensive_ns: AtomicU64,
    /// How often a function must have been marked before it is reported. 0: none is reported.
    pub(crate) cpu_intensive_warnings: AtomicU32,
    /// The signals that threads which run items block: those that the thread which built the engine
    /// blocked then.
    pub(crate) signals: Box<SignalMask>,
    /// How often each function has hogged a CPU.
    pub(in crate::pool) hogs: FunctionCounts,
    /// How often each function has slept where it must not.
    #[cfg(all(debug_assertions, not(cmwq_loom)))]
    pub(in crate::pool) sleepers: FunctionCounts,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            slots: RunningSlots::default(),
            cpu_budget: CpuBudget::default(),
            cpu_intensive_ns: AtomicU64::new(CPU_INTENSIVE_NS),
            cpu_intensive_warnings: AtomicU32::new(CPU_INTENSIVE_WARNINGS),
            signals: Box::new(SignalMask::of_current()),
            hogs: FunctionCounts::default(),
            #[cfg(all(debug_assertions, not(cmwq_loom)))]
            sleepers: FunctionCounts::default(),
        }
    }
}
