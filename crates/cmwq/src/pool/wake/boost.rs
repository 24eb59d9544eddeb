//! Latency boost: workers that are woken rarely, for little work, get a shorter scheduler slice and begin at once.
//!
//! A worker that is woken on its waker's CPU begins when the waker parks or is preempted. The system decides which; mostly it lets the running thread
//! go on. For an item of 10 us every few milliseconds that is a long wait, and the issuer would lose no more than these 10 us. So after [`EARNED`]
//! such wake-ups a worker asks the system for a [shorter slice](crate::sys::slice), by which it goes first.
//!
//! If items come sooner or in numbers, or take long, the worker has the default again: long items would keep their issuer
//! off its CPU, and an issuer that is interrupted for each of many items gets nowhere. Measured: `docs/decisions/011-latency-boost.md`.
#![forbid(unsafe_code)]

use crate::sys::slice::Slice;
use crate::sys::thread;

/// With at least this from one sleep to the next, the worker is woken rarely.
const RARELY_NS: u64 = 500_000;
/// With at most this CPU time per wake-up, it has little work.
const BRIEFLY_NS: u64 = 50_000;
/// Items or batches that such a worker takes at most.
const FEW: u32 = 4;
/// So many such wake-ups earn a shorter slice.
const EARNED: u32 = 8;

/// How a worker has been woken lately.
pub(in crate::pool) struct LatencyBoost {
    /// When it last went to sleep; 0: never.
    slept_ns: u64,
    /// Its CPU time then, if it was read.
    cpu_ns: Option<u64>,
    /// Items and batches taken since.
    taken: u32,
    /// Rare wake-ups with little work in a row.
    score: u32,
    /// Its slice from the system. `None`: it cannot be changed.
    slice: Option<Slice>,
    /// The slice is the shorter one.
    first: bool,
}

impl LatencyBoost {
    /// For the calling thread.
    pub(in crate::pool) fn new() -> Self {
        LatencyBoost {
            slept_ns: 0,
            cpu_ns: None,
            taken: 0,
            score: 0,
            slice: Slice::of_current(),
            first: false,
        }
    }

    /// The worker has taken an item, or a batch.
    #[inline]
    pub(in crate::pool) fn take(&mut self) {
        self.taken = self.taken.wrapping_add(1);
        // At once: the worker may not sleep again for long.
        if self.first && self.taken > FEW {
            self.change(false);
        }
    }

    /// The worker is about to park.
    pub(in crate::pool) fn sleep(&mut self, now_ns: u64) {
        if self.slice.is_none() {
            return;
        }
        let since_ns = now_ns - std::mem::replace(&mut self.slept_ns, now_ns);
        let taken = std::mem::take(&mut self.taken);
        let first = self.judge(since_ns, taken, thread::cpu_time_of_current_ns);
        if first != self.first {
            self.change(first);
        }
    }

    /// Whether a shorter slice is earned, by a sleep `since_ns` after the one before.
    fn judge(&mut self, since_ns: u64, taken: u32, cpu_ns: impl FnOnce() -> u64) -> bool {
        let before = self.cpu_ns.take();
        if since_ns < RARELY_NS || taken > FEW {
            self.score = 0;
            return false;
        }
        let now = cpu_ns();
        self.cpu_ns = Some(now);
        if before.is_none_or(|before| now - before <= BRIEFLY_NS) {
            self.score = (self.score + 1).min(EARNED);
        } else {
            self.score = 0;
        }
        self.score >= EARNED
    }

    #[cold]
    fn change(&mut self, first: bool) {
        let changed = self.slice.as_ref().map(|slice| match first {
            true => slice.halve(),
            false => slice.restore(),
        });
        if matches!(changed, Some(Ok(()))) {
            self.first = first;
        } else {
            // Not permitted.
            self.slice = None;
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    /// A worker that the system grants nothing, and its CPU time.
    struct Worker {
        boost: LatencyBoost,
        cpu_ns: u64,
    }

    impl Worker {
        fn new() -> Self {
            let boost = LatencyBoost {
                slice: None,
                ..LatencyBoost::new()
            };
            Worker { boost, cpu_ns: 0 }
        }

        /// `times` wake-ups, `since_ns` apart, for `taken` items and `took_ns` each. Whether a shorter slice is earned after the last.
        fn wake(&mut self, times: u32, since_ns: u64, taken: u32, took_ns: u64) -> bool {
            (0..times).fold(false, |_, _| {
                self.cpu_ns += took_ns;
                let cpu_ns = self.cpu_ns;
                self.boost.judge(since_ns, taken, || cpu_ns)
            })
        }
    }

    #[test]
    fn a_worker_that_is_needed_rarely_and_briefly_earns_it() {
        let mut worker = Worker::new();
        assert!(!worker.wake(EARNED - 1, RARELY_NS, 1, BRIEFLY_NS));
        assert!(worker.wake(1, RARELY_NS, FEW, BRIEFLY_NS));
        assert!(worker.wake(100, RARELY_NS, 1, 1_000));
    }

    #[test]
    fn one_long_wake_up_takes_it_away() {
        let mut worker = Worker::new();
        assert!(worker.wake(2 * EARNED, RARELY_NS, 1, 1_000));
        assert!(!worker.wake(1, RARELY_NS, 1, BRIEFLY_NS + 1));
        assert!(!worker.wake(EARNED - 1, RARELY_NS, 1, 1_000));
        assert!(worker.wake(1, RARELY_NS, 1, 1_000));
        // Always long.
        assert!(!worker.wake(100, RARELY_NS, 1, BRIEFLY_NS + 1));
    }

    #[test]
    fn one_wake_up_soon_after_another_or_for_much_takes_it_away() {
        for (since_ns, taken) in [(RARELY_NS - 1, 1), (RARELY_NS, FEW + 1)] {
            let mut worker = Worker::new();
            assert!(worker.wake(EARNED, RARELY_NS, 1, 1_000));
            assert!(!worker.wake(1, since_ns, taken, 1_000));
            assert!(!worker.wake(EARNED - 1, RARELY_NS, 1, 1_000));
            assert!(worker.wake(1, RARELY_NS, 1, 1_000));
        }
    }

    #[test]
    fn who_takes_much_has_the_default_before_it_sleeps() {
        let works = std::thread::spawn(|| {
            let mut boost = LatencyBoost::new();
            // If the system knows no slices, or a sandbox forbids changes, there is nothing to test.
            if boost.slice.is_none() {
                return;
            }
            boost.change(true);
            let permitted = boost.first;
            (0..FEW).for_each(|_| boost.take());
            assert_eq!(boost.first, permitted);
            boost.take();
            assert!(!boost.first);
        });
        works.join().unwrap();
    }
}
