//! A chain: items that one thread publishes with a single exchange on the inbox.
//!
//! Its nodes link as those of an inbox do, each to the one before it: single items, and
//! [chunks](super::entries) that the thread has filled before any other thread knows them. A chunk
//! holds items of one function, and none whose last run may still be in an open batch: see
//! [`Chain::add`].
//!
//! The first items go into the thread's open chunk, as long as they fit: those are published by one
//! addition to that chunk's count, not by an exchange. Afterwards the last chunk of the chain is
//! the thread's open one. So short chains that follow each other share chunks.

use super::entries::{ChunkStore, Found};
use super::filling::Filling;
use super::load::Load;
use super::open::OpenChunk;
use crate::item::closure::Small;
use crate::item::raw::{Pending, RawWork, link};
use std::ptr::NonNull;

/// Items that were claimed and not published. Its owner publishes it.
pub(crate) struct Chain<'b> {
    /// The chunks for its items; `None`: each item is a node of its own.
    chunks: Option<&'b ChunkStore>,
    /// Of the calling thread.
    open: &'b OpenChunk,
    newest: Option<NonNull<RawWork>>,
    oldest: Option<NonNull<RawWork>>,
    items: usize,
    /// The chunk that is being filled. Its items are newer than all nodes.
    filling: Option<Filling>,
    /// How many entries were written to the open chunk but are not counted there yet. They are
    /// older than all nodes.
    ahead: usize,
}

impl<'b> Chain<'b> {
    /// An empty chain, of items that all go to the pool workqueue of `chunks`.
    #[inline]
    pub(crate) fn new(chunks: Option<&'b ChunkStore>, open: &'b OpenChunk) -> Self {
        Chain {
            chunks,
            open,
            newest: None,
            oldest: None,
            items: 0,
            filling: None,
            ahead: 0,
        }
    }

    /// How many items were added.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.items
    }

    /// Adds an item that has its destination. With `alone` it is not put into a chunk: its last run
    /// may still be in an open batch, which has to be checked when it is taken.
    #[inline]
    pub(crate) fn add(&mut self, item: Pending, alone: bool) {
        self.items += 1;
        let Some(chunks) = self.chunks.filter(|_| !alone) else {
            self.count_ahead();
            self.end_filling();
            return self.push(item.into_raw());
        };
        self.put(chunks, item);
    }

    /// Adds a closure, which the chain owns from then on. Such a chain holds closures only, and its
    /// chunks are `chunks`.
    #[inline]
    pub(crate) fn add_closure(&mut self, chunks: &'b ChunkStore, closure: &Small) {
        self.chunks = Some(chunks);
        self.items += 1;
        self.put(chunks, closure);
    }

    #[inline]
    fn put<L: Load>(&mut self, chunks: &ChunkStore, load: L) {
        if self.filling.is_some() {
            self.fill(chunks, load);
        } else if self.newest.is_none() && self.open.write_ahead(chunks.serial(), &load, self.ahead)
        {
            self.ahead += 1;
        } else {
            self.leave_open_chunk(chunks, load);
        }
    }

    #[inline(never)]
    fn leave_open_chunk<L: Load>(&mut self, chunks: &ChunkStore, load: L) {
        self.count_ahead();
        self.fill(chunks, load);
    }

    fn fill<L: Load>(&mut self, chunks: &ChunkStore, load: L) {
        let filling = self.filling.as_mut();
        if !filling.is_some_and(|filling| filling.add(&load)) {
            self.begin_filling(chunks, load);
        }
    }

    #[inline(never)]
    fn begin_filling<L: Load>(&mut self, chunks: &ChunkStore, load: L) {
        self.end_filling();
        self.filling = Some(chunks.begin_filling(&load));
    }

    /// Publishes what was written to the open chunk; if that is closed, it goes into a chunk of the chain.
    #[inline]
    fn count_ahead(&mut self) {
        let ahead = std::mem::take(&mut self.ahead);
        let Some(chunks) = self.chunks.filter(|_| ahead > 0) else {
            return;
        };
        self.open.count_ahead(ahead, |found| match found {
            Found::Item(item) => self.fill(chunks, item),
            Found::Closure(closure) => self.fill(chunks, &closure),
        });
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
        if filling.is_worth_it() {
            return self.push(filling.finish());
        }
        // A worker takes so few items just as fast one by one.
        filling.undo(|item| self.push(item.into_raw()));
    }

    /// Called when no more items follow: publishes what was written to the open chunk. If the chain
    /// has nodes, the thread then leaves that chunk, and the last chunk of the chain becomes its
    /// open one.
    pub(crate) fn finish(&mut self) {
        self.count_ahead();
        if self.newest.is_none() && self.filling.is_none() {
            return;
        }
        self.open.leave();
        match self.filling.take() {
            Some(filling) if filling.is_worth_it() => self.push(filling.finish_open(self.open)),
            filling => {
                self.filling = filling;
                self.end_filling();
            }
        }
    }

    /// The newest node and the oldest one, which the caller owns; `None`: it is empty.
    #[inline]
    pub(in crate::item) fn into_ends(mut self) -> Option<(NonNull<RawWork>, NonNull<RawWork>)> {
        self.newest.take().zip(self.oldest.take())
    }
}

