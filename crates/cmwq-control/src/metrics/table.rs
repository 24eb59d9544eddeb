//! The table of metrics: what is shown of each queue, group, pool and engine, of the CPU quota and
//! of the endpoint. Text and the list in `docs/control.md` are made of it. The counters are those of
//! the library's own table.

use super::EngineCounts;
use crate::protocol::{EndpointCounts, Group};
use Value::{Age, Count, Gauge, Number, Seconds, Times};
use cmwq::counters;
use cmwq::observe::{LatencyHistogram, PoolState, QueueState};
use cmwq::topology::{CpuQuota, Throttling};

/// Upper bounds of the enqueue-latency histogram's buckets, in ns. The last bucket is unbounded.
const ENQUEUE_BUCKETS_NS: [u64; 14] = [
    50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400, 1_000_000,
    10_000_000,
];
/// Those of the histograms of waits and runs: a microsecond to a minute and a half.
const TIME_BUCKETS_NS: [u64; 15] = [
    1_000,
    4_000,
    16_000,
    64_000,
    256_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    100_000_000,
    400_000_000,
    1_600_000_000,
    10_000_000_000,
    90_000_000_000,
];

/// How a metric is shown, and where it comes from. A value that is `None` has no sample.
pub(super) enum Value<S: 'static> {
    /// A counter.
    Count(fn(&S) -> u64),
    /// A counter of nanoseconds, shown in seconds.
    Seconds(fn(&S) -> u64),
    /// How many there are now.
    Gauge(fn(&S) -> Option<usize>),
    /// A gauge that is no count.
    Number(fn(&S) -> Option<f64>),
    /// How old what is oldest now is: nanoseconds, shown in seconds. `None` is shown as 0.
    Age(fn(&S) -> Option<u64>),
    /// A histogram in seconds, with the upper bounds of its buckets in ns.
    Times(&'static [u64], fn(&S) -> &LatencyHistogram),
}

/// A metric of `S`.
pub(super) struct Metric<S: 'static> {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) value: Value<S>,
}

/// The rows of a table in the documentation.
#[cfg(test)]
pub(super) fn rows<S>(table: &[Metric<S>]) -> String {
    let row = |metric: &Metric<S>| {
        let ending = match metric.value {
            Count(_) => "_total",
            Seconds(_) => "_seconds_total",
            Gauge(_) | Number(_) => "",
            Age(_) | Times(..) => "_seconds",
        };
        format!("| `cmwq_{}{ending}` | {} |\n", metric.name, metric.help)
    };
    table.iter().map(row).collect()
}

const fn metric<S>(name: &'static str, help: &'static str, value: Value<S>) -> Metric<S> {
    Metric { name, help, value }
}

/// The metrics of the library's counters, by whose they are.
macro_rules! counter_metrics {
    ({} $($field:ident: ($what:literal $(, queue $of_queue:ident $queue:literal)?
        $(, pool $of_pool:ident $pool:literal)? $(, engine $of_engine:ident $engine:literal)?
        $(, $more:literal)?),)*) => {
        pub(super) const QUEUE_COUNTERS: &[Metric<QueueState>] = &[$($(
            metric($queue, $what, $of_queue(|queue| queue.stats.$field)),
        )?)*];
        pub(super) const POOL_COUNTERS: &[Metric<PoolState>] = &[$($(
            metric($pool, $what, $of_pool(|pool| pool.stats.$field)),
        )?)*];
        pub(super) const ENGINE_COUNTERS: &[Metric<EngineCounts>] = &[$($(
            metric($engine, $what, $of_engine(|engine| engine.stats.$field)),
        )?)*];
    };
}

counters!(all counter_metrics {});

