//! Foreign code, which is all code of the program that the library calls: handlers, hooks, wakers,
//! destructors. Whatever it does, and wherever it is called, no item is lost, nothing unwinds
//! through the library and no thread of the library ends or stands still.

mod destructors;
#[path = "../harness/mod.rs"]
mod harness;
mod panics;
mod scarce;
#[path = "../harness/thread_creation.rs"]
mod thread_creation;
mod workers;
