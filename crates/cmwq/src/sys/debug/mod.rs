//! For tools that observe a process from outside.

pub(crate) mod probe;
pub(crate) mod symbol;
