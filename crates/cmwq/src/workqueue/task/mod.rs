//! Operations on single items: join, take back, disable.

pub(crate) mod abort;
pub(crate) mod control;
pub(crate) mod counted;
pub(crate) mod join;
pub(crate) mod join_error;
pub(in crate::workqueue) mod own_wait;
pub(crate) mod queued;
mod shared;
pub(in crate::workqueue) mod work;
