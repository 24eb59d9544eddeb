//! The results in the form that the table, the JSON and the page are made from.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use cmwq::affinity::AffinityScope;

use super::args::Options;
use super::host::Machine;
use super::measure::Measured;
use super::plan::{Config, PUBLISHED_ORDER, Wake};
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
    pub(super) wake_ratios: Vec<WakeRatio>,
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
    pub(super) wake_under_lock: bool,
}

/// One scope (or one shard size, or one wake-up protocol) over all runs.
#[derive(Debug, Serialize)]
pub(super) struct ConfigResult {
    pub(super) label: String,
    pub(super) scope: &'static str,
    /// `null`: the engine's default.
    pub(super) shard_size: Option<usize>,
    pub(super) wake: &'static str,
    pub(super) items_per_s: Spread,
    /// Items per second divided by those of the scope cache, run by run.
    pub(super) ratio_to_cache: Option<Spread>,
    pub(super) enqueue_ns: LatencySpread,
    pub(super) round_trip_ns: LatencySpread,
    pub(super) workers_created: Spread,
    pub(super) wakeups_per_item: Spread,
    pub(super) helps_per_item: Spread,
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
    pub(super) helps_per_item: f64,
    pub(super) cpu_percent: f64,
}

/// Deferred wake-ups divided by wake-ups under the lock, run by run.
#[derive(Debug, Serialize)]
pub(super) struct WakeRatio {
    pub(super) label: String,
    pub(super) items_per_s: Spread,
    pub(super) enqueue_p95: Spread,
}

impl Report {
    /// Puts the measurements of each configuration together. `measured[i]` holds the runs of `configs[i]`.
    pub(super) fn new(
        options: &Options,
        machine_args: &MachineArgs,
        machine: Machine,
        threads: usize,
        configs: &[Config],
        measured: &[Vec<Measured>],
    ) -> Self {
        let items = measured
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
            wake_under_lock: options.wake_under_lock,
        };
        let rates = |runs: &[Measured]| -> Vec<f64> {
            runs.iter().map(|run| run.items_per_s as f64).collect()
        };
        let cache_rates = |wake: Wake| {
            let index = configs
                .iter()
                .position(|c| c.scope == AffinityScope::Cache && c.wake == wake)?;
            Some(rates(&measured[index]))
        };
        let results = configs
            .iter()
            .zip(measured)
            .map(|(config, runs)| {
                let ratio =
                    cache_rates(config.wake).map(|cache| Spread::of_ratios(&rates(runs), &cache));
                ConfigResult::new(*config, runs, ratio)
            })
            .collect();
        let wake_ratios = configs
            .iter()
            .zip(measured)
            .zip(configs.iter().zip(measured).skip(1))
            .filter(|((first, _), (second, _))| {
                first.wake == Wake::Deferred && second.wake == Wake::UnderLock
            })
            .map(|((config, deferred), (_, under_lock))| {
                let p95 = |runs: &[Measured]| {
                    runs.iter()
                        .map(|run| f64::from(run.enqueue.p95))
                        .collect::<Vec<_>>()
                };
                WakeRatio {
                    label: config.label(),
                    items_per_s: Spread::of_ratios(&rates(deferred), &rates(under_lock)),
                    enqueue_p95: Spread::of_ratios(&p95(deferred), &p95(under_lock)),
                }
            })
            .collect();
        Report {
            format: "cmwq-bench",
            version: 1,
            date: utc(SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()),
            command: command_line(options, machine_args, &settings),
            machine,
            settings,
            results,
            wake_ratios,
        }
    }
}

