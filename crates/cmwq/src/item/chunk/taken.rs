//! Staged items: what a pool has taken from its [inbox](super::inbox) and not accepted yet.
//!
//! The inbox gives out a chain whose newest node comes first. To reverse it, each node has to be
//! touched, and issuers decide how many there are. So the lock holder turns a few at a time
//! ([`Taken::turn`]), and takes the next chain when this one is turned. The turned nodes are a
//! doubly linked list, and each item notes that it is on it. So an item can be [taken
//! out](Taken::remove) of the middle in a few steps, however many are before it.
//!
//! Chains are numbered, and each node has the number of its chain. A thread that must see all that
//! was published up to now asks for the number that this has [reached](Taken::reached), and goes on
//! until that chain is [turned](Taken::is_turned), or [accepted](Taken::is_accepted).

use super::entries::Chunk;
use super::inbox::Inbox;
use super::part::Part;
use crate::item::location::ListKind;
use crate::item::raw::{Pending, RawWork, WorkFn, link};
use std::ptr::NonNull;

/// Items taken from an inbox and not accepted yet, oldest first. Its owner has to use them up: an
/// item in it has no other owner.
#[derive(Default)]
pub(crate) struct Taken {
    /// The nodes that are turned.
    nodes: Ends,
    /// The rest of the chunk that was the oldest node, and the number of its chain; it comes before `nodes`.
    part: Option<Part>,
    part_chain: u32,
    /// About how many items the turned nodes hold, without `part`.
    len: usize,
    /// The chain that is being turned, which is newer than `nodes`: what is left of it, newest
    /// first, and below, what has been turned of it (nothing if nothing is left).
    rest: Option<NonNull<RawWork>>,
    turned: Ends,
    /// How many chains were taken: the number of the last one.
    chains: u64,
    /// The chunks among all these, by their numbers.
    chunks: Vec<Option<NonNull<Chunk>>>,
}

/// The ends of a list, oldest first.
#[derive(Default)]
struct Ends {
    oldest: Option<NonNull<RawWork>>,
    newest: Option<NonNull<RawWork>>,
}

// SAFETY: it owns its items, and ownership of items may move between threads (`Pending: Send`).
unsafe impl Send for Taken {}

impl Ends {
    /// # Safety
    /// The caller owns both lists and `node`, which is on neither.
    #[inline]
    unsafe fn push_oldest(&mut self, node: NonNull<RawWork>) {
        // SAFETY: by the contract.
        unsafe {
            link::set_prev(node, None);
            link::set_next(node, self.oldest);
            match self.oldest {
                Some(oldest) => link::set_prev(oldest, Some(node)),
                None => self.newest = Some(node),
            }
        }
        self.oldest = Some(node);
    }

    /// Appends all of `newer`.
    ///
    /// # Safety
    /// The caller owns both lists.
    #[inline]
    unsafe fn append(&mut self, newer: Ends) {
        match (self.newest, newer.oldest) {
            // SAFETY: by the contract.
            (Some(last), Some(first)) => unsafe {
                link::set_next(last, Some(first));
                link::set_prev(first, Some(last));
                self.newest = newer.newest;
            },
            (None, _) => *self = newer,
            (_, None) => {}
        }
    }
}

/// Taking chains, and turning them.
impl Taken {
    /// Takes what is in the inbox, if all that was taken before is turned.
    #[inline]
    pub(crate) fn take_from(&mut self, inbox: &Inbox) {
        if self.rest.is_none()
            && let Some(newest) = inbox.take_chain()
        {
            self.rest = Some(newest);
            self.chains += 1;
        }
    }

    /// Whether nodes are left that must be turned.
    #[inline]
    pub(crate) fn is_turning(&self) -> bool {
        self.rest.is_some()
    }

