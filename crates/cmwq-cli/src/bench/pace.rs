//! How many items: enough to measure, few enough to end in time.
//!
//! Only runs without `--items` are paced. A calibration measures the cost of a turn under each
//! configuration, twice, and from the cheaper ones the number of items that fills [`TARGET_S`]: one
//! spoiled turn must not lower the items of all. A machine may turn out slower than it calibrated
//! (a virtual CPU that starts to halt makes a round trip fifteen times dearer), so the plan is made
//! again before every turn and cut when the whole would pass [`LIMIT_S`]. Turns give rates and
//! percentiles, so turns of different lengths can stand beside each other; the number of items of
//! each one is in the JSON.

use std::time::Duration;

use super::args::PUBLISHED_ITEMS;

/// Seconds that all is planned to take, the calibration included.
const TARGET_S: f64 = 12.0;

/// Seconds that it may take before the rest is cut. The README promises about 15.
const LIMIT_S: f64 = 14.0;

/// Fewer items than this per issuer measure only the start.
pub(super) const LEAST_ITEMS: u64 = 100;

/// Items of one calibration measurement, over all issuers: half of what a configuration runs to warm up.
const CALIBRATION_ITEMS: u64 = 2048;

/// Weight of the latest turn in what a turn is expected to cost: one spoiled turn must not cut the rest.
const LATEST_WEIGHT: f64 = 0.3;

/// Items per issuer for calibration.
pub(super) fn calibration_items(threads: usize) -> u64 {
    (CALIBRATION_ITEMS / threads.max(1) as u64).max(8)
}

/// What a turn takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Seconds around the measured loop: starting threads, sorting samples.
    fixed_s: f64,
    /// Seconds per item of one issuer.
    item_s: f64,
}

impl Cost {
    /// Of a turn that took `whole`, of which its loop of `items` per issuer took `measured`.
    pub(super) fn of(whole: Duration, measured: Duration, items: u64) -> Self {
        Cost {
            fixed_s: whole.saturating_sub(measured).as_secs_f64(),
            item_s: measured.as_secs_f64() / items.max(1) as f64,
        }
    }

    /// The lower of both costs.
    pub(super) fn least(self, other: Self) -> Self {
        Cost {
            fixed_s: self.fixed_s.min(other.fixed_s),
            item_s: self.item_s.min(other.item_s),
        }
    }
}

/// The pace of a benchmark without `--items`.
#[derive(Debug)]
pub(super) struct Pace {
    /// By configuration.
    costs: Vec<Cost>,
    items: u64,
}

impl Pace {
    /// Plans `runs` rounds over configurations that cost this much, with at most `most` items,
    /// `used_s` seconds after the start.
    pub(super) fn new(costs: Vec<Cost>, runs: usize, most: u64, used_s: f64) -> Self {
        let fixed_s: f64 = costs.iter().map(|cost| cost.fixed_s).sum();
        let item_s: f64 = costs.iter().map(|cost| cost.item_s).sum();
        let round_s = (TARGET_S - used_s) / runs as f64 - fixed_s;
        let fitting = two_digits(round_s.max(0.0) / item_s.max(f64::MIN_POSITIVE));
        let most = most.min(PUBLISHED_ITEMS);
        Pace {
            costs,
            items: fitting.max(LEAST_ITEMS).min(most),
        }
    }

    /// Items per issuer for the next turn, `used_s` seconds after the start. `ahead` names the
    /// configurations still to be measured.
    pub(super) fn items(&mut self, used_s: f64, ahead: impl Iterator<Item = usize>) -> u64 {
        let (mut fixed_s, mut item_s) = (0.0, 0.0);
        for index in ahead {
            fixed_s += self.costs[index].fixed_s;
            item_s += self.costs[index].item_s;
        }
        if used_s + fixed_s + item_s * self.items as f64 > LIMIT_S {
            let fitting = two_digits((LIMIT_S - used_s - fixed_s).max(0.0) / item_s);
            self.items = fitting.max(LEAST_ITEMS).min(self.items);
        }
        self.items
    }

    /// Notes what a turn of a configuration cost.
    pub(super) fn note(&mut self, index: usize, latest: Cost) {
        let cost = &mut self.costs[index];
        cost.fixed_s += LATEST_WEIGHT * (latest.fixed_s - cost.fixed_s);
        cost.item_s += LATEST_WEIGHT * (latest.item_s - cost.item_s);
    }
}

