//! The work item: its state machine, the lists it travels on, and the handles that wait for it.

mod batch;
mod berth;
mod bundle;
pub(crate) mod closure;
mod completion;
mod inbox;
mod item;
mod list;
mod place;
pub(crate) mod raw;
mod ticket;

pub(crate) use batch::{Batch, MOST as MOST_IN_BATCH};
pub(crate) use berth::{Berth, Found};
pub(crate) use bundle::{
    Bundles, Found as FoundInBundle, Open as OpenBundle, Part, Serial as BundlesSerial,
};
pub use completion::Completion;
pub(crate) use inbox::{Inbox, Pushed, Taken};
pub use item::Work;
pub(crate) use list::List;
pub(crate) use place::Seat;
pub(crate) use raw::{Pending, Started, Unclaimed};
pub use raw::{RawWork, WorkFn};
pub(crate) use ticket::{OldestBatch, ticket};
