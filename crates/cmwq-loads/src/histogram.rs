//! Times by their logarithm: an error of 3 % at most, whatever their number.

const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;

/// How many times fell where.
#[derive(Clone)]
pub(crate) struct Histogram {
    counts: Vec<u32>,
    total: u64,
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        Histogram {
            counts: vec![0; BUCKETS],
            total: 0,
        }
    }

    pub(crate) fn add(&mut self, ns: u64) {
        let bucket = &mut self.counts[bucket(ns)];
        *bucket = bucket.saturating_add(1);
        self.total += 1;
    }

    pub(crate) fn add_all(&mut self, other: &Histogram) {
        for (own, other) in self.counts.iter_mut().zip(&other.counts) {
            *own = own.saturating_add(*other);
        }
        self.total += other.total;
    }

    /// How many there are.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The time that so many of a thousand are not above.
    pub(crate) fn permille(&self, permille: u64) -> u64 {
        let rank = (self.total * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                return middle(index);
            }
        }
        0
    }
}

fn bucket(ns: u64) -> usize {
    if ns < SUB as u64 {
        return ns as usize;
    }
    let shift = ns.ilog2() - SUB_BITS;
    (shift as usize + 1) * SUB + (ns >> shift) as usize - SUB
}

/// The middle of what falls there.
fn middle(index: usize) -> u64 {
    if index < SUB {
        return index as u64;
    }
    let shift = (index / SUB - 1) as u32;
    let least = (SUB + index % SUB) as u64;
    (least << shift) + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_told_within_three_percent() {
        for ns in (0..64).flat_map(|shift| [(1_u64 << shift), (1 << shift) + (1 << shift) / 3]) {
            let mut histogram = Histogram::new();
            histogram.add(ns);
            let told = histogram.permille(500) as f64;
            assert!(
                (told - ns as f64).abs() <= ns as f64 * 0.032,
                "{ns}: {told}"
            );
        }
    }

    #[test]
    fn ranks_count_from_the_shortest() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|ns| histogram.add(ns * 1000));
        for (permille, ns) in [(1, 1e3), (500, 5e5), (990, 9.9e5), (999, 9.99e5)] {
            let told = histogram.permille(permille) as f64;
            assert!((told / ns - 1.0).abs() < 0.032, "{permille}: {told}");
        }
        let mut twice = histogram.clone();
        twice.add_all(&histogram);
        assert_eq!(twice.total(), 2000);
        assert_eq!(twice.permille(990), histogram.permille(990));
    }
}