/// Rounds down to two significant digits: a number that is easy to type again.
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

    impl Cost {
        fn turn_s(&self, items: u64) -> f64 {
            self.fixed_s + self.item_s * items as f64
        }
    }

    fn cost(item_s: f64) -> Cost {
        Cost {
            fixed_s: 0.0,
            item_s,
        }
    }

    /// The time of `runs` rounds over `configs` configurations that calibrate at `calibrated` and
    /// then cost what `real` says for each turn.
    fn played(
        configs: usize,
        runs: usize,
        calibrated: Cost,
        real: impl Fn(usize) -> Cost,
    ) -> (f64, Vec<u64>) {
        let mut pace = Pace::new(vec![calibrated; configs], runs, u64::MAX, 0.0);
        let (mut used_s, mut all) = (0.0, Vec::new());
        let turns = configs * runs;
        for turn in 0..turns {
            let items = pace.items(used_s, (turn..turns).map(|turn| turn % configs));
            used_s += real(turn).turn_s(items);
            pace.note(turn % configs, real(turn));
            all.push(items);
        }
        (used_s, all)
    }

    #[test]
    fn a_fast_machine_runs_the_published_count() {
        let pace = Pace::new(vec![cost(1e-6); 6], 21, u64::MAX, 0.0);
        assert_eq!(pace.items, PUBLISHED_ITEMS);
    }

    #[test]
    fn a_slow_virtual_machine_fills_the_target() {
        // 71 us a round trip, six scopes, 21 runs: 12 s / (126 * 71 us) = 1341 items.
        assert_eq!(
            Pace::new(vec![cost(71e-6); 6], 21, u64::MAX, 0.0).items,
            1300
        );
        // Half of the time is used, and half of the rest is spent around the loops.
        let slow = Cost {
            fixed_s: 3.0 / 126.0,
            item_s: 71e-6,
        };
        assert_eq!(Pace::new(vec![slow; 6], 21, u64::MAX, 6.0).items, 330);
    }

    #[test]
    fn the_memory_for_samples_bounds_the_items() {
        assert_eq!(Pace::new(vec![cost(1e-6)], 1, 77, 0.0).items, 77);
        assert_eq!(
            Pace::new(vec![cost(1.0)], 1, u64::MAX, 0.0).items,
            LEAST_ITEMS
        );
        assert_eq!(
            Pace::new(vec![cost(0.0)], 1, u64::MAX, 0.0).items,
            PUBLISHED_ITEMS
        );
        assert_eq!(
            Pace::new(vec![cost(1e-6)], 1, u64::MAX, 99.0).items,
            LEAST_ITEMS
        );
    }

    #[test]
    fn a_machine_that_turns_slow_ends_within_the_limit() {
        let (used_s, _) = played(6, 21, cost(5e-6), |_| cost(71e-6));
        assert!(used_s < LIMIT_S * 1.05, "{used_s}");
        let slow = Cost {
            fixed_s: 0.02,
            item_s: 71e-6,
        };
        let (used_s, _) = played(6, 21, cost(5e-6), |_| slow);
        assert!(used_s < LIMIT_S * 1.05, "{used_s}");
    }

    #[test]
    fn a_cut_leaves_time_for_what_is_around_the_loops() {
        let dear = Cost {
            fixed_s: 0.25,
            item_s: 1e-3,
        };
        let mut pace = Pace::new(vec![dear; 2], 1, u64::MAX, 0.0);
        // Two seconds are left for four turns, one of them is spent around the loops.
        assert_eq!(pace.items(LIMIT_S - 2.0, [0, 1, 0, 1].into_iter()), 250);
    }

    #[test]
    fn a_machine_that_keeps_its_pace_is_not_cut() {
        let steady = Cost {
            fixed_s: 0.01,
            item_s: 71e-6,
        };
        let (used_s, all) = played(6, 21, steady, |_| steady);
        assert!(all.iter().all(|&items| items == all[0]), "{all:?}");
        assert!((10.0..12.0).contains(&used_s), "{used_s}");
    }

    #[test]
    fn a_single_spoiled_turn_cuts_nothing() {
        let (_, all) = played(6, 21, cost(71e-6), |turn| {
            cost(if turn == 12 { 300e-6 } else { 71e-6 })
        });
        assert!(all.iter().all(|&items| items == all[0]), "{all:?}");
    }

    #[test]
    fn a_single_spoiled_calibration_lowers_nothing() {
        let items = |first: Cost, again| {
            let mut costs = vec![cost(71e-6); 6];
            costs[3] = first.least(again);
            Pace::new(costs, 21, u64::MAX, 0.0).items
        };
        let steady = items(cost(71e-6), cost(71e-6));
        assert_eq!(items(cost(71e-5), cost(71e-6)), steady);
        let slow_start = Cost {
            fixed_s: 0.3,
            item_s: 71e-6,
        };
        assert_eq!(items(slow_start, cost(71e-6)), steady);
        assert_eq!(items(cost(71e-6), slow_start), steady);
        assert!(items(cost(71e-5), cost(71e-5)) < steady, "it is slower");
    }

    #[test]
    fn what_is_around_the_loop_is_no_part_of_an_item() {
        let cost = Cost::of(Duration::from_millis(110), Duration::from_millis(100), 1000);
        assert!((cost.fixed_s - 0.01).abs() < 1e-9 && (cost.item_s - 1e-4).abs() < 1e-9);
        assert!((cost.turn_s(500) - 0.06).abs() < 1e-9);
    }

    #[test]
    fn numbers_are_cut_to_two_digits() {
        assert_eq!(
            [0.4, 7.9, 99.0, 123.0, 12_999.0].map(two_digits),
            [0, 7, 99, 120, 12_000]
        );
    }
}
