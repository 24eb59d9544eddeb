//! For C, for programs that are shaped like the kernel's, and for libraries that put other
//! interfaces onto this one: items in the program's own memory, queues behind a number, the
//! kernel's system queues and limits. Of this a Rust service needs at most [`reset_signal_mask`],
//! when it starts other programs.
//!
//! | for | see |
//! |---|---|
//! | an item in memory that the program keeps, as in C | [`RawWork`], [`RawDelayedWork`], [`WorkFn`], [`MoveIf`] |
//! | an item inside of a program's own structure | [`EmbeddedWork`], [`EmbeddedDelayedWork`], [`EmbeddedDisableGuard`] |
//! | a queue behind a number, which may be stale | [`WorkqueueHandle`], [`NoSuchWorkqueue`] |
//! | the kernel's system queues | [`SystemWorkqueue`], [`SystemQueue`] |
//! | the kernel's limits | [`WQ_MAX_ACTIVE`], [`WQ_DFL_ACTIVE`] |
//! | running a function on a CPU | [`run_on_cpu`], [`run_on_each_cpu`] |
//! | where the calling code runs | [`current_work`], [`current_is_rescuer`], [`current_is_mem_reclaim`] |
//! | code that frees memory, for which only queues with a rescuer may be waited | [`in_memory_reclaim`] |
//! | wakers of a program's own handles | [`wake_deferred`], [`defers_wakes`] |
//! | the signal mask of a child process | [`reset_signal_mask`] |

pub use crate::item::EmbeddedWork;
#[doc(hidden)]
pub use crate::item::NamedWork;
/// An item that is called with its own address, for C and for structures that contain their items.
///
/// ```
/// use cmwq::Workqueue;
/// use cmwq::raw::RawWork;
/// use std::ptr::NonNull;
///
/// unsafe extern "C-unwind" fn hello(_item: NonNull<RawWork>) {
///     println!("hello");
/// }
/// let queue = Workqueue::builder("io").build()?;
/// let item = Box::new(RawWork::new(hello));
/// // SAFETY: the item stays where it is until the flush below has returned.
/// assert!(unsafe { queue.queue_raw(NonNull::from(&*item)) }.is_accepted());
/// item.flush()?;
/// assert!(!item.is_pending() && !item.busy().running);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use crate::item::RawWork;
pub use crate::item::WorkFn;
#[cfg(cmwq_sim)]
pub use crate::pool::set_most_in_a_hold;
pub use crate::pool::{
    current_is_mem_reclaim, current_is_rescuer, current_work, defers_wakes, wake_deferred,
};
#[cfg(not(cmwq_loom))]
#[doc(hidden)]
pub use crate::sys::forced_unwind::{
    ThreadEnd, call as call_c, call_anywhere as call_c_anywhere, call_item_code, end_item,
};
pub use crate::sys::signals::reset_signal_mask;
pub use crate::workqueue::{
    EmbeddedDelayedWork, EmbeddedDisableGuard, MoveIf, RawDelayedWork, SystemQueue,
    SystemWorkqueue, WQ_DFL_ACTIVE, WQ_MAX_ACTIVE, in_memory_reclaim, run_on_cpu, run_on_each_cpu,
};
#[cfg(not(cmwq_loom))]
pub use crate::workqueue::{NoSuchWorkqueue, WorkqueueHandle};
