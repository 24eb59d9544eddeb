//! The counters as OpenMetrics text, for Prometheus and everything that reads the same.

use crate::counter;
use crate::error::ControlError;
use crate::protocol::{self, EndpointCounts};
use crate::state::{Groups, keyed_queues};
use cmwq::Engine;
use cmwq::observe::{LatencyHistogram, PoolState, QueueState, QueueStats};
use cmwq::topology::{CpuQuota, Throttling};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;

pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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

type Labels = Vec<(&'static str, String)>;

/// A number that belongs to something with labels.
type Samples<T> = Vec<(Labels, T)>;

#[derive(Debug)]
struct Snapshot {
    queues: Vec<(Labels, QueueState)>,
    pools: Vec<(Labels, PoolState)>,
    engines: Vec<(Labels, cmwq::EngineStats)>,
    groups: Vec<(Labels, protocol::Group)>,
    /// Of the engines that have one.
    running_limits: Samples<usize>,
    quota_pauses: Samples<u64>,
    quota: CpuQuota,
    endpoint: EndpointCounts,
}

pub(crate) fn render(endpoint: &EndpointCounts) -> Result<String, ControlError> {
    let mut registry = Registry::with_prefix("cmwq");
    let snapshot = RISEN.with_borrow_mut(|risen| Snapshot::take(*endpoint, risen));
    registry.register_collector(Box::new(snapshot));
    let mut text = String::new();
    text::encode(&mut text, &registry)
        .map_err(|error| ControlError::new("EIO", format!("metrics: {error}")))?;
    Ok(text)
}

thread_local! {
    /// Of the endpoint's thread.
    static RISEN: RefCell<Risen> = RefCell::default();
}

/// By how much the counters of queues have risen from one scrape to the next, by the queue's number. The library's sums go down when attributes
/// change, and a counter that goes down but not to 0 looks as if it had counted all that is left anew.
#[derive(Default)]
struct Risen(HashMap<u64, [QueueStats; 2]>);

impl Risen {
    /// What is shown instead of `stats`.
    fn raise(&mut self, serial: u64, mut stats: QueueStats) -> QueueStats {
        let [before, shown] = self.0.entry(serial).or_default();
        let fields: [fn(&mut QueueStats) -> &mut u64; 12] = [
            |stats| &mut stats.started,
            |stats| &mut stats.completed,
            |stats| &mut stats.cpu_ns,
            |stats| &mut stats.cpu_intensive,
            |stats| &mut stats.cm_wakeups,
            |stats| &mut stats.wakeups,
            |stats| &mut stats.stolen,
            |stats| &mut stats.waiter_runs,
            |stats| &mut stats.mayday,
            |stats| &mut stats.rescued,
            |stats| &mut stats.limit_visits,
            |stats| &mut stats.refused,
        ];
        for field in fields {
            *field(shown) += field(&mut stats).saturating_sub(*field(before));
        }
        *before = stats;
        *shown
    }
}

impl Snapshot {
    fn take(endpoint: EndpointCounts, risen: &mut Risen) -> Self {
        let keys: HashMap<u64, String> = keyed_queues()
            .into_iter()
            .map(|(key, _, queue)| (queue.serial(), key))
            .collect();
        risen.0.retain(|serial, _| keys.contains_key(serial));
        let mut snapshot = Snapshot {
            queues: Vec::new(),
            pools: Vec::new(),
            engines: Vec::new(),
            groups: Vec::new(),
            running_limits: Vec::new(),
            quota_pauses: Vec::new(),
            quota: CpuQuota::detect(),
            endpoint,
        };
        let mut groups = Groups::default();
        for engine in Engine::all() {
            let serial = engine.serial().to_string();
            let labels = vec![("engine", serial.clone())];
            if let Some(limit) = engine.running_limit() {
                let limit = (labels.clone(), limit as usize);
                snapshot.running_limits.push(limit);
            }
            let pauses = (labels.clone(), engine.cpu_quota_pauses());
            snapshot.quota_pauses.push(pauses);
            snapshot.engines.push((labels, engine.stats()));
            for mut queue in engine.queue_states() {
                // One that was made meanwhile has no key yet; its name may be another's.
                let Some(key) = keys.get(&queue.serial) else {
                    continue;
                };
                groups.note(&queue, key);
                queue.stats = risen.raise(queue.serial, queue.stats);
                let labels = vec![("engine", serial.clone()), ("queue", key.clone())];
                snapshot.queues.push((labels, queue));
            }
            for pool in engine.pool_states() {
                let labels = vec![
                    ("engine", serial.clone()),
                    ("pool", pool.id.to_string()),
                    ("pod", pool.pod.to_string()),
                ];
                snapshot.pools.push((labels, pool));
            }
        }
        let groups = groups.0.into_values().map(|group| {
            let labels = vec![
                ("group", group.name.clone()),
                ("serial", group.serial.to_string()),
            ];
            (labels, group)
        });
        snapshot.groups = groups.collect();
        snapshot
    }

    fn of_queues<T>(&self, value: impl Fn(&QueueState) -> T) -> Samples<T> {
        let queues = self.queues.iter();
        queues
            .map(|(labels, queue)| (labels.clone(), value(queue)))
            .collect()
    }

    fn of_pools<T>(&self, value: impl Fn(&PoolState) -> T) -> Samples<T> {
        let pools = self.pools.iter();
        pools
            .map(|(labels, pool)| (labels.clone(), value(pool)))
            .collect()
    }

    fn of_groups<T>(&self, value: impl Fn(&protocol::Group) -> T) -> Samples<T> {
        let groups = self.groups.iter();
        groups
            .map(|(labels, group)| (labels.clone(), value(group)))
            .collect()
    }

    fn of_engines<T>(&self, value: impl Fn(&cmwq::EngineStats) -> T) -> Samples<T> {
        let engines = self.engines.iter();
        engines
            .map(|(labels, stats)| (labels.clone(), value(stats)))
            .collect()
    }
}

/// Writes families of metrics.
struct Writer<'e>(DescriptorEncoder<'e>);

