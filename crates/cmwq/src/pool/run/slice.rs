//! The time slice of a worker: short while it computes little.
#![forbid(unsafe_code)]

use crate::sys::{slice, thread};

/// A worker that computes for less than one part in this many of the time has a short slice.
const SMALL_SHARE: u64 = 4;

/// What a worker remembers for its slice. With a short one it has the CPU as soon as it is woken,
/// even if another thread computes there.
///
/// A worker gets a short slice if the workers of its pool are usually woken for little
/// ([`Occupied::note_wake_up`]), or if it computes for a small share of the time. The share decides
/// where every CPU has a thread that computes. A worker that waits for that thread finds several
/// items when it runs at last, so it is not woken for little. By that alone it would have a long
/// slice, and wait again.
///
/// If the worker slept although items waited (not `lacks_work`), it counts as if it had computed all
/// the time: it competes with workers of its own pool, which it should not interrupt.
///
/// [`Occupied::note_wake_up`]: crate::pool::wake::placement::Occupied::note_wake_up
#[derive(Default)]
pub(super) struct Slice {
    /// When it slept last; 0: never.
    slept_ns: u64,
    /// The CPU time between its last few sleeps, and the time, each with less weight the longer ago
    /// it was.
    used_ns: u64,
    elapsed_ns: u64,
    /// It has a short slice now.
    is_short: bool,
}

impl Slice {
    /// Called when the worker is awake again. It went to sleep at `slept_ns`, after it had computed
    /// for `used_ns` since the sleep before.
    pub(super) fn note_sleep(&mut self, slept_ns: u64, used_ns: u64, lacks_work: bool) {
        let elapsed_ns = match std::mem::replace(&mut self.slept_ns, slept_ns) {
            // Its first sleep: how long it has lived is not known.
            0 => used_ns,
            before_ns => slept_ns.saturating_sub(before_ns),
        };
        let fade = |sum_ns: u64| sum_ns - sum_ns / 8;
        let used_ns = match lacks_work {
            true => used_ns.min(elapsed_ns),
            false => elapsed_ns,
        };
        self.used_ns = fade(self.used_ns) + used_ns;
        self.elapsed_ns = fade(self.elapsed_ns) + elapsed_ns;
    }

    fn is_small_share(&self) -> bool {
        self.used_ns * SMALL_SHARE < self.elapsed_ns
    }

    /// Whether the worker is to have another slice than it has. `is_brief`: workers of its pool are
    /// woken for little.
    pub(super) fn is_to_change(&self, is_brief: bool) -> bool {
        self.is_short != (is_brief || self.is_small_share())
    }

    /// Gives the calling thread, the worker, its other slice. This is a system call, so the pool's
    /// lock is free.
    pub(super) fn change(&mut self) {
        self.is_short = !self.is_short;
        // Without slices, or the permission to set them, the thread waits longer.
        let _ = slice::set(thread::current_tid(), self.is_short);
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_a_short_slice_as_long_as_it_is_woken_for_little() {
        let own = thread::current_tid();
        let Some(default_ns) = slice::of(own).filter(|_| slice::set(own, false).is_ok()) else {
            // Older systems have no slices.
            return;
        };
        let mut slice = Slice::default();
        let mut now_ns = 1_000_000;
        let mut is_short_after = |used_ns, is_brief, lacks_work| {
            now_ns += 1_000_000;
            slice.note_sleep(now_ns, used_ns, lacks_work);
            if slice.is_to_change(is_brief) {
                slice.change();
            }
            assert!(!slice.is_to_change(is_brief));
            let slice_ns = slice::of(own).expect("the system has slices");
            assert_eq!(slice_ns < default_ns, slice.is_short);
            slice.is_short
        };
        // It computes all the time.
        assert!(is_short_after(1_000_000, true, true));
        assert!(
            !is_short_after(1_000_000, false, true),
            "it was woken for much"
        );
        let mut last_of = |times, used_ns, lacks_work| {
            let last = (0..times).map(|_| is_short_after(used_ns, false, lacks_work));
            last.last().expect("at least once")
        };
        // A computing thread has kept it waiting: it finds much to do, but has slept for longer.
        assert!(last_of(20, 200_000, true), "it uses a fifth of a CPU");
        // It sleeps in its items as well, and then sleeps because others run for which items wait.
        assert!(
            !last_of(20, 200_000, false),
            "it competes with its own pool"
        );
        assert!(last_of(40, 200_000, true), "it lacks work again");
        assert!(!last_of(20, 300_000, true), "it uses more");
    }

    #[test]
    fn a_share_is_that_of_the_last_sleeps() {
        let mut slice = Slice::default();
        let mut now_ns = u64::from(u32::MAX);
        let mut sleep = |slice: &mut Slice, used_ns| {
            now_ns += 100_000;
            slice.note_sleep(now_ns, used_ns, true);
            slice.is_small_share()
        };
        assert!((0..9).all(|_| !sleep(&mut slice, 90_000)));
        assert!(!sleep(&mut slice, 0), "one sleep says little");
        assert!((0..20).any(|_| sleep(&mut slice, 10_000)));
        // More CPU time than time has passed: the clocks differ a little.
        assert!((0..20).any(|_| !sleep(&mut slice, u64::MAX)));
        let mut first = Slice::default();
        first.note_sleep(u64::from(u32::MAX), 10_000, false);
        assert!(!first.is_small_share(), "nothing but computing is known");
    }
}
