//! How long `queue()` takes. While an [`EnqueueTiming`] exists, about every 64th call of each
//! thread is timed.
//!
//! Every thread has a table of its own, so issuers share no memory for this. A reader adds the
//! tables up.
#![forbid(unsafe_code)]

use crate::sys::fork::{ProcessLock, ProcessMutex};
use crate::sys::local::thread_local;
use crate::sys::probe::{self, bits};
use cmwq_trace::LatencyHistogram;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
