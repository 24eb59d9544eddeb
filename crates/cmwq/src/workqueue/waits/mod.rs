//! Waiting for a whole workqueue: flush, drain, shutdown, by threads and by tasks.

mod draining;
mod lifecycle;
mod room;

pub use lifecycle::{Drain, Flush, Shutdown, Unfinished};
pub use room::{NotAccepted, Room, RoomWait};
