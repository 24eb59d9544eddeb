//! How long `queue()` takes. While an [`EnqueueTiming`] exists, about every 64th call of each
//! thread is timed.
//!
//! Every thread has a table of its own, so issuers share no memory for this. A reader adds the
//! tables up.
#![forbid(unsafe_code)]

use crate::sys::fork::{ProcessLock, ProcessMutex};
use crate::sys::local::thread_local;
use crate::sys::probe::{self, bits};
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buckets for each doubling of the time, so that a quantile is at most an eighth too large.
const SUB: usize = 8;
/// With so many buckets the last one begins at 15 · 2^33 ns, about two minutes.
const BUCKETS: usize = 35 * SUB;

/// Counts how many of the timed calls of `queue()`, or of the sampled items, took how long.
///
/// ```
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// queue.spawn(|| ()).join()?;
/// let engine = cmwq::Engine::global()?;
/// let states = engine.queue_states();
/// let state = states.iter().find(|state| state.name == "io").expect("it exists");
/// let waits = &state.times.wait;
/// if waits.count() > 0 {
///     println!("{} ns on average", waits.sum_ns() / waits.count());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LatencyHistogram {
    /// The counts of the buckets. It is empty until the first time is added, since a per-CPU queue
    /// has one histogram for each CPU.
    counts: Vec<u32>,
    sum_ns: u64,
}

fn bucket(ns: u64) -> usize {
    if ns < SUB as u64 {
        return ns as usize;
    }
    let doubling = ns.ilog2() as usize;
    let within = (ns >> (doubling - 3)) as usize & (SUB - 1);
    ((doubling - 2) * SUB + within).min(BUCKETS - 1)
}

/// Returns the largest time of a bucket.
fn upper_ns(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let doubling = bucket / SUB + 2;
    let within = (bucket % SUB + SUB) as u64;
    ((within + 1) << (doubling - 3)) - 1
}

impl LatencyHistogram {
    pub(crate) fn add(&mut self, ns: u64) {
        self.counts.resize(BUCKETS, 0);
        let count = &mut self.counts[bucket(ns)];
        *count = count.saturating_add(1);
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    pub(crate) fn merge(&mut self, other: &LatencyHistogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(BUCKETS, 0);
        }
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum = sum.saturating_add(*count);
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Returns how many times were measured.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// Returns the sum of the measured times, in ns.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Returns the time, in ns, that a share `quantile` (0 to 1) of the measured calls did not
    /// exceed. The result is at most an eighth too large. `None`: no call was timed.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = ((count as f64 * quantile).ceil() as u64).clamp(1, count);
        let mut seen = 0;
        let at = self.counts.iter().position(|&count| {
            seen += u64::from(count);
            seen >= rank
        })?;
        Some(upper_ns(at))
    }

    /// Returns the buckets that are not empty: for each the largest time in ns, and the number of
    /// calls.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let filled = self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        filled
            .map(|(at, count)| (upper_ns(at), u64::from(*count)))
            .collect()
    }
}

impl std::fmt::Debug for LatencyHistogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LatencyHistogram")
            .field("count", &self.count())
            .field("p50_ns", &self.quantile_ns(0.5))
            .field("p99_ns", &self.quantile_ns(0.99))
            .finish()
    }
}

/// The histograms of one thread, by the serial number of the queue.
#[derive(Default)]
struct Table(Mutex<Vec<(u64, LatencyHistogram)>>);

impl Table {
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, LatencyHistogram)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(table: &mut Vec<(u64, LatencyHistogram)>, queue: u64) -> &mut LatencyHistogram {
        let at = table.iter().position(|(serial, _)| *serial == queue);
        let at = at.unwrap_or_else(|| {
            table.push((queue, LatencyHistogram::default()));
            table.len() - 1
        });
        &mut table[at].1
    }
}

#[derive(Default)]
struct Tables {
    of_threads: Vec<Arc<Table>>,
    /// The histograms of threads that have ended.
    left: Vec<(u64, LatencyHistogram)>,
}

static TABLES: ProcessMutex<Tables> = ProcessMutex::new(
    ProcessLock::Latencies,
    Tables {
        of_threads: Vec::new(),
        left: Vec::new(),
    },
    || TABLES.hold_and(Tables::forget_torn),
);
/// How many values of [`EnqueueTiming`] exist.
static WANTED: ProcessMutex<usize> =
    ProcessMutex::new(ProcessLock::TimingWanted, 0, || WANTED.hold());

impl Tables {
    /// Removes, in the child of a fork, each table that its thread was writing at the fork: that
    /// thread does not exist in the child, so the table stays locked for ever.
    fn forget_torn(&mut self) {
        self.of_threads.retain(|table| table.0.try_lock().is_ok());
    }
}

thread_local! {
    static OWN: RefCell<Option<Arc<Table>>> = const { RefCell::new(None) };
    /// How many calls remain until the next one is timed, and the state of the random number
    /// generator that spreads them.
    static UNTIL_NEXT: Cell<(u32, u32)> = const { Cell::new((0, 0x9E37_79B9)) };
}

