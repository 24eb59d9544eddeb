//! The engine's thresholds for reports.

use super::core::Engine;
use crate::sys::atomic::Ordering;
use crate::sys::clock;
use std::time::Duration;

impl Engine {
    /// Returns how long an item may use the CPU before the pool starts others beside it. Zero means
    /// that the pool never does. This is the kernel's `cpu_intensive_thresh_us`, at first 10 ms.
    /// (The kernel raises it on slow CPUs; this library does not.)
    pub fn cpu_intensive_threshold(&self) -> Duration {
        Duration::from_nanos(self.0.params.cpu_intensive_ns.load(Ordering::Relaxed))
    }

    /// Changes [`cpu_intensive_threshold`](Self::cpu_intensive_threshold).
    pub fn set_cpu_intensive_threshold(&self, threshold: Duration) {
        let ns = clock::saturated_ns(threshold);
        self.0.params.cpu_intensive_ns.store(ns, Ordering::Relaxed);
    }

    /// Returns how often items of one function may use the CPU for longer than the
    /// [threshold](Self::cpu_intensive_threshold) before the engine reports the function. With 0 it
    /// never reports one. This is the kernel's `cpu_intensive_warning_thresh`, at first 4. The
    /// engine reports at that count and then less and less often (at 4, 5, 7, 11, 19 and so on).
    pub fn cpu_intensive_warning_threshold(&self) -> u32 {
        let warnings = &self.0.params.cpu_intensive_warnings;
        warnings.load(Ordering::Relaxed)
    }

    /// Changes [`cpu_intensive_warning_threshold`](Self::cpu_intensive_warning_threshold).
    pub fn set_cpu_intensive_warning_threshold(&self, count: u32) {
        let warnings = &self.0.params.cpu_intensive_warnings;
        warnings.store(count, Ordering::Relaxed);
    }

    /// Returns for how long a pool may have work waiting and start none of it before the engine
    /// reports it, whatever the reason. The engine also reports items that wait that long because
    /// of `max_active` while no item of their workqueue starts or ends. Zero turns the reports off.
    /// This is the kernel's `watchdog_thresh`, at first 30 s.
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

    /// Returns at which report of a stalled pool (one that has work waiting and starts none of it)
    /// the process is aborted, counted from 1. It is aborted when the [report
    /// handler](crate::observe::set_report_handler) has returned, or after a second. With 0 it
    /// never is. This is the kernel's `panic_on_stall`, at first 0. Reports of items that wait because of
    /// `max_active` do not count.
    pub fn panic_on_stall(&self) -> u32 {
        self.0.watchdog.panic_on_stall.load(Ordering::Relaxed)
    }

    /// Changes [`panic_on_stall`](Self::panic_on_stall). All reports since the engine was built
    /// count.
    pub fn set_panic_on_stall(&self, reports: u32) {
        let most = &self.0.watchdog.panic_on_stall;
        most.store(reports, Ordering::Relaxed);
    }

    /// Returns after which time without a start the report of a stalled pool aborts the process, as
    /// [`panic_on_stall`](Self::panic_on_stall) does. Zero means never. This is the kernel's
    /// `panic_on_stall_time`, at first 0.
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
