//! Whether the service thread checks the CPUs periodically. In an idle process it does not: nothing
//! runs that could be on a wrong CPU, and the first worker that wakes up starts the checks again.
#![forbid(unsafe_code)]

use crate::sys::atomic::Ordering;
// The model checker has to see these accesses; the simulator does not charge for them.
#[cfg(cmwq_loom)]
use crate::sys::atomic::AtomicU32;
#[cfg(not(cmwq_loom))]
use crate::sys::atomic::plain::AtomicU32;

/// No checks. The next worker that wakes up requests them.
const RESTING: u32 = 0;
/// Checks go on, and no worker has woken up since the last one.
const QUIET: u32 = 1;
/// Checks go on, and a worker has woken up since the last one.
const BUSY: u32 = 2;

/// The state of the checks. All accesses are relaxed, since no other data depends on it. Each
/// change is one read-modify-write, so no two threads make the same one.
pub(in crate::pool) struct CpuChecks(AtomicU32);

impl CpuChecks {
    /// The state after the CPUs were read for the first time: another check follows, as after
    /// [`begin`](Self::begin).
    pub(in crate::pool) fn new() -> Self {
        CpuChecks(AtomicU32::new(QUIET))
    }

    /// Called when a worker has started or woken up. Returns `true` if the caller has to request a
    /// check, since none is scheduled.
    #[inline]
    pub(in crate::pool) fn woke(&self) -> bool {
        // This must not be a plain store. The service thread may have let the checks rest after the
        // load above, and a store would hide that from all workers.
        self.0.load(Ordering::Relaxed) != BUSY && self.0.swap(BUSY, Ordering::Relaxed) == RESTING
    }

    /// Called when a check is due. Returns whether to schedule another one. It returns `false` if
    /// no worker has woken up since the last check: then the checks rest until a worker requests
    /// them.
    pub(in crate::pool) fn begin(&self) -> bool {
        let rests = self
            .0
            .compare_exchange(QUIET, RESTING, Ordering::Relaxed, Ordering::Relaxed);
        if rests.is_err() {
            self.0.swap(QUIET, Ordering::Relaxed);
        }
        rests.is_err()
    }

    /// As [`begin`](Self::begin), for a process whose workers are at work and never sleep, so that
    /// none wakes up.
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
