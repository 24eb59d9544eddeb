//! The back end: worker pools. Their protocol is written down in `pool/PROTOCOL.md`.
//!
//! | folder | what it is |
//! |---|---|
//! | `attrs` | what a pool is told about itself, and what all pools of an engine share |
//! | `task` | one run of an item, and the table of those that run |
//! | `queue` | what a pool keeps for each workqueue: its pool workqueue, credits, caller slots |
//! | `wake` | policies of waking, which know no pool |
//! | `state` | the pool, and what its lock guards |
//! | `lock` | the guard of the lock: items are taken under it, and it settles before it lets go |
//! | `submit` | publishing: what an issuing thread remembers |
//! | `balance` | the monitor's looks, and stealing |
//! | `run` | the worker's loop, batches, waiters, declared blocking |
//! | `service` | threads beside the workers |
//! | `report` | what pools look like from outside |
//!
//! Each uses those above it in this table only.
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
mod stubs;
mod submit;
mod task;
mod wake;

#[cfg(all(test, cmwq_loom))]
pub(crate) mod model;

#[cfg(all(test, not(cmwq_loom)))]
mod tests;

pub(crate) use attrs::kind::{Binding, Place, PoolAttrs, PoolKind};
pub(crate) use attrs::params::Params;
pub use attrs::threads::{WorkerThread, WorkerThreads};
pub use lock::later::{defers_wakes, wake_deferred};
#[cfg(all(test, cmwq_loom))]
pub(crate) use queue::caller_slot::CallerSlot;
pub(crate) use queue::colours::COLOURS;
pub(crate) use queue::credits::{NodeLimit, SharedLimit, Short};
pub(crate) use queue::pwq::{PwqKey, Traits};
pub(crate) use queue::stats::{PoolStats, PwqStats};
pub(crate) use queue::together::Together;
pub use report::dump::Dump;
pub(crate) use report::snapshot::PoolSnapshot;
pub(crate) use report::stall::{Progress, WaitList, Waits};
pub(crate) use run::block::BlockGuard;
pub use run::block::blocking;
pub(crate) use run::describe::describe_at_home;
pub(crate) use service::rescuer::Rescuer;
pub(crate) use service::thread::{Maintenance, Service};
pub(crate) use state::group::Group;
pub(crate) use state::member::leave_in_child;
pub(crate) use state::pool::{FrontEnd, Pool, PwqState, Rescue};
// Of handles, which the model checker does not have.
#[cfg(not(cmwq_loom))]
pub(crate) use submit::producer::claim_and_publish_again;
pub(crate) use submit::producer::{
    Issuer, floods, has_backlog, note_route, publish_begins, publish_closure_again,
    publish_item_again, publish_with_handle_again, wait_begins,
};
pub(crate) use submit::spawn_history;
pub(crate) use submit::spawn_history::Granted;
pub(crate) use task::call::Callable;
#[cfg(all(test, cmwq_loom))]
pub(crate) use task::current::Current;
pub(crate) use task::current::current;
pub use task::current::{current_is_mem_reclaim, current_is_rescuer, current_work};
#[cfg(not(cmwq_loom))]
pub(crate) use wake::deferred::entry_of;
pub(crate) use wake::last_cpu::note as note_last_cpu;
