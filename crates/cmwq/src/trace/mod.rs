//! Tracing: events for recorders and probes, warnings and reports for the program, times of `queue()`.
#![forbid(unsafe_code)]

pub(crate) mod events;
pub(crate) mod foreign;
pub(crate) mod latency;
pub(crate) mod recorder;
mod reporter;
mod runs;
#[cfg(all(feature = "tracing", not(cmwq_loom)))]
pub(crate) mod spans;
mod warning;

pub(crate) use foreign::{Callee, Foreign, dispose, new_reporter, on_one_line};
pub use foreign::{set_report_handler, set_warning_handler};
pub use latency::EnqueueTiming;
pub use recorder::Recording;
pub(crate) use reporter::{Reporter, Speaker};
pub use runs::{ItemRun, set_run_hooks};
pub use warning::warn;
pub(crate) use warning::{report_with, warn_once, warn_with};
