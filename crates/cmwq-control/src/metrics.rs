//! The counters as OpenMetrics text, for Prometheus and everything that reads the same.

mod table;
mod writer;

use crate::counter;
use crate::error::ControlError;
use crate::protocol::{self, EndpointCounts};
use crate::state::{Groups, keyed_queues};
use cmwq::Engine;
use cmwq::counters;
use cmwq::observe::{EngineStats, PoolState, QueueState, QueueStats};
use cmwq::topology::{CpuQuota, Throttling};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use table::{
    ENDPOINT, ENGINE_COUNTERS, ENGINES, GROUPS, POOL_COUNTERS, POOLS, QUEUE_COUNTERS, QUEUES,
    QUOTA, THROTTLING,
};
use writer::{Labels, Sample, Writer};

pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is shown of an engine.
#[derive(Debug)]
struct EngineCounts {
    stats: EngineStats,
    /// `None`: it has none.
    running_limit: Option<usize>,
    quota_pauses: u64,
}

#[derive(Debug)]
struct Snapshot {
    queues: Vec<Sample<QueueState>>,
    groups: Vec<Sample<protocol::Group>>,
    pools: Vec<Sample<PoolState>>,
    engines: Vec<Sample<EngineCounts>>,
    quota: [Sample<CpuQuota>; 1],
    /// Empty: there is no quota.
    throttling: Vec<Sample<Throttling>>,
    endpoint: [Sample<EndpointCounts>; 1],
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

/// By how much the counters of queues have risen from one scrape to the next, by the queue's
/// number: the last counters and what was shown. The library's sums go down when attributes change.
/// A monitoring system takes a counter that goes down for one that has begun at 0 again, and would
/// add all that is left once more.
#[derive(Default)]
struct Risen(HashMap<u64, [QueueStats; 2]>);

macro_rules! raise {
    ({} $($field:ident: $about:tt,)*) => {
        impl Risen {
            /// What is shown instead of these counters of the queue with this number.
            fn raise(&mut self, serial: u64, now: QueueStats) -> QueueStats {
                let [before, shown] = self.0.entry(serial).or_default();
                $(shown.$field += now.$field.saturating_sub(before.$field);)*
                *before = now;
                *shown
            }
        }
    };
}

counters!(queue raise {});

impl Snapshot {
    fn take(endpoint: EndpointCounts, risen: &mut Risen) -> Self {
        let keys: HashMap<u64, String> = keyed_queues()
            .into_iter()
            .map(|(key, _, queue)| (queue.serial(), key))
            .collect();
        risen.0.retain(|serial, _| keys.contains_key(serial));
        let quota = CpuQuota::detect();
        let throttling = quota.throttling().into_iter();
        let throttling = throttling.map(|told| Sample {
            labels: Labels::new(),
            of: told,
        });
        let mut snapshot = Snapshot {
            queues: Vec::new(),
            groups: Vec::new(),
            pools: Vec::new(),
            engines: Vec::new(),
            throttling: throttling.collect(),
            quota: [Sample {
                labels: Labels::new(),
                of: quota,
            }],
            endpoint: [Sample {
                labels: Labels::new(),
                of: endpoint,
            }],
        };
        let mut groups = Groups::default();
        for engine in Engine::all() {
            let serial = engine.serial().to_string();
            let counts = EngineCounts {
                stats: engine.stats(),
                running_limit: engine.running_limit().map(|limit| limit as usize),
                quota_pauses: engine.cpu_quota_pauses(),
            };
            let labels = vec![("engine", serial.clone())];
            snapshot.engines.push(Sample { labels, of: counts });
            for mut queue in engine.queue_states() {
                // One that was made meanwhile has no key yet; its name may be another's.
                let Some(key) = keys.get(&queue.serial) else {
                    continue;
                };
                groups.note(&queue, key);
                let labels = vec![("engine", serial.clone()), ("queue", key.clone())];
                queue.stats = risen.raise(queue.serial, queue.stats);
                snapshot.queues.push(Sample { labels, of: queue });
            }
            for pool in engine.pool_states() {
                let labels = vec![
                    ("engine", serial.clone()),
                    ("pool", pool.id.to_string()),
                    ("pod", pool.pod.to_string()),
                ];
                snapshot.pools.push(Sample { labels, of: pool });
            }
        }
        let groups = groups.0.into_values().map(|group| {
            let labels = vec![
                ("group", group.name.clone()),
                ("serial", group.serial.to_string()),
            ];
            Sample { labels, of: group }
        });
        snapshot.groups = groups.collect();
        snapshot
    }
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Writer(encoder);
        out.table(QUEUE_COUNTERS, &self.queues)?;
        out.table(QUEUES, &self.queues)?;
        out.table(GROUPS, &self.groups)?;
        out.table(POOL_COUNTERS, &self.pools)?;
        out.table(POOLS, &self.pools)?;
        out.table(ENGINE_COUNTERS, &self.engines)?;
        out.table(ENGINES, &self.engines)?;
        out.table(QUOTA, &self.quota)?;
        out.table(THROTTLING, &self.throttling)?;
        out.table(ENDPOINT, &self.endpoint)?;
        for counter in counter::shown() {
            out.counter(&counter.name, &counter.help, counter.value)?;
        }
        Ok(())
    }
}

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

    /// The list in the documentation is that of the tables. With `CMWQ_WRITE_TABLES` it is written.
    #[test]
    fn the_page_lists_the_metrics() {
        let (mut rows, begin) = (
            String::from("| metric | what it is |\n|---|---|\n"),
            "| metric | what",
        );
        rows += &table::rows(QUEUE_COUNTERS);
        rows += &table::rows(QUEUES);
        rows += &table::rows(GROUPS);
        rows += &table::rows(POOL_COUNTERS);
        rows += &table::rows(POOLS);
        rows += &table::rows(ENGINE_COUNTERS);
        rows += &table::rows(ENGINES);
        rows += &table::rows(QUOTA);
        rows += &table::rows(THROTTLING);
        rows += &table::rows(ENDPOINT);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/control.md");
        let page = std::fs::read_to_string(path).expect("the page");
        let from = page.find(begin).expect("the list");
        let to = from + page[from..].find("\n\n").expect("its end") + 1;
        if std::env::var_os("CMWQ_WRITE_TABLES").is_some() {
            let page = format!("{}{rows}{}", &page[..from], &page[to..]);
            return std::fs::write(path, page).expect("it can be written");
        }
        let how = "CMWQ_WRITE_TABLES=1 cargo test -p cmwq-control --lib metrics";
        assert!(page[from..to] == rows, "docs/control.md is older: {how}");
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
