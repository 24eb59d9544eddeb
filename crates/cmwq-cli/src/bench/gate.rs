//! The start of a measurement, and the detection of a stall.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Opens once for all threads, or never.
#[derive(Default)]
pub(super) struct Gate {
    /// `None`: still closed. `Some(false)`: give up.
    open: Mutex<Option<bool>>,
    changed: Condvar,
}

impl Gate {
    pub(super) fn wait(&self) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *open {
                Some(go) => return go,
                None => {
                    open = self
                        .changed
                        .wait(open)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            }
        }
    }

    pub(super) fn set(&self, go: bool) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(go);
        self.changed.notify_all();
    }
}

/// Detects that the count of finished items has not changed for too long.
pub(super) struct Watch {
    limit: Duration,
    progress: u64,
    since: Instant,
}

impl Watch {
    pub(super) fn new(limit: Duration, now: Instant) -> Self {
        Watch {
            limit,
            progress: 0,
            since: now,
        }
    }

    pub(super) fn stalled(&mut self, now: Instant, progress: u64) -> bool {
        if progress != self.progress {
            self.progress = progress;
            self.since = now;
        }
        now.duration_since(self.since) >= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_tells_standing_still_from_slow() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut watch = Watch::new(Duration::from_secs(10), start);
        assert!(!watch.stalled(at(9), 0));
        assert!(
            !watch.stalled(at(11), 1),
            "one item in eleven seconds is progress"
        );
        assert!(!watch.stalled(at(20), 1));
        assert!(watch.stalled(at(21), 1));
        assert!(!watch.stalled(at(22), 2));
    }

    #[test]
    fn a_stall_from_the_first_item_on_is_noticed() {
        let start = Instant::now();
        let mut watch = Watch::new(Duration::from_secs(10), start);
        assert!(watch.stalled(start + Duration::from_secs(10), 0));
    }

    #[test]
    fn a_gate_lets_all_through_or_sends_all_home() {
        for go in [true, false] {
            let gate = Gate::default();
            std::thread::scope(|scope| {
                let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| gate.wait())).collect();
                gate.set(go);
                for thread in waiting {
                    assert_eq!(thread.join().unwrap(), go);
                }
            });
        }
    }
}
