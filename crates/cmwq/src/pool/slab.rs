//! Numbered places that keep their numbers: the smallest free number is given out first, as for the kernel's worker ids.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::{Index, IndexMut};

pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    free: BinaryHeap<Reverse<u32>>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab {
            places: Vec::new(),
            free: BinaryHeap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(Reverse(key)) = self.free.pop() {
            self.places[key as usize] = Some(value);
            return key;
        }
        self.places.push(Some(value));
        (self.places.len() - 1) as u32
    }

    /// Takes out what is at `key`. Panics if nothing is.
    #[inline]
    pub(crate) fn remove(&mut self, key: u32) -> T {
        let value = self.places[key as usize]
            .take()
            .expect("nothing at this key");
        self.free.push(Reverse(key));
        value
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.places.get_mut(key as usize)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.places
            .iter()
            .enumerate()
            .filter_map(|(key, place)| Some((key as u32, place.as_ref()?)))
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, key: u32) -> &T {
        self.places[key as usize]
            .as_ref()
            .expect("nothing at this key")
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, key: u32) -> &mut T {
        self.places[key as usize]
            .as_mut()
            .expect("nothing at this key")
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::Slab;

    #[test]
    fn the_smallest_free_number_is_reused_first() {
        let mut slab = Slab::new();
        let keys: Vec<u32> = (0..5).map(|n| slab.insert(n)).collect();
        assert_eq!(keys, [0, 1, 2, 3, 4]);
        assert_eq!(slab.remove(3), 3);
        assert_eq!(slab.remove(1), 1);
        assert_eq!(slab.len(), 3);
        assert_eq!(slab.insert(10), 1);
        assert_eq!(slab.insert(30), 3);
        assert_eq!(slab.insert(50), 5);
        assert!(slab.get_mut(6).is_none());
    }
}
