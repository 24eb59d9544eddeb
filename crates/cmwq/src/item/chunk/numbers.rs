//! The numbers of a pool's chunks. An item in a chunk has the chunk's number as its location, so a thread that cancels the item finds it in a few steps,
//! however many chunks and items are published before it.
//!
//! The location is a hint: it is written before the entry is counted. So the searcher, which holds the pool's lock, looks up the number here, asks
//! whether that chunk is staged, and closes it; only then it looks for the item among the entries. A chunk is not freed while this lock is held, nor, if
//! it is staged, while the pool's lock is.

use super::entries::{Chunk, Stage};
use crate::item::location::MOST_CHUNKS;
use crate::sys::sync::Mutex;
use std::ptr::NonNull;
use std::sync::Arc;

/// The chunks of a pool by their numbers.
#[derive(Clone, Default)]
pub(crate) struct ChunkNumbers(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    chunks: Vec<Option<NonNull<Chunk>>>,
    free: Vec<u32>,
}

// SAFETY: a chunk may be used by any thread.
unsafe impl Send for Table {}

impl ChunkNumbers {
    /// Gives a new chunk its number.
    pub(in crate::item) fn enter(&self, chunk: &mut Chunk) {
        let mut table = self.0.lock();
        let number = table.free.pop().unwrap_or(table.chunks.len() as u32);
        assert!(number < MOST_CHUNKS, "they would not fit in memory");
        chunk.about.number_in_pool = number;
        let chunk = Some(NonNull::from(chunk));
        match table.chunks.get_mut(number as usize) {
            Some(place) => *place = chunk,
            None => table.chunks.push(chunk),
        }
    }

    /// The chunk is about to be freed.
    pub(in crate::item) fn leave(&self, chunk: &Chunk) {
        let mut table = self.0.lock();
        let number = chunk.about.number_in_pool;
        table.chunks[number as usize] = None;
        table.free.push(number);
    }

    /// The chunk of this number, if it is staged. The caller holds the lock of the pool.
    pub(in crate::item) fn staged(&self, number: u32) -> Option<NonNull<Chunk>> {
        let table = self.0.lock();
        let chunk = (*table.chunks.get(number as usize)?)?;
        // SAFETY: it is not freed while this lock is held, and only lock holders of the pool touch the field.
        let stage = unsafe { chunk.as_ref().stage.get() };
        (stage != Stage::Elsewhere).then_some(chunk)
    }
}
