//! What the functions of the main types take and return. A program names these where it keeps one in
//! a structure, or matches on it; most programs name few of them.
//!
//! | for | types |
//! |---|---|
//! | attributes of a queue, and changing them | [`WorkqueueAttrs`], [`WorkqueueKind`] |
//! | an item that was queued, or was not | [`Queued`], [`Moved`], [`BatchQueued`], [`BatchRefused`] |
//! | a queue with a bound on what waits | [`Room`], [`RoomWait`], [`NotAccepted`] |
//! | waiting for a queue | [`Flush`], [`Drain`], [`Shutdown`], [`Unfinished`], [`FlushError`] |
//! | an item's handle | [`AbortOnDrop`], [`PanicPayload`] |
//! | a reusable item | [`DisableGuard`], [`WorkBusy`] |
//! | a completion queue | [`CompletionQueueBuilder`], [`Completed`], [`Poster`], [`NotPosted`], [`NotSubmitted`] |
//! | a parallel loop | [`Chunks`] |
//! | an engine of the program's own | [`EngineBuilder`], [`CpuLimit`] |
//! | a hook of worker threads | [`WorkerThread`] |
#![forbid(unsafe_code)]

pub use crate::engine::{CpuLimit, EngineBuilder};
pub use crate::error::FlushError;
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
pub use crate::pool::WorkerThread;
pub use crate::workqueue::{
    AbortOnDrop, BatchQueued, BatchRefused, Chunks, Completed, CompletionQueueBuilder,
    DisableGuard, Drain, Flush, Moved, NotAccepted, NotPosted, NotSubmitted, PanicPayload, Poster,
    Queued, Room, RoomWait, Shutdown, Unfinished, WorkBusy, WorkqueueAttrs, WorkqueueKind,
};