impl Writer<'_> {
    fn counter(&mut self, name: &str, help: &str, samples: &Samples<u64>) -> fmt::Result {
        if samples.is_empty() {
            return Ok(());
        }
        let kind = MetricType::Counter;
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in samples {
            let labels = labels.as_slice();
            let mut metric = family.encode_family(&labels)?;
            metric.encode_counter::<Labels, u64, u64>(value, None)?;
        }
        Ok(())
    }

    fn seconds(&mut self, name: &str, help: &str, samples: &Samples<u64>) -> fmt::Result {
        if samples.is_empty() {
            return Ok(());
        }
        let unit = Some(&Unit::Seconds);
        let mut family = self
            .0
            .encode_descriptor(name, help, unit, MetricType::Counter)?;
        for (labels, ns) in samples {
            let labels = labels.as_slice();
            let mut metric = family.encode_family(&labels)?;
            metric.encode_counter::<Labels, f64, f64>(&(*ns as f64 / 1e9), None)?;
        }
        Ok(())
    }

    /// A gauge that is no count; nothing if there is no value.
    fn number(&mut self, name: &str, help: &str, value: Option<f64>) -> fmt::Result {
        let Some(value) = value else {
            return Ok(());
        };
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        family.encode_gauge(&value)
    }

    fn gauge(&mut self, name: &str, help: &str, samples: &Samples<usize>) -> fmt::Result {
        if samples.is_empty() {
            return Ok(());
        }
        let kind = MetricType::Gauge;
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in samples {
            let labels = labels.as_slice();
            let mut metric = family.encode_family(&labels)?;
            metric.encode_gauge(&(i64::try_from(*value).unwrap_or(i64::MAX)))?;
        }
        Ok(())
    }

    /// How old what is oldest now is, in seconds; 0: there is nothing.
    fn ages(&mut self, name: &str, help: &str, samples: &Samples<Option<u64>>) -> fmt::Result {
        if samples.is_empty() {
            return Ok(());
        }
        let unit = Some(&Unit::Seconds);
        let mut family = self
            .0
            .encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, ns) in samples {
            let labels = labels.as_slice();
            let mut metric = family.encode_family(&labels)?;
            metric.encode_gauge(&(ns.unwrap_or(0) as f64 / 1e9))?;
        }
        Ok(())
    }

    fn latencies(
        &mut self,
        name: &str,
        help: &str,
        queues: &[(Labels, QueueState)],
        ends_ns: &[u64],
        histogram: impl Fn(&QueueState) -> &LatencyHistogram,
    ) -> fmt::Result {
        if queues.is_empty() {
            return Ok(());
        }
        let unit = Some(&Unit::Seconds);
        let mut family = self
            .0
            .encode_descriptor(name, help, unit, MetricType::Histogram)?;
        for (labels, queue) in queues {
            let labels = labels.as_slice();
            let mut metric = family.encode_family(&labels)?;
            let histogram = histogram(queue);
            metric.encode_histogram::<Labels>(
                histogram.sum_ns() as f64 / 1e9,
                histogram.count(),
                &buckets(histogram, ends_ns),
                None,
            )?;
        }
        Ok(())
    }
}

