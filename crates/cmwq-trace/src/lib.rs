//! What tools read of a process that uses cmwq: recorded events, histograms of times, and the names
//! of functions. Plain data, which any tool can make, keep and compare.
//!
//! ```
//! use cmwq_trace::{LatencyHistogram, TraceEvent, TraceKind};
//!
//! // Two of the events that a worker has recorded: how long did the item run?
//! let events = [
//!     TraceEvent::new(1_000, TraceKind::ExecuteStart, 0x10, 0x20, 0x30),
//!     TraceEvent::new(26_000, TraceKind::ExecuteEnd, 0x10, 0x20, 0x30),
//! ];
//! let mut runs = LatencyHistogram::default();
//! runs.add(events[1].at_ns - events[0].at_ns);
//! assert_eq!((runs.count(), runs.sum_ns()), (1, 25_000));
//! ```
//!
//! - [`ThreadTrace`]: what one thread has recorded; [`TraceEvent`] and [`TraceKind`]: one event.
//! - [`LatencyHistogram`]: how many times were how long, with quantiles.
//! - [`symbol_at`]: the name of the function at an address of this process.
//!
//! Nothing here starts a thread. All types are part of `cmwq` too, in `cmwq::observe`, where
//! `Recording` makes the events and `Engine::queue_states` the histograms.

#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(not(target_os = "linux"))]
compile_error!("cmwq-trace reads /proc and ELF files: it runs on Linux only");

mod elf;
mod event;
mod histogram;
mod symbol;

pub use event::{ThreadTrace, TraceEvent, TraceKind};
pub use histogram::LatencyHistogram;
pub use symbol::symbol_at;

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDocTests;
