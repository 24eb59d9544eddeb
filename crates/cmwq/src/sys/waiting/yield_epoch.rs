//! Yield epochs: whether other threads that spin on a CPU get their answers. A thread that begins
//! to spin advances its CPU's epoch.
//!
//! A thread that yields and comes back late has lost its CPU to another thread. If that thread
//! computed, sleeping would have been better than spinning. If the threads that ran were spinning
//! too, and got their answers one after the other, spinning was right, and it is this thread's turn
//! now.
#![forbid(unsafe_code)]

use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;
use crate::sys::cpu;
use crossbeam_utils::CachePadded;

/// CPUs with an epoch of their own.
const CPUS: usize = 256;

static YIELD_EPOCHS: [CachePadded<AtomicU32>; CPUS] =
    [const { CachePadded::new(AtomicU32::new(0)) }; CPUS];

/// The yield epoch of one CPU. A hint: an advance may be lost when the system moves a thread.
#[derive(Clone, Copy)]
pub(super) struct YieldEpoch(&'static AtomicU32);

impl YieldEpoch {
    /// The caller's CPU's.
    #[inline]
    pub(super) fn here() -> YieldEpoch {
        YieldEpoch(&YIELD_EPOCHS[cpu::current().unwrap_or(0) % CPUS])
    }

    /// The current epoch, modulo 2^32.
    #[inline]
    pub(super) fn number(self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Advances it: the caller begins to spin.
    #[inline]
    pub(super) fn advance(self) {
        // Threads on other CPUs have lines of their own, and those on this CPU do not write at the same time.
        self.0
            .store(self.number().wrapping_add(1), Ordering::Relaxed);
    }
}
