//! The maker's side of chunks: it adds to its last chunk until that is full or taken, or until it
//! publishes otherwise.

use super::entries::{AHEAD, CLOSED, Chunk, ChunkStore, Found, MOST, Serial, TOGETHER};
use super::load::Load;
use crate::item::closure::Small;
use crate::item::raw::{Pending, RawWork};
use crate::sys::atomic::Ordering;
use crate::sys::fork;
use std::cell::Cell;
use std::ptr::NonNull;

/// The chunk to which a thread adds. The thread has a hold of it.
pub(crate) struct OpenChunk {
    /// To which chunks it belongs; `None` if there is no open chunk.
    of: Cell<Option<Serial>>,
    chunk: Cell<Option<NonNull<Chunk>>>,
    number: Cell<usize>,
    /// The next entry.
    next: Cell<usize>,
    /// How many entries it gets.
    most: Cell<usize>,
    /// The fork generation of the process that made it.
    born: Cell<u32>,
}

impl OpenChunk {
    pub(crate) const fn none() -> Self {
        OpenChunk {
            of: Cell::new(None),
            chunk: Cell::new(None),
            number: Cell::new(0),
            next: Cell::new(0),
            most: Cell::new(0),
            born: Cell::new(0),
        }
    }

    /// The chunk, if it belongs to `of`, is for closures or items with this number, and has room.
    /// The caller holds it until it [leaves](Self::leave) it.
    #[inline]
    fn fitting<L: Load>(&self, of: Serial, number: usize) -> Option<NonNull<Chunk>> {
        let fits = self.of.get() == Some(of)
            && of.contents == L::CONTENTS
            && self.next.get() < self.most.get()
            && self.number.get() == number;
        self.chunk.get().filter(|_| fits)
    }

    /// Publishes `load` by adding it to `chunk`, which [fits](Self::fitting). The caller need not
    /// wake a worker, because a lock holder will come for the contents of the chunk. If the chunk
    /// was closed, the thread leaves it, and `load` is returned.
    #[inline]
    fn add<L: Load>(&self, chunk: NonNull<Chunk>, load: L) -> Result<(), L> {
        let place = self.next.get();
        // SAFETY: the thread holds the chunk, and does not use it after leaving it below, when it
        // may be freed.
        let chunk = unsafe { chunk.as_ref() };
        if place % TOGETHER == TOGETHER / 2 {
            chunk.prefetch(place + AHEAD);
        }
        // SAFETY: no thread reads the entry before it is counted.
        unsafe { load.put(chunk, place) };
        // Release: the taker sees it.
        if chunk.filled.fetch_add(1, Ordering::Release) & CLOSED != 0 {
            load.take_back(chunk);
            self.leave();
            return Err(load);
        }
        self.next.set(place + 1);
        Ok(())
    }

    /// Writes `load` behind the counted entries and `ahead` further ones, if the chunk is not
    /// closed, fits and has room. Returns `true` if it was written: the entry owns it, and it is
    /// published when it is [counted](Self::count_ahead). Nothing else may be added before that.
    #[inline]
    pub(in crate::item) fn write_ahead<L: Load>(&self, of: Serial, load: &L, ahead: usize) -> bool {
        let place = self.next.get() + ahead;
        let chunk = self.fitting::<L>(of, load.number());
        let Some(chunk) = chunk.filter(|_| place < self.most.get()) else {
            return false;
        };
        // SAFETY: held.
        let chunk = unsafe { chunk.as_ref() };
        // Relaxed: a hint.
        if ahead == 0 && chunk.filled.load(Ordering::Relaxed) & CLOSED != 0 {
            return false;
        }
        if place % TOGETHER == TOGETHER / 2 {
            chunk.prefetch(place + AHEAD);
        }
        // SAFETY: no thread reads the entry before it is counted.
        unsafe { load.put(chunk, place) };
        true
    }