    /// Turns up to `most` nodes; returns how many. `meets` is called with the number of the batch
    /// from which a single item was last started.
    #[inline]
    pub(crate) fn turn(&mut self, most: usize, mut meets: impl FnMut(usize)) -> usize {
        let mut done = 0;
        while let Some(node) = self.rest
            && done < most
        {
            done += 1;
            #[cfg(all(test, not(cmwq_loom)))]
            crate::item::touched::one();
            // SAFETY: the chain is ours since it was taken; each node on it was published exactly once.
            unsafe {
                self.rest = link::next(node);
                let batch = link::prev(node);
                self.turned.push_oldest(node);
                let item = node.as_ref();
                item.set_chain(self.chains as u32);
                if item.is_node() {
                    self.enter_chunk(node.cast());
                    let items = Part::weigh(node);
                    item.set_weight(items);
                    self.len += items as usize;
                } else {
                    item.set_location(item.location().on_list(ListKind::Staged));
                    self.len += 1;
                    if let Some(batch) = batch {
                        meets(batch.addr().get());
                    }
                }
            }
        }
        if self.rest.is_none() {
            let turned = std::mem::take(&mut self.turned);
            // SAFETY: both are ours.
            unsafe { self.nodes.append(turned) };
        }
        done
    }

    /// The number of the chain that, with those before it, contains everything that was published
    /// so far.
    pub(crate) fn reached(&self, inbox: &Inbox) -> u64 {
        self.chains + u64::from(!inbox.is_empty())
    }

    /// Whether all up to this chain is turned.
    pub(crate) fn is_turned(&self, up_to: u64) -> bool {
        self.chains > up_to || (self.chains == up_to && self.rest.is_none())
    }

    /// Whether nothing is left of the chains up to this one.
    pub(crate) fn is_accepted(&self, up_to: u64) -> bool {
        let oldest = match &self.part {
            Some(_) => Some(self.part_chain),
            // SAFETY: it is ours.
            None => self
                .nodes
                .oldest
                .map(|node| unsafe { node.as_ref() }.chain()),
        };
        // Numbers of nodes wrap around, but not while so many nodes are staged that this matters.
        let age = |chain: u32| u64::from((self.chains as u32).wrapping_sub(chain));
        self.is_turned(up_to) && oldest.is_none_or(|chain| self.chains - age(chain) > up_to)
    }

    /// Takes all and turns it.
    #[cfg(all(test, not(cmwq_loom)))]
    pub(in crate::item) fn take_all(&mut self, inbox: &Inbox) {
        self.take_from(inbox);
        self.turn(usize::MAX, |_| ());
    }
}

