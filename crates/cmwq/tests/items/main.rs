//! Items and closures: queued, delayed, in batches and floods, cancelled, waited for; their handles
//! and completions.

mod aborts;
mod batches;
mod completion_queues;
mod delayed;
mod dropped_handles;
mod embedded;
mod executed;
mod floods;
mod handles;
#[path = "../harness/mod.rs"]
mod harness;
mod items;
mod join_sets;
mod late;
mod long_times;
mod references;
mod timers;
mod waiters;
mod workqueue_handles;
