//! Items published many at a time: chunks that a thread fills, chains of them, and the inbox to which they are pushed.

mod chain;
mod entries;
mod filling;
mod inbox;
mod load;
mod open;
mod part;

pub(crate) use chain::Chain;
pub(crate) use entries::{Chunks, Found as FoundInChunk, Serial as ChunksSerial};
pub(crate) use inbox::{Inbox, Pushed, Taken};
pub(crate) use open::Open as OpenChunk;
pub(crate) use part::Part;
