//! The front end: named workqueues.

// rustdoc shows the methods of `Workqueue` in the order of these modules, so they stand in the
// order in which a user needs them. The blank lines keep rustfmt from sorting them.
mod builder;

mod queue;

mod batch;

mod waits;

mod settings;

mod scope;

mod delayed;

mod embedded;

mod callbacks;
mod caller_slots;
mod completion_queue;
mod dealing;
mod describe;
#[cfg(not(cmwq_loom))]
mod handle;
mod parts;
mod queueing;
mod system;
mod task;

#[cfg(all(test, not(cmwq_loom)))]
#[path = "workqueue/tests/deadlines.rs"]
mod deadlines;
#[cfg(all(test, not(cmwq_loom)))]
#[path = "workqueue/tests/timelines.rs"]
mod timelines;

#[cfg(all(test, cmwq_loom))]
mod model;

pub use batch::{BatchQueued, BatchRefused};
pub use builder::WorkqueueBuilder;
pub use completion_queue::{
    Completed, CompletionQueue, CompletionQueueBuilder, JoinSet, NotPosted, NotSubmitted, Poster,
};
pub use delayed::{DelayedWork, EmbeddedDelayedWork, MoveIf, RawDelayedWork};
pub use describe::set_worker_desc;
pub use embedded::EmbeddedDisableGuard;
#[cfg(not(cmwq_loom))]
pub use handle::{NoSuchWorkqueue, WorkqueueHandle};

pub use parts::attrs::{WQ_DFL_ACTIVE, WQ_MAX_ACTIVE, WorkqueueAttrs};
pub(crate) use parts::core::WqCore;
pub use parts::group::{ConcurrencyGroup, GroupState};
pub use parts::kind::WorkqueueKind;
pub use parts::memory_reclaim::in_memory_reclaim;
pub use queue::Workqueue;
pub use scope::{Chunks, Scope, scope};
pub use system::{SystemQueue, SystemWorkqueue, run_on_cpu, run_on_each_cpu};
pub use task::abort::AbortOnDrop;
pub use task::control::{DisableGuard, WorkBusy};
pub use task::join::{JoinError, JoinHandle, PanicPayload};
pub use task::queued::{Moved, Queued};
pub use waits::{Drain, Flush, NotAccepted, Room, RoomWait, Shutdown, Unfinished};
