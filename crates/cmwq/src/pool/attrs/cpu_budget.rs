//! A token bucket of CPU time: below a CPU quota, workers pause before the system throttles the process.
//!
//! When a quota is used up, the system stops all threads of the process until the period (mostly
//! 100 ms) ends, also event loops and other threads that need little. So between two items workers,
//! and threads that run the items that they wait for, read the CPU time that the whole process has
//! used, and sleep for a short while when that is more than its share.
//!
//! The bucket fills at a little less than the rate of the quota. The difference, the *slack*, is
//! CPU time that the process never uses; it adapts so that this loses no more time than being
//! throttled does. The system forgets what a period leaves unused, and so does the bucket, bit by
//! bit. What it holds after a calm time lets a burst pass.
//!
//! Threads of the program that compute empty the bucket too, and do not pause. So the length of a
//! pause depends on what was used since the last pause ended, and not on the debt alone: workers
//! get a part of the time in any case. Time in which the system throttles the process does not make
//! pauses longer. The bucket does not see what other processes of the cgroup use.
#![forbid(unsafe_code)]

use crate::sys::atomic::plain::{AtomicBool, AtomicU64};
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::sync::Mutex;
use crate::sys::{clock, park};
use std::time::Duration;

/// The used CPU time is read at most once in this time, because reading it takes some hundred ns,
/// and more with many threads.
const CHECK_NS: u64 = 1_000_000;
/// A pause lasts until at least so much CPU time has come in (or as much as a full bucket holds, if
/// that is less). Shorter pauses would be more frequent, and a thread that sleeps often finds its
/// caches cold.
const REFILL_NS: f64 = 1_500_000.0;
/// By how much a pause may make up for what was used beyond the share since the last one ended: it
/// may last so long that this many times the excess comes in. It is more than 1 because other
/// threads go on while workers pause; it suffices if those use up to three quarters of the share.
const CATCH_UP: f64 = 4.0;
/// No pause is longer. An engine that has run nothing for a second counts as idle, and does not
/// read the quota again.
const MAX_PAUSE_NS: f64 = 250_000_000.0;
/// The part of a period, without any use, after which an empty bucket is two thirds full.
const CALM: f64 = 0.125;
/// By how much ticks are slowed down at most.
const MOST_SLOWED: u64 = 50;
/// The system charges running threads at its ticks, 4 ms apart.
const TICK_US: f64 = 4_000.0;
/// The slack as a part of the quota: the value at first, which is also the least; and below, the
/// greatest, for when the system throttles the process nevertheless. It may, because it hands the
/// quota out to CPUs in slices of 5 ms, and one CPU cannot use what another one holds.
const MIN_SLACK: f64 = 0.0025;
const MAX_SLACK: f64 = 0.0625;

/// What a process may use of the CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    /// CPU time, in us, for each `period_us`.
    pub(crate) quota_us: u64,
    pub(crate) period_us: u64,
}

impl Share {
    /// By how much the used CPU time that the process reads may be off, in ns.
    fn tolerance_ns(&self) -> f64 {
        let quota_us = self.quota_us as f64;
        1000.0 * (quota_us / 50.0).max(TICK_US.min(quota_us / 16.0))
    }

    /// How many times more rarely periodic work (every few ms) is done. More than 1 below a quota
    /// of less than a quarter of a CPU, of which that work would use up a large part.
    fn slows(&self) -> u64 {
        let quarters = self.period_us.div_ceil(4 * self.quota_us.max(1));
        quarters.min(MOST_SLOWED)
    }
}

struct Bucket {
    share: Share,
    /// The part of the quota that is left over.
    slack: f64,
    /// CPU time that is left, in ns; below 0 if more was used than had come in.
    level_ns: f64,
    /// The time of `level_ns`, and what the process had used by then.
    at_ns: u64,
    used_ns: u64,
    /// When the last pause ended, and what the process had used then.
    resumed_ns: u64,
    used_until_resumed_ns: u64,
}

impl Bucket {
    fn new(share: Share, now_ns: u64, used_ns: u64) -> Self {
        Bucket {
            share,
            slack: MIN_SLACK,
            level_ns: 0.0,
            at_ns: now_ns,
            used_ns,
            resumed_ns: now_ns,
            used_until_resumed_ns: used_ns,
        }
    }

    /// A pause has ended.
    fn resume(&mut self, now_ns: u64, used_ns: u64) {
        (self.resumed_ns, self.used_until_resumed_ns) = (now_ns, used_ns);
    }

    /// CPU time that comes in during each ns: a little less than the quota.
    fn rate(&self) -> f64 {
        self.share.quota_us as f64 * (1.0 - self.slack) / self.share.period_us as f64
    }

