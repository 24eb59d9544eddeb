//! Clocks in virtual time. Outside a machine it is always 0.
#![forbid(unsafe_code)]

use cmwq_vm::os;
use std::time::Duration;

/// The longest time that differs from "for ever".
const LONGEST_NS: u64 = u64::MAX / 4;
/// A tick of the coarse clock.
const TICK_NS: u64 = 4_000_000;
/// The machine starts some time after the clocks began: 0 means "never" in several places.
const BEGAN_NS: u64 = 1_000_000_000;

pub(crate) fn now_ns() -> u64 {
    match cmwq_vm::is_inside() {
        true => BEGAN_NS + os::now_ns(),
        false => BEGAN_NS,
    }
}

pub(crate) fn process_cpu_ns() -> u64 {
    match cmwq_vm::is_inside() {
        true => os::process_cpu_ns(),
        false => 0,
    }
}

pub(crate) fn coarse_ns() -> u64 {
    match cmwq_vm::is_inside() {
        true => BEGAN_NS + os::observe_ns() / TICK_NS * TICK_NS,
        false => BEGAN_NS,
    }
}

/// As on a real machine.
pub(crate) fn saturated_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).map_or(LONGEST_NS, |ns| ns.min(LONGEST_NS))
}

pub(crate) fn deadline_after(timeout: Duration) -> u64 {
    now_ns() + saturated_ns(timeout)
}
