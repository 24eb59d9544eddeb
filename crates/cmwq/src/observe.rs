//! Observing a process that uses cmwq, and changing it: counters, states, traces, and attributes as
//! texts.
//!
//! - [`Engine::all`](crate::Engine::all) and [`Engine::live_queues`](crate::Engine::live_queues)
//!   list the engines and the queues that exist.
//! - [`Engine::queue_states`](crate::Engine::queue_states),
//!   [`Engine::pool_states`](crate::Engine::pool_states), [`Engine::dump`](crate::Engine::dump) and
//!   [`Engine::stats`](crate::Engine::stats) return their state.
//! - [`LiveQueue::set_attribute`] and [`Engine::set_parameter`](crate::Engine::set_parameter)
//!   change them, by the rules of the kernel's files.
//! - [`set_warning_handler`] and [`set_report_handler`] receive what the library says.
//!   [`set_worker_desc`] says what an item is doing.
//! - [`Recording`] records what happens, event by event. [`EnqueueTiming`] measures how long
//!   `queue()` takes.
//! - With the feature `tracing` the library opens a span around every run of an item, for
//!   subscribers of [`tracing`](https://docs.rs/tracing).
//!
//! The crate `cmwq-control` makes all of this available outside of the process.
#![forbid(unsafe_code)]

use crate::sys::names;

/// Describes an attribute of a workqueue or a parameter of an engine: its name, what it is, and
/// whether it can be set.
///
/// ```
/// for setting in cmwq::Engine::parameter_settings() {
///     println!("{}: {}", setting.name, setting.help);
///     if let Some(variable) = setting.variable {
///         println!("    the environment variable {variable} holds its first value");
///     }
/// }
/// ```
///
pub use crate::engine::Setting;
pub use crate::engine::{EngineStats, Errno, TextError};
pub use crate::inspect::{
    LiveQueue, NodeState, PwqState, QueueState, QueueTimes, RescuerState, RoomState, ScopeState,
};
pub use crate::pool::{Dump, PoolCounts, PoolFor, PoolState, PoolWorker, QueueStats, RunState};
pub use crate::trace::{
    EnqueueTiming, ItemRun, Recording, set_report_handler, set_run_hooks, set_warning_handler, warn,
};
pub use crate::workqueue::{GroupState, set_worker_desc};
#[doc(inline)]
pub use cmwq_trace::{LatencyHistogram, ThreadTrace, TraceEvent, TraceKind};

/// Returns the name of the function at `address`: the type of the closure that it was made for and
/// the place where the closure was handed over, or else its [symbol](cmwq_trace::symbol_at).
pub fn function_name(address: usize) -> String {
    names::name_of(address)
}