    /// Adapts the slack: in the last `passed_us`, about a second, the process was throttled for
    /// `throttled_us`, summed over CPUs.
    fn learn(&mut self, throttled_us: u64, passed_us: u64) {
        let quota_us = passed_us as f64 * self.share.quota_us as f64 / self.share.period_us as f64;
        let costs_more = throttled_us as f64 > self.slack * quota_us;
        let slack = self.slack * if costs_more { 2.0 } else { 0.95 };
        self.slack = slack.clamp(MIN_SLACK, MAX_SLACK);
    }

    /// Accounts for what was used since the last call. Returns how long to pause, in ns.
    fn note(&mut self, now_ns: u64, used_ns: u64) -> u64 {
        let passed = now_ns.saturating_sub(self.at_ns).max(1) as f64;
        let used = used_ns.saturating_sub(self.used_ns) as f64;
        (self.at_ns, self.used_ns) = (now_ns, used_ns);
        let (rate, period_ns) = (self.rate(), self.share.period_us as f64 * 1000.0);
        let (net, calm_ns) = (rate - used / passed, CALM * period_ns);
        self.level_ns = if self.level_ns > 0.0 {
            let kept = (-passed / calm_ns).exp();
            self.level_ns * kept + net * calm_ns * (1.0 - kept)
        } else {
            // A debt of more than a period is forgiven.
            let level_ns = self.level_ns + net * passed;
            level_ns.clamp(-rate * period_ns, (net * calm_ns).max(0.0))
        };
        // A debt within the error of the clock does not count.
        let debt_ns = -self.level_ns - self.share.tolerance_ns();
        if debt_ns <= 0.0 {
            return 0;
        }
        let ran = now_ns.saturating_sub(self.resumed_ns) as f64;
        let used = used_ns.saturating_sub(self.used_until_resumed_ns) as f64;
        let at_most = CATCH_UP * (used / rate - ran);
        let refill_ns = (REFILL_NS / rate.min(1.0)).min(calm_ns.max(REFILL_NS));
        let pause = debt_ns / rate + refill_ns;
        let pause = pause.min(at_most).min(MAX_PAUSE_NS) as u64;
        self.resume(now_ns, used_ns);
        pause
    }
}

/// The CPU time that the process may use, as an engine accounts for it.
#[derive(Default)]
pub(crate) struct CpuBudget {
    /// There is a quota.
    on: AtomicBool,
    /// The time before which the used CPU time is not read again.
    check_ns: AtomicU64,
    paused_until_ns: AtomicU64,
    pauses: AtomicU64,
    /// The sum of all pauses, including the rest of the present one.
    paused_ns: AtomicU64,
    bucket: Mutex<Option<Bucket>>,
    /// 0: there is no quota.
    slower: AtomicU64,
    /// Threads that pause sleep on it; it changes with the quota.
    changes: AtomicU32,
}

impl CpuBudget {
    /// From now on the process has this share; `None`: all of its CPUs. Ends pauses if that is a change.
    pub(crate) fn set(&self, share: Option<Share>) {
        let mut bucket = self.bucket.lock();
        if bucket.as_ref().map(|bucket| bucket.share) == share {
            return;
        }
        *bucket = share.map(|share| Bucket::new(share, clock::now_ns(), clock::process_cpu_ns()));
        self.on.store(share.is_some(), Ordering::Relaxed);
        self.slower
            .store(share.map_or(0, |share| share.slows()), Ordering::Relaxed);
        self.paused_until_ns.store(0, Ordering::Relaxed);
        self.check_ns.store(0, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Relaxed);
        park::wake_all_at(&self.changes);
    }

    /// For how long the system has throttled the process since the last call, summed over CPUs, and
    /// how long ago that was; in us.
    pub(crate) fn learn(&self, throttled_us: u64, passed_us: u64) {
        if let Some(bucket) = self.bucket.lock().as_mut() {
            bucket.learn(throttled_us, passed_us);
        }
    }

    /// By how much the monitor's ticks are slowed down.
    pub(in crate::pool) fn slows_ticks(&self) -> u64 {
        self.slower.load(Ordering::Relaxed).max(1)
    }

