//! Waiting: sleeping until woken, and polling before that.

pub(crate) mod bell;
pub(crate) mod park;
pub(crate) mod patience;
pub(crate) mod spin;
mod turns;
