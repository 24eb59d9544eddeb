//! Timers: a wheel that arms and cancels in constant time, and the one thread that turns it.
#![forbid(unsafe_code)]

mod service;
mod wheel;

pub(crate) use service::{TimerKey, Timers};
