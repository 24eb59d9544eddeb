//! Items published many at a time: chunks that a thread fills, chains of chunks and items, and the
//! inbox that they are pushed to.

mod chain;
mod entries;
mod filling;
mod inbox;
mod load;
mod numbers;
mod open;
mod part;
mod taken;

pub(crate) use chain::Chain;
/// Entries of a chunk.
pub(crate) const MOST_IN_A_CHUNK: u32 = entries::MOST as u32;

pub(crate) use entries::{ChunkStore, Found as FoundInChunk, Serial as ChunksSerial};
pub(crate) use inbox::{Inbox, Pushed};
pub(crate) use load::Load;
pub(crate) use numbers::ChunkNumbers;
pub(crate) use open::OpenChunk;
pub(crate) use part::Part;
pub(crate) use taken::Taken;
