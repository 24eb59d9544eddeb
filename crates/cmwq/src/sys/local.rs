//! Thread-local values.
#![forbid(unsafe_code)]

pub(crate) use std::thread_local;
