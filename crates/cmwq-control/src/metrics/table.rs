//! The table of metrics: what is shown of each queue, group, pool and engine, of the CPU quota and of
//! the endpoint. Text, the rule that counters do not go down, and the list in `docs/control.md` are
//! made of it.

use super::EngineCounts;
use crate::protocol::{EndpointCounts, Group};
use Value::{Age, Count, Gauge, Number, Seconds, Times};
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

impl<S> Metric<S> {
    /// The value of a counter, which may only rise.
    pub(super) fn counter(&self, of: &S) -> Option<u64> {
        match self.value {
            Count(value) | Seconds(value) => Some(value(of)),
            _ => None,
        }
    }

    /// Its row in the documentation.
    #[cfg(test)]
    pub(super) fn row(&self) -> String {
        let ending = match self.value {
            Count(_) => "_total",
            Seconds(_) => "_seconds_total",
            Gauge(_) | Number(_) => "",
            Age(_) | Times(..) => "_seconds",
        };
        format!("| `cmwq_{}{ending}` | {} |\n", self.name, self.help)
    }
}

const fn metric<S>(name: &'static str, help: &'static str, value: Value<S>) -> Metric<S> {
    Metric { name, help, value }
}

pub(super) const QUEUES: &[Metric<QueueState>] = &[
    metric(
        "queue_items_started",
        "Items started",
        Count(|queue| queue.stats.started),
    ),
    metric(
        "queue_items_completed",
        "Items completed",
        Count(|queue| queue.stats.completed),
    ),
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
        "queue_cpu",
        "CPU time of items, by sampling",
        Seconds(|queue| queue.stats.cpu_ns),
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
    metric(
        "queue_cpu_intensive_items",
        "Items that used the CPU for too long",
        Count(|queue| queue.stats.cpu_intensive),
    ),
    metric(
        "queue_cm_wakeups",
        "Times another worker took over because an item blocked",
        Count(|queue| queue.stats.cm_wakeups),
    ),
    metric(
        "queue_wakeups",
        "Workers woken that then ran an item of the queue",
        Count(|queue| queue.stats.wakeups),
    ),
    metric(
        "queue_stolen_items",
        "Items that workers of other pods stole and ran",
        Count(|queue| queue.stats.stolen),
    ),
    metric(
        "queue_waiter_run_items",
        "Items that threads ran which waited for them",
        Count(|queue| queue.stats.waiter_runs),
    ),
    metric(
        "queue_maydays",
        "Calls for the rescuer",
        Count(|queue| queue.stats.mayday),
    ),
    metric(
        "queue_rescued_items",
        "Items that the rescuer ran",
        Count(|queue| queue.stats.rescued),
    ),
    metric(
        "queue_refused_items",
        "Attempts to queue that found no room",
        Count(|queue| queue.stats.refused),
    ),
    metric(
        "queue_limit_visits",
        "Visits to the store of places that pods share",
        Count(|queue| queue.stats.limit_visits),
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
    metric(
        "pool_items_started",
        "Items started",
        Count(|pool| pool.stats.started),
    ),
    metric(
        "pool_wakeups",
        "Idle workers woken",
        Count(|pool| pool.stats.wakeups),
    ),
    metric(
        "pool_stolen_items",
        "Items that workers of other pods stole and ran",
        Count(|pool| pool.stats.stolen),
    ),
    metric(
        "pool_lock_waits",
        "Times that the lock was waited for",
        Count(|pool| pool.stats.lock_waits),
    ),
];

pub(super) const ENGINES: &[Metric<EngineCounts>] = &[
    metric(
        "engine_workers_created",
        "Worker threads created",
        Count(|engine| engine.stats.workers_created),
    ),
    metric(
        "engine_create_failures",
        "Attempts to create a worker that failed",
        Count(|engine| engine.stats.create_failures),
    ),
    metric(
        "engine_blocked_seen",
        "Workers found blocked that had not said so",
        Count(|engine| engine.stats.blocked_seen),
    ),
    metric(
        "engine_panics",
        "Items whose function panicked",
        Count(|engine| engine.stats.panics),
    ),
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