impl Drop for Chain<'_> {
    fn drop(&mut self) {
        debug_assert!(
            self.newest.is_none() && self.filling.is_none() && self.ahead == 0,
            "items in it are nobody's"
        );
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::super::inbox::Inbox;
    use super::super::numbers::ChunkNumbers;
    use super::super::taken::Taken;
    use super::*;
    use crate::item::ticket::OldestBatch;
    use std::sync::Arc;

    extern "C-unwind" fn one(_: NonNull<RawWork>) {
        unreachable!("nobody runs it here");
    }

    extern "C-unwind" fn other(item: NonNull<RawWork>) {
        // Not the same code as `one`, which might get the same address.
        assert!(!item.is_aligned(), "nobody runs it here");
    }

    fn item_chunks() -> (Arc<ChunkStore>, OpenChunk) {
        let chunks = ChunkStore::of_items(1, 0, &OldestBatch::new(), &ChunkNumbers::default());
        (chunks, OpenChunk::none())
    }

    fn claim(work: &RawWork) -> Pending {
        // SAFETY: the items exist until the end of their test.
        unsafe { Pending::claim(NonNull::from(work)) }.expect("it is idle")
    }

    /// Takes one item; returns its address.
    fn pop(taken: &mut Taken) -> Option<usize> {
        let item = taken.pop_front()?;
        let address = item.address();
        item.release();
        Some(address)
    }

    fn addresses(works: &[RawWork]) -> Vec<usize> {
        works.iter().map(RawWork::address).collect()
    }

    /// Publishes these items after another one, in chains of `each`; returns in which order a
    /// worker takes them, and the number of nodes.
    fn publish(
        works: &[RawWork],
        each: usize,
        alone: impl Fn(usize) -> bool,
    ) -> (Vec<usize>, usize) {
        let (chunks, open) = item_chunks();
        let inbox = Inbox::default();
        let first = RawWork::new(one);
        inbox.push(claim(&first));
        let mut nodes = 0;
        for first in (0..works.len()).step_by(each) {
            let end = works.len().min(first + each);
            let mut chain = Chain::new(Some(&chunks), &open);
            (first..end).for_each(|at| chain.add(claim(&works[at]), alone(at)));
            chain.finish();
            assert_eq!(chain.len(), end - first);
            // SAFETY: the nodes are the chain's.
            let older = |node: &NonNull<RawWork>| unsafe { link::next(*node) };
            nodes += std::iter::successors(chain.newest, older).count();
            inbox.push_chain(chain);
        }
        let mut taken = Taken::default();
        taken.take_all(&inbox);
        assert_eq!(taken.len(), works.len() + 1);
        let mut order = Vec::new();
        while let Some(address) = pop(&mut taken) {
            order.extend(works.iter().position(|work| work.address() == address));
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
        let (order, nodes) = publish(&works, 300, |_| false);
        assert_eq!(order, (0..300).collect::<Vec<_>>());
        assert_eq!(nodes, 3);
    }

    #[test]
    fn short_chains_one_after_the_other_share_chunks() {
        let works = works(300, |_| true);
        let (order, nodes) = publish(&works, 8, |_| false);
        assert_eq!(order, (0..300).collect::<Vec<_>>());
        assert_eq!(nodes, 3);
        let works = self::works(300, |at| at != 111);
        let (order, nodes) = publish(&works, 10, |at| [222, 229].contains(&at));
        assert_eq!(order, (0..300).collect::<Vec<_>>());
        assert!(nodes < 15, "{nodes}");
    }

    #[test]
    fn what_was_added_to_a_chunk_that_is_taken_meanwhile_is_published_all_the_same() {
        for last_alone in [false, true] {
            let (chunks, open) = item_chunks();
            let inbox = Inbox::default();
            let works = works(16, |_| true);
            let chain_of = |range: std::ops::Range<usize>| {
                let mut chain = Chain::new(Some(&chunks), &open);
                works[range]
                    .iter()
                    .for_each(|work| chain.add(claim(work), false));
                chain
            };
            let mut taken = Taken::default();
            let mut take = || {
                taken.take_all(&inbox);
                std::iter::from_fn(|| pop(&mut taken)).collect::<Vec<_>>()
            };
            let mut first = chain_of(0..8);
            first.finish();
            inbox.push_chain(first);
            let mut second = chain_of(8..15);
            assert_eq!(take(), addresses(&works[..8]));
            second.add(claim(&works[15]), last_alone);
            second.finish();
            inbox.push_chain(second);
            assert_eq!(take(), addresses(&works[8..]), "alone: {last_alone}");
        }
    }

    /// It may still run in the other pool.
    #[test]
    fn an_item_that_was_in_another_pool_does_not_go_into_the_open_chunk() {
        let (chunks, open) = item_chunks();
        let inbox = Inbox::default();
        let works = works(8, |_| true);
        let mut chain = Chain::new(Some(&chunks), &open);
        works.iter().for_each(|work| chain.add(claim(work), false));
        chain.finish();
        inbox.push_chain(chain);
        let again = [0, 1, 2].map(|last_pool| (RawWork::new(one), last_pool));
        for (work, last_pool) in &again {
            let mut before = claim(work);
            before.set_destination(*last_pool, 0);
            before.release();
            let added = open.add_item_again(chunks.serial(), claim(work));
            assert_eq!(added.is_ok(), *last_pool < 2, "last in pool {last_pool}");
            let _ = added.map_err(Pending::release);
        }
        let mut taken = Taken::default();
        taken.take_all(&inbox);
        assert_eq!(std::iter::from_fn(|| pop(&mut taken)).count(), 8 + 2);
    }

    #[test]
    fn order_is_kept_across_functions_and_items_that_go_alone() {
        let works = works(40, |at| !(20..22).contains(&at));
        let (order, nodes) = publish(&works, 40, |at| at == 30);
        assert_eq!(order, (0..40).collect::<Vec<_>>());
        // 20 together, two of another function, 8 together, one alone, 9 together.
        assert_eq!(nodes, 6);
    }

    /// Otherwise a thread that waits for everything published so far could go on too early.
    #[test]
    fn items_of_a_begun_chunk_keep_its_place_in_time_when_one_is_singled_out() {
        let (chunks, open) = item_chunks();
        let inbox = Inbox::default();
        let works = works(4, |_| true);
        let mut chain = Chain::new(Some(&chunks), &open);
        for work in &works {
            // From the chain of another pool.
            work.set_chain(7);
            chain.add(claim(work), false);
        }
        chain.finish();
        inbox.push_chain(chain);
        let mut taken = Taken::default();
        taken.take_all(&inbox);
        let up_to = taken.reached(&inbox);
        let mut order = Vec::from_iter(pop(&mut taken));
        taken.single_out(&works[2]);
        while !taken.is_empty() {
            assert!(!taken.is_accepted(up_to));
            order.extend(pop(&mut taken));
        }
        assert!(taken.is_accepted(up_to));
        assert_eq!(order, addresses(&works));
    }
}
