//! What an engine consists of.

pub(crate) mod cpus;
pub(crate) mod key;
pub(crate) mod limit;
pub(crate) mod registry;
pub(crate) mod watchdog;
