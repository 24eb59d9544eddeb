//! Values of each thread's own.
#![forbid(unsafe_code)]

pub(crate) use std::thread_local;
