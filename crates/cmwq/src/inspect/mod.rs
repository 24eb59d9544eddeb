//! The state of an engine and its workqueues at one moment, and their attributes and parameters as texts.
#![forbid(unsafe_code)]

mod attributes;
mod live;
mod pools;
mod queues;
mod state;

pub use live::LiveQueue;
pub use state::{NodeState, PwqState, QueueState, QueueTimes, RescuerState, RoomState, ScopeState};
