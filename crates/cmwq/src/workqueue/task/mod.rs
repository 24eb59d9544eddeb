//! Items that a thread has a hold of: joined, taken back, disabled.

pub(crate) mod abort;
pub(crate) mod control;
pub(crate) mod counted;
pub(crate) mod join;
pub(crate) mod join_error;
pub(crate) mod queued;
