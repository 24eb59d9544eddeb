//! One atomic variable: the stores that threads may still read, in modification order.
#![forbid(unsafe_code)]

use super::clock::{Clock, Step};
use std::collections::VecDeque;
use std::rc::Rc;

/// Stores that are kept of one variable; older ones are no longer read.
const KEPT: usize = 8;
/// Between the positions of two stores that follow each other when they are made.
const GAP: u64 = 1 << 20;

/// One store.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// Its position in the modification order.
    position: u64,
    pub(super) value: u64,
    by: Step,
    /// Its number among all `SeqCst` stores, from 1 on; 0: it is none.
    seq_cst: u64,
    /// What an acquiring reader comes to know.
    pub(super) released: Option<Rc<Clock>>,
    at_ns: u64,
    /// It is the store of a read-modify-write, which no other store may come before.
    is_update: bool,
}

/// What a new store is like.
pub(super) struct Store {
    pub(super) value: u64,
    pub(super) by: Step,
    pub(super) seq_cst: u64,
    pub(super) released: Option<Rc<Clock>>,
    pub(super) is_update: bool,
}

/// Who asks which stores may be read.
pub(super) struct Reader<'a> {
    pub(super) clock: &'a Clock,
    /// For a `SeqCst` access: what happens before the last `SeqCst` fence.
    pub(super) fences: Option<&'a Clock>,
    /// Stores made until then are seen by all.
    pub(super) seen_ns: u64,
}

/// A thread has read the store at this position, for the first time in that step.
#[derive(Clone, Copy, Debug)]
struct Mark {
    by: Step,
    position: u64,
}

#[derive(Debug)]
pub(super) struct Location {
    /// In modification order; never empty.
    messages: VecDeque<Message>,
    marks: Vec<Mark>,
}

impl Location {
    /// A variable that holds `value`, which all threads know.
    pub(super) fn new(value: u64) -> Location {
        let first = Message {
            position: GAP,
            value,
            by: Step {
                thread: 0,
                number: 0,
            },
            seq_cst: 0,
            released: None,
            at_ns: 0,
            is_update: false,
        };
        Location {
            messages: VecDeque::from([first]),
            marks: Vec::new(),
        }
    }

    pub(super) fn newest(&self) -> &Message {
        self.messages.back().expect("there is always one")
    }

    pub(super) fn last(&self) -> usize {
        self.messages.len() - 1
    }

    pub(super) fn at(&self, index: usize) -> &Message {
        &self.messages[index]
    }

    /// The oldest store that the reader may read: it knows of none that comes later.
    pub(super) fn oldest(&self, reader: &Reader<'_>) -> usize {
        let known = |message: &Message| {
            reader.clock.knows(message.by)
                || (message.seq_cst != 0 && message.seq_cst <= reader.clock.seq_cst)
                || message.at_ns <= reader.seen_ns
                || reader
                    .fences
                    .is_some_and(|fences| message.seq_cst != 0 || fences.knows(message.by))
        };
        let mut oldest = self.messages.iter().rposition(known).unwrap_or(0);
        for mark in &self.marks {
            if mark.position > self.messages[oldest].position && reader.clock.knows(mark.by) {
                oldest = self.index_of(mark.position);
            }
        }
        oldest
    }

    fn index_of(&self, position: u64) -> usize {
        let after = self.messages.partition_point(|m| m.position <= position);
        after.saturating_sub(1)
    }

    /// A thread reads this store.
    pub(super) fn read(&mut self, index: usize, by: Step) -> &Message {
        let position = self.messages[index].position;
        let mut own = self.marks.iter().filter(|m| m.by.thread == by.thread);
        if own.all(|mark| mark.position < position) {
            self.marks.push(Mark { by, position });
        }
        &self.messages[index]
    }

    /// Puts a store behind the one at `index`; `true`: it is the newest.
    pub(super) fn insert(&mut self, index: usize, store: Store, now_ns: u64) -> bool {
        let before = self.messages[index].position;
        let position = match self.messages.get(index + 1) {
            None => before + GAP,
            Some(next) => before + (next.position - before) / 2,
        };
        let message = Message {
            position,
            value: store.value,
            by: store.by,
            seq_cst: store.seq_cst,
            released: store.released,
            at_ns: now_ns,
            is_update: store.is_update,
        };
        self.messages.insert(index + 1, message);
        let is_newest = index + 2 == self.messages.len();
        if self.messages.len() > KEPT {
            self.messages.pop_front();
            let oldest = self.messages[0].position;
            self.marks.retain(|mark| mark.position > oldest);
        }
        is_newest
    }

    /// Whether a store may be put behind the one at `index`.
    pub(super) fn has_room(&self, index: usize) -> bool {
        let Some(next) = self.messages.get(index + 1) else {
            return true;
        };
        !next.is_update && next.position - self.messages[index].position > 1
    }
}
