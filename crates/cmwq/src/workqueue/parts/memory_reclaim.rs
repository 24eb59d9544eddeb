//! Marks threads that free memory, or another scarce resource.

use crate::sys::local::thread_local;
use std::cell::Cell;

thread_local! {
    static MARKED: Cell<bool> = const { Cell::new(false) };
}

/// Marks the calling thread, while it calls `f`, as one that frees memory: for allocators and
/// caches under pressure. While it is marked, waiting for a workqueue without a
/// [rescuer](crate::WorkqueueBuilder::mem_reclaim) causes a warning: such a queue may itself wait
/// for memory.
///
/// ```
/// let freed = cmwq::raw::in_memory_reclaim(|| {
///     // ... drop the entries of a cache ...
///     4096
/// });
/// assert_eq!(freed, 4096);
/// ```
pub fn in_memory_reclaim<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            MARKED.set(self.0);
        }
    }
    let _restore = Restore(MARKED.replace(true));
    f()
}

pub(crate) fn is_marked() -> bool {
    MARKED.get()
}
