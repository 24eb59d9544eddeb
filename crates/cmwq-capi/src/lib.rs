//! The C ABI of [`cmwq`]: what `include/cmwq.h` declares, and no more.
//!
//! Every function is made by [`abi!`](call): it knows its own name, for warnings, and lets no panic out. What C hands in is
//! looked at before it is used: workqueues are [handles](cmwq::WorkqueueHandle), which any number may pretend to be; items are
//! looked at as far as memory that the caller vouches for can be.

#![allow(
    clippy::missing_safety_doc,
    reason = "the contract of every function is in cmwq.h"
)]

mod attrs;
mod call;
mod completion;
mod delayed;
mod flags;
mod process;
mod queue;
mod system;
mod work;

pub use attrs::*;
pub use completion::*;
pub use delayed::*;
pub use process::*;
pub use queue::*;
pub use system::*;
pub use work::*;
