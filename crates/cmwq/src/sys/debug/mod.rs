//! For tools that observe a process from outside, and checks of debug builds.

pub(crate) mod holds;
pub(crate) mod probe;
pub(crate) mod symbol;
