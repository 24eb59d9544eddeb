//! Timers: a wheel that arms and cancels in constant time, and the timer thread.
#![forbid(unsafe_code)]

mod service;
mod wheel;

pub(crate) use service::{Disarmed, TimerKey, Timers};