impl Taken {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_ready() && !self.is_turning()
    }

    /// Whether there is an oldest item that is turned.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.nodes.oldest.is_some() || self.part.is_some()
    }

    /// About how many items there are, without those that must be turned.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len + self.part.as_ref().map_or(0, Part::len)
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Pending> {
        if let Some(part) = self.oldest_part() {
            let item = part.pop_item();
            self.leave_empty_part();
            return Some(item);
        }
        let item = self.pop_node()?;
        // SAFETY: it is no chunk, and was published as an item; it is ours.
        Some(unsafe {
            let_go(item);
            Pending::from_raw(item)
        })
    }

    /// Removes any single item.
    ///
    /// # Safety
    /// It says that it is staged, in the pool whose lock guards this.
    pub(crate) unsafe fn remove(&mut self, item: &RawWork) -> Pending {
        let item = NonNull::from(item);
        // SAFETY: by the contract it is on one of the two lists, which are ours.
        unsafe {
            self.unlink(item);
            self.len -= 1;
            let_go(item);
            Pending::from_raw(item)
        }
    }

    /// # Safety
    /// It is on one of the two lists.
    unsafe fn unlink(&mut self, node: NonNull<RawWork>) {
        // SAFETY: its neighbours are ours as well.
        unsafe {
            let (older, newer) = (link::prev(node), link::next(node));
            let its_own = |end: Option<NonNull<RawWork>>| end == Some(node);
            match older {
                Some(older) => link::set_next(older, newer),
                None if its_own(self.nodes.oldest) => self.nodes.oldest = newer,
                None => self.turned.oldest = newer,
            }
            match newer {
                Some(newer) => link::set_prev(newer, older),
                None if its_own(self.nodes.newest) => self.nodes.newest = older,
                None => self.turned.newest = older,
            }
        }
    }

    /// Whether the oldest item is in a chunk.
    #[inline]
    pub(crate) fn begins_with_chunk(&self) -> bool {
        // SAFETY: it is ours.
        self.part.is_some()
            || self
                .nodes
                .oldest
                .is_some_and(|node| unsafe { node.as_ref() }.is_node())
    }

    /// The pool workqueue of the oldest item, if that is in a chunk.
    #[inline]
    pub(crate) fn pwq_of_chunk(&mut self) -> Option<u32> {
        self.oldest_part().map(|part| part.pwq())
    }

    /// The same, if the chunk holds closures.
    pub(crate) fn pwq_of_closures(&mut self) -> Option<u32> {
        let part = self.oldest_part()?;
        part.holds_closures().then(|| part.pwq())
    }

    /// Takes the oldest items, up to `most` of one chunk, if the oldest is in a chunk. It stops
    /// before the first item for whose address and function `fits` is false. No item is touched.
    #[inline]
    pub(crate) fn split_chunk(
        &mut self,
        most: usize,
        fits: Option<impl Fn(usize, Option<WorkFn>) -> bool>,
    ) -> Option<Part> {
        let part = self.oldest_part()?.split(most, fits);
        self.leave_empty_part();
        (part.len() > 0).then_some(part)
    }

    /// The rest of the oldest node, if that is a chunk.
    #[inline]
    fn oldest_part(&mut self) -> Option<&mut Part> {
        if self.part.is_none() {
            let node = self.nodes.oldest?;
            // SAFETY: it is ours, and a node that is not an item's is that of a published chunk.
            unsafe {
                if !node.as_ref().is_node() {
                    return None;
                }
                self.pop_node();
                self.part_chain = node.as_ref().chain();
                let chunk = node.cast::<Chunk>();
                let part = if chunk.as_ref().closed_early.get() {
                    Part::of_chunk(chunk)
                } else {
                    Part::close(node)
                };
                self.part = Some(part);
            }
            self.leave_empty_part();
        }
        self.part.as_mut()
    }

    /// Puts the item behind the rest of the chunk and before all others.
    fn push_front(&mut self, item: Pending) {
        let item = item.into_raw();
        // SAFETY: `self` owns it from now on.
        unsafe {
            let place = item.as_ref();
            place.set_chain(self.part_chain);
            place.set_location(place.location().on_list(ListKind::Staged));
            self.nodes.push_oldest(item);
        }
        self.len += 1;
    }

    /// What is left of the oldest chunk, if the oldest item is in one.
    pub(crate) fn take_chunk(&mut self) -> Option<Part> {
        self.oldest_part()?;
        self.give_part()
    }

    fn give_part(&mut self) -> Option<Part> {
        let part = self.part.take()?;
        // SAFETY: it is ours.
        unsafe { self.leave_chunk(part.whole()) };
        Some(part)
    }

    #[inline]
    fn leave_empty_part(&mut self) {
        if self.part.as_ref().is_some_and(|part| part.len() == 0) {
            drop(self.give_part());
        }
    }

    #[inline]
    fn pop_node(&mut self) -> Option<NonNull<RawWork>> {
        let node = self.nodes.oldest?;
        // SAFETY: it is ours, and each node is given out once.
        unsafe {
            self.nodes.oldest = link::next(node);
            match self.nodes.oldest {
                Some(oldest) => link::set_prev(oldest, None),
                None => self.nodes.newest = None,
            }
            self.len -= match node.as_ref().is_node() {
                true => node.as_ref().weight() as usize,
                false => 1,
            };
        }
        Some(node)
    }
}

/// An item in the middle of a chunk.
impl Taken {
    /// # Safety
    /// The chunk is staged from now on.
    #[inline]
    unsafe fn enter_chunk(&mut self, chunk: NonNull<Chunk>) {
        // SAFETY: it is ours.
        let number = unsafe { chunk.as_ref() }.about.number_in_pool as usize;
        if number >= self.chunks.len() {
            self.chunks.resize(number + 1, None);
        }
        self.chunks[number] = Some(chunk);
    }

