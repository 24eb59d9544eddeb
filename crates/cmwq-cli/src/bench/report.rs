//! The results in the form that the table, the JSON and the page are made from.

use std::ffi::OsString;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use cmwq::Engine;
use cmwq::affinity::AffinityScope;
use cmwq::topology::{CpuSet, TOPOLOGY_VARIABLE};

use super::args::{Options, PUBLISHED_ORDER};
use super::date::utc;
use super::host::Machine;
use super::interval::Ratio;
use super::measure::Measured;
use super::plan::Config;
use super::stats::{Latency, Spread};
use crate::machine::MachineArgs;

/// Everything one `cmwq bench` has to say. Its fields are the JSON contract in the command's help.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) format: &'static str,
    pub(super) version: u32,
    pub(super) date: String,
    /// A command line that repeats the measurement.
    pub(super) command: String,
    pub(super) machine: Machine,
    pub(super) settings: Settings,
    pub(super) results: Vec<ConfigResult>,
}

/// How it was measured.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Settings {
    pub(super) threads: usize,
    /// Items per issuer; the most where a run was cut short.
    pub(super) items: u64,
    pub(super) items_calibrated: bool,
    pub(super) runs: usize,
    pub(super) strict: bool,
}

/// One scope (or one shard size) over all runs.
#[derive(Debug, Serialize)]
pub(super) struct ConfigResult {
    pub(super) label: String,
    pub(super) scope: &'static str,
    /// `null`: the engine's default.
    pub(super) shard_size: Option<usize>,
    pub(super) pods: usize,
    /// The label of the result whose measurements these are: its pods are the same, so it was
    /// measured for both.
    pub(super) same_pods_as: Option<String>,
    pub(super) items_per_s: Spread,
    /// Items per second divided by those of the scope cache, run by run.
    pub(super) ratio_to_cache: Option<Ratio>,
    pub(super) enqueue_ns: LatencySpread,
    pub(super) round_trip_ns: LatencySpread,
    pub(super) workers_created: Spread,
    pub(super) wakeups_per_item: Spread,
    pub(super) stolen_per_item: Spread,
    pub(super) cpu_percent: Spread,
    pub(super) runs: Vec<RunResult>,
    #[serde(skip)]
    pub(super) config: Config,
}

/// Percentiles over the runs, and the curve through the medians.
#[derive(Debug, Serialize)]
pub(super) struct LatencySpread {
    pub(super) p50: Spread,
    pub(super) p90: Spread,
    pub(super) p95: Spread,
    pub(super) p99: Spread,
    #[serde(skip)]
    pub(super) curve: Vec<f64>,
}

/// One measurement.
#[derive(Debug, Serialize)]
pub(super) struct RunResult {
    pub(super) items: u64,
    pub(super) elapsed_us: u64,
    pub(super) items_per_s: u64,
    pub(super) enqueue_ns: Latency,
    pub(super) round_trip_ns: Latency,
    pub(super) workers_created: u64,
    pub(super) wakeups_per_item: f64,
    pub(super) stolen_per_item: f64,
    pub(super) cpu_percent: f64,
}

/// What was measured, by configuration.
pub(super) struct Measurements<'a> {
    pub(super) configs: &'a [Config],
    /// The pods of each.
    pub(super) layouts: &'a [Vec<CpuSet>],
    /// Which configuration was measured for each: itself, or one with the same pods.
    pub(super) measured_as: &'a [usize],
    /// The runs of each that was measured.
    pub(super) measured: &'a [Vec<Measured>],
}

impl Measurements<'_> {
    /// The runs that count for a configuration.
    fn runs(&self, index: usize) -> &[Measured] {
        &self.measured[self.measured_as[index]]
    }

    fn rates(&self, index: usize) -> Vec<f64> {
        let runs = self.runs(index).iter();
        runs.map(|run| run.items_per_s as f64).collect()
    }

    fn same_pods_as(&self, index: usize) -> Option<String> {
        let by = self.measured_as[index];
        (by != index).then(|| self.configs[by].label())
    }

    fn ratio_to_cache(&self, index: usize) -> Option<Ratio> {
        let is_cache = |c: &Config| c.scope == AffinityScope::Cache;
        let cache = self.configs.iter().position(is_cache)?;
        Some(if self.measured_as[index] == self.measured_as[cache] {
            Ratio::same()
        } else {
            Ratio::of(&self.rates(index), &self.rates(cache))
        })
    }
}