impl ConfigResult {
    fn new(config: Config, runs: &[Measured], ratio_to_cache: Option<Spread>) -> Self {
        let spread = |value: fn(&Measured) -> f64| Spread::of(runs.iter().map(value));
        ConfigResult {
            label: config.label(),
            scope: config.scope.name(),
            shard_size: config.shard_size,
            wake: config.wake.key(),
            items_per_s: spread(|run| run.items_per_s as f64),
            ratio_to_cache,
            enqueue_ns: LatencySpread::new(runs.iter().map(|run| &run.enqueue)),
            round_trip_ns: LatencySpread::new(runs.iter().map(|run| &run.round_trip)),
            workers_created: spread(|run| run.workers_created as f64),
            wakeups_per_item: spread(|run| run.wakeups_per_item),
            helps_per_item: spread(|run| run.helps_per_item),
            cpu_percent: spread(|run| run.cpu_percent),
            runs: runs.iter().map(RunResult::new).collect(),
            config,
        }
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
            helps_per_item: run.helps_per_item,
            cpu_percent: run.cpu_percent,
        }
    }
}

/// A command line that measures the same again, calibrated values spelled out. Where the output went is left away.
fn command_line(options: &Options, machine: &MachineArgs, settings: &Settings) -> String {
    let mut line = format!(
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
    if options.wake_under_lock {
        line += " --wake-under-lock";
    }
    if let Some(dir) = &machine.sysfs_root {
        line += &format!(" --sysfs-root {}", quoted(&dir.to_string_lossy()));
    }
    if let Some(text) = &machine.synthetic {
        line += &format!(" --synthetic {}", quoted(text));
    }
    line
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

/// A time since 1970 as `2026-11-21 10:33:37 UTC`.
fn utc(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years that start in March put the leap day at their end; 719_468 days lie between 0000-03-01 and 1970-01-01.
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::args::Args;
    use crate::bench::plan;

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
            helps_per_item: 0.0,
            cpu_percent: 87.5,
        }
    }

    /// A report with made-up figures.
    pub(in crate::bench) fn sample(change: impl FnOnce(&mut Options)) -> Report {
        let mut options = Args::default().options().unwrap();
        change(&mut options);
        let configs = plan::configs(&options);
        let all: Vec<Vec<Measured>> = (0..configs.len() as u64)
            .map(|config| {
                let runs = options.runs as u64;
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
            &configs,
            &all,
        )
    }

    #[test]
    fn results_are_medians_with_least_and_greatest() {
        let report = sample(|_| ());
        let cpu = &report.results[0];
        assert_eq!(
            cpu.items_per_s,
            Spread {
                median: 101_000.0,
                min: 100_000.0,
                max: 102_000.0
            }
        );
        assert_eq!(cpu.enqueue_ns.p50.median, 1400.0);
        assert_eq!(report.settings.items, 1000);
        assert!(report.settings.items_calibrated);
    }

    #[test]
    fn every_scope_is_compared_with_cache() {
        let report = sample(|_| ());
        let cache = report.results.iter().find(|r| r.scope == "cache").unwrap();
        assert_eq!(cache.ratio_to_cache.unwrap().median, 1.0);
        let without = sample(|o| o.scopes = vec![AffinityScope::Cpu]);
        assert!(without.results[0].ratio_to_cache.is_none());
    }

    #[test]
    fn both_protocols_give_one_ratio_per_scope() {
        let report = sample(|o| {
            o.wake_under_lock = true;
            o.runs = 1;
        });
        assert_eq!(report.results.len(), 12);
        assert_eq!(report.wake_ratios.len(), 6);
        assert_eq!(report.wake_ratios[0].label, "cpu");
        assert_eq!(report.wake_ratios[0].items_per_s.median, 0.5);
        assert!(sample(|_| ()).wake_ratios.is_empty());
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
            wake_under_lock: false,
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
    fn dates_are_right_around_leap_days() {
        let text = |seconds| utc(Duration::from_secs(seconds));
        assert_eq!(text(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(text(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(text(1_709_251_199), "2024-02-29 23:59:59 UTC");
        assert_eq!(text(1_795_257_217), "2026-11-21 10:33:37 UTC");
    }
}
