//! Waiting awake for a little while, when that has paid off lately.
//!
//! Going to sleep and being woken costs the sleeper's and the waker's system call and, across CPUs, an interrupt and an
//! idle exit: 5 us on one CPU, 70 us across two on the virtual machine of docs/measurements. Waiting awake costs the CPU.
//! The classic rule is to wait awake about as long as a sleep would cost; here the allowance also adapts: it doubles when
//! what was waited for came in time and halves when it did not, down to nothing, so a process whose work is rare does
//! not burn its CPUs. A spent allowance is tried again now and then, ever more rarely while that fails.
//!
//! Between two bouts of looking the waiter yields: if the one it waits for wants the same CPU, that one runs at once.
//! How long a bout is adapts too: short where what is waited for tends to be there right after a yield (both sides share
//! a CPU), long where it comes by itself (the other side is awake on another CPU, and a yield would only delay the answer).
#![forbid(unsafe_code)]

use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;
use crate::sys::{clock, task};

/// The longest wait, in ns: what a sleep and a wake-up across CPUs cost where they are dear.
const MAX_NS: u32 = 80_000;
/// A wait that took this long, though no allowance does, was interrupted by somebody else's time slice.
const TAKEN_AWAY_NS: u64 = 1_000_000;
/// Below this an allowance counts as spent.
const MIN_NS: u32 = 2_000;
/// A spent allowance is tried again after this many waits at first, and after more with every failure.
const FIRST_PROBE_AFTER: u32 = 16;
const LAST_PROBE_AFTER: u32 = 2048;
/// Looks in one bout, of some 15 to 40 ns each.
pub(crate) const MIN_LOOKS: u32 = 2;
pub(crate) const MAX_LOOKS: u32 = 64;

/// How long to wait awake. Shared by threads: a lost update only delays the adapting.
pub(crate) struct Allowance {
    ns: AtomicU32,
    /// Waits refused since the last probe, and how many make the next one due.
    refused: AtomicU32,
    probe_after: AtomicU32,
    looks: AtomicU32,
    looks_adapt: bool,
}

impl Allowance {
    /// For a waiter that does not know where the other side runs.
    pub(crate) const fn new() -> Self {
        Allowance {
            ns: AtomicU32::new(MAX_NS),
            refused: AtomicU32::new(0),
            probe_after: AtomicU32::new(FIRST_PROBE_AFTER),
            looks: AtomicU32::new(MAX_LOOKS),
            looks_adapt: true,
        }
    }

    /// For a waiter that knows: bouts of `looks`.
    pub(crate) const fn with_looks(looks: u32) -> Self {
        Allowance {
            looks: AtomicU32::new(looks),
            looks_adapt: false,
            ..Self::new()
        }
    }

    /// Waits awake until `done` says so; `false` when the allowance ran out first.
    pub(crate) fn wait(&self, mut done: impl FnMut() -> bool) -> bool {
        if done() {
            return true;
        }
        if cfg!(cmwq_loom) {
            return false;
        }
        let Some(budget) = self.budget() else {
            return false;
        };
        let looks = self.looks.load(Ordering::Relaxed);
        let start = clock::now_ns();
        loop {
            for _ in 0..looks {
                task::pause();
                if done() {
                    return self.paid_off(budget, looks * 2);
                }
            }
            task::yield_now();
            let waited = clock::now_ns() - start;
            if waited > TAKEN_AWAY_NS {
                // The CPU went to somebody who keeps it, and a sleeper gets it back sooner than one who yields: this did not
                // pay, whether it is done by now or not.
                self.ns.store(0, Ordering::Relaxed);
                self.probe_later(4);
                return done();
            }
            if done() {
                return self.paid_off(budget, looks / 2);
            }
            if waited >= u64::from(budget) {
                self.ns.store(budget / 2, Ordering::Relaxed);
                return false;
            }
        }
    }

    fn paid_off(&self, budget: u32, looks: u32) -> bool {
        if self.looks_adapt {
            self.looks
                .store(looks.clamp(MIN_LOOKS, MAX_LOOKS), Ordering::Relaxed);
        }
        self.ns.store((budget * 2).min(MAX_NS), Ordering::Relaxed);
        // Forgotten slowly: where somebody else's work takes the CPU now and then, most waits still pay.
        let probe_after = self.probe_after.load(Ordering::Relaxed);
        self.probe_after
            .store((probe_after - 1).max(FIRST_PROBE_AFTER), Ordering::Relaxed);
        true
    }

    fn budget(&self) -> Option<u32> {
        let allowed = self.ns.load(Ordering::Relaxed);
        if allowed >= MIN_NS {
            return Some(allowed);
        }
        let refused = self.refused.load(Ordering::Relaxed) + 1;
        let probe_after = self.probe_after.load(Ordering::Relaxed);
        if refused < probe_after {
            self.refused.store(refused, Ordering::Relaxed);
            return None;
        }
        self.refused.store(0, Ordering::Relaxed);
        self.probe_later(2);
        Some(MAX_NS)
    }

    fn probe_later(&self, times: u32) {
        let probe_after = self.probe_after.load(Ordering::Relaxed);
        self.probe_after.store(
            (probe_after * times).min(LAST_PROBE_AFTER),
            Ordering::Relaxed,
        );
    }
}
