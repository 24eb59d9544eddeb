//! A chain: items that one thread publishes with a single exchange on the inbox.
//!
//! Its nodes link as those of an inbox do, each to the one before it: single items, and [chunks](super::chunk) that the thread has filled before
//! any other thread knows them. A chunk holds items of one function that no open batch can hold as well: see [`Chain::add`].

use super::entries::Chunks;
use super::filling::{FEW, Filling};
use crate::item::closure::Small;
use crate::item::raw::{Pending, RawWork, link};
use std::ptr::NonNull;

/// Items that were claimed and not published. Its owner publishes it.
pub(crate) struct Chain<'b> {
    /// The chunks for its items; `None`: each item is a node of its own.
    chunks: Option<&'b Chunks>,
    newest: Option<NonNull<RawWork>>,
    oldest: Option<NonNull<RawWork>>,
    items: usize,
    /// The chunk that is being filled; newer than all nodes.
    filling: Option<Filling>,
}

impl<'b> Chain<'b> {
    /// An empty chain, of items that all go to the pool workqueue of `chunks`.
    pub(crate) fn new(chunks: Option<&'b Chunks>) -> Self {
        Chain {
            chunks,
            newest: None,
            oldest: None,
            items: 0,
            filling: None,
        }
    }

    /// How many items there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.items
    }

    /// Adds an item that has its destination. `alone`: an open batch may still hold it, so it must be checked before it is taken.
    #[inline]
    pub(crate) fn add(&mut self, item: Pending, alone: bool) {
        self.items += 1;
        let Some(chunks) = self.chunks.filter(|_| !alone) else {
            self.end_filling();
            return self.push(item.into_raw());
        };
        if let Some(filling) = &mut self.filling
            && filling.add(&item)
        {
            return item.hand_on();
        }
        self.end_filling();
        self.filling = Some(chunks.begin_filling(&item));
        item.hand_on();
    }

    /// Adds a closure, which is handed on. The chain holds closures only, and its chunks are `chunks`.
    #[inline]
    pub(crate) fn add_closure(&mut self, chunks: &Chunks, closure: &Small) {
        self.items += 1;
        if let Some(filling) = &mut self.filling
            && filling.add(closure)
        {
            return;
        }
        self.end_filling();
        self.filling = Some(chunks.begin_filling(closure));
    }

    fn push(&mut self, node: NonNull<RawWork>) {
        // SAFETY: only the chain owns the node.
        unsafe { link::set_next(node, self.newest) };
        self.newest = Some(node);
        self.oldest = self.oldest.or(Some(node));
    }

    fn end_filling(&mut self) {
        let Some(filling) = self.filling.take() else {
            return;
        };
        if filling.len() >= FEW || filling.is_of_closures() {
            return self.push(filling.finish());
        }
        // A worker takes so few as fast one by one.
        filling.undo(|item| self.push(item.into_raw()));
    }

    /// No more items follow.
    pub(crate) fn finish(&mut self) {
        self.end_filling();
    }

    /// The newest node and the oldest one, which the caller owns; `None`: it is empty.
    #[inline]
    pub(in crate::item) fn into_ends(mut self) -> Option<(NonNull<RawWork>, NonNull<RawWork>)> {
        self.end_filling();
        self.newest.take().zip(self.oldest.take())
    }
}

impl Drop for Chain<'_> {
    fn drop(&mut self) {
        debug_assert!(
            self.newest.is_none() && self.filling.is_none(),
            "items in it are nobody's"
        );
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::super::inbox::{Inbox, Taken};
    use super::*;
    use crate::item::ticket::OldestBatch;

    extern "C-unwind" fn one(_: NonNull<RawWork>) {
        unreachable!("nobody runs it here");
    }

    extern "C-unwind" fn other(item: NonNull<RawWork>) {
        // Not the same code as `one`, which might get the same address.
        assert!(!item.is_aligned(), "nobody runs it here");
    }

    /// Publishes these items after another one; returns in which order a worker takes them, and the number of nodes.
    fn publish(works: &[RawWork], alone: impl Fn(usize) -> bool) -> (Vec<usize>, usize) {
        let chunks = Chunks::of_items(1, 0, &OldestBatch::new());
        let inbox = Inbox::new();
        let claim = |at: usize| {
            // SAFETY: the item exists until the end of the test.
            unsafe { Pending::claim(NonNull::from(&works[at])) }.expect("it is idle")
        };
        let first = RawWork::new(one);
        // SAFETY: as above.
        inbox.push(unsafe { Pending::claim(NonNull::from(&first)) }.expect("it is idle"));
        let mut chain = Chain::new(Some(&chunks));
        for at in 0..works.len() {
            chain.add(claim(at), alone(at));
        }
        chain.finish();
        // SAFETY: the nodes are the chain's.
        let older = |node: &NonNull<RawWork>| unsafe { link::next(*node) };
        let nodes = std::iter::successors(chain.newest, older).count();
        assert_eq!(chain.len(), works.len());
        inbox.push_chain(chain);
        let mut taken = Taken::default();
        inbox.take_all(&mut taken);
        assert_eq!(taken.len(), works.len() + 1);
        let mut order = Vec::new();
        while let Some(item) = taken.pop_front() {
            let address = item.address();
            order.extend(works.iter().position(|work| work.address() == address));
            item.release();
        }
        (order, nodes)
    }

    fn works(count: usize, func: impl Fn(usize) -> bool) -> Vec<RawWork> {
        let func = |at| -> crate::item::WorkFn { if func(at) { one } else { other } };
        (0..count).map(|at| RawWork::new(func(at))).collect()
    }

    #[test]
    fn what_has_one_function_is_one_node_for_each_chunk() {
        let works = works(300, |_| true);
        let (order, nodes) = publish(&works, |_| false);
        assert_eq!(order, (0..300).collect::<Vec<_>>());
        assert_eq!(nodes, 3);
    }

    #[test]
    fn order_is_kept_across_functions_and_items_that_go_alone() {
        let works = works(40, |at| !(20..22).contains(&at));
        let (order, nodes) = publish(&works, |at| at == 30);
        assert_eq!(order, (0..40).collect::<Vec<_>>());
        // 20 together, two of another function, 8 together, one alone, 9 together.
        assert_eq!(nodes, 6);
    }
}