/// The histogram's counts in the buckets of the metric; the last one is unbounded.
fn buckets(histogram: &LatencyHistogram, ends_ns: &[u64]) -> Vec<(f64, u64)> {
    let ends = ends_ns.iter().map(|&ns| (ns, ns as f64 / 1e9));
    let mut buckets: Vec<(u64, f64, u64)> = ends
        .chain([(u64::MAX, f64::INFINITY)])
        .map(|(ns, seconds)| (ns, seconds, 0))
        .collect();
    for (ns, count) in histogram.buckets() {
        if let Some(bucket) = buckets.iter_mut().find(|(end, ..)| ns <= *end) {
            bucket.2 += count;
        }
    }
    let buckets = buckets.into_iter();
    buckets
        .map(|(_, seconds, count)| (seconds, count))
        .collect()
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Writer(encoder);
        out.counter(
            "queue_items_started",
            "Items started",
            &self.of_queues(|queue| queue.stats.started),
        )?;
        out.counter(
            "queue_items_completed",
            "Items completed",
            &self.of_queues(|queue| queue.stats.completed),
        )?;
        out.gauge(
            "queue_active_items",
            "Items that run or are ready to",
            &self.of_queues(|queue| queue.pwqs.iter().map(|pwq| pwq.active).sum()),
        )?;
        out.gauge(
            "queue_inactive_items",
            "Items that wait for a place",
            &self.of_queues(|queue| queue.pwqs.iter().map(|pwq| pwq.inactive).sum()),
        )?;
        out.gauge(
            "queue_max_active_items",
            "The limit on active items",
            &self.of_queues(|queue| queue.max_active),
        )?;
        out.seconds(
            "queue_cpu",
            "CPU time of items, by sampling",
            &self.of_queues(|queue| queue.stats.cpu_ns),
        )?;
        out.latencies(
            "queue_enqueue",
            "Time that queue() takes, of about every 64th call",
            &self.queues,
            &ENQUEUE_BUCKETS_NS,
            |queue| &queue.enqueue,
        )?;
        out.latencies(
            "queue_wait",
            "Time from the call that queued an item to its start, of a sample of the items",
            &self.queues,
            &TIME_BUCKETS_NS,
            |queue| &queue.times.wait,
        )?;
        out.latencies(
            "queue_run",
            "Time from the start of an item to its end, of a sample of the items",
            &self.queues,
            &TIME_BUCKETS_NS,
            |queue| &queue.times.run,
        )?;
        out.ages(
            "queue_longest_wait",
            "For how long the oldest of the sampled items that wait now has waited",
            &self.of_queues(|queue| queue.times.longest_waiting_ns),
        )?;
        out.ages(
            "queue_longest_run",
            "For how long the oldest of the items that run now has run",
            &self.of_queues(|queue| queue.times.longest_running_ns),
        )?;
        let bounded = |samples: Samples<Option<usize>>| -> Samples<usize> {
            let bounded = samples.into_iter();
            bounded
                .filter_map(|(labels, value)| Some((labels, value?)))
                .collect()
        };
        out.gauge(
            "queue_waiting_items",
            "Items that are queued and not started, of workqueues with a bound on that",
            &bounded(self.of_queues(|queue| Some(queue.room?.waiting))),
        )?;
        out.gauge(
            "queue_max_waiting_items",
            "The bound on items that are queued and not started",
            &bounded(self.of_queues(|queue| Some(queue.room?.max_waiting))),
        )?;
        for (name, help, value) in QUEUE_COUNTERS {
            out.counter(name, help, &self.of_queues(value))?;
        }
        for (name, help, value) in GROUP_GAUGES {
            out.gauge(name, help, &self.of_groups(value))?;
        }
        for (name, help, value) in POOL_GAUGES {
            out.gauge(name, help, &self.of_pools(value))?;
        }
        for (name, help, value) in POOL_COUNTERS {
            out.counter(name, help, &self.of_pools(value))?;
        }
        for (name, help, value) in ENGINE_COUNTERS {
            out.counter(name, help, &self.of_engines(value))?;
        }
        out.gauge(
            "engine_running_limit_workers",
            "Workers that may run at once over all pools",
            &self.running_limits,
        )?;
        out.counter(
            "engine_quota_pauses",
            "Pauses of workers, so that the process does not use up its CPU quota",
            &self.quota_pauses,
        )?;
        let quota = &self.quota;
        let cpus = quota.limit().map(|limit| limit.cpus());
        out.number("cpu_quota_cpus", "CPUs of the CPU quota", cpus)?;
        let weight = quota.weight().map(|weight| weight as f64);
        out.number("cpu_weight", "The own group's cpu.weight", weight)?;
        let idle = quota.weight().map(|_| f64::from(quota.is_idle()));
        out.number("cpu_idle", "The own group's cpu.idle", idle)?;
        let of_quota = |value: fn(&Throttling) -> u64| {
            let throttling = self.quota.throttling().into_iter();
            throttling
                .map(|told| (Vec::new(), value(&told)))
                .collect::<Samples<u64>>()
        };
        for (name, help, value) in QUOTA_COUNTERS {
            out.counter(name, help, &of_quota(value))?;
        }
        out.seconds(
            "cpu_quota_throttled",
            "Time for which the group of the CPU quota was throttled, summed over CPUs",
            &of_quota(|told| told.throttled_us.saturating_mul(1000)),
        )?;
        for (name, help, value) in ENDPOINT_COUNTERS {
            out.counter(name, help, &vec![(Vec::new(), value(&self.endpoint))])?;
        }
        for counter in counter::shown() {
            let sample = vec![(Vec::new(), counter.value)];
            out.counter(&counter.name, &counter.help, &sample)?;
        }
        Ok(())
    }
}