    /// Publishes the `ahead` entries that were [written](Self::write_ahead). If the chunk was
    /// closed, the thread leaves it, and passes them to `again`, the oldest first.
    #[inline]
    pub(in crate::item) fn count_ahead(&self, ahead: usize, again: impl FnMut(Found)) {
        let Some(chunk) = self.chunk.get() else {
            return;
        };
        let places = self.next.get()..self.next.get() + ahead;
        // SAFETY: held until it is left below.
        let chunk = unsafe { chunk.as_ref() };
        // Release: the taker sees them.
        if chunk.filled.fetch_add(ahead as u32, Ordering::Release) & CLOSED == 0 {
            return self.next.set(places.end);
        }
        // They are not counted: no other thread reads them.
        places.map(|place| chunk.take(place)).for_each(again);
        self.leave();
    }

    /// Adds a closure, if the chunk belongs to `of` and has room. `true`: it is published, and handed on.
    #[inline]
    pub(crate) fn add_closure(&self, of: Serial, closure: &Small) -> bool {
        self.fitting::<&Small>(of, closure.number())
            .is_some_and(|chunk| self.add(chunk, closure).is_ok())
    }

    /// The same for an item with the destination of these chunks. Gives it back if it cannot be added.
    #[inline]
    pub(crate) fn add_item(&self, of: Serial, item: Pending) -> Result<(), Pending> {
        match self.fitting::<Pending>(of, item.number()) {
            Some(chunk) => self.add(chunk, item),
            None => Err(item),
        }
    }

    /// The same for an item without a destination, if it runs nowhere.
    #[inline]
    pub(crate) fn add_item_again(&self, of: Serial, item: Pending) -> Result<(), Pending> {
        let Some(chunk) = self.fitting::<Pending>(of, item.number()) else {
            return Err(item);
        };
        {
            // SAFETY: held.
            let destination = &unsafe { chunk.as_ref() }.about.destination;
            let last_pool = item.last_pool();
            if (last_pool != 0 && last_pool != destination.pool)
                || !destination.oldest.is_after(item.noted_batch())
            {
                return Err(item);
            }
        }
        self.add(chunk, item)
    }

    /// Makes `chunk`, one of `of`, the calling thread's open chunk, which gets `most` entries. The
    /// thread has a hold of it, and of no other chunk.
    pub(in crate::item) fn begin(
        &self,
        of: Serial,
        chunk: NonNull<Chunk>,
        number: usize,
        (filled, most): (usize, usize),
    ) {
        self.chunk.set(Some(chunk));
        self.number.set(number);
        self.next.set(filled);
        self.most.set(most.min(MOST));
        self.born.set(fork::generation());
        self.of.set(Some(of));
    }

    /// Leaves the chunk: the thread adds nothing more to it, so what it publishes from now on comes
    /// after the chunk's contents.
    #[inline]
    pub(crate) fn leave(&self) {
        if self.of.take().is_some() {
            self.let_go();
        }
    }

    /// As [`leave`](Self::leave); returns how many items were added to it, 0 if it was left before.
    pub(crate) fn end(&self) -> usize {
        self.leave();
        self.next.replace(0)
    }

    #[cold]
    fn let_go(&self) {
        // In a fork's child it is the parent's.
        if let Some(chunk) = self.chunk.take()
            && self.born.get() == fork::generation()
        {
            // SAFETY: held until now.
            unsafe { Chunk::let_go(chunk) };
        }
    }
}

impl ChunkStore {
    /// Makes a chunk with `load` in it, which the caller publishes in place of `load`. It is the
    /// calling thread's open chunk from now on, until it has `most` entries.
    pub(in crate::item) fn make<L: Load>(
        &self,
        load: L,
        open: &OpenChunk,
        most: usize,
    ) -> NonNull<RawWork> {
        open.leave();
        let chunk = self.begin(&load);
        // Relaxed: the chunk is published as a whole. One hold is the maker's, the other the future taker's.
        chunk.holds.store(2, Ordering::Relaxed);
        chunk.filled.store(1, Ordering::Relaxed);
        let chunk = NonNull::from(Box::leak(chunk));
        open.begin(self.serial, chunk, load.number(), (1, most));
        chunk.cast()
    }
}

impl Drop for OpenChunk {
    fn drop(&mut self) {
        self.leave();
    }
}
