//! The watchdog: reports pools that have work waiting and start none of it.
//!
//! Every threshold all pools are looked at. One with work waiting becomes a *suspect*; from then on there is a beat every eighth of a
//! threshold, and a suspect that has started nothing for a whole threshold of beats is reported, with everything that is busy.
//! So a stall is found after one to two thresholds. Only time that the beats have seen counts: when one comes late, the process or
//! the machine was stopped or suspended, and that is nobody's stall.

use super::Engine;
use crate::observe::{Dump, report};
use crate::pool::Progress;
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU64;
use crate::sys::sync::Mutex;
use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

pub(super) const THRESHOLD: Duration = Duration::from_secs(30);
/// Beats in a threshold.
const BEATS: u64 = 8;

pub(super) struct Watchdog {
    threshold_ns: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    suspects: HashMap<u32, Suspect>,
    last_beat_ns: u64,
    next_pass_ns: u64,
}

/// A pool that had work waiting when it was looked at.
struct Suspect {
    progress: Progress,
    /// For how long it has made none, as far as the beats have seen.
    stalled_ns: u64,
}

impl Watchdog {
    pub(super) fn new(threshold: Duration) -> Self {
        let watchdog = Watchdog {
            threshold_ns: AtomicU64::new(0),
            state: Mutex::new(State::default()),
        };
        watchdog.set_threshold(threshold);
        watchdog
    }

    pub(super) fn threshold(&self) -> Duration {
        Duration::from_nanos(self.threshold_ns.load(Ordering::Relaxed))
    }

    pub(super) fn set_threshold(&self, threshold: Duration) {
        let ns = u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX / 4);
        self.threshold_ns.store(ns, Ordering::Relaxed);
        *self.state.lock() = State::default();
    }
}

impl State {
    /// One look. `pools`: those with work waiting, by number; `everything`: whether it is a pass over all, which finds new
    /// suspects. Returns the numbers of those that have stalled, and for how long.
    fn beat(
        &mut self,
        now_ns: u64,
        threshold_ns: u64,
        pools: &HashMap<u32, Progress>,
    ) -> Vec<(u32, u64)> {
        let elapsed = now_ns.saturating_sub(self.last_beat_ns);
        self.last_beat_ns = now_ns;
        // Twice as late as it should be: who did not run himself cannot say that others did not.
        let seen = if elapsed <= 2 * beat_ns(threshold_ns) {
            elapsed
        } else {
            0
        };
        let pass = now_ns >= self.next_pass_ns;
        if pass {
            self.next_pass_ns = now_ns + threshold_ns;
        }
        let mut stalled = Vec::new();
        self.suspects.retain(|id, suspect| {
            if pools.get(id) != Some(&suspect.progress) {
                return false;
            }
            let before = suspect.stalled_ns / threshold_ns;
            suspect.stalled_ns += seen;
            // Again after every further threshold.
            if suspect.stalled_ns / threshold_ns > before {
                stalled.push((*id, suspect.stalled_ns));
            }
            true
        });
        if pass {
            for (id, progress) in pools {
                self.suspects.entry(*id).or_insert_with(|| Suspect {
                    progress: progress.clone(),
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

impl Engine {
    /// One look, if it is time to. Returns the time of the next.
    pub(super) fn watchdog(&self, now_ns: u64) -> Option<u64> {
        let watchdog = &self.0.watchdog;
        let threshold_ns = watchdog.threshold_ns.load(Ordering::Relaxed);
        if threshold_ns == 0 {
            return None;
        }
        let pools: HashMap<u32, Progress> = self
            .pools()
            .iter()
            .filter_map(|pool| Some((pool.id, pool.lock().progress()?)))
            .collect();
        let (stalled, next) = {
            let mut state = watchdog.state.lock();
            let stalled = state.beat(now_ns, threshold_ns, &pools);
            (stalled, state.next_ns(now_ns, threshold_ns))
        };
        if !stalled.is_empty() {
            report(&self.stall_report(&stalled));
        }
        Some(next)
    }

    fn stall_report(&self, stalled: &[(u32, u64)]) -> String {
        let dump = self.dump();
        let mut text = String::new();
        for &(id, ns) in stalled {
            let seconds = ns as f64 / 1e9;
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "workqueue lockup: {} has work waiting and started none of it for {seconds:.1} s",
                dump.describe(id)
            );
        }
        text + &dump.to_string() + &dump.threads_of(stalled.iter().map(|&(id, _)| id))
    }

    /// What is busy now: every workqueue with items accepted and not finished, and every pool with a worker that is not idle.
    /// Its [`Display`](std::fmt::Display) is laid out like the kernel's `show_all_workqueues`.
    ///
    /// In a fork's child nothing is.
    pub fn dump(&self) -> Dump {
        if self.is_inherited() {
            return Dump::new(Vec::new());
        }
        let pools = self.pools();
        Dump::new(pools.iter().map(|pool| pool.snapshot()).collect())
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const THRESHOLD: u64 = 8 * SECOND;

    /// The looks of a watchdog over one pool whose progress is `progress(seconds)`, with the looks where it asks for them
    /// itself, but none while `stopped(seconds)`. Returns the seconds of the reports.
    fn reports(progress: impl Fn(u64) -> Option<u64>, stopped: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut state = State::default();
        let mut due = 0;
        let mut reports = Vec::new();
        for second in 0..100 {
            let now = second * SECOND + 1;
            if now < due || stopped(second) {
                continue;
            }
            let pools = progress(second)
                .map(|started| (7, Progress::for_test(started)))
                .into_iter()
                .collect();
            if !state.beat(now, THRESHOLD, &pools).is_empty() {
                reports.push(second);
            }
            due = state.next_ns(now, THRESHOLD);
        }
        reports
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

    #[test]
    fn a_pool_that_starts_items_now_and_then_is_not_reported() {
        assert!(reports(|second| Some(second / 7), |_| false).is_empty());
        assert!(reports(|second| (second % 9 != 0).then_some(1), |_| false).is_empty());
    }

    #[test]
    fn time_in_which_the_process_was_stopped_does_not_count() {
        for from in 1..20 {
            // Waiting, and stopped for half a minute.
            let stalls = |second| (second >= 1 && second < from + 33).then_some(1);
            let seen = reports(stalls, |second| (from..from + 30).contains(&second));
            for at in seen {
                let running = if at < from { at - 1 } else { at - 31 };
                assert!(running >= 8, "stopped at {from}: reported at {at}");
            }
        }
        // Three seconds before and three after are no stall of eight.
        let stalls = |second| (1..37).contains(&second).then_some(1);
        assert!(reports(stalls, |second| (4..34).contains(&second)).is_empty());
    }
}
