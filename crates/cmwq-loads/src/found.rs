//! What a run found out.

use crate::histogram::Histogram;

/// Percentiles of the times that a run has measured: a part of a [`Found`].
///
/// ```
/// use cmwq_loads::{Found, Latency};
///
/// fn report(found: &Found) {
///     let Latency { count, p50_ns, p99_ns, .. } = found.start;
///     println!("of {count} items half began within {p50_ns} ns, 99 in 100 within {p99_ns} ns");
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// How many there are.
    pub count: u64,
    /// Half of them are not above this.
    pub p50_ns: u64,
    /// 95 in 100 are not above this.
    pub p95_ns: u64,
    /// 99 in 100 are not above this.
    pub p99_ns: u64,
    /// 999 in 1000 are not above this.
    pub p999_ns: u64,
}

impl Latency {
    pub(crate) fn of(times: &Histogram) -> Latency {
        if times.total() == 0 {
            return Latency::default();
        }
        Latency {
            count: times.total(),
            p50_ns: times.permille(500),
            p95_ns: times.permille(950),
            p99_ns: times.permille(990),
            p999_ns: times.permille(999),
        }
    }
}

/// What a run has measured, from [`run`](crate::run()). The figures are of its last two time
/// windows.
///
/// ```
/// use cmwq_loads::Found;
///
/// fn report(found: &Found) {
///     println!("{:.0} items/s, {:.0} ns of CPU each", found.items_per_s, found.cpu_ns_per_item);
///     if !found.is_steady {
///         println!("not steady: the windows had {:?} items/s", found.window_rates);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Items that had run in a second. Those of a round count as they run, others when their issuer
    /// has learned of it.
    pub items_per_s: f64,
    /// The same of each time window, from the first after the warm-up.
    pub window_rates: Vec<f64>,
    /// Whether the last two windows agree, and items ran as often as they came.
    pub is_steady: bool,
    /// How long the last two windows took.
    pub measured_ns: u64,
    /// Items in them.
    pub items: u64,
    /// From queueing an item to its start; of items that are queued in a burst, from the begin of
    /// that.
    pub start: Latency,
    /// From the begin of a round to its end as the issuer sees it; of single items, from queueing
    /// to the end that is seen.
    pub done: Latency,
    /// From queueing an item to its end; not in rounds.
    pub ended: Latency,
    /// How long the call takes that queues an item; in rounds whose items are queued one by one.
    pub queue: Latency,
    /// CPU time of all threads but those that only compute, for each item.
    pub cpu_ns_per_item: f64,
    /// How often a thread went to sleep, for each item: it is woken up as often.
    pub wakeups_per_item: f64,
    /// How often a thread lost its CPU, for each item.
    pub switches_per_item: f64,
    /// The most threads that were seen at once, issuers included.
    pub peak_threads: usize,
    /// How often an item came and 4,096 of its issuer had not ended: the pool cannot bear the load.
    pub held_back: u64,
}
