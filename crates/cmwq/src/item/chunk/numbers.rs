//! The numbers of a pool's chunks. An item in a chunk has the chunk's number as its location, so a
//! thread that cancels the item finds it in a few steps, however many chunks and items are
//! published before it: see [`Taken::single_out`](super::taken::Taken::single_out).

use crate::item::location::MOST_CHUNKS;
use crate::sys::sync::Mutex;
use std::sync::Arc;

/// Numbers for the chunks of one pool.
#[derive(Clone, Default)]
pub(crate) struct ChunkNumbers(Arc<Mutex<FreeNumbers>>);

#[derive(Default)]
struct FreeNumbers {
    next: u32,
    free: Vec<u32>,
}

impl ChunkNumbers {
    /// The number of a new chunk.
    pub(in crate::item) fn take(&self) -> u32 {
        let mut numbers = self.0.lock();
        numbers.free.pop().unwrap_or_else(|| {
            assert!(numbers.next < MOST_CHUNKS, "they would not fit in memory");
            numbers.next += 1;
            numbers.next - 1
        })
    }

    /// The chunk is freed.
    pub(in crate::item) fn give(&self, number: u32) {
        self.0.lock().free.push(number);
    }
}
