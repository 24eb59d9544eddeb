//! Who else waits awake on a CPU, and gets on: each thread that begins to wait awake takes a turn there.
//!
//! A thread that yields and comes back late has lost its CPU to somebody. If that was one who computes, it should not have yielded, but gone to
//! sleep. If it was one who waits as it does, and has been answered again and again meanwhile, then all is well: it is its own turn now.
#![forbid(unsafe_code)]

use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;
use crate::sys::cpu;
use crossbeam_utils::CachePadded;

/// CPUs that are told apart.
const CPUS: usize = 256;

static YIELD_EPOCHS: [CachePadded<AtomicU32>; CPUS] =
    [const { CachePadded::new(AtomicU32::new(0)) }; CPUS];

/// The turns taken on one CPU. A hint: one may be lost when the system moves a thread.
#[derive(Clone, Copy)]
pub(super) struct YieldEpoch(&'static AtomicU32);

impl YieldEpoch {
    /// Of the CPU where the caller is.
    #[inline]
    pub(super) fn here() -> YieldEpoch {
        YieldEpoch(&YIELD_EPOCHS[cpu::current().unwrap_or(0) % CPUS])
    }

    /// How many there were, modulo 2^32.
    #[inline]
    pub(super) fn number(self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// The caller begins to wait awake.
    #[inline]
    pub(super) fn take_one(self) {
        // Those on other CPUs have lines of their own, and those on this one are not at it at the same time.
        self.0
            .store(self.number().wrapping_add(1), Ordering::Relaxed);
    }
}
