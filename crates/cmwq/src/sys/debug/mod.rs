//! For tools that look at a process from outside.

pub(crate) mod probe;
pub(crate) mod symbol;