impl Report {
    /// Puts the measurements of each configuration together.
    pub(super) fn new(
        options: &Options,
        machine_args: &MachineArgs,
        machine: Machine,
        threads: usize,
        measurements: &Measurements<'_>,
    ) -> Self {
        let items = measurements
            .measured
            .iter()
            .flatten()
            .map(|run| run.items_per_thread)
            .max()
            .unwrap_or(0);
        let settings = Settings {
            threads,
            items,
            items_calibrated: options.items.is_none(),
            runs: options.runs,
            strict: options.strict,
        };
        let configs = measurements.configs;
        let results = (0..configs.len())
            .map(|index| ConfigResult::new(measurements, index))
            .collect();
        Report {
            format: "cmwq-bench",
            version: 2,
            date: utc(SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()),
            command: command_line(options, machine_args, &settings),
            machine,
            settings,
            results,
        }
    }

    /// The results that have measurements of their own: of results with the same pods, one.
    pub(super) fn measured(&self) -> impl Iterator<Item = &ConfigResult> {
        self.results.iter().filter(|r| r.same_pods_as.is_none())
    }
}

impl ConfigResult {
    fn new(measurements: &Measurements<'_>, index: usize) -> Self {
        let config = measurements.configs[index];
        let runs = measurements.runs(index);
        let spread = |value: fn(&Measured) -> f64| Spread::of(runs.iter().map(value));
        ConfigResult {
            label: config.label(),
            scope: config.scope.name(),
            shard_size: config.shard_size,
            pods: measurements.layouts[index].len(),
            same_pods_as: measurements.same_pods_as(index),
            items_per_s: spread(|run| run.items_per_s as f64),
            ratio_to_cache: measurements.ratio_to_cache(index),
            enqueue_ns: LatencySpread::new(runs.iter().map(|run| &run.enqueue)),
            round_trip_ns: LatencySpread::new(runs.iter().map(|run| &run.round_trip)),
            workers_created: spread(|run| run.workers_created as f64),
            wakeups_per_item: spread(|run| run.wakeups_per_item),
            stolen_per_item: spread(|run| run.stolen_per_item),
            cpu_percent: spread(|run| run.cpu_percent),
            runs: runs.iter().map(RunResult::new).collect(),
            config,
        }
    }

    /// Whether the others are compared with this one.
    pub(super) fn is_reference(&self) -> bool {
        self.config.scope == AffinityScope::Cache
    }
}

impl LatencySpread {
    fn new<'a>(runs: impl Iterator<Item = &'a Latency> + Clone) -> Self {
        let spread =
            |value: fn(&Latency) -> u32| Spread::of(runs.clone().map(|run| f64::from(value(run))));
        let points = runs.clone().map(|run| run.curve.len()).min().unwrap_or(0);
        let curve = (0..points)
            .map(|point| Spread::of(runs.clone().map(|run| f64::from(run.curve[point]))).median)
            .collect();
        LatencySpread {
            p50: spread(|run| run.p50),
            p90: spread(|run| run.p90),
            p95: spread(|run| run.p95),
            p99: spread(|run| run.p99),
            curve,
        }
    }

    /// The four percentiles in order.
    pub(super) fn percentiles(&self) -> [Spread; 4] {
        [self.p50, self.p90, self.p95, self.p99]
    }
}

impl RunResult {
    fn new(run: &Measured) -> Self {
        RunResult {
            items: run.items_per_thread,
            elapsed_us: u64::try_from(run.elapsed.as_micros()).unwrap_or(u64::MAX),
            items_per_s: run.items_per_s,
            enqueue_ns: run.enqueue.clone(),
            round_trip_ns: run.round_trip.clone(),
            workers_created: run.workers_created,
            wakeups_per_item: run.wakeups_per_item,
            stolen_per_item: run.stolen_per_item,
            cpu_percent: run.cpu_percent,
        }
    }
}

