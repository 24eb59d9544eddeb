//! The back end: worker pools. `pool/PROTOCOL.md` describes their protocol.
//!
//! | folder | what it is |
//! |---|---|
//! | `attrs` | a pool's attributes, and what all pools of an engine share |
//! | `task` | one run of an item, and the busy table |
//! | `queue` | what a pool keeps for each workqueue: its pool workqueue, credits, caller slots |
//! | `wake` | wake-up policies, which know no pool |
//! | `state` | the pool, and what its lock guards |
//! | `lock` | the guard of the pool's lock: takes items, and settles before each release |
//! | `submit` | publishing: what an issuer remembers |
//! | `balance` | the monitor, and stealing |
//! | `run` | the worker's loop, batches, waiters, declared blocking |
//! | `service` | threads beside the workers |
//! | `report` | snapshots, dumps, stalls |
//!
//! Each folder uses only those above it in this table.
#![deny(unsafe_code)]

mod attrs;
mod balance;
mod lock;
mod queue;
mod report;
mod run;
mod service;
#[cfg(test)]
mod silent;
mod state;
#[cfg(all(test, not(cmwq_loom)))]
pub(crate) mod stubs;
mod submit;
mod task;
mod wake;

#[cfg(all(test, cmwq_loom))]
pub(crate) mod model;

#[cfg(all(test, not(cmwq_loom)))]
mod tests;

pub(crate) use attrs::cpu_budget::Share;
pub use attrs::kind::PoolFor;
pub(crate) use attrs::kind::{Binding, PoolAttrs, Position};
pub(crate) use attrs::params::Params;
pub use attrs::threads::{WorkerThread, WorkerThreads};
#[cfg(cmwq_sim)]
pub use lock::holds::explored::set_most_in_a_hold;
pub use lock::later::{defers_wakes, wake_deferred};
#[cfg(all(test, cmwq_loom))]
pub(crate) use queue::caller_slot::CallerSlot;
pub(crate) use queue::colours::COLOURS;
pub(crate) use queue::credits::{NodeLimit, SharedLimit, Short};
pub(crate) use queue::pwq::{PwqKey, Traits};
pub(crate) use queue::pwq_chunks::PwqChunks;
pub(crate) use queue::room::{Place, RoomAnswer, WaitingBound};
pub use queue::stats::{EngineStats, PoolCounts, QueueStats};
pub(crate) use queue::times::Sampler;
pub use report::dump::Dump;
pub(crate) use report::snapshot::PoolSnapshot;
pub(crate) use report::stall::{Progress, WaitList, Waits};
pub use report::state::{PoolState, PoolWorker, RunState};
pub(crate) use run::block::BlockGuard;
pub use run::block::blocking;
pub(crate) use run::describe::describe_at_home;
pub(crate) use run::waiter::Waiter;
pub(crate) use service::rescuer::Rescuer;
pub(crate) use service::thread::{Maintenance, Service};
pub(crate) use state::group::{Group, SHARE};
pub(crate) use state::member::leave_in_child;
pub(crate) use state::pool::{FrontEnd, Pool, PwqState, Rescue};
pub(crate) use submit::chain::Claimed;
pub(crate) use submit::dealing::OtherPod;
// For handles, which the model checker does not have.
#[cfg(not(cmwq_loom))]
pub(crate) use submit::producer::claim_and_publish_again;
pub(crate) use submit::producer::{
    Issuer, backlogged_pool, dealing, has_backlog, publish_begins, publish_closure_again,
    publish_item_again, wait_begins,
};
pub(crate) use submit::spawn_history;
pub(crate) use submit::spawn_history::Granted;
#[cfg(all(test, cmwq_loom))]
pub(crate) use task::current::Current;
#[cfg(all(test, cmwq_loom))]
pub(crate) use task::current::as_item;
pub(crate) use task::current::{current, is_on_stack, stops_bh_pool};
pub use task::current::{current_is_mem_reclaim, current_is_rescuer, current_work};
pub(crate) use wake::deferred::in_waker;
