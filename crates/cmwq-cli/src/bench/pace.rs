//! How many items: enough to measure, few enough to end in time.
//!
//! Only runs without `--items` are paced. A calibration gives the cost of an item under each configuration, and from
//! that the number of items that fills [`TARGET_S`]. A machine may turn out slower than it calibrated (a virtual CPU that
//! starts to halt makes a round trip fifteen times dearer), so the plan is looked at again before every measurement
//! and cut when the whole would pass [`LIMIT_S`]. Measurements give rates and percentiles, so runs of different
//! lengths can stand beside each other; the number each one used is in the JSON.

use super::args::PUBLISHED_ITEMS;

/// Seconds that the measurements together are planned to take.
const TARGET_S: f64 = 12.0;

/// Seconds that they may take before the rest is cut.
const LIMIT_S: f64 = 18.0;

/// Fewer items than this per issuer measure only the start.
const LEAST_ITEMS: u64 = 100;

/// Items of one calibration measurement, over all issuers.
const CALIBRATION_ITEMS: u64 = 4096;

/// Items per issuer for calibration.
pub(super) fn calibration_items(threads: usize) -> u64 {
    (CALIBRATION_ITEMS / threads.max(1) as u64).max(8)
}

/// The pace of a benchmark whose item count was left to us.
#[derive(Debug)]
pub(super) struct Pace {
    /// Seconds per item of one issuer, per configuration; the dearest seen lately.
    cost_s: Vec<f64>,
    items: u64,
}

impl Pace {
    /// Plans `runs` rounds over configurations that cost this much per item, with at most `most` items.
    pub(super) fn new(cost_s: Vec<f64>, runs: usize, most: u64) -> Self {
        let round_s: f64 = cost_s.iter().sum();
        let fitting = two_digits(TARGET_S / (round_s * runs as f64).max(f64::MIN_POSITIVE));
        let most = most.min(PUBLISHED_ITEMS);
        Pace {
            cost_s,
            items: fitting.max(LEAST_ITEMS).min(most),
        }
    }

    /// Items per issuer for the next measurement, `used_s` seconds after the first began. `ahead` names the
    /// configurations still to be measured.
    pub(super) fn items(&mut self, used_s: f64, ahead: impl Iterator<Item = usize>) -> u64 {
        let ahead_s: f64 = ahead.map(|index| self.cost_s[index]).sum::<f64>() * self.items as f64;
        if used_s + ahead_s > LIMIT_S {
            let left = (LIMIT_S - used_s).max(0.0) / ahead_s;
            self.items = two_digits(self.items as f64 * left)
                .max(LEAST_ITEMS)
                .min(self.items);
        }
        self.items
    }

    /// Notes what an item of a configuration cost.
    pub(super) fn note(&mut self, index: usize, cost_s: f64) {
        self.cost_s[index] = cost_s;
    }
}

/// Rounds down to two significant digits: a number one can type again.
fn two_digits(number: f64) -> u64 {
    let whole = number as u64;
    let mut unit = 1;
    while whole / unit >= 100 {
        unit *= 10;
    }
    whole / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_machine_runs_the_published_count() {
        let pace = Pace::new(vec![5e-6; 6], 3, u64::MAX);
        assert_eq!(pace.items, PUBLISHED_ITEMS);
    }

    #[test]
    fn a_slow_virtual_machine_fills_the_target() {
        // 71 us a round trip, six scopes, three runs: 12 s / (18 * 71 us) = 9389 items.
        let pace = Pace::new(vec![71e-6; 6], 3, u64::MAX);
        assert_eq!(pace.items, 9300);
    }

    #[test]
    fn the_memory_for_samples_bounds_the_items() {
        assert_eq!(Pace::new(vec![1e-6], 1, 77).items, 77);
        assert_eq!(Pace::new(vec![1.0], 1, u64::MAX).items, LEAST_ITEMS);
        assert_eq!(Pace::new(vec![0.0], 1, u64::MAX).items, PUBLISHED_ITEMS);
    }

    #[test]
    fn a_machine_that_turns_slow_ends_within_the_limit() {
        let mut pace = Pace::new(vec![10e-6; 6], 3, u64::MAX);
        let mut used_s = 0.0;
        for turn in 0..18 {
            let items = pace.items(used_s, (turn..18).map(|turn| turn % 6));
            used_s += items as f64 * 71e-6;
            pace.note(turn % 6, 71e-6);
        }
        assert!(used_s < LIMIT_S * 1.2, "{used_s}");
    }

    #[test]
    fn a_machine_that_keeps_its_pace_is_not_cut() {
        let mut pace = Pace::new(vec![71e-6; 6], 3, u64::MAX);
        for turn in 0..18 {
            assert_eq!(
                pace.items(
                    f64::from(turn) * 0.667,
                    (turn as usize..18).map(|turn| turn % 6)
                ),
                9300
            );
        }
    }

    #[test]
    fn numbers_are_cut_to_two_digits() {
        assert_eq!(
            [0.4, 7.9, 99.0, 123.0, 12_999.0].map(two_digits),
            [0, 7, 99, 120, 12_000]
        );
    }
}
