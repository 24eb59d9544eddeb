//! Which steps another thread can notice.
//!
//! A run that learns this keeps, for each word of memory, who accessed it, whether it was written,
//! and which locks were held at each access. An access is *unnoticed* if no other thread accesses
//! the word, if nobody writes it, or if one lock is held at each access by more than one thread:
//! then the order of the lock's holders is the order of the accesses. What is learned is kept by
//! place in the sources, since addresses differ between runs: a place is unnoticed if all accesses
//! from there were.
#![forbid(unsafe_code)]

use crate::memory::Access;
use crate::thread::Tid;
use std::collections::{BTreeMap, HashMap};

/// What is known of one word.
struct Word {
    first: Tid,
    several: bool,
    written: bool,
    /// Held at each access since the word has had several threads.
    locks: Vec<usize>,
    places: Vec<usize>,
}

impl Word {
    fn is_noticed(&self) -> bool {
        self.several && self.written && self.locks.is_empty()
    }
}

/// What a run has seen.
#[derive(Default)]
pub(crate) struct Sharing {
    words: HashMap<usize, Word>,
    /// The locks of each thread.
    held: HashMap<usize, Vec<usize>>,
}

impl Sharing {
    pub(crate) fn takes(&mut self, tid: Tid, lock: usize) {
        self.held.entry(tid.index()).or_default().push(lock);
    }

    pub(crate) fn releases(&mut self, tid: Tid, lock: usize) {
        let held = self.held.entry(tid.index()).or_default();
        held.retain(|&other| other != lock);
    }

    pub(crate) fn accesses(&mut self, tid: Tid, place: usize, address: usize, access: Access) {
        let held = self.held.get(&tid.index()).map_or(&[][..], |held| held);
        let word = self.words.entry(address).or_insert_with(|| Word {
            first: tid,
            several: false,
            written: false,
            locks: Vec::new(),
            places: Vec::new(),
        });
        if !word.several && word.first != tid {
            word.several = true;
            word.locks.extend_from_slice(held);
        }
        if word.several {
            word.locks.retain(|lock| held.contains(lock));
        }
        word.written |= access != Access::Read;
        if !word.places.contains(&place) {
            word.places.push(place);
        }
    }

    /// The places, and whether another thread can notice what is done there.
    pub(crate) fn places(&self) -> Vec<(usize, bool)> {
        let mut places = BTreeMap::new();
        for word in self.words.values() {
            for &place in &word.places {
                *places.entry(place).or_insert(false) |= word.is_noticed();
            }
        }
        places.into_iter().collect()
    }
}
