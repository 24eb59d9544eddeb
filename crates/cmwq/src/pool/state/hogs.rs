//! CPU hogs: items that compute for long. They stop counting as running, so that other items can
//! start beside them.
//!
//! An item that has computed for longer than `cpu_intensive_thresh_us` since it last slept is a hog
//! until it ends, as in the kernel ([`CpuIntensive`](super::worker::Busy::CpuIntensive)). The
//! kernel has this rule for per-CPU pools. On an unbound pool it has no limit of running workers:
//! all active items start at once, and the scheduler shares the CPUs among them. Here a pool runs
//! about as many items as its pod has CPUs, since that is faster. So this rule keeps what a program
//! can see of the kernel's: computing items delay the start of an active item by a bounded time
//! only, and items that spin until others have begun all begin.
//!
//! Each hog gives up its running slot, and another worker starts. Where many items compute, that
//! alone is slow: with *n* of them on two CPUs the next one becomes a hog after *n*/2 thresholds of
//! wall time. So while a pool is hogged, and its other running workers end hardly any item, the
//! monitor doubles the number of [extra](Hogs::extra) running slots at each tick, up to the number
//! of items that wait. `max_active` bounds it, since only active items are on the worklist. When a
//! hog ends, extra slots are given up at once: at most two are left for each remaining hog, so that
//! one endless item does not keep what was granted for many. With the last hog all extra slots are
//! given up.
#![forbid(unsafe_code)]

/// The workers of one pool whose items are hogs.
#[derive(Default)]
pub(in crate::pool) struct Hogs {
    /// How many workers run hogs. They do not count as running.
    pub(in crate::pool) workers: u32,
    /// How many more workers may run than without hogs.
    pub(in crate::pool) extra: u32,
    /// For how long since the last step the other workers have ended hardly any item.
    stuck_ns: u64,
}

/// Under a limit over all pools the extra slots double at most once in this time, and not at each
/// tick of the monitor.
const STEP_IF_LIMITED_NS: u64 = 100_000_000;

impl Hogs {
    /// Counts a worker whose item is a hog from now on.
    pub(in crate::pool) fn one_more(&mut self) {
        self.workers += 1;
    }

    /// Counts the end of a hog. Leaves as many extra slots as the next step would grant again.
    pub(in crate::pool) fn one_less(&mut self) {
        self.workers -= 1;
        match self.workers {
            0 => *self = Hogs::default(),
            _ => self.cut(2),
        }
    }

    /// Leaves at most so many extra slots for each hog.
    pub(in crate::pool) fn cut(&mut self, for_each: u32) {
        self.extra = self.extra.min(self.workers.saturating_mul(for_each));
    }

    /// Called when items end beside the hogs, or none waits.
    pub(in crate::pool) fn moves_on(&mut self) {
        self.stuck_ns = 0;
    }

    /// At a tick of the monitor, `passed_ns` after the last one, for a limited pool whose items do
    /// not end: whether it may have more extra slots than hogs.
    pub(in crate::pool) fn steps_beyond_limit(&mut self, passed_ns: u64) -> bool {
        self.stuck_ns = self.stuck_ns.saturating_add(passed_ns);
        let steps = self.stuck_ns >= STEP_IF_LIMITED_NS;
        if steps {
            self.stuck_ns = 0;
        }
        steps
    }

    /// Called while the pool is still hogged: doubles the extra slots, up to `most`, which are as
    /// many as there are items that run beside the hogs or wait.
    pub(in crate::pool) fn grow(&mut self, most: u32) {
        let doubled = self.extra.saturating_mul(2).max(self.workers);
        self.extra = self.extra.max(doubled.min(most));
    }
}

/// How long an item has computed since it last slept, as the monitor measures it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::pool) struct Computing {
    /// The thread's CPU time at the beginning of the measurement.
    since_ns: u64,
    /// How often the thread had slept by then. `None`: not read yet, or it cannot be.
    sleeps: Option<u64>,
    /// Whether `sleeps` was read. That costs a file, so the monitor reads it only for items that
    /// outlive a tick.
    begun: bool,
}

impl Computing {
    /// The measurement of an item that the monitor sees for the first time, or that it has found asleep.
    pub(in crate::pool) fn restart(cpu_ns: u64) -> Self {
        Computing {
            since_ns: cpu_ns,
            sleeps: None,
            begun: false,
        }
    }

    /// The same item at the next tick. `sleeps` tells how often the thread has slept. Returns
    /// whether the item has computed for longer than `threshold_ns` without a sleep.
    pub(in crate::pool) fn exceeds(
        &mut self,
        threshold_ns: u64,
        cpu_ns: u64,
        sleeps: impl FnOnce() -> Option<u64>,
    ) -> bool {
        if !self.begun {
            *self = Computing {
                since_ns: cpu_ns,
                sleeps: sleeps(),
                begun: true,
            };
            return false;
        }
        if cpu_ns.saturating_sub(self.since_ns) <= threshold_ns {
            return false;
        }
        let now = sleeps();
        let slept = now != self.sleeps;
        if slept {
            self.since_ns = cpu_ns;
            self.sleeps = now;
        }
        !slept
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    const THRESHOLD: u64 = 10_000_000;
    const LOOK: u64 = 2_000_000;

    /// The CPU time at which an item is found to be a hog that computes without a pause, but sleeps
    /// `at` these CPU times.
    fn hog_at(at: &[u64]) -> Option<u64> {
        let mut computing = Computing::restart(0);
        (1..100).map(|look| look * LOOK).find(|&cpu_ns| {
            let slept = at.iter().filter(|&&at| at < cpu_ns).count();
            computing.exceeds(THRESHOLD, cpu_ns, || Some(slept as u64))
        })
    }

    #[test]
    fn an_item_that_computes_is_a_hog_one_look_after_the_threshold() {
        assert_eq!(hog_at(&[]), Some(THRESHOLD + 2 * LOOK));
    }

    #[test]
    fn a_sleep_restarts_the_measurement() {
        let often: Vec<u64> = (0..1000).map(|n| n * 3_000_000).collect();
        assert_eq!(hog_at(&often), None, "it adds up only between two sleeps");
        // It is a hog when it has computed for the threshold, and not later than two thresholds,
        // after its last sleep.
        let at = hog_at(&[7_000_000]).unwrap();
        assert!((17_000_000..=27_000_000 + LOOK).contains(&at), "{at}");
    }

    #[test]
    fn where_sleeps_cannot_be_read_the_cpu_clock_decides() {
        let mut computing = Computing::restart(0);
        let mut looks = (1..10).map(|look| look * LOOK);
        assert!(looks.any(|cpu_ns| computing.exceeds(THRESHOLD, cpu_ns, || None)));
    }
}
