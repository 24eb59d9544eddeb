//! The engine's parameters that can change at run time.

use super::Engine;
use crate::sys::atomic::Ordering;
use std::time::Duration;

impl Engine {
    /// For how long an item of a per-CPU workqueue may use the CPU before others are started beside it; zero: never. The
    /// kernel's `cpu_intensive_thresh_us`, 10 ms at first. (The kernel scales it up on slow CPUs; this does not.)
    pub fn cpu_intensive_threshold(&self) -> Duration {
        Duration::from_nanos(self.0.params.cpu_intensive_ns.load(Ordering::Relaxed))
    }

    /// Changes [`cpu_intensive_threshold`](Self::cpu_intensive_threshold).
    pub fn set_cpu_intensive_threshold(&self, threshold: Duration) {
        let ns = u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX);
        self.0.params.cpu_intensive_ns.store(ns, Ordering::Relaxed);
    }

    /// How often a function must have been too long on the CPU before it is reported; 0: never. The kernel's
    /// `cpu_intensive_warning_thresh`, 4 at first. Reports come at that count and then ever more rarely (4, 5, 7, 11, 19…).
    pub fn cpu_intensive_warning_threshold(&self) -> u32 {
        let warnings = &self.0.params.cpu_intensive_warnings;
        warnings.load(Ordering::Relaxed)
    }

    /// Changes [`cpu_intensive_warning_threshold`](Self::cpu_intensive_warning_threshold).
    pub fn set_cpu_intensive_warning_threshold(&self, count: u32) {
        let warnings = &self.0.params.cpu_intensive_warnings;
        warnings.store(count, Ordering::Relaxed);
    }

    /// A pool that has work waiting and starts none of it for this long is reported; zero: never. The kernel's `watchdog_thresh`,
    /// 30 s at first.
    pub fn watchdog_threshold(&self) -> Duration {
        self.0.watchdog.threshold()
    }

    /// Changes [`watchdog_threshold`](Self::watchdog_threshold).
    pub fn set_watchdog_threshold(&self, threshold: Duration) {
        self.0.watchdog.set_threshold(threshold);
        self.0.service.watchdog_changed();
    }
}
