//! What random programs do to the library, and what must hold then. Two things are made of this
//! folder: the stress test, on real threads (`../stress/`), and the exploration of virtual machines
//! (`cmwq-sim`). Each gives it `library`, the library as it compiles it, and `os`: threads, time,
//! CPUs that come and go; beside `random` and `broken` of the harness.
//!
//! What must hold: each accepted instance of an item runs once or is reported as removed, and a
//! one-shot item runs or is dropped by a drain; no item runs twice at once, nor while it is
//! disabled and was waited for; no queue, no CPU and no BH pool has more active items than its
//! limit, and no group of queues; an awaited handle wakes the waker that it was given last; what a
//! scope borrows is not used when the scope has ended; a batch accepts as many items as it says; a
//! completion queue delivers each token once, with its own result, and to a flushed queue's owner
//! without delay; ordered and BH queues keep their order; an issuer is owed a run that sees what it
//! did before; a flush waits for all that its caller queued; nothing of a frozen queue starts; an
//! item runs on threads of its queue's own, where it has any, on no thread that does something else
//! if it is for workers only, and near the node that was named; a value of which items are fields
//! is kept by pending instances and by nothing else; as many items as a raised limit says are
//! active at the same time, and what becomes active after it was lowered keeps to it; an item that
//! queues itself does not escape from a cancel that waits; no timer fires before its time; a drain
//! refuses what other threads queue; a rescuer runs its own queue's items only; a queue with a
//! bound has no more items that wait, refuses none while there is room, and loses no room.
#![allow(dead_code, unused_imports, reason = "each of the two uses a part")]

mod batches;
mod bodies;
mod bounded;
mod completions;
mod disabled;
mod embedded;
mod forked;
mod grouped;
mod handles;
mod issuer;
mod items;
mod kinds;
mod model;
mod raw;
mod shots;
mod threads;
mod turnover;
mod world;

use super::{broken, library, os, random};

pub(crate) use bounded::Bounded;
pub(crate) use broken::Broken;
pub(crate) use forked::BeforeFork;
pub(crate) use issuer::Issuer;
pub use kinds::Kind;
pub(crate) use kinds::{KINDS, pick};
pub(crate) use model::{Shots, lock};
pub(crate) use random::Random;
pub(crate) use shots::drain_what_hops;
pub(crate) use world::{Known, Ledger, Settings, World, built};
