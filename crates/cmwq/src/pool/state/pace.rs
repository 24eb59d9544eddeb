//! How long a pool's items take, so that a lock holder can tell whether the items that wait will
//! wait for long.
#![forbid(unsafe_code)]

/// How long items take. Workers measure it when other items wait behind those that they take; only
/// then do they read the clock.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::pool) struct Pace {
    last_ns: u64,
    item_ns: u64,
}

impl Pace {
    /// Notes how long an item took that a worker took alone.
    #[inline]
    pub(in crate::pool) fn note(&mut self, took_ns: u64) {
        // The shorter of the last two: a long time may only mean that the worker was preempted.
        self.item_ns = match self.last_ns {
            0 => took_ns,
            last_ns => last_ns.min(took_ns),
        };
        self.last_ns = took_ns.max(1);
    }

    /// How long an item takes. 0 before any was measured.
    #[inline]
    pub(in crate::pool) fn item_ns(self) -> u64 {
        self.item_ns
    }

    /// How long the last of `waiting` items will wait if `at_once` of them run at a time. 0 before
    /// any item was measured.
    #[inline]
    pub(in crate::pool) fn wait_ns(self, waiting: usize, at_once: u32) -> u64 {
        self.item_ns.saturating_mul(waiting as u64) / u64::from(at_once.max(1))
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_long_measurement_among_short_ones_is_left_out() {
        let mut pace = Pace::default();
        assert_eq!(pace.wait_ns(1000, 1), 0, "nothing is known");
        pace.note(100);
        assert_eq!(pace.wait_ns(10, 2), 500);
        pace.note(3_000_000);
        assert_eq!(pace.wait_ns(10, 2), 500);
        pace.note(100);
        assert_eq!(pace.wait_ns(10, 2), 500);
        pace.note(1_000_000);
        pace.note(2_000_000);
        assert_eq!(pace.item_ns(), 1_000_000);
    }
}
