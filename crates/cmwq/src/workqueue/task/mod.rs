//! Operations on single items: join, take back, disable.

pub(crate) mod abort;
pub(crate) mod control;
pub(crate) mod counted;
pub(crate) mod join;
pub(crate) mod join_error;
pub(crate) mod queued;
mod shared;
