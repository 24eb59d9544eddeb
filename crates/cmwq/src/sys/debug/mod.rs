//! For tools that observe a process from outside, and checks of debug builds.

pub(crate) mod holds;
pub(crate) mod names;
pub(crate) mod probe;
