//! [`CpuSet`]: a set of CPU numbers.

mod error;
mod text;

pub use error::{CpuSetError, MAX_CPUS};
use std::cmp::Ordering;
use std::fmt;

const WORD_BITS: usize = u64::BITS as usize;

/// A set of CPU numbers, as a bitset that grows with its highest member.
///
/// Sets compare by their members only. `Ord` orders the ascending lists of members, so sorting
/// disjoint sets sorts them by their first CPU.
///
/// ```
/// use cmwq_topology::CpuSet;
///
/// let set: CpuSet = "0-3,8".parse()?;
/// assert_eq!(set.len(), 5);
/// assert_eq!(set.to_string(), "0-3,8");
/// assert_eq!(set.to_mask(), "0000010f");
/// # Ok::<(), cmwq_topology::CpuSetError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct CpuSet {
    /// Bit `n % 64` of word `n / 64` is CPU `n`. Invariant: the last word is not zero, so that
    /// equal sets have equal words.
    words: Vec<u64>,
}

impl CpuSet {
    /// An empty set. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// An empty set with room for CPUs `0..cpus`.
    #[must_use]
    pub fn with_capacity(cpus: usize) -> Self {
        Self {
            words: Vec::with_capacity(cpus.min(MAX_CPUS).div_ceil(WORD_BITS)),
        }
    }

    /// The set of the CPUs `first..=last`; empty when `last < first`.
    ///
    /// # Errors
    /// [`CpuSetError::TooLarge`] when `last` is not below [`MAX_CPUS`].
    pub fn try_from_range(first: usize, last: usize) -> Result<Self, CpuSetError> {
        let mut set = Self::new();
        set.try_insert_range(first, last)?;
        Ok(set)
    }

    /// Whether `cpu` is a member.
    #[inline]
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.words
            .get(cpu / WORD_BITS)
            .is_some_and(|word| word & (1 << (cpu % WORD_BITS)) != 0)
    }

    /// Adds `cpu`; `true` if it was not a member before.
    ///
    /// # Panics
    /// When `cpu` is not below [`MAX_CPUS`]; use [`CpuSet::try_insert`] for numbers that come from outside.
    #[inline]
    pub fn insert(&mut self, cpu: usize) -> bool {
        match self.try_insert(cpu) {
            Ok(added) => added,
            Err(error) => panic!("{error}"),
        }
    }

    /// Adds `cpu`; `true` if it was not a member before.
    ///
    /// # Errors
    /// [`CpuSetError::TooLarge`] when `cpu` is not below [`MAX_CPUS`].
    pub fn try_insert(&mut self, cpu: usize) -> Result<bool, CpuSetError> {
        if cpu >= MAX_CPUS {
            return Err(CpuSetError::TooLarge {
                number: cpu.to_string(),
            });
        }
        let (index, bit) = (cpu / WORD_BITS, 1 << (cpu % WORD_BITS));
        self.grow(index + 1);
        let added = self.words[index] & bit == 0;
        self.words[index] |= bit;
        Ok(added)
    }

    /// Adds the CPUs `first..=last`, a word at a time; nothing when `last < first`.
    pub(crate) fn try_insert_range(
        &mut self,
        first: usize,
        last: usize,
    ) -> Result<(), CpuSetError> {
        if last >= MAX_CPUS {
            return Err(CpuSetError::TooLarge {
                number: last.to_string(),
            });
        }
        if last < first {
            return Ok(());
        }
        let (first_word, last_word) = (first / WORD_BITS, last / WORD_BITS);
        self.grow(last_word + 1);
        for index in first_word..=last_word {
            let mut bits = u64::MAX;
            if index == first_word {
                bits &= u64::MAX << (first % WORD_BITS);
            }
            if index == last_word {
                bits &= u64::MAX >> (WORD_BITS - 1 - last % WORD_BITS);
            }
            self.words[index] |= bits;
        }
        Ok(())
    }

    /// Removes `cpu`; `true` if it was a member.
    #[inline]
    pub fn remove(&mut self, cpu: usize) -> bool {
        let had = self.contains(cpu);
        if had {
            self.words[cpu / WORD_BITS] &= !(1 << (cpu % WORD_BITS));
            self.trim();
        }
        had
    }

    /// The lowest member.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// The highest member.
    #[must_use]
    pub fn last(&self) -> Option<usize> {
        let word = self.words.last()?;
        Some(self.words.len() * WORD_BITS - 1 - word.leading_zeros() as usize)
    }

    /// The lowest member above `cpu`.
    #[inline]
    #[must_use]
    pub fn next_after(&self, cpu: usize) -> Option<usize> {
        let from = cpu.checked_add(1)?;
        let above = u64::MAX << (from % WORD_BITS);
        let (index, words) = (from / WORD_BITS, self.words.get(from / WORD_BITS..)?);
        let bits = |(n, &word): (usize, &u64)| (n, if n == 0 { word & above } else { word });
        let (n, word) = words
            .iter()
            .enumerate()
            .map(bits)
            .find(|(_, word)| *word != 0)?;
        Some((index + n) * WORD_BITS + word.trailing_zeros() as usize)
    }

    /// The number of members.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Whether the set has no member.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The members in ascending order.
    #[inline]
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            words: &self.words,
            index: 0,
            bits: self.words.first().copied().unwrap_or(0),
        }
    }

    /// The CPUs that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (long, short) = if self.words.len() >= other.words.len() {
            (self, other)
        } else {
            (other, self)
        };
        let mut out = long.clone();
        for (word, more) in out.words.iter_mut().zip(&short.words) {
            *word |= more;
        }
        out
    }

    /// The CPUs that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let words = self
            .words
            .iter()
            .zip(&other.words)
            .map(|(a, b)| a & b)
            .collect();
        Self::trimmed(words)
    }

    /// The CPUs that are in this set and not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut words = self.words.clone();
        for (word, less) in words.iter_mut().zip(&other.words) {
            *word &= !less;
        }
        Self::trimmed(words)
    }

    /// Whether every member is also in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words.len() <= other.words.len()
            && self
                .words
                .iter()
                .zip(&other.words)
                .all(|(a, b)| a & !b == 0)
    }

    /// Whether the sets have a member in common.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// The word that holds the CPUs `32 * group .. 32 * group + 32`, as the hex form shows it.
    pub(crate) fn group32(&self, group: usize) -> u32 {
        let word = self.words.get(group / 2).copied().unwrap_or(0);
        (word >> (32 * (group % 2))) as u32
    }

    fn grow(&mut self, words: usize) {
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }

    fn trimmed(words: Vec<u64>) -> Self {
        let mut set = Self { words };
        set.trim();
        set
    }
}

