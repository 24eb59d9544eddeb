//! Items published many at a time: chunks that a thread fills, chains of them, and the inbox to which they are pushed.

mod bundle;
mod chain;
mod filling;
mod inbox;
mod load;
mod open;
mod part;

pub(crate) use bundle::{Bundles, Found as FoundInBundle, Serial as BundlesSerial};
pub(crate) use chain::Chain;
pub(crate) use inbox::{Inbox, Pushed, Taken};
pub(crate) use open::Open as OpenBundle;
pub(crate) use part::Part;
