//! What tools can read.

mod dump;
#[path = "../harness/mod.rs"]
mod harness;
mod observe;
mod recordings;
