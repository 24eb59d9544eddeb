//! The taker's side of chunks: it closes and takes a whole chunk, splits it into parts, and empties
//! their entries one by one.

use super::entries::{CLOSED, Chunk, Contents, Found, Places, TOGETHER};
use crate::item::raw::{Pending, RawWork, WorkFn};
use crate::sys::atomic::Ordering;
use crate::sys::prefetch;
use std::ptr::NonNull;

/// Some entries of a chunk that was taken; it holds the chunk.
pub(crate) struct Part {
    chunk: NonNull<Chunk>,
    next: usize,
    end: usize,
}

// SAFETY: any thread may use a chunk, and one thread takes each entry of a part.
unsafe impl Send for Part {}

impl Part {
    /// About how many entries a chunk has that is not closed yet.
    ///
    /// # Safety
    /// `node` is the node of a chunk that was published, and that the caller has taken.
    pub(in crate::item) unsafe fn weigh(node: NonNull<RawWork>) -> u32 {
        // SAFETY: the taker holds it.
        let chunk = unsafe { node.cast::<Chunk>().as_ref() };
        chunk.filled.load(Ordering::Relaxed)
    }

    /// Closes a chunk, and takes all its entries, of which there is at least one.
    ///
    /// # Safety
    /// As for [`weigh`](Self::weigh), and called once.
    #[inline]
    pub(in crate::item) unsafe fn close(node: NonNull<RawWork>) -> Self {
        let chunk = node.cast::<Chunk>();
        // Acquire: the entries. What the maker counts after this has no effect, and no thread will read it.
        // SAFETY: the taker holds it.
        let filled = unsafe { chunk.as_ref() }
            .filled
            .fetch_or(CLOSED, Ordering::Acquire);
        debug_assert_eq!(filled & CLOSED, 0, "it is taken once");
        Part {
            chunk,
            next: 0,
            end: filled as usize,
        }
    }

    #[inline]
    fn chunk(&self) -> &Chunk {
        // SAFETY: held.
        unsafe { self.chunk.as_ref() }
    }

    /// The pool workqueue.
    #[inline]
    pub(crate) fn pwq(&self) -> u32 {
        self.chunk().about.destination.pwq
    }

    /// The chunk.
    pub(in crate::item) fn whole(&self) -> NonNull<Chunk> {
        self.chunk
    }

    /// Whether an entry is this item.
    pub(in crate::item) fn contains(&self, item: usize) -> bool {
        let is_it = |place| self.chunk().item(place).addr().get() == item;
        !self.holds_closures() && (self.next..self.end).any(is_it)
    }

    pub(in crate::item) fn holds_closures(&self) -> bool {
        self.chunk().about.destination.contents == Contents::Closures
    }

    /// How many entries are left.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.end - self.next
    }

    /// A second value for the same entries, for a thread that takes other ones of them.
    pub(crate) fn share(&self) -> Part {
        // Relaxed: the existing hold keeps the chunk.
        self.chunk().holds.fetch_add(1, Ordering::Relaxed);
        Part {
            chunk: self.chunk,
            next: self.next,
            end: self.end,
        }
    }

    /// Parks the part: leaves its entries in their chunk, whose node stands for them on a list.
    /// Only the rest of a chunk can be parked, so that a chunk never has two parked parts.
    pub(crate) fn park(self) -> Pending {
        let node = self.chunk.cast();
        self.stay();
        // SAFETY: who has the rest of the chunk has its node.
        unsafe { Pending::from_raw(node) }
    }

    /// As [`park`](Self::park), if the node is on a list already.
    pub(in crate::item) fn stay(self) {
        let part = std::mem::ManuallyDrop::new(self);
        // SAFETY: only a thread that has the rest of the chunk touches the field; the hold of it
        // goes with the node.
        unsafe { part.chunk().about.parked.set((part.next, part.end)) };
    }

    /// Takes out the part that is [parked](Self::park) in the chunk.
    ///
    /// # Safety
    /// There is such a part, and the caller takes it once.
    pub(in crate::item) unsafe fn of_chunk(chunk: NonNull<Chunk>) -> Self {
        // SAFETY: as above.
        let (next, end) = unsafe { chunk.as_ref().about.parked.get() };
        Part { chunk, next, end }
    }

    /// If this is the node of a chunk: the part that was [parked](Self::park) there. Otherwise
    /// returns the item.
    pub(crate) fn of_node(node: Pending) -> Result<Self, Pending> {
        match node.is_node() {
            // SAFETY: it is given up.
            true => Ok(unsafe { Part::of_chunk(node.into_raw().cast()) }),
            false => Err(node),
        }
    }

    /// For an item on a list: its address and function, and 1. For the node of a parked part: those
    /// of its first entry, and how many there are; entries of one chunk have one function.
    ///
    /// # Safety
    /// It is on a list whose lock the caller holds.
    pub(in crate::item) unsafe fn names_of(
        node: NonNull<RawWork>,
    ) -> (usize, Option<WorkFn>, usize) {
        // SAFETY: the list owns it, and with it the parked part.
        unsafe {
            let item = node.as_ref();
            if !item.is_node() {
                return (item.address(), item.func(), 1);
            }
            let chunk = node.cast::<Chunk>().as_ref();
            let (next, end) = chunk.about.parked.get();
            let (address, func) = chunk.name(next);
            (address, func, end - next)
        }
    }

    /// The next entry, as an item.
    pub(crate) fn pop_item(&mut self) -> Pending {
        self.next += 1;
        self.chunk().take_item(self.next - 1)
    }

    /// Splits off the first entries: `most` at most, up to the first whose address and function do
    /// not meet `fits`.
    #[inline]
    pub(in crate::item) fn split(
        &mut self,
        most: usize,
        fits: Option<impl Fn(usize, Option<WorkFn>) -> bool>,
    ) -> Part {
        let mut end = self.end.min(self.next + most);
        if let Some(fits) = fits {
            let unfit = |&place: &usize| {
                let (address, func) = self.chunk().name(place);
                !fits(address, func)
            };
            end = (self.next..end).find(unfit).unwrap_or(end);
        }
        let mut part = self.share();
        part.end = end;
        self.next = end;
        part
    }

    /// The entry at `index`, from 0 on; once.
    #[inline]
    pub(crate) fn take(&self, index: usize) -> Found {
        self.chunk().take(self.next + index)
    }

    /// The same, as an item.
    pub(crate) fn take_item(&self, index: usize) -> Pending {
        self.chunk().take_item(self.next + index)
    }

    /// The address and the function of the entry at `index`, taken or not.
    pub(crate) fn name(&self, index: usize) -> (usize, Option<WorkFn>) {
        self.chunk().name(self.next + index)
    }

    /// Prefetches the entry at `index` and the ones soon after it, if there are any.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        let place = self.next + index;
        if place >= self.end {
            return;
        }
        let chunk = self.chunk();
        match chunk.about.destination.contents {
            Contents::Items => chunk.prefetch_item(place),
            Contents::Closures if place.is_multiple_of(TOGETHER) => {
                Places::lines(&chunk.about.closures, place, prefetch::to_read);
            }
            Contents::Closures => {}
        }
    }
}

impl Drop for Part {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: held until now.
        unsafe { Chunk::let_go(self.chunk) };
    }
}
