//! What tools can read.

mod attributes;
mod dump;
mod events;
#[path = "../harness/mod.rs"]
mod harness;
mod names;
mod queues;
mod recordings;
mod times;

use cmwq::Engine;
use cmwq::observe::LiveQueue;
use std::sync::{Mutex, MutexGuard, PoisonError};

fn live(engine: &Engine, name: &str) -> LiveQueue {
    let queues = engine.live_queues();
    let found = queues.into_iter().find(|queue| queue.name() == name);
    found.expect("the queue is there")
}

/// Timing and recording are the process's, and so are their tests'.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
