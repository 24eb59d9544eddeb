//! What tools are told.

mod dump;
#[path = "../harness/mod.rs"]
mod harness;
mod observe;
mod recordings;
