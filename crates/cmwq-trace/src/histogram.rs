//! A histogram of times.

/// Buckets for each doubling of the time, so that a quantile is at most an eighth too large.
const SUB: usize = 8;
/// With so many buckets the last one begins at 15 · 2^33 ns, about two minutes.
const BUCKETS: usize = 35 * SUB;
/// These are for times below 2^33 ns, about 8 s. A histogram has them alone until a longer time is added:
/// less than 1 KiB, which glibc gives out in a fixed number of steps. For more it first merges all the small
/// blocks that the program has freed (`malloc_consolidate`), and a pool's lock may be held meanwhile.
const SHORT: usize = 31 * SUB;

/// Counts how many of the measured times, such as the waits of items, were how long.
///
/// ```
/// use cmwq_trace::LatencyHistogram;
///
/// let mut waits = LatencyHistogram::default();
/// (1..=1000).for_each(|us| waits.add(us * 1000));
/// let p99 = waits.quantile_ns(0.99).expect("it is not empty");
/// assert!((990_000..990_000 + 990_000 / 8).contains(&p99));
/// assert_eq!(waits.sum_ns() / waits.count(), 500_500);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LatencyHistogram {
    /// The counts of the buckets: of none until the first time is added, since a per-CPU queue has one
    /// histogram for each CPU, of `SHORT` or of `BUCKETS`.
    counts: Vec<u32>,
    sum_ns: u64,
}

fn bucket(ns: u64) -> usize {
    if ns < SUB as u64 {
        return ns as usize;
    }
    let doubling = ns.ilog2() as usize;
    let within = (ns >> (doubling - 3)) as usize & (SUB - 1);
    ((doubling - 2) * SUB + within).min(BUCKETS - 1)
}

/// Returns the largest time of a bucket.
fn upper_ns(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let doubling = bucket / SUB + 2;
    let within = (bucket % SUB + SUB) as u64;
    ((within + 1) << (doubling - 3)) - 1
}

impl LatencyHistogram {
    /// Adds a time.
    pub fn add(&mut self, ns: u64) {
        self.add_many(ns, 1);
    }

    /// Adds a time that stands for so many.
    pub fn add_many(&mut self, ns: u64, times: u32) {
        let bucket = bucket(ns);
        if bucket >= self.counts.len() {
            self.grow(if bucket < SHORT { SHORT } else { BUCKETS });
        }
        let count = &mut self.counts[bucket];
        *count = count.saturating_add(times);
        let sum_ns = ns.saturating_mul(u64::from(times));
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
    }

    #[cold]
    fn grow(&mut self, buckets: usize) {
        self.counts.reserve_exact(buckets - self.counts.len());
        self.counts.resize(buckets, 0);
    }

    /// Adds all times of another histogram.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        if self.counts.len() < other.counts.len() {
            self.grow(other.counts.len());
        }
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum = sum.saturating_add(*count);
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Returns how many times were measured.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// Returns the sum of the measured times, in ns.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Returns the time, in ns, that a share `quantile` (0 to 1) of the measured times did not
    /// exceed. The result is at most an eighth too large. `None`: nothing was measured.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = ((count as f64 * quantile).ceil() as u64).clamp(1, count);
        let mut seen = 0;
        let at = self.counts.iter().position(|&count| {
            seen += u64::from(count);
            seen >= rank
        })?;
        Some(upper_ns(at))
    }

    /// Returns the buckets that are not empty: for each the largest time in ns, and how many
    /// times are in it.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let filled = self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        filled
            .map(|(at, count)| (upper_ns(at), u64::from(*count)))
            .collect()
    }
}

impl std::fmt::Debug for LatencyHistogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LatencyHistogram")
            .field("count", &self.count())
            .field("p50_ns", &self.quantile_ns(0.5))
            .field("p99_ns", &self.quantile_ns(0.99))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_falls_into_a_bucket_that_ends_at_most_an_eighth_later() {
        let mut last = 0;
        for ns in (0..100_000).chain((17..33).map(|shift| (1 << shift) + 12_345)) {
            let at = bucket(ns);
            assert!(upper_ns(at) >= ns, "{ns}");
            assert!(
                upper_ns(at) <= ns + ns / 8,
                "{ns} is below {}",
                upper_ns(at)
            );
            assert!(at >= last, "{ns}");
            last = at;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    /// A chunk of glibc's malloc has a header of 8 bytes; from 1,024 bytes on it is a large one.
    #[test]
    fn it_is_a_small_block_until_a_time_is_long() {
        let mut short = LatencyHistogram::default();
        assert_eq!(short.counts.capacity(), 0);
        let longest = (1 << 33) - 1;
        for ns in [longest, 0, 7] {
            short.add(ns);
            assert!(short.counts.capacity() * size_of::<u32>() + 8 < 1024);
        }
        let mut long = LatencyHistogram::default();
        for ns in [0, 7, longest + 1, u64::MAX] {
            long.add(ns);
        }
        assert_eq!(long.counts.capacity(), BUCKETS);
        // However it came about.
        let mut both = [short.clone(), long.clone()];
        both[0].merge(&long);
        both[1].merge(&short);
        assert_eq!(both[0], both[1]);
        assert_eq!((both[0].count(), both[0].counts.len()), (7, BUCKETS));
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let mut histogram = LatencyHistogram::default();
        assert_eq!(histogram.quantile_ns(0.5), None);
        for ns in 1..=1000 {
            histogram.add(ns);
        }
        for (quantile, exact) in [(0.0, 1), (0.5, 500), (0.99, 990), (1.0, 1000)] {
            let got = histogram.quantile_ns(quantile).expect("not empty");
            assert!(
                (exact..=exact + exact / 8 + 1).contains(&got),
                "{quantile}: {got}"
            );
        }
        assert_eq!((histogram.count(), histogram.sum_ns()), (1000, 500_500));
        let all: u64 = histogram.buckets().iter().map(|(_, count)| count).sum();
        assert_eq!(all, 1000);
    }
}
