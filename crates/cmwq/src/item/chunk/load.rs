//! What can be added to a chunk: items and small closures.

use super::entries::{Chunk, ChunkStore, Contents, TOGETHER};
use crate::item::closure::Small;
use crate::item::location::Location;
use crate::item::raw::{Pending, address_of};

/// What is added to a chunk, which owns it from then on. The value itself has nothing to drop.
pub(crate) trait Load {
    const CONTENTS: Contents;
    /// What all entries must have in common.
    fn number(&self) -> usize;
    /// Whether it is the first object in a [block](crate::sys::blocks).
    fn is_in_block(&self) -> bool;
    /// Writes the entry.
    ///
    /// # Safety
    /// The caller owns the entry.
    unsafe fn put(&self, chunk: &Chunk, place: usize);
    /// Called if the entry could not be counted: the item is not in the chunk after all.
    #[inline]
    fn take_back(&self, _: &Chunk) {}
}

/// Called before the entry is counted: prepares the item for being in the chunk.
#[inline]
fn tell_chunk(item: &Pending, chunk: &Chunk) {
    let about = &chunk.about;
    item.item().set_location(Location::in_chunk(
        about.destination.pool,
        about.number_in_pool,
    ));
}

#[inline]
fn tell_destination(item: &Pending, chunk: &Chunk) {
    let to = &chunk.about.destination;
    item.item()
        .set_location(Location::in_transit(to.pool, to.pwq));
}

impl ChunkStore {
    /// Makes a chunk with `load` as its first entry, which it owns. Nothing is counted yet.
    pub(in crate::item) fn begin<L: Load>(&self, load: &L) -> Box<Chunk> {
        debug_assert!(self.serial.contents == L::CONTENTS);
        let chunk = self.take_spare();
        // SAFETY: no other thread has it.
        unsafe {
            chunk.about.number.set(load.number());
            chunk.about.in_blocks.set(load.is_in_block());
            load.put(&chunk, 0);
        }
        chunk
    }
}

impl Load for Pending {
    const CONTENTS: Contents = Contents::Items;

    #[inline]
    fn number(&self) -> usize {
        address_of(self.func())
    }

    #[inline]
    fn is_in_block(&self) -> bool {
        self.is_one_shot()
    }

    #[inline]
    unsafe fn put(&self, chunk: &Chunk, place: usize) {
        tell_chunk(self, chunk);
        // SAFETY: by the contract.
        unsafe { chunk.about.items[place / TOGETHER].0[place % TOGETHER].set(Some(self.as_ptr())) };
    }

    #[inline]
    fn take_back(&self, chunk: &Chunk) {
        tell_destination(self, chunk);
    }
}

impl Load for &Small {
    const CONTENTS: Contents = Contents::Closures;

    #[inline]
    fn number(&self) -> usize {
        Small::number(self)
    }

    #[inline]
    fn is_in_block(&self) -> bool {
        false
    }

    #[inline]
    unsafe fn put(&self, chunk: &Chunk, place: usize) {
        // SAFETY: by the contract.
        unsafe { chunk.about.closures[place / TOGETHER].0[place % TOGETHER].set(self.payload()) };
    }
}
