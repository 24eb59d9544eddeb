//! A chunk that one thread fills before it publishes it: no other thread has it, so nothing about
//! it is a read-modify-write.

use super::entries::{Chunk, ChunkStore, Contents, MOST, Serial};
use super::load::Load;
use super::open::OpenChunk;
use crate::item::raw::{Pending, RawWork};
use crate::sys::atomic::Ordering;
use std::ptr::NonNull;

/// Fewer items than this are published one by one.
pub(in crate::item) const FEW: usize = if cfg!(cmwq_loom) { 2 } else { 4 };

/// It owns its contents, which are lost if it is dropped.
pub(in crate::item) struct Filling {
    of: Serial,
    chunk: Box<Chunk>,
    number: usize,
    filled: usize,
}

impl ChunkStore {
    /// Makes a chunk with `load` in it, which the chunk owns from then on.
    pub(in crate::item) fn begin_filling<L: Load>(&self, load: &L) -> Filling {
        Filling {
            of: self.serial,
            chunk: self.begin(load),
            number: load.number(),
            filled: 1,
        }
    }
}

impl Filling {
    /// Adds `load` if it fits the other entries and there is room. Returns `true` if the chunk owns
    /// it now.
    #[inline]
    pub(in crate::item) fn add<L: Load>(&mut self, load: &L) -> bool {
        let fits = self.filled < MOST
            && self.of.contents == L::CONTENTS
            && self.number == load.number()
            // SAFETY: no other thread has it.
            && unsafe { self.chunk.about.in_blocks.get() } == load.is_in_block();
        if fits {
            // SAFETY: as above.
            unsafe { load.put(&self.chunk, self.filled) };
            self.filled += 1;
        }
        fits
    }

    /// Whether it has enough entries: a worker takes fewer just as fast as single items.
    pub(in crate::item) fn is_worth_it(&self) -> bool {
        self.filled >= FEW || self.of.contents == Contents::Closures
    }

    /// The node to be published. Nothing is added to it any more.
    pub(in crate::item) fn finish(self) -> NonNull<RawWork> {
        self.leak(1).cast()
    }

    /// The node to be published. The calling thread, which has left its open chunk, adds to this
    /// one from now on.
    pub(in crate::item) fn finish_open(self, open: &OpenChunk) -> NonNull<RawWork> {
        let (of, number, filled) = (self.of, self.number, self.filled);
        let chunk = self.leak(2);
        open.begin(of, chunk, number, (filled, MOST));
        chunk.cast()
    }

    /// One hold is the future taker's.
    fn leak(self, holds: u32) -> NonNull<Chunk> {
        // Relaxed: the chunk is published as a whole.
        self.chunk.holds.store(holds, Ordering::Relaxed);
        self.chunk
            .filled
            .store(self.filled as u32, Ordering::Relaxed);
        NonNull::from(Box::leak(self.chunk))
    }

    /// Gives all items back, the oldest first.
    pub(in crate::item) fn undo(self, mut item: impl FnMut(Pending)) {
        for place in 0..self.filled {
            item(self.chunk.take_item(place));
        }
        if let Some(home) = self.chunk.about.destination.home.upgrade() {
            home.spare.lock().others.put(self.chunk);
        }
    }
}
