//! Concurrency-managed workqueues for user space: the Linux kernel's workqueue as a library.
//!
//! A [`Workqueue`] is a name, a limit and some attributes. Work items that are queued on it run on worker pools that are
//! cut to the machine: near the CPU that they were queued from, on about as many running workers as there are CPUs.
//!
//! ```
//! use cmwq::Workqueue;
//!
//! let queue = Workqueue::builder("io").build()?;
//! let answer = queue.spawn(|| 6 * 7);
//! assert_eq!(answer.join()?, 42);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to look
//!
//! - Queue something: [`Workqueue::spawn`] (a closure and its result), [`Workqueue::queue`] (a reusable [`Work`]),
//!   [`Workqueue::queue_raw`] (memory of the caller's own). Wait for it: [`JoinHandle`], [`Completion`],
//!   [`Workqueue::flush`], [`Workqueue::drain`].
//! - Where items run: [`WorkqueueAttrs`] and [`AffinityScope`](affinity::AffinityScope).
//! - How many at a time: [`WorkqueueBuilder::max_active`], [`WorkqueueBuilder::ordered`].
//! - Other kinds of queues: [`WorkqueueBuilder::per_cpu`], [`WorkqueueBuilder::bh`], and those that every process has:
//!   [`SystemWorkqueue`].
//! - When resources are short: [`WorkqueueBuilder::mem_reclaim`]. Coming to rest: [`Engine::freeze_workqueues_begin`].
//! - The machine, or another one in its place: [`topology`], [`Engine`], [`EngineBuilder`].
//! - What has happened so far: [`Engine::stats`], [`set_warning_handler`]. What is busy: [`Engine::dump`],
//!   [`set_report_handler`].
//!
//! # What may be called from where
//!
//! Any function may be called from any thread, also from work items. [`Workqueue::flush`] and [`Workqueue::drain`] from an
//! item of the same queue would wait for themselves: they return an error instead. An item that waits in this library's
//! own calls counts as blocked: its pool runs another in its place. Nothing may be called from a signal handler, and a
//! child process after `fork` cannot use the queues that it inherited.
//!
//! # Panics
//!
//! A work function may panic: the panic is caught and counted, the worker lives on. A closure's panic is the result of its
//! [`JoinHandle`].
//!
//! # Environment
//!
//! `CMWQ_TOPOLOGY`, `CMWQ_CACHE_SHARD_SIZE`, `CMWQ_DEFAULT_AFFINITY_SCOPE`, `CMWQ_POWER_EFFICIENT`,
//! `CMWQ_DEBUG_FORCE_RR_CPU` and `CMWQ_WATCHDOG_THRESH` are read when an engine is built, for what its
//! [builder](EngineBuilder) was not told.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod affinity;
mod engine;
mod error;
pub mod observe;
mod pool;
mod sys;
mod timer;
pub mod topology;
mod work;
mod workqueue;

pub use engine::{Engine, EngineBuilder, IssuerGuard};
pub use error::{Error, FlushError, Refused};
pub use observe::{Dump, EngineStats, set_report_handler, set_warning_handler, warn};
pub use pool::{blocking, current_is_mem_reclaim, current_is_rescuer, current_work};
pub use work::{Completion, RawWork, Work, WorkFn};
pub use workqueue::{
    DelayedWork, DisableGuard, JoinError, JoinHandle, Queued, RawDelayedWork, SystemQueue,
    SystemWorkqueue, WQ_DFL_ACTIVE, WQ_MAX_ACTIVE, WorkBusy, Workqueue, WorkqueueAttrs,
    WorkqueueBuilder, WorkqueueKind, in_memory_reclaim, run_on_cpu, run_on_each_cpu,
};
#[cfg(not(cmwq_loom))]
pub use workqueue::{NoSuchWorkqueue, WorkqueueHandle};

/// Runs the README's examples as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeDocTests;

/// Runs the guide's examples as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
struct GuideDocTests;
