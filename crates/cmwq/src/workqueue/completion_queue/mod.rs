//! Completion queues: where items deliver their results to a thread that waits in an event loop of its own. The protocol is in `COMPLETION_QUEUE.md`.

mod owner;
mod posts;
mod queue;
mod submit;

#[cfg(all(test, cmwq_loom))]
mod model;

pub use owner::CompletionQueue;
pub use queue::{Completed, CompletionQueueBuilder, NotPosted, Poster};
pub use submit::NotSubmitted;
