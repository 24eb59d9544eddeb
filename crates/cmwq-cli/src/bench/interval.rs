//! Ratios between configurations, with a confidence interval that says whether the runs can tell them apart.
//!
//! The interval is distribution-free: for the median of n independent ratios, one for each run, it
//! reaches from the k-th smallest to the k-th greatest. The median lies outside only if fewer than
//! k ratios fall on one side of it, so the coverage is `1 - 2 P(B < k)` for a binomial B(n, 1/2).
//! The greatest k whose coverage is at least [`CONFIDENCE`] is taken. Nothing is assumed about how
//! the ratios are distributed: a run that the machine spoiled counts as one of n, however far off
//! it is.

use serde::Serialize;

use super::stats::Spread;

/// Least coverage of an interval. A table compares up to five scopes with `cache`: at 99 % each,
/// all five intervals together hold in 95 % of tables.
pub(super) const CONFIDENCE: f64 = 0.99;

/// Fewer runs give no interval of that coverage: the whole range of seven covers 98.4 %.
pub(super) const LEAST_RUNS: usize = 8;

/// A range that holds a median, with the probability of doing so.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) high: f64,
    /// The coverage, at least [`CONFIDENCE`]: the ranks are whole, so it is rarely that number itself.
    pub(super) confidence: f64,
}

