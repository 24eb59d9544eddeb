//! The results of `--loop`, as text and as JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use cmwq::topology::CpuSet;
use cmwq_command::CliError;
use serde::Serialize;

use super::super::date::utc;
use super::super::host::{Machine, count};
use super::super::interval::{LEAST_RUNS, Ratio};
use super::super::plan::Config;
use super::super::stats::Spread;
use super::child::Run;
use super::options::{Options, Wait};
use super::verdict::{Compared, Measured, verdict};

/// Everything that a run with `--loop` has to say. Its fields are the JSON contract in the
/// command's help.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    format: &'static str,
    version: u32,
    date: String,
    machine: Machine,
    settings: Settings,
    results: Vec<Of>,
    verdict: String,
}

#[derive(Debug, Serialize)]
struct Settings {
    #[serde(rename = "loop")]
    name: &'static str,
    about: &'static str,
    item_us: f64,
    issuers: usize,
    wait: Option<Wait>,
    runs: usize,
    time_ms: u64,
    strict: bool,
    compared: &'static str,
}

/// One scope over all runs.
#[derive(Debug, Serialize)]
struct Of {
    label: String,
    scope: &'static str,
    shard_size: Option<usize>,
    pods: usize,
    same_pods_as: Option<String>,
    items_per_s: Spread,
    /// Against the default, run by run; above 1 is better.
    ratio_to_default: Option<Ratio>,
    start_p50_ns: Spread,
    start_p99_ns: Spread,
    done_p50_ns: Spread,
    done_p99_ns: Spread,
    cpu_us_per_item: Spread,
    wakeups_per_item: Spread,
    switches_per_item: Spread,
    peak_threads: Spread,
    unsteady: usize,
    runs: Vec<Run>,
}

/// The lines above the table.
pub(super) fn head(machine: &Machine, options: &Options, issuers: usize) -> String {
    let load = &options.load;
    format!(
        "{}\n{}: {}{}; {}, items of {} us; {} of {} ms, scopes in turns\n",
        machine.description,
        load.name,
        load.about,
        options.wait.map_or("", Wait::words),
        count(issuers, "issuer"),
        load.item_ns as f64 / 1e3,
        count(options.runs, "run"),
        options.time_ms
    )
}

impl Report {
    pub(super) fn new(
        options: &Options,
        machine: Machine,
        issuers: usize,
        configs: &[Config],
        measured_as: &[usize],
        layouts: &[Vec<CpuSet>],
        runs: Vec<Vec<Run>>,
    ) -> Report {
        let compared = Compared::of(&options.load);
        let scores: Vec<Vec<f64>> = runs
            .iter()
            .map(|runs| runs.iter().map(|run| compared.score(run)).collect())
            .collect();
        // The default is the first, and is measured.
        let results: Vec<Of> = configs
            .iter()
            .enumerate()
            .map(|(index, config)| {
                let ratio = match measured_as[index] {
                    0 => Some(Ratio::same()),
                    at if at == index => Some(Ratio::of(&scores[index], &scores[0])),
                    _ => None,
                };
                let label = |index: usize| configs[index].label();
                let same = (measured_as[index] != index).then(|| label(measured_as[index]));
                Of::new(
                    config,
                    layouts[index].len(),
                    same,
                    ratio,
                    &runs[measured_as[index]],
                )
            })
            .collect();
        let others: Vec<Measured<'_>> = results
            .iter()
            .skip(1)
            .filter(|result| result.same_pods_as.is_none())
            .filter_map(|result| {
                let (label, ratio) = (result.label.as_str(), result.ratio_to_default?);
                Some(Measured { label, ratio })
            })
            .collect();
        let all: usize = runs.iter().map(Vec::len).sum();
        let unsteady = runs.iter().flatten().filter(|run| !run.steady).count();
        let verdict = verdict(
            &results[0].label,
            &scores[0],
            &others,
            compared,
            (unsteady, all),
        );
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Report {
            format: "cmwq-bench-loop",
            version: 1,
            date: utc(since.unwrap_or_default()),
            machine,
            settings: Settings {
                name: options.load.name,
                about: options.load.about,
                item_us: options.load.item_ns as f64 / 1e3,
                issuers,
                wait: options.wait,
                runs: options.runs,
                time_ms: options.time_ms,
                strict: options.strict,
                compared: compared.figure(),
            },
            results,
            verdict,
        }
    }

    pub(super) fn json(&self) -> Result<String, CliError> {
        let text = serde_json::to_string(self);
        let text = text.map_err(|error| CliError::failed(format!("cannot write JSON: {error}")))?;
        Ok(text + "\n")
    }

    /// A line for every figure of every scope, as those of `benches/peers/run --csv`.
    pub(super) fn csv(&self) -> String {
        let head = "loop,issuers,item_us,peer,mode,version,runs,unsteady,figure,median,min,max\n";
        let mut text = head.to_owned();
        let Settings {
            name,
            issuers,
            item_us,
            ..
        } = &self.settings;
        let version = env!("CARGO_PKG_VERSION");
        for of in self.results.iter().filter(|of| of.same_pods_as.is_none()) {
            let (label, runs, unsteady) = (&of.label, of.runs.len(), of.unsteady);
            for (figure, Spread { median, min, max }) in of.figures() {
                text += &format!(
                    "{name},{issuers},{item_us},cmwq,{label},cmwq {version},{runs},{unsteady},{figure},{median},{min},{max}\n"
                );
            }
        }
        text
    }

