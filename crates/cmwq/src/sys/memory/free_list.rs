//! A free list: objects kept for reuse. The objects that were not needed since the last trim are
//! given up, except a few.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

pub(crate) struct FreeList<T> {
    /// The oldest first.
    kept: VecDeque<T>,
    /// The lowest length since the last call of [`look`](Self::look).
    fewest: usize,
}

impl<T> FreeList<T> {
    pub(crate) const fn new() -> Self {
        FreeList {
            kept: VecDeque::new(),
            fewest: 0,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    #[inline]
    pub(crate) fn put(&mut self, thing: T) {
        self.kept.push_back(thing);
    }

    /// The object that was put there last.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<T> {
        let thing = self.kept.pop_back();
        self.fewest = self.fewest.min(self.kept.len());
        thing
    }

    /// How many were not needed since the last call.
    pub(crate) fn look(&mut self) -> usize {
        std::mem::replace(&mut self.fewest, self.kept.len())
    }

    /// Removes the `most` oldest objects, or all if there are fewer. The number of steps depends
    /// only on how many are removed.
    pub(crate) fn oldest(&mut self, most: usize) -> Vec<T> {
        let some = self.kept.drain(..most.min(self.kept.len())).collect();
        self.fewest = self.fewest.min(self.kept.len());
        some
    }

    /// Removes objects that were not needed since the last [look](Self::look): all but `keep` of
    /// them, but at most `most`, the oldest first.
    pub(crate) fn unused(&mut self, keep: usize, most: usize) -> Vec<T> {
        let unused = self.look().saturating_sub(keep).min(most);
        self.oldest(unused)
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_needed_for_a_while_is_given_up_the_oldest_first() {
        let mut free_list = FreeList::new();
        (0..20).for_each(|thing| free_list.put(thing));
        assert!(
            free_list.unused(3, 9).is_empty(),
            "nobody has looked before"
        );
        // All but five of those that need not be kept.
        let needed: Vec<_> = (0..12).filter_map(|_| free_list.take()).collect();
        assert_eq!(needed[0], 19);
        needed.into_iter().for_each(|thing| free_list.put(thing));
        assert_eq!(free_list.unused(3, 9), [0, 1, 2, 3, 4]);
        assert_eq!(free_list.unused(3, 9).len(), 9, "no more at once");
        assert_eq!(free_list.unused(3, 9).len(), 3);
        assert_eq!((free_list.unused(3, 9).len(), free_list.len()), (0, 3));
    }
}
