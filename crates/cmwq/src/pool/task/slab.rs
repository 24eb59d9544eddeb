//! A table whose entries keep their numbers.
#![forbid(unsafe_code)]

use std::ops::{Index, IndexMut};

/// Gives out the most recently freed number first, or the smallest.
pub(crate) struct Slab<T, const SMALLEST_FIRST: bool = false> {
    entries: Vec<Option<T>>,
    /// Free numbers; the last is given out next.
    free: Vec<u32>,
}

/// Gives the numbers that the kernel would give its workers.
pub(crate) type SmallestFirst<T> = Slab<T, true>;

impl<T, const SMALLEST_FIRST: bool> Slab<T, SMALLEST_FIRST> {
    pub(crate) fn new() -> Self {
        Slab {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(key) = self.free.pop() {
            self.entries[key as usize] = Some(value);
            return key;
        }
        self.entries.push(Some(value));
        (self.entries.len() - 1) as u32
    }

    /// Takes out the entry at `key`. Panics if there is none.
    #[inline]
    pub(crate) fn remove(&mut self, key: u32) -> T {
        let value = self.entries[key as usize]
            .take()
            .expect("nothing at this key");
        if SMALLEST_FIRST {
            let at = self.free.partition_point(|&free| free > key);
            self.free.insert(at, key);
        } else {
            self.free.push(key);
        }
        value
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.entries.get_mut(key as usize)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(key, entry)| Some((key as u32, entry.as_ref()?)))
    }
}

impl<T, const SMALLEST_FIRST: bool> Index<u32> for Slab<T, SMALLEST_FIRST> {
    type Output = T;

    #[inline]
    fn index(&self, key: u32) -> &T {
        self.entries[key as usize]
            .as_ref()
            .expect("nothing at this key")
    }
}

impl<T, const SMALLEST_FIRST: bool> IndexMut<u32> for Slab<T, SMALLEST_FIRST> {
    #[inline]
    fn index_mut(&mut self, key: u32) -> &mut T {
        self.entries[key as usize]
            .as_mut()
            .expect("nothing at this key")
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::{Slab, SmallestFirst};

    #[test]
    fn a_number_is_used_again_when_it_is_free() {
        let mut slab: Slab<u32> = Slab::new();
        assert_eq!([slab.insert(0), slab.insert(1), slab.insert(2)], [0, 1, 2]);
        assert_eq!((slab.remove(0), slab.remove(1)), (0, 1));
        assert_eq!([slab.insert(10), slab.insert(20)], [1, 0]);
        assert_eq!((slab[0], slab[1], slab[2], slab.len()), (20, 10, 2, 3));
    }

    #[test]
    fn the_smallest_free_number_is_reused_first() {
        let mut slab = SmallestFirst::new();
        let keys: Vec<u32> = (0..5).map(|n| slab.insert(n)).collect();
        assert_eq!(keys, [0, 1, 2, 3, 4]);
        assert_eq!(slab.remove(1), 1);
        assert_eq!(slab.remove(3), 3);
        assert_eq!(slab.len(), 3);
        assert_eq!(slab.insert(10), 1);
        assert_eq!(slab.insert(30), 3);
        assert_eq!(slab.insert(50), 5);
        assert!(slab.get_mut(6).is_none());
    }
}
