//! The items of a pool workqueue that wait for a credit, oldest first.
//!
//! Closures of a chunk stay in it until they become active: moving each to memory of its own would
//! cost more than its turn. The chunk's node stands for them on the list, so that single items may
//! come before and after.
#![forbid(unsafe_code)]

use crate::item::{List, ListKind, Part, Pending, WorkFn};

pub(in crate::pool) struct Inactive {
    items: List,
    /// How many nodes on the list stand for parts of chunks, and below, for how many closures they
    /// stand.
    parts: usize,
    in_parts: usize,
}

impl Inactive {
    pub(in crate::pool) fn new() -> Self {
        Inactive {
            items: List::new(ListKind::Inactive),
            parts: 0,
            in_parts: 0,
        }
    }

    #[inline]
    pub(in crate::pool) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    #[inline]
    pub(in crate::pool) fn len(&self) -> usize {
        self.items.len() - self.parts + self.in_parts
    }

    #[inline]
    pub(in crate::pool) fn push_back(&mut self, item: Pending) {
        self.items.push_back(item);
    }

    /// Closures of one chunk, accepted under `colour`.
    pub(in crate::pool) fn push_part(&mut self, part: Part, colour: u32) {
        self.parts += 1;
        self.in_parts += part.len();
        let mut node = part.park();
        node.accept(colour);
        self.items.push_back(node);
    }

    pub(in crate::pool) fn pop_front(&mut self) -> Option<Pending> {
        let first = self.items.pop_front()?;
        let colour = first.colour();
        let mut part = match Part::of_node(first) {
            Ok(part) => part,
            Err(item) => return Some(item),
        };
        let mut item = part.pop_item();
        item.accept(colour);
        self.in_parts -= 1;
        if part.len() == 0 {
            self.parts -= 1;
        } else {
            let mut node = part.park();
            node.accept(colour);
            self.items.push_front(node);
        }
        Some(item)
    }

    /// The list of items, for cancelling one. Closures in chunks cannot be cancelled: no thread has
    /// a handle of them or knows their nodes.
    pub(in crate::pool) fn items(&mut self) -> &mut List {
        &mut self.items
    }

    /// How many of them are items of their own.
    #[cfg(all(test, not(cmwq_loom)))]
    pub(in crate::pool) fn single(&self) -> usize {
        self.items.len() - self.parts
    }

    /// The address of the first.
    pub(in crate::pool) fn head(&self) -> Option<usize> {
        self.items.names().next().map(|(address, ..)| address)
    }

    /// The function of each.
    pub(in crate::pool) fn funcs(&self) -> impl Iterator<Item = Option<WorkFn>> {
        let names = self.items.names();
        names.flat_map(|(_, func, count)| std::iter::repeat_n(func, count))
    }
}