/// Whether this call of `queue()` on the calling thread is to be timed. The distance between two
/// timed calls varies from 33 to 96, so that a program with a rhythm of its own does not always
/// have the same call timed.
#[inline]
pub(crate) fn is_due() -> bool {
    let (until_next, state) = UNTIL_NEXT.get();
    if until_next > 0 {
        UNTIL_NEXT.set((until_next - 1, state));
        return false;
    }
    // This is a linear congruential generator, of which only the upper bits are random enough.
    let state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    UNTIL_NEXT.set((32 + (state >> 26), state));
    true
}

/// Records a call of `queue()` on the queue with this serial number that took `ns`.
pub(crate) fn note(queue: u64, ns: u64) {
    // A thread that is ending has no table any more. Its call is not recorded.
    let _ = OWN.try_with(|own| {
        let mut own = own.borrow_mut();
        let table = own.get_or_insert_with(|| {
            let table = Arc::new(Table::default());
            TABLES.lock().of_threads.push(table.clone());
            table
        });
        Table::of(&mut table.lock(), queue).add(ns);
    });
}

/// Returns the histograms by the serial numbers of their queues. Those of queues that are not in
/// `alive` are dropped.
pub(crate) fn collect(alive: &[u64]) -> Vec<(u64, LatencyHistogram)> {
    let mut tables = TABLES.lock();
    let Tables { of_threads, left } = &mut *tables;
    left.retain(|(serial, _)| alive.contains(serial));
    let mut sums = Vec::new();
    of_threads.retain(|table| {
        // If this is the only reference, the thread of the table has ended.
        let gone = Arc::strong_count(table) == 1;
        let mut own = table.lock();
        own.retain(|(serial, _)| alive.contains(serial));
        let to = if gone { &mut *left } else { &mut sums };
        for (serial, histogram) in own.iter() {
            Table::of(to, *serial).merge(histogram);
        }
        !gone
    });
    for (serial, histogram) in left.iter() {
        Table::of(&mut sums, *serial).merge(histogram);
    }
    sums
}

/// Measures how long `queue()` takes: as long as a value exists, about every 64th call in the
/// process is timed. The times are in [`QueueState::enqueue`](crate::observe::QueueState::enqueue).
/// Any number of values may exist at a time.
///
/// ```
/// use cmwq::observe::EnqueueTiming;
///
/// let timing = EnqueueTiming::begin();
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// for _ in 0..1000 {
///     queue.execute(|| ())?;
/// }
/// for state in cmwq::Engine::global()?.queue_states() {
///     println!("{}: {} calls were timed", state.name, state.enqueue.count());
/// }
/// drop(timing);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "calls are timed only while it lives"]
pub struct EnqueueTiming(());

impl EnqueueTiming {
    /// Begins to measure.
    pub fn begin() -> Self {
        let mut wanted = WANTED.lock();
        *wanted += 1;
        probe::set(bits::TIME, true);
        EnqueueTiming(())
    }
}

impl Drop for EnqueueTiming {
    fn drop(&mut self) {
        let mut wanted = WANTED.lock();
        *wanted -= 1;
        if *wanted == 0 {
            probe::set(bits::TIME, false);
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_time_falls_into_a_bucket_that_ends_at_most_an_eighth_later() {
        let mut last = 0;
        for ns in (0..100_000).chain((17..33).map(|shift| (1 << shift) + 12_345)) {
            let at = bucket(ns);
            assert!(upper_ns(at) >= ns, "{ns}");
            assert!(
                upper_ns(at) <= ns + ns / 8,
                "{ns} is below {}",
                upper_ns(at)
            );
            assert!(at >= last, "{ns}");
            last = at;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let mut histogram = LatencyHistogram::default();
        assert_eq!(histogram.quantile_ns(0.5), None);
        for ns in 1..=1000 {
            histogram.add(ns);
        }
        for (quantile, exact) in [(0.0, 1), (0.5, 500), (0.99, 990), (1.0, 1000)] {
            let got = histogram.quantile_ns(quantile).expect("not empty");
            assert!(
                (exact..=exact + exact / 8 + 1).contains(&got),
                "{quantile}: {got}"
            );
        }
        assert_eq!((histogram.count(), histogram.sum_ns()), (1000, 500_500));
        let all: u64 = histogram.buckets().iter().map(|(_, count)| count).sum();
        assert_eq!(all, 1000);
    }

    #[test]
    fn calls_are_timed_about_every_64th_time_at_changing_distances() {
        let due: Vec<usize> = (0..64_000).filter(|_| is_due()).collect();
        let mut distances: Vec<usize> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!((900..1100).contains(&due.len()), "{}", due.len());
        distances.sort_unstable();
        assert_eq!((distances[0], *distances.last().expect("some")), (33, 96));
    }

    #[test]
    fn what_a_thread_has_timed_outlives_it_but_not_its_queue() {
        let (one, other) = (u64::MAX - 1, u64::MAX - 2);
        std::thread::spawn(move || {
            note(one, 100);
            note(other, 7);
        })
        .join()
        .expect("no panic");
        note(one, 100);
        for _ in 0..2 {
            let all = collect(&[one]);
            let own = &all
                .iter()
                .find(|(serial, _)| *serial == one)
                .expect("noted")
                .1;
            assert_eq!(own.count(), 2);
            assert!(all.iter().all(|(serial, _)| *serial != other));
        }
    }
}
