//! The watchdog: reports lists of waiting items that make no progress ([`WaitList`]), whatever the reason.
//!
//! Once per threshold the watchdog examines all pools. A list where something waits becomes a
//! *suspect*. From then on the watchdog checks the suspects at every *beat*, eight times per
//! threshold. It reports a suspect that has made no progress during a whole threshold of beats,
//! together with everything that is busy. So it finds a stall after one to two thresholds. A beat
//! that comes late counts as much time as one that is on time, because the process or the machine
//! was then stopped, suspended or throttled by its CPU quota, which is no stall.
//!
//! A stall may abort the program, as in the kernel: after a number of reports, or after a length of
//! time. Only worklists that are stalled count for that. Items that wait because of `max_active`
//! wait for the program itself, and do not count.

use crate::pool::{Pool, Progress, WaitList, Waits};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicU32, AtomicU64};
use crate::sys::clock;
use crate::sys::map::HashMap;
use crate::sys::sync::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const THRESHOLD: Duration = Duration::from_secs(30);
/// Beats in a threshold.
const BEATS: u64 = 8;

pub(crate) struct Watchdog {
    threshold_ns: AtomicU64,
    /// The process is aborted at the report with this number, or at the report of a stall that has
    /// lasted for this long. 0 means never.
    pub(in crate::engine) panic_on_stall: AtomicU32,
    pub(in crate::engine) panic_on_stall_ns: AtomicU64,
    state: Mutex<WatchdogState>,
    pub(in crate::engine) reports: Mutex<Reports>,
}

/// Reports of stalled worklists since the engine was built.
#[derive(Default)]
pub(in crate::engine) struct Reports {
    pub(in crate::engine) count: u32,
    /// When the process is aborted if the report handler has not returned by then. `None`: it is
    /// not aborted.
    pub(in crate::engine) aborts_at: Option<u64>,
}

#[derive(Default)]
pub(in crate::engine) struct WatchdogState {
    pub(in crate::engine) suspects: HashMap<WaitList, StallSuspect>,
    pub(in crate::engine) last_beat_ns: u64,
    pub(in crate::engine) next_pass_ns: u64,
}

/// A list where something waited when the watchdog examined it.
pub(in crate::engine) struct StallSuspect {
    progress: Progress,
    /// For how long the list has made no progress, as far as the watchdog's checks show.
    stalled_ns: u64,
}

/// A list without progress, and for how long it has made none.
pub(crate) type Stall = (WaitList, u64);

impl Watchdog {
    pub(crate) fn new(threshold: Duration) -> Self {
        let watchdog = Watchdog {
            threshold_ns: AtomicU64::new(0),
            panic_on_stall: AtomicU32::new(0),
            panic_on_stall_ns: AtomicU64::new(0),
            state: Mutex::new(WatchdogState::default()),
            reports: Mutex::new(Reports::default()),
        };
        watchdog.set_threshold(threshold);
        watchdog
    }

