//! The engine's thresholds for reports.

use super::core::Engine;
use crate::sys::atomic::Ordering;
use crate::sys::clock;
use std::time::Duration;

impl Engine {
    /// How long an item may use the CPU before others are started beside it; zero: never. The kernel's
    /// `cpu_intensive_thresh_us`, 10 ms at first. (The kernel scales it up on slow CPUs; this does not.)
    pub fn cpu_intensive_threshold(&self) -> Duration {
        Duration::from_nanos(self.0.params.cpu_intensive_ns.load(Ordering::Relaxed))
    }

    /// Changes [`cpu_intensive_threshold`](Self::cpu_intensive_threshold).
    pub fn set_cpu_intensive_threshold(&self, threshold: Duration) {
        let ns = clock::saturated_ns(threshold);
        self.0.params.cpu_intensive_ns.store(ns, Ordering::Relaxed);
    }

    /// How often a function is a CPU hog before it is reported; 0: never. The kernel's `cpu_intensive_warning_thresh`, 4 at first. Reports come at
    /// that count and then ever more rarely (4, 5, 7, 11, 19…).
    pub fn cpu_intensive_warning_threshold(&self) -> u32 {
        let warnings = &self.0.params.cpu_intensive_warnings;
        warnings.load(Ordering::Relaxed)
    }

    /// Changes [`cpu_intensive_warning_threshold`](Self::cpu_intensive_warning_threshold).
    pub fn set_cpu_intensive_warning_threshold(&self, count: u32) {
        let warnings = &self.0.params.cpu_intensive_warnings;
        warnings.store(count, Ordering::Relaxed);
    }

    /// A pool that has work waiting and starts none of it for this long is reported, whatever the reason. So are items that wait for `max_active`
    /// while none of their workqueue's starts or ends. Zero: never. The kernel's `watchdog_thresh`, 30 s at first.
    pub fn watchdog_threshold(&self) -> Duration {
        self.0.watchdog.threshold()
    }

    /// Changes [`watchdog_threshold`](Self::watchdog_threshold).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let engine = cmwq::Engine::builder().build()?;
    /// engine.set_watchdog_threshold(Duration::from_secs(10));
    /// assert_eq!(engine.watchdog_threshold(), Duration::from_secs(10));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_watchdog_threshold(&self, threshold: Duration) {
        self.0.watchdog.set_threshold(threshold);
        self.0.service.watchdog_changed();
    }

    /// The report with this number of a pool that has work waiting and starts none of it aborts the process once the
    /// [report handler](crate::set_report_handler) has returned, or after a second; 0: never. The kernel's `panic_on_stall`, 0 at first. Reports of items
    /// that wait for `max_active` do not count.
    pub fn panic_on_stall(&self) -> u32 {
        self.0.watchdog.panic_on_stall.load(Ordering::Relaxed)
    }

    /// Changes [`panic_on_stall`](Self::panic_on_stall). Reports since the engine was built count.
    pub fn set_panic_on_stall(&self, reports: u32) {
        let most = &self.0.watchdog.panic_on_stall;
        most.store(reports, Ordering::Relaxed);
    }

    /// A report of a pool that has started nothing for this long aborts the process, as [`panic_on_stall`](Self::panic_on_stall) does;
    /// zero: never. The kernel's `panic_on_stall_time`, 0 at first.
    pub fn panic_on_stall_time(&self) -> Duration {
        let most = &self.0.watchdog.panic_on_stall_ns;
        Duration::from_nanos(most.load(Ordering::Relaxed))
    }

    /// Changes [`panic_on_stall_time`](Self::panic_on_stall_time).
    pub fn set_panic_on_stall_time(&self, time: Duration) {
        let most = &self.0.watchdog.panic_on_stall_ns;
        most.store(clock::saturated_ns(time), Ordering::Relaxed);
    }
}