/// A command line that measures the same again, calibrated values spelled out. Where the output
/// went is left away.
fn command_line(options: &Options, machine: &MachineArgs, settings: &Settings) -> String {
    let mut line = variables(machine, |name| std::env::var_os(name));
    line += &format!(
        "cmwq bench --threads {} --items {} --runs {}",
        settings.threads, settings.items, settings.runs
    );
    if options.scopes != PUBLISHED_ORDER {
        let names: Vec<_> = options.scopes.iter().map(|scope| scope.name()).collect();
        line += &format!(" --scopes {}", names.join(","));
    }
    if !options.shard_sizes.is_empty() {
        let sizes: Vec<_> = options.shard_sizes.iter().map(usize::to_string).collect();
        line += &format!(" --shard-size {}", sizes.join(","));
    }
    if options.strict {
        line += " --strict";
    }
    if let Some(dir) = &machine.sysfs_root {
        line += &format!(" --sysfs-root {}", quoted(&dir.to_string_lossy()));
    }
    if let Some(text) = &machine.synthetic {
        line += &format!(" --synthetic {}", quoted(text));
    }
    line
}

/// The variables that the engines read, as far as `value_of` knows them, in front of a command.
fn variables(machine: &MachineArgs, value_of: impl Fn(&str) -> Option<OsString>) -> String {
    let is_chosen = machine.sysfs_root.is_some() || machine.synthetic.is_some();
    let topology = (!is_chosen).then_some(TOPOLOGY_VARIABLE);
    let parameters = Engine::parameter_settings().into_iter();
    topology
        .into_iter()
        .chain(parameters.filter_map(|setting| setting.variable))
        .filter_map(|name| Some((name, value_of(name).filter(|value| !value.is_empty())?)))
        .map(|(name, value)| format!("{name}={} ", quoted(&value.to_string_lossy())))
        .collect()
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:,+=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::args::Args;
    use crate::bench::plan;
    use cmwq::affinity::Pods;
    use cmwq::topology::Topology;
    use std::time::Duration;

    fn measured(rate: u64, base_ns: u32) -> Measured {
        let latency =
            |factor: u32| Latency::of((0..2000).map(|i| factor * (base_ns + i)).collect());
        Measured {
            items_per_thread: 1000,
            elapsed: Duration::from_micros(2_000_000_000 / rate),
            items_per_s: rate,
            enqueue: latency(1),
            round_trip: latency(4),
            workers_created: 4,
            wakeups_per_item: 0.5,
            stolen_per_item: 0.0,
            cpu_percent: 87.5,
        }
    }

    /// Two nodes, each with two caches of 16 cores of two CPUs: no two scopes have the same pods.
    const ALL_DIFFER: &str = "node:2 l3:2 core:16 pu:2";

    /// A report with made-up figures, of 9 runs.
    pub(in crate::bench) fn sample(change: impl FnOnce(&mut Options)) -> Report {
        sample_on(ALL_DIFFER, change)
    }

    /// The same on another machine.
    pub(in crate::bench) fn sample_on(machine: &str, change: impl FnOnce(&mut Options)) -> Report {
        let mut options = Args::default().options().unwrap();
        options.runs = 9;
        // Those of the published runs: what is added to the table comes behind.
        options.scopes.truncate(6);
        change(&mut options);
        let configs = plan::configs(&options);
        let topology = Topology::from_synthetic(machine).unwrap();
        let layouts: Vec<_> = configs
            .iter()
            .map(|config| {
                let pods = Pods::build(&topology, config.scope, config.shard_size.unwrap_or(8));
                plan::layout(&pods, topology.allowed())
            })
            .collect();
        let measured_as = plan::measured_as(&configs, &layouts);
        let all: Vec<Vec<Measured>> = (0..configs.len() as u64)
            .map(|config| {
                let is_measured = measured_as[config as usize] == config as usize;
                let runs = if is_measured { options.runs as u64 } else { 0 };
                (0..runs)
                    .map(|run| {
                        measured(
                            100_000 * (config + 1) + 1000 * run,
                            400 * (config as u32 + 1),
                        )
                    })
                    .collect()
            })
            .collect();
        let machine = Machine {
            description: "A <CPU> & co, 2 CPUs, 1 LLC, Linux 6.18".into(),
            source: "this machine".into(),
            cpu_model: "A <CPU> & co".into(),
            kernel: "6.18".into(),
            cpus: 2,
            llcs: 1,
            real_cpus: 2,
        };
        Report::new(
            &options,
            &MachineArgs::default(),
            machine,
            2,
            &Measurements {
                configs: &configs,
                layouts: &layouts,
                measured_as: &measured_as,
                measured: &all,
            },
        )
    }

    #[test]
    fn results_are_medians_with_least_and_greatest() {
        let report = sample(|_| ());
        let cpu = &report.results[0];
        assert_eq!(
            cpu.items_per_s,
            Spread {
                median: 104_000.0,
                min: 100_000.0,
                max: 108_000.0
            }
        );
        assert_eq!(cpu.enqueue_ns.p50.median, 1400.0);
        assert_eq!(report.settings.items, 1000);
        assert!(report.settings.items_calibrated);
    }

    #[test]
    fn every_scope_is_compared_with_cache() {
        let report = sample(|_| ());
        let ratio = |scope: &str| {
            let result = report.results.iter().find(|r| r.scope == scope).unwrap();
            result.ratio_to_cache.unwrap()
        };
        assert_eq!(ratio("cache"), Ratio::same());
        assert!(ratio("cache_shard").told().unwrap() < 1.0);
        assert!(ratio("numa").told().unwrap() > 1.0);
        let without = sample(|o| o.scopes = vec![AffinityScope::Cpu]);
        assert!(without.results[0].ratio_to_cache.is_none());
    }

    #[test]
    fn what_has_the_same_pods_has_the_same_measurements_and_says_so() {
        let report = sample_on("l3:1 core:2 pu:1", |_| ());
        let same = |r: &ConfigResult| r.same_pods_as.clone();
        let by: Vec<_> = report.results.iter().map(same).collect();
        let cache = || Some("cache".to_owned());
        let cpu = || Some("cpu".to_owned());
        assert_eq!(by, [None, cpu(), cache(), None, cache(), cache()]);
        let find = |scope: &str| report.results.iter().find(|r| r.scope == scope).unwrap();
        let (numa, cache) = (find("numa"), find("cache"));
        assert_eq!(numa.items_per_s, cache.items_per_s);
        assert_eq!((numa.runs.len(), numa.pods), (9, 1));
        assert_eq!(numa.ratio_to_cache, Some(Ratio::same()));
        assert!(find("smt").ratio_to_cache.unwrap().told().is_some());
        assert_eq!(report.measured().count(), 2);
    }

    #[test]
    fn the_command_repeats_the_measurement() {
        let mut options = Args::default().options().unwrap();
        options.scopes = vec![AffinityScope::CacheShard];
        options.shard_sizes = vec![1, 2];
        options.strict = true;
        let settings = Settings {
            threads: 2,
            items: 900,
            items_calibrated: true,
            runs: 3,
            strict: true,
        };
        let machine = MachineArgs {
            synthetic: Some("l3:2 pu:1".into()),
            ..MachineArgs::default()
        };
        assert_eq!(
            command_line(&options, &machine, &settings),
            "cmwq bench --threads 2 --items 900 --runs 3 --scopes cache_shard --shard-size 1,2 --strict \
             --synthetic 'l3:2 pu:1'"
        );
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn the_command_has_the_variables_that_the_engines_read() {
        let set = |name: &str| {
            let value = match name {
                "CMWQ_TOPOLOGY" => "l3:2 pu:1",
                "CMWQ_CACHE_SHARD_SIZE" => "4",
                "CMWQ_CPU_LIMIT" => "",
                _ => return None,
            };
            Some(value.into())
        };
        let mut machine = MachineArgs::default();
        assert_eq!(
            variables(&machine, set),
            "CMWQ_TOPOLOGY='l3:2 pu:1' CMWQ_CACHE_SHARD_SIZE=4 "
        );
        machine.synthetic = Some("pu:1".into());
        assert_eq!(variables(&machine, set), "CMWQ_CACHE_SHARD_SIZE=4 ");
        assert_eq!(variables(&machine, |_| None), "");
    }
}