    /// # Safety
    /// The chunk is staged, and is not any more from now on.
    #[inline]
    unsafe fn leave_chunk(&mut self, chunk: NonNull<Chunk>) {
        // SAFETY: it is ours.
        let chunk = unsafe { chunk.as_ref() };
        // SAFETY: as above.
        unsafe { chunk.closed_early.set(false) };
        self.chunks[chunk.about.number_in_pool as usize] = None;
    }

    /// If `item` is in a staged chunk, it is a single staged item afterwards. Its location is only
    /// a hint, since it is written before the item is counted; so the chunk is closed first and
    /// then searched.
    pub(crate) fn single_out(&mut self, item: &RawWork) {
        let number = item.location().chunk();
        let staged = number.and_then(|number| *self.chunks.get(number as usize)?);
        let Some(chunk) = staged else { return };
        let item = item.address();
        match &self.part {
            Some(part) if part.whole() == chunk => {
                if part.contains(item)
                    && let Some(part) = self.give_part()
                {
                    let items = (0..part.len()).rev();
                    items.for_each(|index| self.push_front(part.take_item(index)));
                }
            }
            // SAFETY: it is staged, and is not the part: its node is on one of the two lists.
            _ => unsafe {
                self.close_in_place(chunk);
                self.take_apart(chunk, item);
            },
        }
    }

    /// Closes the chunk in its place on the list, if it is open.
    ///
    /// # Safety
    /// Its node is on one of the two lists.
    unsafe fn close_in_place(&mut self, chunk: NonNull<Chunk>) {
        let node = chunk.cast::<RawWork>();
        // SAFETY: the chunk and its neighbours are ours.
        unsafe {
            if chunk.as_ref().closed_early.get() {
                return;
            }
            let part = Part::close(node);
            self.len -= node.as_ref().weight() as usize;
            node.as_ref().set_weight(part.len() as u32);
            self.len += part.len();
            chunk.as_ref().closed_early.set(true);
            part.stay();
        }
    }

    /// If the closed chunk contains the item at this address, replaces it on the list by its items
    /// as single ones.
    ///
    /// # Safety
    /// Its node is on one of the two lists.
    unsafe fn take_apart(&mut self, chunk: NonNull<Chunk>, item: usize) {
        let node = chunk.cast::<RawWork>();
        // SAFETY: the chunk and its neighbours are ours.
        unsafe {
            let part = Part::of_chunk(chunk);
            if !part.contains(item) {
                return part.stay();
            }
            let items = (0..part.len()).rev();
            items.for_each(|index| self.insert_behind(node, part.take_item(index)));
            self.len -= part.len();
            self.unlink(node);
            self.leave_chunk(chunk);
        }
    }

    /// # Safety
    /// `node` is on one of the two lists.
    unsafe fn insert_behind(&mut self, node: NonNull<RawWork>, item: Pending) {
        let item = item.into_raw();
        // SAFETY: all are ours.
        unsafe {
            let newer = link::next(node);
            link::set_prev(item, Some(node));
            link::set_next(item, newer);
            link::set_next(node, Some(item));
            match newer {
                Some(newer) => link::set_prev(newer, Some(item)),
                None if self.nodes.newest == Some(node) => self.nodes.newest = Some(item),
                None => self.turned.newest = Some(item),
            }
            let place = item.as_ref();
            place.set_chain(node.as_ref().chain());
            place.set_location(place.location().on_list(ListKind::Staged));
        }
        self.len += 1;
    }
}

/// # Safety
/// It was staged, and has just been unlinked.
#[inline]
unsafe fn let_go(item: NonNull<RawWork>) {
    // SAFETY: by the contract it is ours.
    unsafe {
        let place = item.as_ref();
        place.set_location(place.location().on_list(ListKind::None));
        // Nothing that a later owner could mistake for the number of a batch.
        link::set_prev(item, None);
    }
}
