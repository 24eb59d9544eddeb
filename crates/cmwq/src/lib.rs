//! Run work on a pool of threads that follows the machine: named queues with limits, closures that
//! are joined or awaited, reusable items, timers, and tools that show what is running.
//!
//! A [`Workqueue`] has a name, a limit and some attributes. Its *items* (closures, or reusable
//! [`Work`]) run on *workers*, threads that the library creates, in *worker pools*: a pool for each
//! group of CPUs, about as many running workers as the group has CPUs, and another worker in place
//! of one that blocks. An item runs near the CPU that it was queued from; idle pools take items of
//! pools that have too many. It is the design of the Linux kernel's workqueue, as a library.
//!
//! ```
//! use cmwq::Workqueue;
//!
//! let queue = Workqueue::builder("io").max_active(64).build()?;
//! let answer = queue.spawn(|| 6 * 7); // in an async function: `answer.await?`
//! assert_eq!(answer.join()?, 42);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | making a queue | [`Workqueue::builder`], [`WorkqueueBuilder`] |
//! | running a closure | [`Workqueue::spawn`] (with a result), [`Workqueue::execute`] (without) |
//! | a reusable item | [`Work`] and [`Workqueue::queue`]; with a delay: [`DelayedWork`] |
//! | an item inside the program's own struct | [`EmbeddedWork`], [`EmbeddedDelayedWork`]; in the caller's own memory: [`RawWork`] |
//! | waiting for items | [`JoinHandle`], [`Work::flush`], [`Completion`]; for a whole queue: [`Workqueue::flush`], [`Workqueue::drain`] |
//! | async code | await a [`JoinHandle`], [`Workqueue::flush_async`], [`Workqueue::shutdown`]; [`JoinSet`] hands out results as items end |
//! | many items at once | [`Workqueue::spawn_batch`], [`Workqueue::execute_batch`], [`Workqueue::queue_batch`] |
//! | items that borrow, parallel loops | [`scope()`], [`Workqueue::for_each_chunk`] |
//! | an event loop (epoll, tokio, libuv) | [`CompletionQueue`]; from a program's own handles: [`wake_deferred`] |
//! | how many run at a time | [`WorkqueueBuilder::max_active`], [`WorkqueueBuilder::ordered`], [`ConcurrencyGroup`] for several queues |
//! | how many may wait | [`WorkqueueBuilder::max_waiting`], [`Workqueue::try_spawn`], [`Workqueue::room`] |
//! | where items run | [`WorkqueueAttrs`], [`AffinityScope`](affinity::AffinityScope), [`WorkqueueBuilder::per_cpu`] |
//! | the threads that run items | [`WorkerThreads`], [`blocking`] |
//! | ending | [`Workqueue::shutdown`], [`Workqueue::unfinished`] |
//! | what is busy, what has happened | [`Engine::dump`], [`Engine::stats`], [`QueueState::times`](observe::QueueState::times), [`set_warning_handler`], [`set_report_handler`] |
//! | the machine, or the description of another one | [`topology`], [`Engine`], [`EngineBuilder`] |
//! | the kernel's other queues | [`SystemWorkqueue`], [`WorkqueueBuilder::bh`], [`WorkqueueBuilder::mem_reclaim`], [`Engine::freeze_workqueues_begin`] |
//!
//! Services to start from are in the folder `examples`: `tokio_server`, `http_server` (in the manner
//! of axum) and `epoll_server`.
//!
//! # What may be called from where
//!
//! Any thread may call any function, and so may work items. [`Workqueue::flush`] and
//! [`Workqueue::drain`] from an item of the same queue would wait for themselves: they return an
//! error instead. An item that waits in this library's own calls counts as blocked: its pool runs
//! another in its place. A signal handler may call nothing but [`reset_signal_mask`]. A child process
//! after `fork` cannot use inherited queues.
//!
//! # Panics
//!
//! A work function may panic: the worker catches and counts the panic and lives on. A closure's panic
//! is the result of its [`JoinHandle`].
//!
//! # Environment
//!
//! An engine reads these when it is built, for what its [builder](EngineBuilder) does not set:
//! `CMWQ_TOPOLOGY`, `CMWQ_CACHE_SHARD_SIZE`, `CMWQ_DEFAULT_AFFINITY_SCOPE`, `CMWQ_CPU_LIMIT`,
//! `CMWQ_MIX_CORE_KINDS`, `CMWQ_UNBOUND_CPUS`, `CMWQ_POWER_EFFICIENT`,
//! `CMWQ_CPU_INTENSIVE_THRESH_US`, `CMWQ_CPU_INTENSIVE_WARNING_THRESH`, `CMWQ_DEBUG_FORCE_RR_CPU`,
//! `CMWQ_WATCHDOG_THRESH`, `CMWQ_PANIC_ON_STALL` and `CMWQ_PANIC_ON_STALL_TIME`.
//!
//! # Features
//!
//! `tracing`, off by default: every run of an item is a span of the crate
//! [`tracing`](https://docs.rs/tracing), at level `TRACE`, with the target `cmwq` and the name `work`.
//! Its fields are `queue` and `function` (as [`observe::function_name`] has it), and `description`,
//! recorded when the item calls [`set_worker_desc`] outside of spans of its own. What the item logs is
//! inside the span. When a waiting thread runs an item itself, the span is a child of the span in
//! which that thread waits; otherwise it is a root. Subscribers are called on the thread that runs the
//! item; if one panics, that is caught, and warned of once. While no subscriber wants that level the
//! feature costs each item a load and a branch; without the feature, nothing.

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
/// Lets threads wait until another thread says that something has happened.
///
/// ```
/// use cmwq::{Completion, Workqueue};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let queue = Workqueue::builder("io").build()?;
/// let loaded = Arc::new(Completion::new());
/// let signal = loaded.clone();
/// queue.execute(move || signal.complete())?;
/// loaded.wait();
/// assert!(loaded.is_done() && loaded.try_wait());
/// assert!(loaded.wait_timeout(Duration::ZERO)); // it stays done until `reinit`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
pub use item::Completion;
pub use item::EmbeddedWork;
/// An item that is called with its own address, for C and for structures that contain their items.
///
/// ```
/// use cmwq::{RawWork, Workqueue};
/// use std::ptr::NonNull;
///
/// unsafe extern "C-unwind" fn hello(_item: NonNull<RawWork>) {
///     println!("hello");
/// }
/// let queue = Workqueue::builder("io").build()?;
/// let item = Box::new(RawWork::new(hello));
/// // SAFETY: the item stays where it is until the flush below has returned.
/// assert!(unsafe { queue.queue_raw(NonNull::from(&*item)) }.is_accepted());
/// item.flush()?;
/// assert!(!item.is_pending() && !item.busy().running);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
pub use item::RawWork;
/// A function that is queued again and again: for events, periodic tasks and hot paths.
///
/// ```
/// use cmwq::{Work, Workqueue};
///
/// let queue = Workqueue::builder("events").build()?;
/// let scan = Work::new(|| println!("looking for what has changed"));
/// queue.queue(&scan);
/// queue.queue(&scan); // if the first has not begun, it serves both
/// scan.flush()?; // the last one has ended
/// assert!(!scan.is_pending());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
pub use item::Work;
pub use item::WorkFn;
pub use observe::{Dump, EngineStats, set_report_handler, set_warning_handler, warn};
/// Tells a hook about the thread that it was called on.
///
/// ```
/// use cmwq::{WorkerThreads, Workqueue};
///
/// let threads = WorkerThreads::new().on_start(|thread| println!("{} begins", thread.name()));
/// let queue = Workqueue::builder("io").worker_threads(threads).build()?;
/// queue.spawn(|| ()).join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
pub use pool::WorkerThread;
/// Tells the pool that the item is about to block, so that another worker takes its place at once.
///
/// ```
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// let text = queue.spawn(|| cmwq::blocking(|| std::fs::read_to_string("/proc/self/comm")));
/// assert!(!text.join()??.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
pub use pool::blocking;
#[cfg(cmwq_sim)]
pub use pool::set_most_in_a_hold;
pub use pool::{
    WorkerThreads, current_is_mem_reclaim, current_is_rescuer, current_work, defers_wakes,
    wake_deferred,
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
