//! What the library has to do with the process and its system: threads, signals, descriptors, the
//! environment, refused calls.

mod environment;
mod exhausted;
#[path = "../harness/mod.rs"]
mod harness;
mod process;
mod refusals;
mod signals_of_items;
mod threads;
mod warnings;
mod worker_threads;
