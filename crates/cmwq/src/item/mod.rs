//! The work item: its state machine, the lists that it is on, and the handles that wait for it.

mod batch;
mod callable;
mod chunk;
pub(crate) mod closure;
mod completion;
pub(crate) mod embedded;
mod item_slot;
mod list;
mod location;
pub(crate) mod named;
pub(crate) mod raw;
mod ticket;
#[cfg(all(test, not(cmwq_loom)))]
pub(crate) mod touched;
mod work;

pub(crate) use batch::{Batch, MOST as MOST_IN_BATCH};
pub(crate) use callable::Callable;
pub(crate) use chunk::MOST_IN_A_CHUNK;
pub(crate) use chunk::{
    Chain, ChunkNumbers, ChunkStore, ChunksSerial, FoundInChunk, Inbox, Load, OpenChunk, Part,
    Pushed, Taken,
};
pub use completion::Completion;
pub use embedded::EmbeddedWork;
pub(crate) use item_slot::{ItemSlot, SlotContent};
pub(crate) use list::List;
pub(crate) use location::ListKind;
pub use named::NamedWork;
pub(crate) use raw::{Pending, Started, TOO_MANY, Unclaimed, address_of};
pub use raw::{RawWork, WorkFn};
pub(crate) use ticket::{OldestBatch, ReadOldest, ticket};
pub(crate) use work::Lent;
pub use work::Work;
