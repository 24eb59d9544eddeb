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
//! # What to learn first
//!
//! These types, in the order in which a program meets them, are all that most services need. Each
//! page has an example.
//!
//! | type | for |
//! |---|---|
//! | [`WorkqueueBuilder`] | making a queue: [`Workqueue::builder`]. How many items run at a time: [`max_active`](WorkqueueBuilder::max_active), [`ordered`](WorkqueueBuilder::ordered); how many may wait: [`max_waiting`](WorkqueueBuilder::max_waiting); where they run: [`affinity_scope`](WorkqueueBuilder::affinity_scope), [`per_cpu`](WorkqueueBuilder::per_cpu) |
//! | [`Workqueue`] | running a closure: [`spawn`](Workqueue::spawn) (with a result), [`execute`](Workqueue::execute) (without); many at once: [`spawn_batch`](Workqueue::spawn_batch); a reusable item: [`queue`](Workqueue::queue). Waiting for all: [`flush`](Workqueue::flush), [`drain`](Workqueue::drain), [`shutdown`](Workqueue::shutdown) |
//! | [`JoinHandle`] | the result of a closure: await it, or [`join`](JoinHandle::join) it |
//! | [`JoinSet`] | the results of many closures, as they end |
//! | [`Work`] | a reusable item: for events and hot paths |
//! | [`DelayedWork`] | the same with a delay |
//! | [`Completion`] | letting threads wait for something |
//! | [`CompletionQueue`] | an event loop (epoll, tokio, libuv) that takes results |
//! | [`Scope`] | items that borrow from the caller: [`scope()`]; parallel loops: [`Workqueue::for_each_chunk`] |
//! | [`ConcurrencyGroup`] | one limit for several queues |
//! | [`WorkerThreads`] | names, stacks, signals and hooks of the threads that run items; a wait that they should know of: [`blocking`] |
//! | [`Engine`] | the machine and its pools: [`Engine::dump`] and [`Engine::stats`] show what is busy and what has happened |
//!
//! They fail with an [`Error`], a [`Refused`] item or a [`JoinError`].
//!
//! # What is in modules
//!
//! | module | for |
//! |---|---|
//! | [`types`] | what these types' functions take and return, such as [`WorkqueueAttrs`](types::WorkqueueAttrs), [`Queued`](types::Queued) and [`EngineBuilder`](types::EngineBuilder) |
//! | [`affinity`], [`topology`] | the machine, or the description of another one, and how it is cut into pods |
//! | [`observe`] | tools: states, statistics, events, attributes as texts, [handlers of warnings](observe::set_warning_handler) |
//! | [`raw`] | C, the kernel's forms of queues and items, libraries that put other interfaces onto this one |
//!
//! Services to start from are in the folder `examples`: [`tokio_server`], [`http_server`] (in the
//! manner of axum) and [`epoll_server`].
//!
//! [`tokio_server`]: https://github.com/cmwq/cmwq/blob/HEAD/crates/cmwq/examples/tokio_server.rs
//! [`http_server`]: https://github.com/cmwq/cmwq/blob/HEAD/crates/cmwq/examples/http_server.rs
//! [`epoll_server`]: https://github.com/cmwq/cmwq/blob/HEAD/crates/cmwq/examples/epoll_server.rs
//!
//! # What may be called from where
//!
//! Any thread may call any function, and so may work items. [`Workqueue::flush`] and
//! [`Workqueue::drain`] from an item of the same queue would wait for themselves: they return an
//! error instead. An item that waits in this library's own calls counts as blocked: its pool runs
//! another in its place. A signal handler may call nothing but
//! [`reset_signal_mask`](raw::reset_signal_mask). A child process after `fork` cannot use inherited
//! queues.
//!
//! # Panics
//!
//! A work function may panic: the worker catches and counts the panic and lives on. A closure's panic
//! is the result of its [`JoinHandle`].
//!
//! # Environment
//!
//! An engine reads these when it is built, for what its [builder](types::EngineBuilder) does not
//! set: `CMWQ_TOPOLOGY`, `CMWQ_CACHE_SHARD_SIZE`, `CMWQ_DEFAULT_AFFINITY_SCOPE`, `CMWQ_CPU_LIMIT`,
//! `CMWQ_MIX_CORE_KINDS`, `CMWQ_UNBOUND_CPUS`, `CMWQ_POWER_EFFICIENT`,
//! `CMWQ_CPU_INTENSIVE_THRESH_US`, `CMWQ_CPU_INTENSIVE_WARNING_THRESH`, `CMWQ_DEBUG_FORCE_RR_CPU`,
//! `CMWQ_WATCHDOG_THRESH`, `CMWQ_PANIC_ON_STALL` and `CMWQ_PANIC_ON_STALL_TIME`.
//!
//! # Features
//!
//! `tracing`, off by default: every run of an item is a span of the crate
//! [`tracing`](https://docs.rs/tracing), at level `TRACE`, with the target `cmwq` and the name `work`.
//! Its fields are `queue` and `function` (as [`observe::function_name`] has it), and `description`,
//! recorded when the item calls
//! [`set_worker_desc`](observe::set_worker_desc) outside of spans of its own. What the item logs is
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
pub mod raw;
mod sys;
mod timer;
pub mod topology;
mod trace;
pub mod types;
mod workqueue;

#[doc(inline)]
pub use cmwq_topology::affinity;

pub use engine::Engine;
pub use error::{Error, Refused};
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
pub use item::Completion;
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
pub use item::Work;
pub use pool::WorkerThreads;
/// Tells the pool that the item is about to block, so that another worker takes its place at once.
///
/// ```
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// let text = queue.spawn(|| cmwq::blocking(|| std::fs::read_to_string("/proc/self/comm")));
/// assert!(!text.join()??.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use pool::blocking;
pub use workqueue::{
    CompletionQueue, ConcurrencyGroup, DelayedWork, JoinError, JoinHandle, JoinSet, Scope,
    Workqueue, WorkqueueBuilder, scope,
};

/// Runs the examples of the READMEs as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../README.md")]
struct ReadmeDocTests;

/// Runs the guide's examples as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
struct GuideDocTests;
