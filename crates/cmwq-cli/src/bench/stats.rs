//! Percentiles of one measurement, and the median, least and greatest of several.

pub(super) use cmwq_command::figures::Spread;
use serde::Serialize;

/// The element at index N*p/100 of sorted samples: integer arithmetic, 0-based, as published. 0
/// without samples.
pub(super) fn percentile(sorted: &[u32], p: u64) -> u32 {
    let index = sorted.len() as u64 * p / 100;
    sorted
        .get(index as usize)
        .or(sorted.last())
        .copied()
        .unwrap_or(0)
}

/// Points of a percentile curve per decade of rarity (0 to 90 % is one decade, 90 to 99 % the next).
pub(super) const CURVE_POINTS_PER_DECADE: usize = 20;

/// A point of a curve needs this many rarer samples to mean anything.
const CURVE_RARER_SAMPLES: f64 = 5.0;

/// Most decades of a curve: up to 99.99 %.
const CURVE_DECADES: usize = 4;

/// Latencies of one measurement in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Latency {
    pub(super) p50: u32,
    pub(super) p90: u32,
    pub(super) p95: u32,
    pub(super) p99: u32,
    /// Point i is the percentile that 10^(-i / `CURVE_POINTS_PER_DECADE`) of the samples exceed.
    #[serde(skip)]
    pub(super) curve: Vec<u32>,
}

impl Latency {
    /// Sorts the merged samples of all issuers and reads the percentiles off.
    pub(super) fn of(mut samples: Vec<u32>) -> Self {
        samples.sort_unstable();
        Latency {
            p50: percentile(&samples, 50),
            p90: percentile(&samples, 90),
            p95: percentile(&samples, 95),
            p99: percentile(&samples, 99),
            curve: curve(&samples),
        }
    }
}

fn curve(sorted: &[u32]) -> Vec<u32> {
    let count = sorted.len() as f64;
    (0..=CURVE_DECADES * CURVE_POINTS_PER_DECADE)
        .map(|point| 10f64.powf(-(point as f64) / CURVE_POINTS_PER_DECADE as f64))
        .take_while(|rarer| rarer * count >= CURVE_RARER_SAMPLES)
        .filter_map(|rarer| sorted.get((count * (1.0 - rarer)) as usize).copied())
        .collect()
}

/// Items per second as published: whole microseconds, integer arithmetic, 0 if no microsecond passed.
pub(super) fn items_per_s(items: u64, elapsed_us: u128) -> u64 {
    let rate = (u128::from(items) * 1_000_000)
        .checked_div(elapsed_us)
        .unwrap_or(0);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_published_elements() {
        let sorted: Vec<u32> = (0..200).collect();
        assert_eq!(
            [50, 90, 95, 99].map(|p| percentile(&sorted, p)),
            [100, 180, 190, 198]
        );
        let odd: Vec<u32> = (0..7).collect();
        // 7*50/100 = 3, 7*90/100 = 6, 7*95/100 = 6, 7*99/100 = 6
        assert_eq!([50, 90, 95, 99].map(|p| percentile(&odd, p)), [3, 6, 6, 6]);
        assert_eq!(percentile(&[42], 99), 42);
        assert_eq!(percentile(&[], 50), 0);
    }

    #[test]
    fn latency_sorts_what_it_is_given() {
        let latency = Latency::of((0..1000u32).rev().collect());
        assert_eq!(
            (latency.p50, latency.p90, latency.p95, latency.p99),
            (500, 900, 950, 990)
        );
        assert_eq!(latency.curve[0], 0);
        assert_eq!(latency.curve[CURVE_POINTS_PER_DECADE], 900);
        assert!(latency.curve.is_sorted());
        // 99.5 % leaves five samples; beyond that the curve ends.
        assert_eq!(latency.curve.len(), 47);
    }

    #[test]
    fn few_samples_give_a_short_curve_and_none_give_zeros() {
        assert!(Latency::of(vec![5; 4]).curve.is_empty());
        let none = Latency::of(Vec::new());
        assert_eq!((none.p50, none.p99), (0, 0));
    }

    #[test]
    fn throughput_uses_whole_microseconds_and_survives_zero() {
        assert_eq!(items_per_s(3_600_000, 1_000_000), 3_600_000);
        assert_eq!(items_per_s(10, 3), 3_333_333);
        assert_eq!(items_per_s(10, 0), 0);
    }
}
