//! Clocks, in nanoseconds.
#![forbid(unsafe_code)]

use rustix::time::{ClockId, clock_gettime};

fn read(id: ClockId) -> u64 {
    let t = clock_gettime(id);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Monotonic time since an arbitrary start, in ns.
#[inline]
pub(crate) fn now_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// The same clock as of the last timer tick: 1 to 4 ms old, and a fraction of the cost.
#[inline]
pub(crate) fn coarse_ns() -> u64 {
    read(ClockId::MonotonicCoarse)
}

/// The CPU time that all threads of the process have used.
pub(crate) fn process_cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}