pub(super) const QUEUES: &[Metric<QueueState>] = &[
    metric(
        "queue_active_items",
        "Items that run or are ready to",
        Gauge(|queue| Some(queue.pwqs.iter().map(|pwq| pwq.active).sum())),
    ),
    metric(
        "queue_inactive_items",
        "Items that wait for a place",
        Gauge(|queue| Some(queue.pwqs.iter().map(|pwq| pwq.inactive).sum())),
    ),
    metric(
        "queue_max_active_items",
        "The limit on active items",
        Gauge(|queue| Some(queue.max_active)),
    ),
    metric(
        "queue_enqueue",
        "Time that queue() takes, of about every 64th call",
        Times(&ENQUEUE_BUCKETS_NS, |queue| &queue.enqueue),
    ),
    metric(
        "queue_wait",
        "Time from the call that queued an item to its start, of a sample of the items",
        Times(&TIME_BUCKETS_NS, |queue| &queue.times.wait),
    ),
    metric(
        "queue_run",
        "Time from the start of an item to its end, of a sample of the items",
        Times(&TIME_BUCKETS_NS, |queue| &queue.times.run),
    ),
    metric(
        "queue_longest_wait",
        "For how long the oldest of the sampled items that wait now has waited",
        Age(|queue| queue.times.longest_waiting_ns),
    ),
    metric(
        "queue_longest_run",
        "For how long the oldest of the items that run now has run",
        Age(|queue| queue.times.longest_running_ns),
    ),
    metric(
        "queue_waiting_items",
        "Items that are queued and not started, of workqueues with a bound on that",
        Gauge(|queue| Some(queue.room?.waiting)),
    ),
    metric(
        "queue_max_waiting_items",
        "The bound on items that are queued and not started",
        Gauge(|queue| Some(queue.room?.max_waiting)),
    ),
];

pub(super) const GROUPS: &[Metric<Group>] = &[
    metric(
        "group_max_active_items",
        "The limit on active items that the queues of a group share",
        Gauge(|group| Some(group.max_active)),
    ),
    metric(
        "group_held_places",
        "Places of that limit that queues hold",
        Gauge(|group| Some(group.held)),
    ),
    metric(
        "group_waiting_queues",
        "Queues that wait for a place, an unbound one once for each node",
        Gauge(|group| Some(group.waiting)),
    ),
    metric(
        "group_queues",
        "Queues that share the limit",
        Gauge(|group| Some(group.queues.len())),
    ),
];

pub(super) const POOLS: &[Metric<PoolState>] = &[
    metric(
        "pool_workers",
        "Worker threads",
        Gauge(|pool| Some(pool.workers.len())),
    ),
    metric(
        "pool_running_workers",
        "Workers that run and are not known to be blocked",
        Gauge(|pool| Some(pool.running)),
    ),
    metric(
        "pool_target_workers",
        "Workers that may run at a time",
        Gauge(|pool| Some(pool.target)),
    ),
    metric(
        "pool_waiting_items",
        "Items ready to run",
        Gauge(|pool| Some(pool.waiting)),
    ),
];

pub(super) const ENGINES: &[Metric<EngineCounts>] = &[
    metric(
        "engine_running_limit_workers",
        "Workers that may run at once over all pools",
        Gauge(|engine| engine.running_limit),
    ),
    metric(
        "engine_quota_pauses",
        "Pauses of workers, so that the process does not use up its CPU quota",
        Count(|engine| engine.quota_pauses),
    ),
];

pub(super) const QUOTA: &[Metric<CpuQuota>] = &[
    metric(
        "cpu_quota_cpus",
        "CPUs of the CPU quota",
        Number(|quota| Some(quota.limit()?.cpus())),
    ),
    metric(
        "cpu_weight",
        "The own group's cpu.weight",
        Number(|quota| Some(quota.weight()? as f64)),
    ),
    metric(
        "cpu_idle",
        "The own group's cpu.idle",
        Number(|quota| quota.weight().map(|_| f64::from(quota.is_idle()))),
    ),
];

pub(super) const THROTTLING: &[Metric<Throttling>] = &[
    metric(
        "cpu_quota_periods",
        "Periods in which the group of the CPU quota ran",
        Count(|told| told.nr_periods),
    ),
    metric(
        "cpu_quota_throttled_periods",
        "Periods in which the group of the CPU quota was throttled",
        Count(|told| told.nr_throttled),
    ),
    metric(
        "cpu_quota_throttled",
        "Time for which the group of the CPU quota was throttled, summed over CPUs",
        Seconds(|told| told.throttled_us.saturating_mul(1000)),
    ),
];

pub(super) const ENDPOINT: &[Metric<EndpointCounts>] = &[
    metric(
        "control_requests",
        "Requests answered",
        Count(|counts| counts.requests),
    ),
    metric(
        "control_errors",
        "Requests answered with an error",
        Count(|counts| counts.errors),
    ),
    metric(
        "control_refused_users",
        "Connections refused because of their user",
        Count(|counts| counts.refused_users),
    ),
    metric(
        "control_crowded_out",
        "Connections refused or ended because there were too many",
        Count(|counts| counts.crowded_out),
    ),
    metric(
        "control_cut_off",
        "Connections ended because the client was silent or sent too much",
        Count(|counts| counts.cut_off),
    ),
];
