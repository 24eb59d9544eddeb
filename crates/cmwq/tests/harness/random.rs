//! Seeded random numbers, and the seed of a run.
#![allow(dead_code, reason = "each test binary uses a part")]

/// SplitMix64 (Steele, Lea, Flood 2014): a few lines, and any seed will do.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// A number from the environment.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable} is '{text}'; allowed: a whole number")),
        Err(_) => default,
    }
}

/// The seed of this run: `CMWQ_TEST_SEED`, or one made of the clock; printed, so that a failing run
/// can be replayed (the operations are then the same; their interleaving is the machine's).
pub(crate) fn seed(test: &str) -> u64 {
    let fresh = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(1, |since| since.as_nanos() as u64);
    let seed = number("CMWQ_TEST_SEED", Random::new(fresh).bits() >> 16);
    eprintln!("{test}: CMWQ_TEST_SEED={seed}");
    seed
}
