//! A short spin before an expensive step that may turn out not to be needed, where such spins have
//! paid off lately.
#![forbid(unsafe_code)]

use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;
use crate::sys::task;

/// Polls of a spin, of some 15 to 40 ns each: together far less than a system call that wakes a thread.
const POLLS: u32 = 24;
/// How many spins are skipped after one in vain. Each further spin in vain doubles the number.
const FIRST_PAUSE: u32 = 4;
const LONGEST_PAUSE: u32 = 1024;

/// Whether to spin. Shared by threads: a lost update only delays the adaptation.
pub(crate) struct BriefSpin {
    /// How many more spins to skip.
    left_out: AtomicU32,
    /// What the next spin in vain sets `left_out` to.
    pause: AtomicU32,
}

impl BriefSpin {
    pub(crate) const fn new() -> Self {
        BriefSpin {
            left_out: AtomicU32::new(0),
            pause: AtomicU32::new(FIRST_PAUSE),
        }
    }

    /// Whether `done` returns `true` during a short spin. Under the model checker a spin is a single poll.
    pub(crate) fn spin(&self, mut done: impl FnMut() -> bool) -> bool {
        if cfg!(cmwq_loom) {
            return done();
        }
        let left_out = self.left_out.load(Ordering::Relaxed);
        if left_out > 0 {
            self.left_out.store(left_out - 1, Ordering::Relaxed);
            return false;
        }
        for _ in 0..POLLS {
            if done() {
                self.paid_off();
                return true;
            }
            task::pause();
        }
        self.was_in_vain();
        false
    }

    fn paid_off(&self) {
        if self.pause.load(Ordering::Relaxed) > FIRST_PAUSE {
            self.pause.store(FIRST_PAUSE, Ordering::Relaxed);
        }
    }

    fn was_in_vain(&self) {
        let pause = self.pause.load(Ordering::Relaxed);
        self.left_out.store(pause, Ordering::Relaxed);
        self.pause
            .store((pause * 2).min(LONGEST_PAUSE), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    /// How many times in a row it does not poll at all.
    fn left_out(brief_spin: &BriefSpin) -> u32 {
        let mut times = 0;
        loop {
            let mut polled = false;
            brief_spin.spin(|| {
                polled = true;
                false
            });
            if polled {
                return times;
            }
            times += 1;
        }
    }

    #[test]
    fn a_spin_in_vain_makes_the_next_ones_rarer_until_one_pays_off() {
        let brief_spin = BriefSpin::new();
        assert_eq!(left_out(&brief_spin), 0);
        let mut pause = FIRST_PAUSE;
        for _ in 0..20 {
            assert_eq!(left_out(&brief_spin), pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        assert_eq!(pause, LONGEST_PAUSE);
        while !brief_spin.spin(|| true) {}
        assert!(brief_spin.spin(|| true));
        assert_eq!(left_out(&brief_spin), 0);
        assert_eq!(left_out(&brief_spin), FIRST_PAUSE);
    }

    #[test]
    fn what_happens_within_the_moment_is_seen() {
        let brief_spin = BriefSpin::new();
        let mut polls = 0;
        assert!(brief_spin.spin(|| {
            polls += 1;
            polls == POLLS
        }));
    }
}