/// A metric: its name, what it is, and where it comes from.
type Metric<S, T> = (&'static str, &'static str, fn(&S) -> T);

const QUEUE_COUNTERS: [Metric<QueueState, u64>; 9] = [
    (
        "queue_cpu_intensive_items",
        "Items that used the CPU for too long",
        |queue| queue.stats.cpu_intensive,
    ),
    (
        "queue_cm_wakeups",
        "Times another worker took over because an item blocked",
        |queue| queue.stats.cm_wakeups,
    ),
    (
        "queue_wakeups",
        "Workers woken that then ran an item of the queue",
        |queue| queue.stats.wakeups,
    ),
    (
        "queue_stolen_items",
        "Items that workers of other pods stole and ran",
        |queue| queue.stats.stolen,
    ),
    (
        "queue_waiter_run_items",
        "Items that threads ran which waited for them",
        |queue| queue.stats.waiter_runs,
    ),
    ("queue_maydays", "Calls for the rescuer", |queue| {
        queue.stats.mayday
    }),
    (
        "queue_rescued_items",
        "Items that the rescuer ran",
        |queue| queue.stats.rescued,
    ),
    (
        "queue_refused_items",
        "Attempts to queue that found no room",
        |queue| queue.stats.refused,
    ),
    (
        "queue_limit_visits",
        "Visits to the store of places that pods share",
        |queue| queue.stats.limit_visits,
    ),
];

const GROUP_GAUGES: [Metric<protocol::Group, usize>; 4] = [
    (
        "group_max_active_items",
        "The limit on active items that the queues of a group share",
        |group| group.max_active,
    ),
    (
        "group_held_places",
        "Places of that limit that queues hold",
        |group| group.held,
    ),
    (
        "group_waiting_queues",
        "Queues that wait for a place, an unbound one once for each node",
        |group| group.waiting,
    ),
    ("group_queues", "Queues that share the limit", |group| {
        group.queues.len()
    }),
];

