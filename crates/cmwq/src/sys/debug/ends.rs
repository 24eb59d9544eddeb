//! Checks of debug builds: when an object that counts something is dropped, the count must be back
//! where it began. So a branch that forgets to count back is found by any program that takes it.
#![forbid(unsafe_code)]

use crate::sys::fork;

/// Calls `check` when an object is dropped. A forked child does not check, because the threads of
/// its parent have left there what they held.
pub(crate) fn at_the_end(check: impl FnOnce()) {
    if !std::thread::panicking() && fork::generation() == 0 {
        check();
    }
}
