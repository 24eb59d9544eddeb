//! The items of a pool workqueue that wait for a credit, oldest first.
//!
//! Closures of a chunk stay in it until they become active. In a backlog far beyond the limit, moving each to memory of its own would cost more
//! than its turn, all in one holding of the pool's lock.
#![forbid(unsafe_code)]

use crate::item::{List, ListKind, Part, Pending, WorkFn};
use std::collections::VecDeque;

pub(in crate::pool) struct Inactive {
    items: List,
    /// Behind all of `items`: closures that are left in chunks, and the flush colour of their acceptance.
    parts: VecDeque<(Part, u32)>,
    /// How many closures those are.
    in_parts: usize,
}

impl Inactive {
    pub(in crate::pool) fn new() -> Self {
        Inactive {
            items: List::new(ListKind::Inactive),
            parts: VecDeque::new(),
            in_parts: 0,
        }
    }

    #[inline]
    pub(in crate::pool) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.parts.is_empty()
    }

    #[inline]
    pub(in crate::pool) fn len(&self) -> usize {
        self.items.len() + self.in_parts
    }

    pub(in crate::pool) fn push_back(&mut self, item: Pending) {
        // What waits in chunks goes before it.
        while let Some(before) = self.pop_from_parts() {
            self.items.push_back(before);
        }
        self.items.push_back(item);
    }

    /// Closures of one chunk, accepted under `colour`.
    pub(in crate::pool) fn push_part(&mut self, part: Part, colour: u32) {
        self.in_parts += part.len();
        self.parts.push_back((part, colour));
    }

    pub(in crate::pool) fn pop_front(&mut self) -> Option<Pending> {
        let first = self.items.pop_front();
        first.or_else(|| self.pop_from_parts())
    }

    fn pop_from_parts(&mut self) -> Option<Pending> {
        let (part, colour) = self.parts.front_mut()?;
        let mut item = part.pop_item();
        item.accept(*colour);
        self.in_parts -= 1;
        if part.len() == 0 {
            self.parts.pop_front();
        }
        Some(item)
    }

    /// The list of those that may be cancelled: no thread has a handle of the others.
    pub(in crate::pool) fn items(&mut self) -> &mut List {
        &mut self.items
    }

    /// The address of the first.
    pub(in crate::pool) fn head(&self) -> Option<usize> {
        let in_part = || Some(self.parts.front()?.0.name(0).0);
        self.items.head().or_else(in_part)
    }

    /// The function of each.
    pub(in crate::pool) fn funcs(&self) -> impl Iterator<Item = Option<WorkFn>> {
        let in_part = |(part, _): &(Part, u32)| {
            let names = (0..part.len()).map(|index| part.name(index).1);
            names.collect::<Vec<_>>()
        };
        let in_parts = self.parts.iter().flat_map(in_part);
        self.items.iter().map(|item| item.func()).chain(in_parts)
    }
}