const POOL_GAUGES: [Metric<PoolState, usize>; 4] = [
    ("pool_workers", "Worker threads", |pool| pool.workers.len()),
    (
        "pool_running_workers",
        "Workers that run and are not known to be blocked",
        |pool| pool.running,
    ),
    (
        "pool_target_workers",
        "Workers that may run at a time",
        |pool| pool.target,
    ),
    ("pool_waiting_items", "Items ready to run", |pool| {
        pool.waiting
    }),
];

const POOL_COUNTERS: [Metric<PoolState, u64>; 4] = [
    ("pool_items_started", "Items started", |pool| {
        pool.stats.started
    }),
    ("pool_wakeups", "Idle workers woken", |pool| {
        pool.stats.wakeups
    }),
    (
        "pool_stolen_items",
        "Items that workers of other pods stole and ran",
        |pool| pool.stats.stolen,
    ),
    (
        "pool_lock_waits",
        "Times that the lock was waited for",
        |pool| pool.stats.lock_waits,
    ),
];

const ENGINE_COUNTERS: [Metric<cmwq::EngineStats, u64>; 4] = [
    (
        "engine_workers_created",
        "Worker threads created",
        |stats| stats.workers_created,
    ),
    (
        "engine_create_failures",
        "Attempts to create a worker that failed",
        |stats| stats.create_failures,
    ),
    (
        "engine_blocked_seen",
        "Workers found blocked that had not said so",
        |stats| stats.blocked_seen,
    ),
    ("engine_panics", "Items whose function panicked", |stats| {
        stats.panics
    }),
];

const QUOTA_COUNTERS: [Metric<Throttling, u64>; 2] = [
    (
        "cpu_quota_periods",
        "Periods in which the group of the CPU quota ran",
        |told| told.nr_periods,
    ),
    (
        "cpu_quota_throttled_periods",
        "Periods in which the group of the CPU quota was throttled",
        |told| told.nr_throttled,
    ),
];

const ENDPOINT_COUNTERS: [Metric<EndpointCounts, u64>; 5] = [
    ("control_requests", "Requests answered", |counts| {
        counts.requests
    }),
    (
        "control_errors",
        "Requests answered with an error",
        |counts| counts.errors,
    ),
    (
        "control_refused_users",
        "Connections refused because of their user",
        |counts| counts.refused_users,
    ),
    (
        "control_crowded_out",
        "Connections refused or ended because there were too many",
        |counts| counts.crowded_out,
    ),
    (
        "control_cut_off",
        "Connections ended because the client was silent or sent too much",
        |counts| counts.cut_off,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use cmwq::Workqueue;
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_counter_does_not_go_down_when_attributes_change() {
        let queue = Workqueue::builder("changes").build().expect("a queue");
        let started = || {
            let text = render(&EndpointCounts::default()).expect("text");
            let sample = text.lines().find_map(|line| {
                let of_it = line.starts_with("cmwq_queue_items_started_total");
                let (_, value) = line.split_once("queue=\"changes\"} ")?;
                of_it.then(|| value.parse::<u64>().expect("a number"))
            });
            sample.expect("the queue's")
        };
        let run = |items: u64| {
            for _ in 0..items {
                queue.spawn(|| ()).join().expect("done");
            }
        };
        run(10);
        assert_eq!(started(), 10);
        let mut attrs = queue.attrs();
        attrs.nice += 1;
        queue.apply_attrs(attrs).expect("possible");
        assert_eq!((started(), queue.counts().0), (10, 0));
        run(3);
        assert_eq!(started(), 13);
    }

    #[test]
    fn queues_that_come_and_go_meanwhile_make_no_sample_twice() {
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let queue = || Workqueue::builder("same").build().expect("a queue");
                while !ends.load(Ordering::Relaxed) {
                    let _two = (queue(), queue());
                }
            });
            let mut twice = None;
            for _ in 0..1_000 {
                let text = render(&EndpointCounts::default()).expect("text");
                let mut seen = HashSet::new();
                let samples = text.lines().filter_map(|line| line.rsplit_once(' '));
                twice = samples
                    .map(|(sample, _)| sample)
                    .find(|sample| !sample.starts_with('#') && !seen.insert(*sample))
                    .map(str::to_owned);
                if twice.is_some() {
                    break;
                }
            }
            ends.store(true, Ordering::Relaxed);
            assert_eq!(twice, None);
        });
    }
}
