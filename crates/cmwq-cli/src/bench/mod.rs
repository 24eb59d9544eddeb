//! `cmwq bench`: what each affinity scope costs and gains, by the published ping-pong micro-benchmark.
//!
//! | file | holds |
//! |---|---|
//! | `args` | the options and their reading |
//! | `plan` | what is measured, in which order |
//! | `pace` | how many items, so that a run without `--items` ends in time |
//! | `measure` | the measured loop |
//! | `stats` | percentiles, medians |
//! | `host` | the machine in words |
//! | `report` | the results, which are also the JSON |
//! | `table`, `json`, `html`, `svg` | the three ways to show them |
//!
//! # Warm-up
//!
//! The published procedure has none, and neither has a measurement here. Before the first measurement every
//! configuration runs a few thousand items whose figures are thrown away (with `--items`, at most as many as were
//! asked for): it warms the process and the CPUs, and gives the pace where the number of items was left to us. Since
//! every measurement has an engine of its own, the workers it creates are counted from nothing, and creating them is
//! part of what is measured.

mod args;
mod host;
mod html;
mod json;
mod measure;
mod pace;
mod plan;
mod report;
mod stats;
mod svg;
mod table;

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use cmwq::topology::Topology;
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli_error::CliError;
use crate::output;

pub(crate) use args::Args;
use args::{Format, Options};
use host::Machine;
use measure::{Measured, Setting, measure};
use pace::Pace;
use plan::Config;
use report::Report;

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let options = args.options()?;
    let _control = match args.control {
        true => Some(cmwq_control::serve()),
        false => cmwq_control::serve_if_asked().transpose(),
    }
    .transpose()
    .map_err(|error| CliError::new(format!("cannot serve: {error}")))?;
    let topology = args.machine.topology()?;
    let cpus = issuer_cpus(&topology, options.threads)?;
    if let Some(items) = options.items {
        args::check_samples(cpus.len(), items)?;
    }
    let page = options.html.as_deref().map(Page::open).transpose()?;
    for warning in &options.warnings {
        output::warn(warning);
    }

    let allowed = topology.allowed().len();
    let machine = Machine::describe(&args.machine, &topology, allowed);
    let setting = Setting {
        topology: &topology,
        cpus: &cpus,
        strict: options.strict,
        real_cpus: machine.real_cpus,
    };
    let configs = plan::configs(&options);
    let bar = progress_bar(configs.len() * (options.runs + 1));
    let measured = measure_all(&setting, &options, &configs, &bar, |items| {
        if options.format == Format::Text {
            let calibrated = options.items.is_none();
            let head = table::head(
                &machine.description,
                cpus.len(),
                items,
                calibrated,
                options.runs,
                options.strict,
            );
            bar.suspend(|| output::print(&head))
        } else {
            Ok(())
        }
    });
    bar.finish_and_clear();
    let report = Report::new(
        &options,
        &args.machine,
        machine.clone(),
        cpus.len(),
        &configs,
        &measured?,
    );
    if let Some(page) = page {
        page.write(&html::render(&report))?;
    }
    output::print(&match options.format {
        Format::Text => format!("\n{}", table::render(&report)),
        Format::Json => json::render(&report)?,
    })
}

/// The CPU of each issuer: the allowed CPUs in turn.
fn issuer_cpus(topology: &Topology, threads: Option<usize>) -> Result<Vec<usize>, CliError> {
    let cpus: Vec<usize> = topology.allowed().iter().collect();
    if cpus.is_empty() {
        return Err(CliError::new(
            "the machine has no online CPU that this process may use; at least one is needed",
        ));
    }
    let threads = threads.unwrap_or(cpus.len());
    Ok(cpus.iter().copied().cycle().take(threads).collect())
}

/// Calibrates, calls `announce` with the number of items, and measures everything in turns.
fn measure_all(
    setting: &Setting<'_>,
    options: &Options,
    configs: &[Config],
    bar: &ProgressBar,
    announce: impl FnOnce(u64) -> Result<(), CliError>,
) -> Result<Vec<Vec<Measured>>, CliError> {
    let threads = setting.cpus.len();
    let warm_up_items = pace::calibration_items(threads).min(options.items.unwrap_or(u64::MAX));
    let mut cost_s = Vec::with_capacity(configs.len());
    for config in configs {
        bar.set_message(format!("calibrating {}", config.label()));
        cost_s.push(cost_per_item_s(&measure(setting, config, warm_up_items)?));
        bar.inc(1);
    }
    let mut pace = Pace::new(cost_s, options.runs, args::most_items(threads));
    let turns = plan::turns(configs, options.runs);
    let ahead = |turn: usize| turns[turn..].iter().map(|&(_, index)| index);
    announce(options.items.unwrap_or_else(|| pace.items(0.0, ahead(0))))?;

    let begun = Instant::now();
    let mut measured: Vec<Vec<Measured>> = vec![Vec::with_capacity(options.runs); configs.len()];
    for (turn, &(run, index)) in turns.iter().enumerate() {
        let config = &configs[index];
        bar.set_message(format!(
            "{} run {} of {}",
            config.label(),
            run + 1,
            options.runs
        ));
        let items = match options.items {
            Some(items) => items,
            None => pace.items(begun.elapsed().as_secs_f64(), ahead(turn)),
        };
        let result = measure(setting, config, items)?;
        pace.note(index, cost_per_item_s(&result));
        measured[index].push(result);
        bar.inc(1);
    }
    Ok(measured)
}

fn cost_per_item_s(measured: &Measured) -> f64 {
    measured.elapsed.as_secs_f64() / measured.items_per_thread as f64
}

/// A bar on a terminal, nothing elsewhere. It moves only between measurements: it must not disturb them.
fn progress_bar(steps: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps as u64);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}

/// The file of the HTML page, opened before anything is measured and filled at the end.
struct Page {
    path: PathBuf,
    file: File,
    /// Removed again if the benchmark fails; a file that was there before is left as it was.
    is_new: bool,
    is_written: bool,
}

impl Page {
    fn open(path: &Path) -> Result<Self, CliError> {
        let is_new = !path.exists();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|error| Self::refused(path, &error))?;
        Ok(Page {
            path: path.to_owned(),
            file,
            is_new,
            is_written: false,
        })
    }

    fn write(mut self, text: &str) -> Result<(), CliError> {
        let written = self.replace(text);
        self.is_written = written.is_ok();
        written.map_err(|error| Self::refused(&self.path, &error))
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())
    }

    fn refused(path: &Path, error: &io::Error) -> CliError {
        CliError::new(format!(
            "--html {}: cannot write: {error}; name a file that can be written",
            path.display()
        ))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if self.is_new && !self.is_written {
            // Nothing more can be done about a file that will not go.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