    /// The table and the verdict.
    pub(super) fn text(&self) -> String {
        let head = [
            "scope",
            "pods",
            "items/s",
            "min",
            "max",
            "vs default",
            "99 % interval",
            "start p50",
            "p99",
            "done p50",
            "p99",
            "CPU/item",
            "wake-ups",
            "switches",
            "threads",
        ];
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        let measured = self.results.iter().filter(|of| of.same_pods_as.is_none());
        lines.extend(measured.clone().map(Of::line));
        let mut text = format!("\n{}", aligned(&lines));
        for result in &self.results {
            if let Some(same) = &result.same_pods_as {
                text += &format!("{}: the pods of {same}\n", result.label);
            }
        }
        text += &format!(
            "Medians over the runs. vs default: {}, run by run; ~: the runs cannot tell it from 1",
            self.settings.compared
        );
        if self.settings.runs < LEAST_RUNS {
            text += &format!("; ?: it takes --runs {LEAST_RUNS} or more");
        }
        text += ".\nwake-ups, switches: of all threads, per item.\n";
        let unsteady: usize = measured.clone().map(|of| of.unsteady).sum();
        if unsteady > 0 {
            let all: usize = measured.map(|of| of.runs.len()).sum();
            text += &format!(
                "Not steady: {unsteady} of {all} runs, whose halves differ by more than 10 %.\n"
            );
        }
        text + &format!("\nVerdict: {}.\n", self.verdict)
    }
}

impl Of {
    fn new(
        config: &Config,
        pods: usize,
        same_pods_as: Option<String>,
        ratio_to_default: Option<Ratio>,
        runs: &[Run],
    ) -> Of {
        let spread = |figure: fn(&Run) -> f64| Spread::of(runs.iter().map(figure));
        Of {
            label: config.label(),
            scope: config.scope.name(),
            shard_size: config.shard_size,
            pods,
            same_pods_as,
            items_per_s: spread(|run| run.items_per_s),
            ratio_to_default,
            start_p50_ns: spread(|run| run.start_ns.p50 as f64),
            start_p99_ns: spread(|run| run.start_ns.p99 as f64),
            done_p50_ns: spread(|run| run.done_ns.p50 as f64),
            done_p99_ns: spread(|run| run.done_ns.p99 as f64),
            cpu_us_per_item: spread(|run| run.cpu_us_per_item),
            wakeups_per_item: spread(|run| run.wakeups_per_item),
            switches_per_item: spread(|run| run.switches_per_item),
            peak_threads: spread(|run| run.peak_threads as f64),
            unsteady: runs.iter().filter(|run| !run.steady).count(),
            runs: runs.to_vec(),
        }
    }

    fn figures(&self) -> [(&'static str, Spread); 9] {
        [
            ("rate", self.items_per_s),
            ("start_p50_ns", self.start_p50_ns),
            ("start_p99_ns", self.start_p99_ns),
            ("done_p50_ns", self.done_p50_ns),
            ("done_p99_ns", self.done_p99_ns),
            ("cpu_us_per_item", self.cpu_us_per_item),
            ("wakeups_per_item", self.wakeups_per_item),
            ("switches_per_item", self.switches_per_item),
            ("threads", self.peak_threads),
        ]
    }

    fn line(&self) -> Vec<String> {
        let (ratio, interval) = match &self.ratio_to_default {
            Some(ratio) if ratio.interval.is_some() => ratio.words("x"),
            Some(ratio) if *ratio == Ratio::same() => ("1".to_owned(), String::new()),
            Some(ratio) => ratio.words("x"),
            None => (String::new(), String::new()),
        };
        vec![
            self.label.clone(),
            self.pods.to_string(),
            rounded(self.items_per_s.median),
            rounded(self.items_per_s.min),
            rounded(self.items_per_s.max),
            ratio,
            interval,
            duration(self.start_p50_ns.median),
            duration(self.start_p99_ns.median),
            duration(self.done_p50_ns.median),
            duration(self.done_p99_ns.median),
            format!("{:.2} us", self.cpu_us_per_item.median),
            format!("{:.2}", self.wakeups_per_item.median),
            format!("{:.2}", self.switches_per_item.median),
            format!("{:.0}", self.peak_threads.median),
        ]
    }
}

/// A rate with three digits.
fn rounded(rate: f64) -> String {
    match rate {
        rate if rate >= 1e6 => format!("{:.2} M", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.1} k", rate / 1e3),
        rate => format!("{rate:.0}"),
    }
}

fn duration(ns: f64) -> String {
    match ns {
        ns if ns >= 1e6 => format!("{:.2} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{:.1} us", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}

/// Columns, the first to the left.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].len())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (column, cell) in line.iter().enumerate() {
            row += &match column {
                0 => format!("{cell:<width$}", width = widths[column]),
                _ => format!("  {cell:>width$}", width = widths[column]),
            };
        }
        text += row.trim_end();
        text.push('\n');
    }
    text
}