    /// How often threads have paused together.
    pub(crate) fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Relaxed)
    }

    /// How long threads have paused so far, and how much longer they pause now, in ns.
    pub(in crate::pool) fn paused(&self, now_ns: u64) -> (u64, u64) {
        let left_ns = self.paused_until_ns.load(Ordering::Relaxed);
        let left_ns = left_ns.saturating_sub(now_ns);
        let paused_ns = self.paused_ns.load(Ordering::Relaxed);
        (paused_ns.saturating_sub(left_ns), left_ns)
    }

    /// How long the caller has to pause before it runs an item.
    #[inline]
    pub(in crate::pool) fn pause_due(&self) -> Option<Pause> {
        match self.on.load(Ordering::Relaxed) {
            true => self.check(),
            false => None,
        }
    }

    /// Pauses if a pause is due.
    #[inline]
    pub(in crate::pool) fn keep(&self) {
        if let Some(pause) = self.pause_due() {
            self.pause(pause);
        }
    }

    #[cold]
    fn check(&self) -> Option<Pause> {
        let changes = self.changes.load(Ordering::Relaxed);
        let now = clock::now_ns();
        let mut found = false;
        // While one thread reads, the others go on.
        if now >= self.check_ns.load(Ordering::Relaxed)
            && let Some(mut bucket) = self.bucket.try_lock()
            && let Some(bucket) = bucket.as_mut()
        {
            let pause = bucket.note(now, clock::process_cpu_ns());
            if pause > 0 {
                self.paused_until_ns.store(now + pause, Ordering::Relaxed);
                self.pauses.fetch_add(1, Ordering::Relaxed);
                self.paused_ns.fetch_add(pause, Ordering::Relaxed);
                found = true;
            }
            self.check_ns
                .store(now + pause + CHECK_NS, Ordering::Relaxed);
        }
        match self.paused_until_ns.load(Ordering::Relaxed) {
            until if until > now => Some(Pause {
                changes,
                ns: until - now,
                found,
            }),
            _ => None,
        }
    }

    /// As if everything had been used up: a pause of half a minute is due.
    #[cfg(all(test, not(cmwq_loom)))]
    pub(in crate::pool) fn use_up(&self) {
        self.on.store(true, Ordering::Relaxed);
        let long = clock::now_ns() + 30_000_000_000;
        self.paused_until_ns.store(long, Ordering::Relaxed);
        self.check_ns.store(long, Ordering::Relaxed);
    }

    /// As if a pause of so many ns had begun at `from_ns`.
    #[cfg(all(test, not(cmwq_loom)))]
    pub(in crate::pool) fn pauses_from(&self, from_ns: u64, ns: u64) {
        self.paused_until_ns.store(from_ns + ns, Ordering::Relaxed);
        self.paused_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Ends that.
    #[cfg(all(test, not(cmwq_loom)))]
    pub(in crate::pool) fn refill(&self) {
        let share = Share {
            quota_us: 1,
            period_us: 1,
        };
        self.set(Some(share));
        self.set(None);
    }

    /// Sleeps, for so long or until the quota changes.
    pub(in crate::pool) fn pause(&self, pause: Pause) {
        let timeout = Duration::from_nanos(pause.ns);
        park::wait_on(&self.changes, pause.changes, Some(timeout));
        if pause.found
            && let Some(bucket) = self.bucket.lock().as_mut()
        {
            bucket.resume(clock::now_ns(), clock::process_cpu_ns());
        }
    }
}

/// A pause that is due.
pub(in crate::pool) struct Pause {
    ns: u64,
    /// Whether the caller was the one that found the pause due; it counts it for all threads.
    found: bool,
    /// The value of `changes` before the pause was found due.
    changes: u32,
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A process that uses `busy` CPUs except while it pauses, and checks every ms. What it used in
    /// each period of 100 ms, and its longest pause, in ms.
    fn simulate(bucket: &mut Bucket, busy: f64, periods: usize) -> (Vec<f64>, f64) {
        let mut used = vec![0.0; periods];
        let (mut now, mut longest) = (bucket.at_ns, 0);
        let (start, mut total) = (now, bucket.used_ns as f64);
        loop {
            let pause = bucket.note(now, total as u64);
            longest = longest.max(pause);
            now += pause;
            bucket.resume(now, total as u64);
            let period = ((now - start) / (100 * MS)) as usize;
            if period >= periods {
                return (used, longest as f64 / MS as f64);
            }
            used[period] += busy;
            total += busy * MS as f64;
            now += MS;
        }
    }

    #[test]
    fn of_a_small_quota_little_is_left_over() {
        for quota in [0.01, 0.02, 0.05, 0.1] {
            let (used, _) = simulate(&mut bucket(quota), 1.0, 100);
            let part = used.iter().sum::<f64>() / (100.0 * 100.0 * quota);
            assert!((0.8..=1.0).contains(&part), "{quota}: {part}");
        }
    }

    fn bucket(quota: f64) -> Bucket {
        let share = Share {
            quota_us: (quota * 100_000.0) as u64,
            period_us: 100_000,
        };
        Bucket::new(share, 7, 5)
    }

