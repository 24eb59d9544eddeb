//! For tools that observe a process from outside, and checks of debug builds.

#[cfg(all(debug_assertions, not(any(test, cmwq_loom))))]
pub(crate) mod ends;
pub(crate) mod holds;
pub(crate) mod names;
pub(crate) mod probe;
