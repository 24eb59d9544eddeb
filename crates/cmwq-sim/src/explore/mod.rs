//! Exploration: random programs on random machines under random schedules, with faults; oracles
//! check whether the library keeps its promises.
//!
//! Everything follows from a seed. Each seed is run in a process of its own, a fork of one that has
//! never run a machine: what the library has once in a process begins anew, and a crash or an
//! endless loop is a failure as any other. A failing seed prints one line that replays it, and is
//! shrunk: operations and faults are left out as long as it still fails.
//!
//! What must hold is in `programs` (`crates/cmwq/tests/programs`, which the stress test runs on
//! real threads), and: nothing waits while a CPU that could run it idles for longer than the
//! monitor needs; what was accepted runs though no thread touches the engine any more; every
//! closure, item, pool and worker goes.

#[path = "../../../cmwq/tests/harness/broken.rs"]
mod broken;
mod case;
pub(crate) mod os;
pub mod program;
#[path = "../../../cmwq/tests/programs/mod.rs"]
mod programs;
#[path = "../../../cmwq/tests/harness/random.rs"]
mod random;
mod runner;
mod scheduler;
mod shrink;

use cmwq_simulated as library;

pub use case::Passed;
pub use runner::{Case, Runner, Verdict};
pub use scheduler::Scheduler;
pub use shrink::shrink;
