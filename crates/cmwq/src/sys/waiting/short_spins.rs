//! How long a spin may last: longer where CPU time is there anyway than below a CPU quota.
//!
//! Below a quota a spin uses up time that work needs, and when none is left the system stops all threads of the process for the rest of a period, mostly
//! 100 ms. So it ends when it has cost as much CPU time as a sleep and a wake-up; without a quota, when it has lasted as long as these take.
#![forbid(unsafe_code)]

use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicUsize;

/// The longest wait, in ns: about what a wake-up costs. Who spins for so long and then parks has spent twice what the better of the two would have cost.
pub(super) const MAX_NS: u32 = 15_000;
/// Polls in one round at most.
pub(crate) const MAX_POLLS: u32 = 256;
/// The same for workers. A worker that yields because the next item comes a little late may give its CPU to several waiters, none of which is
/// answered before the worker is back.
pub(crate) const MAX_POLLS_OF_WORKERS: u32 = 4 * MAX_POLLS;

/// The longest spin below a quota.
const SHORT_NS: u32 = 10_000;

/// How many [`ShortSpins`] there are.
static SHORT_SPINS: AtomicUsize = AtomicUsize::new(0);

/// As long as there is one, the process has less CPU time than CPUs: all spins are short.
pub(crate) struct ShortSpins(());

impl ShortSpins {
    pub(crate) fn new() -> Self {
        SHORT_SPINS.fetch_add(1, Ordering::Relaxed);
        ShortSpins(())
    }
}

impl Drop for ShortSpins {
    fn drop(&mut self) {
        SHORT_SPINS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Upper bounds of a wait and of its rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Most {
    pub(super) ns: u32,
    pub(super) polls: u32,
}

impl Most {
    pub(super) const LONG: Most = Most {
        ns: MAX_NS,
        polls: MAX_POLLS_OF_WORKERS,
    };
    pub(super) const SHORT: Most = Most {
        ns: SHORT_NS,
        polls: MAX_POLLS,
    };

    /// As it is now.
    pub(super) fn now() -> Most {
        match SHORT_SPINS.load(Ordering::Relaxed) {
            0 => Most::LONG,
            _ => Most::SHORT,
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn spins_are_short_as_long_as_anybody_wants_them_short() {
        let (first, second) = (ShortSpins::new(), ShortSpins::new());
        drop(first);
        assert_eq!(Most::now(), Most::SHORT);
        drop(second);
    }
}
