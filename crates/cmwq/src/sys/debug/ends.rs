//! What is counted comes back: checks of debug builds when something goes. A branch that forgets to count back is found by any program that takes it.
#![forbid(unsafe_code)]

use crate::sys::fork;

/// Calls `check` for something that goes. In a fork's child it is left out, since the parent's
/// threads have left there what they held.
pub(crate) fn at_the_end(check: impl FnOnce()) {
    if !std::thread::panicking() && fork::generation() == 0 {
        check();
    }
}
