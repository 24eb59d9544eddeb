//! Writes families of metrics as OpenMetrics text.

use super::table::{Metric, Value};
use cmwq::observe::LatencyHistogram;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::fmt;

pub(super) type Labels = Vec<(&'static str, String)>;

/// What is shown of one thing.
#[derive(Debug)]
pub(super) struct Sample<S> {
    pub(super) labels: Labels,
    pub(super) of: S,
}

const NS: f64 = 1e9;

pub(super) struct Writer<'e>(pub(super) DescriptorEncoder<'e>);

impl Writer<'_> {
    /// All metrics of a table.
    pub(super) fn table<S>(&mut self, table: &[Metric<S>], samples: &[Sample<S>]) -> fmt::Result {
        for metric in table {
            let Metric { name, help, value } = metric;
            let unit = Some(&Unit::Seconds);
            match *value {
                Value::Count(value) => {
                    let all = samples.iter().map(|one| (&one.labels, value(&one.of)));
                    self.family((name, help, None, MetricType::Counter), all, |to, count| {
                        to.encode_counter::<Labels, u64, u64>(&count, None)
                    })?;
                }
                Value::Seconds(value) => {
                    let all = samples.iter().map(|one| (&one.labels, value(&one.of)));
                    self.family((name, help, unit, MetricType::Counter), all, |to, ns| {
                        to.encode_counter::<Labels, f64, f64>(&(ns as f64 / NS), None)
                    })?;
                }
                Value::Gauge(value) => {
                    let all = samples.iter().map(|one| (&one.labels, value(&one.of)));
                    let all = all.filter_map(|(labels, count)| Some((labels, count?)));
                    self.family((name, help, None, MetricType::Gauge), all, |to, count| {
                        to.encode_gauge(&i64::try_from(count).unwrap_or(i64::MAX))
                    })?;
                }
                Value::Number(value) => {
                    let all = samples.iter().map(|one| (&one.labels, value(&one.of)));
                    let all = all.filter_map(|(labels, number)| Some((labels, number?)));
                    self.family((name, help, None, MetricType::Gauge), all, |to, number| {
                        to.encode_gauge(&number)
                    })?;
                }
                Value::Age(value) => {
                    let all = samples.iter().map(|one| (&one.labels, value(&one.of)));
                    self.family((name, help, unit, MetricType::Gauge), all, |to, ns| {
                        to.encode_gauge(&(ns.unwrap_or(0) as f64 / NS))
                    })?;
                }
                Value::Times(ends_ns, value) => {
                    let all = samples.iter().map(|one| (&one.labels, value(&one.of)));
                    let kind = MetricType::Histogram;
                    self.family((name, help, unit, kind), all, |to, times| {
                        let (sum, count) = (times.sum_ns() as f64 / NS, times.count());
                        to.encode_histogram::<Labels>(sum, count, &buckets(times, ends_ns), None)
                    })?;
                }
            }
        }
        Ok(())
    }

    /// A counter of the program's own.
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let none = Labels::new();
        let all = std::iter::once((&none, value));
        self.family((name, help, None, MetricType::Counter), all, |to, count| {
            to.encode_counter::<Labels, u64, u64>(&count, None)
        })
    }

    /// One metric: its name, help, unit and type, and its samples. Without a sample it is left out.
    fn family<'l, T>(
        &mut self,
        (name, help, unit, kind): (&str, &str, Option<&Unit>, MetricType),
        samples: impl Iterator<Item = (&'l Labels, T)>,
        write: impl Fn(&mut MetricEncoder<'_>, T) -> fmt::Result,
    ) -> fmt::Result {
        let mut samples = samples.peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut family = self.0.encode_descriptor(name, help, unit, kind)?;
        for (labels, value) in samples {
            let labels = labels.as_slice();
            write(&mut family.encode_family(&labels)?, value)?;
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
