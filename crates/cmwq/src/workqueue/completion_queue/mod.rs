//! Completion queues: items post their results to a queue, and a thread with an event loop of its
//! own takes them from it. The protocol is described in `COMPLETION_QUEUE.md`.

mod join_set;
mod outlook;
mod owner;
mod posts;
mod queue;
mod submit;

#[cfg(all(test, cmwq_loom))]
mod model;

pub use join_set::JoinSet;
pub use owner::CompletionQueue;
pub use queue::{Completed, CompletionQueueBuilder, NotPosted, Poster};
pub use submit::NotSubmitted;
