//! Waiting: spinning, and parking until woken.

pub(crate) mod bell;
pub(crate) mod brief_spin;
pub(crate) mod lock;
pub(crate) mod park;
pub(crate) mod spin;
mod yield_epoch;