impl Interval {
    /// The interval for the median of what `values` were drawn from. `None` for fewer than
    /// [`LEAST_RUNS`] values.
    pub(super) fn of_median(values: &[f64]) -> Option<Self> {
        let (rank, confidence) = rank_and_coverage(values.len())?;
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Interval {
            low: sorted[rank],
            high: sorted[sorted.len() - 1 - rank],
            confidence,
        })
    }

    /// Whether the values differ from 1 in the median, as far as they can tell.
    pub(super) fn excludes_one(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

/// The greatest 0-based rank whose interval covers the median of `n` values well enough, and how well.
fn rank_and_coverage(n: usize) -> Option<(usize, f64)> {
    // Probabilities of B(n, 1/2) in logarithms: 2^-n underflows long before n is 10,000.
    let mut ln_probability = -(n as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    let mut found = None;
    for rank in 0..n.div_ceil(2) {
        below += ln_probability.exp();
        let coverage = 1.0 - 2.0 * below;
        if coverage < CONFIDENCE {
            break;
        }
        found = Some((rank, coverage));
        ln_probability += ((n - rank) as f64 / (rank + 1) as f64).ln();
    }
    found
}

/// One figure divided by another, run by run: the runs of one round stood side by side in time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Ratio {
    #[serde(flatten)]
    pub(super) spread: Spread,
    /// `None` (in JSON: null) with too few runs, and for a configuration that is compared with itself.
    pub(super) interval: Option<Interval>,
}

impl Ratio {
    /// The ratio of two configurations that were measured in the same rounds.
    pub(super) fn of(upper: &[f64], lower: &[f64]) -> Self {
        let ratios: Vec<f64> = upper
            .iter()
            .zip(lower)
            .filter(|(_, lower)| **lower > 0.0)
            .map(|(upper, lower)| upper / lower)
            .collect();
        Ratio {
            spread: Spread::of(ratios.iter().copied()),
            interval: Interval::of_median(&ratios),
        }
    }

    /// The ratio of a configuration to itself, or to one with the same pods.
    pub(super) fn same() -> Self {
        Ratio {
            spread: Spread::of([1.0]),
            interval: None,
        }
    }

    /// The ratio, if the runs can tell it from 1.
    pub(super) fn told(&self) -> Option<f64> {
        let interval = self.interval?;
        interval.excludes_one().then_some(self.spread.median)
    }

    /// The two cells of a table: the ratio, or `~` where the runs cannot tell it from 1, or `?`
    /// where they are too few to say even that; and the interval.
    pub(super) fn words(&self, unit: &str) -> (String, String) {
        let Some(interval) = self.interval else {
            return ("?".to_owned(), String::new());
        };
        let ratio = self
            .told()
            .map_or_else(|| "~".to_owned(), |ratio| format!("{ratio:.2}{unit}"));
        let (low, high) = (interval.low, interval.high);
        // A bound that rounds to 1 must not look like 1.
        let nearest = (low - 1.0).abs().min((high - 1.0).abs());
        let digits = if interval.excludes_one() && nearest < 0.005 {
            4
        } else {
            2
        };
        (ratio, format!("{low:.digits$}-{high:.digits$}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_binomial_tables() {
        // Printed tables of the sign test's intervals at 99 %: n, rank from either end (1-based).
        for (n, rank) in [
            (8, 1),
            (10, 1),
            (11, 1),
            (12, 2),
            (15, 3),
            (20, 4),
            (21, 5),
            (25, 6),
            (30, 8),
        ] {
            let (found, coverage) = rank_and_coverage(n).expect("enough runs");
            assert_eq!(found + 1, rank, "{n}");
            assert!((CONFIDENCE..1.0).contains(&coverage), "{n}: {coverage}");
        }
        let coverage = |n| rank_and_coverage(n).map(|(_, coverage)| coverage);
        assert!((coverage(8).unwrap() - (1.0 - 2.0 / 256.0)).abs() < 1e-12);
        assert!((coverage(12).unwrap() - (1.0 - 2.0 * 13.0 / 4096.0)).abs() < 1e-12);
    }

    #[test]
    fn fewer_runs_than_eight_tell_nothing() {
        assert!(Interval::of_median(&[]).is_none());
        assert!(Interval::of_median(&[2.0; LEAST_RUNS - 1]).is_none());
        assert!(Interval::of_median(&[2.0; LEAST_RUNS]).is_some());
        let few = Ratio::of(&[2.0, 2.0, 2.0], &[1.0, 1.0, 1.0]);
        assert_eq!(few.spread.median, 2.0);
        assert_eq!(
            (few.told(), few.words("x")),
            (None, ("?".into(), String::new()))
        );
    }

    #[test]
    fn ten_thousand_runs_do_not_underflow() {
        let (rank, coverage) = rank_and_coverage(10_000).expect("enough runs");
        // By the normal approximation: 5000 - 2.576 * 50.
        assert!((4865..=4875).contains(&rank), "{rank}");
        assert!((0.99..0.991).contains(&coverage), "{coverage}");
    }

    /// xorshift64*, so that the draws are the same everywhere.
    fn draws(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    #[test]
    fn the_interval_covers_as_often_as_it_says() {
        // Ratios as a shared machine gives them: one in five runs is spoiled, by up to a factor of
        // three, always on the same side. Their median is where the inverse of the distribution is
        // 1/2: see `ratio`.
        let ratio = |spoiled: f64, u: f64| {
            if spoiled < 0.2 {
                1.1 + 2.0 * u
            } else {
                0.9 + 0.2 * u
            }
        };
        let median = 0.9 + 0.2 * (0.5 / 0.8);
        let mut draw = draws(0x9e37_79b9_7f4a_7c15);
        let (tables, runs) = (20_000, 21);
        let mut missed = 0;
        for _ in 0..tables {
            let ratios: Vec<f64> = (0..runs).map(|_| ratio(draw(), draw())).collect();
            let interval = Interval::of_median(&ratios).expect("enough runs");
            missed += usize::from(!(interval.low..=interval.high).contains(&median));
        }
        // 0.72 % are to be missed; a rank too many would miss 2.7 %, one too few 0.15 %.
        let share = missed as f64 / f64::from(tables);
        assert!((0.005..0.010).contains(&share), "{share}");
    }

    #[test]
    fn the_same_thing_measured_twice_gives_no_ratio() {
        let mut draw = draws(0x0bad_cafe_0bad_cafe);
        let mut told = 0;
        for _ in 0..1000 {
            // Each run of either may be three times as slow: what a shared machine does to the same pods.
            let mut rates = || -> Vec<f64> {
                let rate = |spoiled: bool, u: f64| {
                    1e6 * if spoiled {
                        0.33 + 0.5 * u
                    } else {
                        0.95 + 0.1 * u
                    }
                };
                (0..21).map(|_| rate(draw() < 0.3, draw())).collect()
            };
            let (one, other) = (rates(), rates());
            told += usize::from(Ratio::of(&one, &other).told().is_some());
        }
        assert!(told <= 20, "{told} of 1000 tables told a thing from itself");
    }

    #[test]
    fn what_differs_is_told() {
        let lower: Vec<f64> = (0..21).map(|run| 1e6 + 1e4 * f64::from(run % 7)).collect();
        let upper: Vec<f64> = lower
            .iter()
            .enumerate()
            .map(|(run, rate)| rate * (1.2 + 0.01 * (run % 5) as f64))
            .collect();
        let ratio = Ratio::of(&upper, &lower);
        assert!((ratio.told().expect("told") - 1.22).abs() < 1e-9);
        assert_eq!(ratio.words("x"), ("1.22x".into(), "1.20-1.23".into()));
        let inverse = Ratio::of(&lower, &upper);
        assert!(inverse.told().expect("told") < 1.0);
    }

    #[test]
    fn a_bound_close_to_one_keeps_its_side() {
        let interval = |low, high| Ratio {
            spread: Spread::of([1.02]),
            interval: Some(Interval {
                low,
                high,
                confidence: 0.99,
            }),
        };
        assert_eq!(
            interval(1.001, 1.04).words("x"),
            ("1.02x".into(), "1.0010-1.0400".into())
        );
        assert_eq!(
            interval(0.98, 1.04).words("x"),
            ("~".into(), "0.98-1.04".into())
        );
        assert_eq!(
            interval(1.0, 1.04).told(),
            None,
            "1 itself is in the interval"
        );
    }

    #[test]
    fn ratios_are_taken_run_by_run() {
        let ratios = Ratio::of(&[10.0, 40.0, 9.0], &[5.0, 10.0, 0.0]);
        assert_eq!(
            (ratios.spread.median, ratios.spread.min, ratios.spread.max),
            (3.0, 2.0, 4.0)
        );
    }
}
