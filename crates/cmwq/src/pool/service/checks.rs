//! Whether the CPUs are checked periodically. An idle process is not disturbed: nothing runs that could be on a wrong CPU, and the first worker that
//! wakes up restarts the checks.
#![forbid(unsafe_code)]

use crate::sys::atomic::Ordering;
// The model has to see it; the simulator charges nothing for it.
#[cfg(cmwq_loom)]
use crate::sys::atomic::AtomicU32;
#[cfg(not(cmwq_loom))]
use crate::sys::atomic::plain::AtomicU32;

/// No; the next worker that wakes up requests them.
const RESTING: u32 = 0;
/// Yes, and no worker has woken up since the last check.
const QUIET: u32 = 1;
/// Yes.
const BUSY: u32 = 2;

/// All accesses are relaxed: no data goes with it, and each change is one read-modify-write, so no two threads make the same one.
pub(in crate::pool) struct CpuChecks(AtomicU32);

impl CpuChecks {
    /// The CPUs have just been read: a first check is to come, as after [`begin`](Self::begin).
    pub(in crate::pool) fn new() -> Self {
        CpuChecks(AtomicU32::new(QUIET))
    }

    /// A worker has started or woken up. `true`: the caller has to request a check, since none is to come.
    #[inline]
    pub(in crate::pool) fn woke(&self) -> bool {
        // Never a plain store: the service thread may rest since the load, and a store would hide from all workers that it does.
        self.0.load(Ordering::Relaxed) != BUSY && self.0.swap(BUSY, Ordering::Relaxed) == RESTING
    }

    /// A check is due. `false`: no worker has woken up since the last one, and the checks rest until one requests them; else there is to be another.
    pub(in crate::pool) fn begin(&self) -> bool {
        let rests = self
            .0
            .compare_exchange(QUIET, RESTING, Ordering::Relaxed, Ordering::Relaxed);
        if rests.is_err() {
            self.0.swap(QUIET, Ordering::Relaxed);
        }
        rests.is_err()
    }

    /// As [`begin`](Self::begin), while workers work that do not wake up, since they never sleep.
    pub(in crate::pool) fn begin_busy(&self) {
        self.0.swap(QUIET, Ordering::Relaxed);
    }
}

#[cfg(all(test, cmwq_loom))]
mod model {
    use super::*;
    use loom::thread;
    use std::sync::Arc;

    /// Two workers wake up while the service thread lets the checks rest, or goes on with them.
    #[test]
    fn checks_that_rest_are_requested_by_the_next_worker_that_wakes_up() {
        loom::model(|| {
            let checks = Arc::new(CpuChecks::new());
            assert!(!checks.begin(), "no worker has woken up");
            assert!(checks.woke(), "they rest");
            assert!(checks.begin(), "a worker has woken up");
            let workers = [0, 1].map(|_| {
                let checks = checks.clone();
                thread::spawn(move || checks.woke())
            });
            let goes_on = checks.begin();
            let requests = workers.map(|worker| worker.join().unwrap());
            let requests = requests.iter().filter(|&&request| request).count();
            match goes_on {
                true => assert_eq!(requests, 0, "another check is to come anyway"),
                false => assert_eq!(requests, 1, "somebody has to request it"),
            }
        });
    }

    #[test]
    fn without_a_worker_that_wakes_up_the_checks_rest() {
        loom::model(|| {
            let checks = CpuChecks::new();
            checks.woke();
            assert_eq!([checks.begin(), checks.begin()], [true, false]);
            checks.woke();
            checks.begin_busy();
            assert!(!checks.begin());
            assert!(checks.woke());
        });
    }
}
