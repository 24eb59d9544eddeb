//! Concurrency-managed workqueues for user space: the Linux kernel's workqueue as a library.
//!
//! A [`Workqueue`] is a name, a limit and some attributes. Its work items run on worker pools that follow the machine's topology: near the CPU
//! that they were queued from, on about as many running workers as there are CPUs.
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
//! What a service needs first, in the order in which most come to need it:
//!
//! 1. A queue: [`Workqueue::builder`], the [`WorkqueueBuilder`], and [`SystemWorkqueue`] for the queues of every process.
//! 2. A closure: [`Workqueue::spawn`] returns a [`JoinHandle`], which is joined or awaited; [`Workqueue::execute`] returns nothing and costs
//!    less. A [`JoinSet`] hands out results as closures end.
//! 3. An item that is queued again and again without an allocation: [`Work`] and [`Workqueue::queue`]. One that is a field of the program's
//!    own struct: [`EmbeddedWork`] and [`Workqueue::queue_embedded`]. Later, or again and again: [`DelayedWork`].
//! 4. Waiting: [`Completion`], [`Workqueue::flush`], [`Workqueue::drain`]; as futures [`Workqueue::flush_async`] and [`Workqueue::shutdown`].
//! 5. How many run and wait: [`WorkqueueBuilder::max_active`], [`WorkqueueBuilder::ordered`], [`WorkqueueBuilder::max_waiting`] with
//!    [`Workqueue::try_spawn`] and [`Workqueue::room`]; [`ConcurrencyGroup`] for several queues.
//! 6. Items that borrow, and parallel loops: [`scope()`], [`Workqueue::for_each_chunk`].
//! 7. Results in an event loop (epoll, tokio, libuv): [`CompletionQueue`].
//! 8. Many at once: [`Workqueue::queue_batch`], [`Workqueue::execute_batch`], [`Workqueue::spawn_batch`].
//! 9. The threads that run items: [`WorkerThreads`].
//!
//! To tune and to run a service:
//!
//! - Where items run: [`WorkqueueAttrs`] and [`AffinityScope`](affinity::AffinityScope). The machine, or the description of another one:
//!   [`topology`], [`Engine`], [`EngineBuilder`].
//! - What has happened so far: [`Engine::stats`], [`set_warning_handler`]. What is busy: [`Engine::dump`], [`set_report_handler`]. How long
//!   items wait and run: [`QueueState::times`](observe::QueueState::times). What tools use besides: [`observe`].
//!
//! For programs in the kernel's manner, C libraries and runtimes:
//!
//! - Other kinds of queues: [`WorkqueueBuilder::per_cpu`], [`WorkqueueBuilder::bh`]. When resources are short:
//!   [`WorkqueueBuilder::mem_reclaim`]. Freezing: [`Engine::freeze_workqueues_begin`].
//! - Items in the caller's own memory: [`RawWork`], [`Workqueue::queue_raw`]. Wake tasks from a program's own handles: [`wake_deferred`].
//!
//! Services to start from are in the folder `examples`: `tokio_server`, `http_server` (in the manner of axum) and `epoll_server`.
//!
//! # What may be called from where
//!
//! Any thread may call any function, and so may work items. [`Workqueue::flush`] and [`Workqueue::drain`] from an item of the same queue would
//! wait for themselves: they return an error instead. An item that waits in this library's own calls counts as blocked: its pool runs another
//! in its place. A signal handler may call nothing but [`reset_signal_mask`]. A child process after `fork` cannot use inherited queues.
//!
//! # Panics
//!
//! A work function may panic: the worker catches and counts the panic and lives on. A closure's panic is the result of its [`JoinHandle`].
//!
//! # Environment
//!
//! An engine reads these when it is built, for what its [builder](EngineBuilder) does not set: `CMWQ_TOPOLOGY`, `CMWQ_CACHE_SHARD_SIZE`,
//! `CMWQ_DEFAULT_AFFINITY_SCOPE`, `CMWQ_CPU_LIMIT`, `CMWQ_MIX_CORE_KINDS`, `CMWQ_UNBOUND_CPUS`, `CMWQ_POWER_EFFICIENT`,
//! `CMWQ_CPU_INTENSIVE_THRESH_US`, `CMWQ_CPU_INTENSIVE_WARNING_THRESH`, `CMWQ_DEBUG_FORCE_RR_CPU`, `CMWQ_WATCHDOG_THRESH`,
//! `CMWQ_PANIC_ON_STALL` and `CMWQ_PANIC_ON_STALL_TIME`.
//!
//! # Features
//!
//! `tracing`, off by default: every run of an item is a span of the crate [`tracing`](https://docs.rs/tracing), at level `TRACE`, with the
//! target `cmwq` and the name `work`. Its fields are `queue` and `function` (as [`observe::function_name`] has it), and `description`,
//! recorded when the item calls [`set_worker_desc`] outside of spans of its own. What the item logs is inside the span. When a waiting thread
//! runs an item itself, the span is a child of the span in which that thread waits; otherwise it is a root. Subscribers are called on the
//! thread that runs the item; if one panics, that is caught, and warned of once. While no subscriber wants that level the feature costs each item a load and a branch;
//! without the feature, nothing.

#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "cmwq runs on Linux only: it needs futexes, CPU affinity and the machine's description in /sys"
);
#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "cmwq needs a 64-bit target: the state of a work item and the address of its function share words of 64 bits"
);

mod engine;
mod error;
mod inspect;
mod item;
pub mod observe;
mod pool;
mod sys;
mod timer;
pub mod topology;
mod trace;
mod workqueue;

#[doc(inline)]
pub use cmwq_topology::affinity;

pub use engine::{CpuLimit, Engine, EngineBuilder, IssuerGuard};
pub use error::{Error, FlushError, Refused};
pub use item::{Completion, EmbeddedWork, RawWork, Work, WorkFn};
pub use observe::{Dump, EngineStats, set_report_handler, set_warning_handler, warn};
#[cfg(cmwq_sim)]
pub use pool::set_most_in_a_hold;
pub use pool::{
    WorkerThread, WorkerThreads, blocking, current_is_mem_reclaim, current_is_rescuer,
    current_work, defers_wakes, wake_deferred,
};
#[cfg(not(cmwq_loom))]
#[doc(hidden)]
pub use sys::forced_unwind::{
    call as call_c, call_anywhere as call_c_anywhere, call_item_code, end_item,
};
pub use sys::signals::reset_signal_mask;
pub use workqueue::{
    AbortOnDrop, BatchQueued, BatchRefused, Chunks, Completed, CompletionQueue,
    CompletionQueueBuilder, ConcurrencyGroup, DelayedWork, DisableGuard, Drain,
    EmbeddedDelayedWork, EmbeddedDisableGuard, Flush, JoinError, JoinHandle, JoinSet, MoveIf,
    Moved, NotAccepted, NotPosted, NotSubmitted, PanicPayload, Poster, Queued, RawDelayedWork,
    Room, RoomWait, Scope, Shutdown, SystemQueue, SystemWorkqueue, Unfinished, WQ_DFL_ACTIVE,
    WQ_MAX_ACTIVE, WorkBusy, Workqueue, WorkqueueAttrs, WorkqueueBuilder, WorkqueueKind,
    in_memory_reclaim, run_on_cpu, run_on_each_cpu, scope, set_worker_desc,
};
#[cfg(not(cmwq_loom))]
pub use workqueue::{NoSuchWorkqueue, WorkqueueHandle};

/// Runs the examples of the READMEs as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../README.md")]
struct ReadmeDocTests;

/// Runs the guide's examples as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
struct GuideDocTests;