    pub(crate) fn threshold(&self) -> Duration {
        Duration::from_nanos(self.threshold_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn set_threshold(&self, threshold: Duration) {
        self.threshold_ns
            .store(clock::saturated_ns(threshold), Ordering::Relaxed);
        *self.state.lock() = WatchdogState::default();
    }

    /// Performs a beat; the service thread calls it. `waits` are all lists where something waited
    /// during `look`. Returns the lists to report, and the time of the next beat, or `None` if no
    /// threshold is set any more.
    pub(in crate::engine) fn beat(
        &self,
        look: Range<u64>,
        waits: &HashMap<WaitList, Progress>,
    ) -> Option<(Vec<Stall>, u64)> {
        let mut state = self.state.lock();
        // The threshold is read under the lock. A thread that changes it takes the lock afterwards,
        // and so resets the state after this beat, whose next beat may be years away.
        let threshold_ns = self.threshold_ns.load(Ordering::Relaxed);
        if threshold_ns == 0 {
            return None;
        }
        let now_ns = look.end;
        let stalled = state.beat(look, threshold_ns, waits);
        Some((stalled, state.next_ns(now_ns, threshold_ns)))
    }

    pub(in crate::engine) fn aborts_at(&self) -> Option<u64> {
        self.reports.lock().aborts_at
    }

    /// Returns why the process has to be aborted, or `None` if it need not be. `reports` is the
    /// number of reports of stalled worklists, this one included.
    pub(in crate::engine) fn verdict(&self, reports: u32, stalled: &[Stall]) -> Option<String> {
        let ready = stalled.iter().filter(|(list, _)| is_of_the_pool(*list));
        let longest = ready.map(|(_, ns)| *ns).max()?;
        let most = self.panic_on_stall.load(Ordering::Relaxed);
        let time = self.panic_on_stall_ns.load(Ordering::Relaxed);
        if most != 0 && reports >= most {
            Some(format!(
                "panic_on_stall is {most}: this was report {reports}"
            ))
        } else if time != 0 && longest >= time {
            let seconds = time as f64 / 1e9;
            Some(format!("panic_on_stall_time is {seconds} s"))
        } else {
            None
        }
    }
}

/// Whether the pool itself is stalled. Otherwise items wait because of the program's own limit.
pub(crate) fn is_of_the_pool(list: WaitList) -> bool {
    matches!(list, WaitList::Ready(_))
}

impl WatchdogState {
    /// Performs one beat. `waits` are all lists where something waited during `look`. Returns the
    /// lists to report.
    fn beat(
        &mut self,
        look: Range<u64>,
        threshold_ns: u64,
        waits: &HashMap<WaitList, Progress>,
    ) -> Vec<Stall> {
        // This is the time from the end of one look to the beginning of the next. A list that looks
        // the same in both has not moved for at least that long, even if the looking thread itself
        // lost its CPU during either look.
        let elapsed = look.start.saturating_sub(self.last_beat_ns);
        self.last_beat_ns = look.end;
        let now_ns = look.end;
        // A longer time than two beats counts as one beat: a thread that did not run itself cannot
        // tell that others did not run. Up to two beats count in full, so that stalls are also
        // found on a machine where each beat comes a little late.
        let beat = beat_ns(threshold_ns);
        let seen = if elapsed <= 2 * beat { elapsed } else { beat };
        let pass = now_ns >= self.next_pass_ns;
        if pass {
            self.next_pass_ns = now_ns + threshold_ns;
        }
        let mut stalled = Vec::new();
        self.suspects.retain(|list, suspect| {
            if waits.get(list) != Some(&suspect.progress) {
                return false;
            }
            let before = suspect.stalled_ns / threshold_ns;
            suspect.stalled_ns += seen;
            // A stall that goes on is reported again after each further threshold.
            if suspect.stalled_ns / threshold_ns > before {
                stalled.push((*list, suspect.stalled_ns));
            }
            true
        });
        if pass {
            for (&list, &progress) in waits {
                self.suspects.entry(list).or_insert(StallSuspect {
                    progress,
                    stalled_ns: 0,
                });
            }
        }
        stalled.sort_unstable();
        stalled
    }

    fn next_ns(&self, now_ns: u64, threshold_ns: u64) -> u64 {
        if self.suspects.is_empty() {
            self.next_pass_ns
        } else {
            self.next_pass_ns.min(now_ns + beat_ns(threshold_ns))
        }
    }
}

fn beat_ns(threshold_ns: u64) -> u64 {
    (threshold_ns / BEATS).max(1)
}

/// Returns all lists where something waits, with their progress.
pub(crate) fn progress_of(pools: &[Arc<Pool>]) -> HashMap<WaitList, Progress> {
    let waits = pools.iter().flat_map(|pool| pool.lock_accepting().waits());
    let waits: Vec<Waits> = waits.collect();
    let progress = |waits: &Waits| match waits.behind_front {
        None => waits.progress,
        Some(front) => {
            let moved = pools.iter().map(|pool| pool.lock().moved_of(front));
            Progress::new(moved.sum(), 0)
        }
    };
    waits
        .iter()
        .map(|waits| (waits.list, progress(waits)))
        .collect()
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const THRESHOLD: u64 = 8 * SECOND;

    /// Runs the beats of a watchdog over one pool whose progress is `progress(seconds)`. The beats
    /// come when the watchdog asks for them, except while `stopped(seconds)`. Returns the seconds
    /// of the reports.
    fn reports(progress: impl Fn(u64) -> Option<u64>, stopped: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut state = WatchdogState::default();
        let mut due = 0;
        let mut reports = Vec::new();
        for second in 0..100 {
            let now = second * SECOND + 1;
            if now < due || stopped(second) {
                continue;
            }
            let waits = progress(second)
                .map(|started| (WaitList::Ready(7), Progress::new(started, 0)))
                .into_iter()
                .collect();
            if !state.beat(now..now, THRESHOLD, &waits).is_empty() {
                reports.push(second);
            }
            due = state.next_ns(now, THRESHOLD);
        }
        reports
    }

    /// The service thread examines the pools without holding the watchdog's lock.
    #[test]
    fn a_threshold_that_changes_while_the_pools_are_examined_counts_from_then_on() {
        let waits = HashMap::from_iter([(WaitList::Ready(7), Progress::new(1, 0))]);
        let watchdog = Watchdog::new(Duration::MAX);
        let beat = |second: u64| {
            let now = second * SECOND;
            watchdog.beat(now..now, &waits)
        };
        let (_, next) = beat(1).unwrap();
        assert!(next > 1_000_000 * SECOND);
        watchdog.set_threshold(Duration::from_nanos(THRESHOLD));
        let (_, next) = beat(2).unwrap();
        assert!(next <= 2 * SECOND + THRESHOLD / BEATS, "it is a suspect");
        let mut stalls = (3..20).flat_map(|second| beat(second).unwrap().0);
        assert!(stalls.next().is_some());
        watchdog.set_threshold(Duration::ZERO);
        assert!(beat(21).is_none());
    }

    #[test]
    fn a_stall_is_reported_after_one_to_two_thresholds_and_again() {
        for begin in 1..20 {
            let seen = reports(|second| (second >= begin).then_some(1), |_| false);
            let first = seen[0] - begin;
            assert!((8..=16).contains(&first), "begun at {begin}: {seen:?}");
            assert!(
                seen.windows(2).all(|pair| pair[1] - pair[0] == 8),
                "{seen:?}"
            );
        }
    }

    /// The thread that looks may lose its CPU before it has seen anything. What it sees after that
    /// may have been queued only just before.
    #[test]
    fn the_time_of_a_look_does_not_count() {
        let mut state = WatchdogState::default();
        let waits = HashMap::from_iter([(WaitList::Ready(7), Progress::new(1, 0))]);
        let mut begin = None;
        for second in 0..20 {
            let look = (second * SECOND)..(second * SECOND + SECOND / 2);
            begin.get_or_insert(look.end);
            let stalled = state.beat(look.clone(), THRESHOLD, &waits);
            if let [(_, ns)] = stalled[..] {
                assert!(ns >= THRESHOLD && look.start - begin.unwrap() >= THRESHOLD);
                return;
            }
        }
        panic!("not reported in 20 s");
    }

    #[test]
    fn a_pool_that_starts_items_now_and_then_is_not_reported() {
        assert!(reports(|second| Some(second / 7), |_| false).is_empty());
        assert!(reports(|second| (second % 9 != 0).then_some(1), |_| false).is_empty());
    }

    #[test]
    fn a_stall_in_a_process_that_is_stopped_again_and_again_is_reported() {
        let seen = reports(|_| Some(1), |second| second % 5 != 0);
        assert_eq!(seen, [40, 80], "after eight late beats");
    }

    #[test]
    fn time_in_which_the_process_was_stopped_does_not_count() {
        // The item has waited since `begin`, and the process was stopped for half a minute.
        for begin in 1..20 {
            for from in begin + 1..begin + 20 {
                let stalls = |second| (begin..from + 50).contains(&second).then_some(1);
                let seen = reports(stalls, |second| (from..from + 30).contains(&second));
                let first = seen[0];
                let stopped = if first < from { 0 } else { 30 };
                let running = first - begin - stopped;
                assert!(
                    (7..=17).contains(&running),
                    "since {begin}, stopped at {from}: reported at {first}"
                );
            }
        }
        // The pool made no progress for three seconds before and three after, which is no stall of
        // eight seconds.
        let stalls = |second| (1..37).contains(&second).then_some(1);
        assert!(reports(stalls, |second| (4..34).contains(&second)).is_empty());
    }
}

#[cfg(all(test, cmwq_loom))]
mod model {
    use super::*;
    use loom::thread;

    #[test]
    fn a_beat_with_the_old_threshold_is_forgotten_when_it_changes() {
        loom::model(|| {
            let watchdog = Arc::new(Watchdog::new(Duration::MAX));
            let changes = thread::spawn({
                let watchdog = watchdog.clone();
                move || watchdog.set_threshold(Duration::from_nanos(8))
            });
            let waits = HashMap::default();
            assert!(watchdog.beat(1..1, &waits).is_some());
            changes.join().unwrap();
            let (_, next) = watchdog.beat(20..20, &waits).unwrap();
            assert_eq!(next, 28, "one threshold later");
        });
    }
}