    #[test]
    fn no_period_uses_up_its_quota() {
        for (quota, busy) in [
            (0.5, 1.0),
            (0.5, 2.0),
            (1.0, 1.05),
            (1.0, 2.0),
            (1.5, 2.0),
            (2.0, 2.1),
            (0.1, 2.0),
        ] {
            let (used, _) = simulate(&mut bucket(quota), busy, 20);
            for used in &used[1..] {
                let part = used / (100.0 * quota);
                // It checks every ms.
                let most = 1.0 + busy / (100.0 * quota) + 1e-9;
                assert!(part <= most && part > 0.75, "{quota}, {busy}: {part}");
            }
        }
    }

    #[test]
    fn a_process_below_its_quota_never_pauses() {
        for (quota, busy) in [(0.5, 0.4), (1.0, 0.9), (1.0, 0.93), (2.0, 1.9)] {
            let (_, longest) = simulate(&mut bucket(quota), busy, 20);
            assert_eq!(longest, 0.0, "{quota}, {busy}");
        }
    }

    #[test]
    fn a_process_leaves_more_over_when_throttling_costs_more_than_that_and_later_less_again() {
        let mut bucket = bucket(0.5);
        let slack = |bucket: &mut Bucket, throttled_us| {
            for _ in 0..100 {
                bucket.learn(throttled_us, 1_000_000);
            }
            1.0 - bucket.rate() / 0.5
        };
        assert!((slack(&mut bucket, 100_000) - MAX_SLACK).abs() < 1e-9);
        assert!((slack(&mut bucket, 0) - MIN_SLACK).abs() < 1e-9);
        // 10 ms of the 500 that a second brings: 2 %.
        let balanced = slack(&mut bucket, 10_000);
        assert!((0.018..=0.04).contains(&balanced), "{balanced}");
    }

    #[test]
    fn a_burst_after_a_calm_time_passes() {
        let mut bucket = bucket(0.5);
        let (at, used) = (bucket.at_ns + 300 * MS, bucket.used_ns);
        assert_eq!(bucket.note(at, used), 0);
        for ms in 1..=12 {
            assert_eq!(bucket.note(at + ms * MS, used + ms * MS), 0, "{ms}");
        }
        // What it holds does not grow for ever: the system gives it no more than a period's quota.
        let (at, used) = (bucket.at_ns + 10_000 * MS, bucket.used_ns);
        bucket.note(at, used);
        assert!(bucket.level_ns <= CALM * 50.0 * MS as f64);
    }

    /// For how many of 1000 ms a worker runs that uses one CPU and checks every ms, beside threads
    /// that always use `busy` CPUs.
    fn ran_beside(quota: f64, busy: f64) -> u64 {
        let mut bucket = bucket(quota);
        let (mut now, mut used, mut ran) = (bucket.at_ns, bucket.used_ns as f64, 0);
        while now < 1000 * MS {
            let pause = bucket.note(now, used as u64);
            now += pause;
            used += busy * pause as f64;
            bucket.resume(now, used as u64);
            now += MS;
            used += (1.0 + busy) * MS as f64;
            ran += 1;
        }
        ran
    }

    #[test]
    fn threads_that_compute_do_not_starve_the_workers() {
        for (quota, busy, at_least) in [(1.0, 1.0, 150), (0.5, 1.0, 60), (0.1, 1.0, 10)] {
            let ran = ran_beside(quota, busy);
            assert!(ran >= at_least, "{quota}, {busy}: ran for {ran} of 1000 ms");
        }
    }

    #[test]
    fn no_pause_is_so_long_that_the_engine_counts_as_idle() {
        let share = Share {
            quota_us: 1_000,
            period_us: 1_000_000,
        };
        let mut bucket = Bucket::new(share, 7, 5);
        let (_, longest) = simulate(&mut bucket, 2.0, 50);
        assert!(longest > 100.0 && longest < 500.0, "{longest}");
    }

    #[test]
    fn while_the_system_throttles_the_process_short_pauses_come_on_top() {
        // Other threads use the quota up, also while workers pause, and the system stops all of them.
        let mut bucket = bucket(0.5);
        let (mut now, mut used) = (bucket.at_ns, bucket.used_ns);
        for _ in 0..50 {
            (now, used) = (now + 100 * MS, used + 50 * MS);
            bucket.learn(50_000, 100_000);
            let pause = bucket.note(now, used);
            assert!(pause <= 30 * MS, "{pause}");
            (now, used) = (now + pause, used + pause / 2);
            bucket.resume(now, used);
        }
    }

    #[test]
    fn a_pause_ends_when_the_quota_goes() {
        let budget = CpuBudget::default();
        assert!(budget.pause_due().is_none(), "no quota");
        budget.use_up();
        let pause = budget.pause_due().expect("used up");
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| budget.pause(pause));
            // Before or while it sleeps.
            budget.refill();
            sleeper.join().unwrap();
        });
        assert!(budget.pause_due().is_none());
    }
}
