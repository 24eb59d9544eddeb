//! The C ABI of [`cmwq`]: what `include/cmwq.h` declares, and no more.
//!
//! Every function is made by `abi!` (`call.rs`): it knows its own name, for warnings, and lets no
//! panic out. What C hands in is looked at before it is used: workqueues are
//! [handles](cmwq::raw::WorkqueueHandle), which any number may pretend to be; items are looked at
//! as far as memory that the caller vouches for can be.

#![allow(
    clippy::missing_safety_doc,
    reason = "the contract of every function is in cmwq.h"
)]

mod attrs;
mod batch;
mod call;
mod completion;
mod cq;
mod delayed;
mod flags;
mod group;
mod handle;
mod process;
mod queue;
mod rcu;
mod runs;
mod system;
mod task;
mod threads;
mod work;

pub use attrs::*;
pub use batch::*;
pub use completion::*;
pub use cq::*;
pub use delayed::*;
pub use group::*;
pub use process::*;
pub use queue::*;
pub use rcu::*;
pub use runs::*;
pub use system::*;
pub use task::*;
pub use threads::*;
pub use work::*;
