//! Clocks, in nanoseconds.
#![forbid(unsafe_code)]

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The longest time that differs from "for ever": 146 years. Any time of these clocks plus twice
/// that does not overflow.
const LONGEST_NS: u64 = u64::MAX / 4;

/// A duration to add to these clocks, at most [`LONGEST_NS`].
pub(crate) fn saturated_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).map_or(LONGEST_NS, |ns| ns.min(LONGEST_NS))
}

fn read(id: ClockId) -> u64 {
    let t = clock_gettime(id);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Monotonic time since an arbitrary start, in ns.
#[inline]
pub(crate) fn now_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// CPU time that all threads of the process have used, in ns. What other running threads have used
/// since their last timer tick is missing.
pub(crate) fn process_cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

/// The same clock as of the last timer tick: 1 to 4 ms old, at a fraction of the cost.
#[inline]
pub(crate) fn coarse_ns() -> u64 {
    read(ClockId::MonotonicCoarse)
}

/// When a timeout that begins now has passed.
pub(crate) fn deadline_after(timeout: Duration) -> u64 {
    now_ns() + saturated_ns(timeout)
}