impl Ord for CpuSet {
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl PartialOrd for CpuSet {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Shows the list form: `CpuSet(0-3,8)`.
impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

/// Panics, like [`CpuSet::insert`], on a number that is not below [`MAX_CPUS`].
impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut set = Self::new();
        set.extend(cpus);
        set
    }
}

/// Panics, like [`CpuSet::insert`], on a number that is not below [`MAX_CPUS`].
impl Extend<usize> for CpuSet {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl<'a> IntoIterator for &'a CpuSet {
    type Item = usize;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The members of a [`CpuSet`] in ascending order; made by [`CpuSet::iter`].
///
/// ```
/// use cmwq_topology::CpuSet;
///
/// let cpus: CpuSet = "0-1,4".parse()?;
/// assert_eq!(cpus.iter().collect::<Vec<_>>(), [0, 1, 4]);
/// # Ok::<(), cmwq_topology::CpuSetError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    words: &'a [u64],
    index: usize,
    /// What is left of `words[index]`.
    bits: u64,
}

impl Iterator for Iter<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.bits == 0 {
            self.index += 1;
            self.bits = *self.words.get(self.index)?;
        }
        let bit = self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        Some(self.index * WORD_BITS + bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::collections::hash_map::DefaultHasher;
    use std::hash::{Hash, Hasher};

    fn hash(set: &CpuSet) -> u64 {
        let mut hasher = DefaultHasher::new();
        set.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn the_next_member_is_found_in_whatever_word() {
        let set = CpuSet::from_iter([0, 1, 63, 64, 200]);
        let next = [0, 1, 62, 63, 64, 199, 200].map(|cpu| set.next_after(cpu));
        let expected = [1, 63, 63, 64, 200, 200].map(Some);
        assert_eq!(next[..6], expected);
        assert_eq!((next[6], set.next_after(usize::MAX)), (None, None));
        assert_eq!(CpuSet::new().next_after(0), None);
    }

    #[test]
    fn sets_that_once_held_a_high_cpu_equal_sets_that_never_did() {
        let mut grown = CpuSet::from_iter([1, 500]);
        assert!(grown.remove(500));
        assert!(!grown.remove(500));
        let plain = CpuSet::from_iter([1]);
        assert_eq!(grown, plain);
        assert_eq!(hash(&grown), hash(&plain));
        assert_eq!(grown.cmp(&plain), Ordering::Equal);
        assert_eq!(CpuSet::with_capacity(4096), CpuSet::new());
    }

    #[test]
    fn the_highest_cpu_number_is_accepted_and_the_next_refused() {
        let mut set = CpuSet::new();
        assert_eq!(set.try_insert(MAX_CPUS - 1), Ok(true));
        assert_eq!(
            set.try_insert(MAX_CPUS).map_err(|e| e.to_string()),
            Err("CPU 8192 is too large: CPU numbers run from 0 to 8191".into())
        );
        assert!(CpuSet::try_from_range(0, usize::MAX).is_err());
        assert!(!set.contains(usize::MAX));
    }

    fn cpus() -> impl Strategy<Value = BTreeSet<usize>> {
        proptest::collection::btree_set(0_usize..300, 0..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_cpu_set_behaves_as_a_sorted_set_of_numbers(a in cpus(), b in cpus()) {
            let (sa, sb): (CpuSet, CpuSet) = (a.iter().copied().collect(), b.iter().copied().collect());
            let list = |set: &CpuSet| set.iter().collect::<Vec<_>>();
            prop_assert_eq!(list(&sa), a.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(list(&sa.union(&sb)), a.union(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(list(&sa.intersection(&sb)), a.intersection(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(list(&sa.difference(&sb)), a.difference(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(sa.is_subset(&sb), a.is_subset(&b));
            prop_assert_eq!(sa.intersects(&sb), !a.is_disjoint(&b));
            prop_assert_eq!(sa.len(), a.len());
            prop_assert_eq!(sa.first(), a.first().copied());
            prop_assert_eq!(sa.last(), a.last().copied());
            prop_assert_eq!(sa.is_empty(), a.is_empty());
            prop_assert_eq!(sa.cmp(&sb), a.cmp(&b));
            prop_assert_eq!(sa == sb, a == b);
            prop_assert_eq!(&sa.difference(&sa), &CpuSet::new());
        }

        #[test]
        fn a_range_holds_every_cpu_between_its_ends(first in 0_usize..300, len in 0_usize..200) {
            let range = CpuSet::try_from_range(first, first + len).expect("below the limit");
            prop_assert_eq!(range, (first..=first + len).collect::<CpuSet>());
        }
    }
}
