//! Sets of CPUs of a fixed size.
#![forbid(unsafe_code)]

use crate::machine::MAX_CPUS;

const WORDS: usize = MAX_CPUS / 64;

/// A set of CPU numbers below [`MAX_CPUS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpus([u64; WORDS]);

impl Cpus {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Cpus([0; WORDS])
    }

    /// Whether `cpu` is in it.
    #[inline]
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        cpu < MAX_CPUS && self.0[cpu / 64] & (1 << (cpu % 64)) != 0
    }

    /// Adds a CPU; those that no machine has are left out.
    #[inline]
    pub fn insert(&mut self, cpu: usize) {
        if cpu < MAX_CPUS {
            self.0[cpu / 64] |= 1 << (cpu % 64);
        }
    }

    /// Takes a CPU out.
    #[inline]
    pub fn remove(&mut self, cpu: usize) {
        if cpu < MAX_CPUS {
            self.0[cpu / 64] &= !(1 << (cpu % 64));
        }
    }

    /// Those in both.
    #[inline]
    #[must_use]
    pub fn and(&self, other: &Cpus) -> Cpus {
        Cpus(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    at * 64 + bit
                })
            })
        })
    }

    /// The first one after `cpu`, from 0 again after the last.
    #[inline]
    #[must_use]
    pub fn next_after(&self, cpu: usize) -> Option<usize> {
        let first = |from: usize| {
            (from / 64..WORDS).find_map(|at| {
                let mask = if at == from / 64 {
                    !0 << (from % 64)
                } else {
                    !0
                };
                let word = self.0[at] & mask;
                (word != 0).then(|| at * 64 + word.trailing_zeros() as usize)
            })
        };
        first((cpu + 1) % MAX_CPUS).or_else(|| first(0))
    }
}

impl FromIterator<usize> for Cpus {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut set = Cpus::new();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}
