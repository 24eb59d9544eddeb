//! `cmwq bench`: what each affinity scope costs and gains, by the published ping-pong micro-benchmark.
//!
//! | file | holds |
//! |---|---|
//! | `args` | the options and their reading |
//! | `plan` | what is measured, in which order |
//! | `pace` | how many items, so that a run without `--items` ends in time |
//! | `measure` | the measured loop |
//! | `gate` | its start, and finding out that it stands still |
//! | `stats` | percentiles, medians |
//! | `interval` | ratios, and whether the runs can tell them from 1 |
//! | `host` | the machine in words |
//! | `report`, `date` | the results, which are also the JSON |
//! | `load` | `--loop`: other loads, and a verdict |
//! | `table`, `json`, `html`, `svg` | the three ways to show them |
//!
//! # Warm-up
//!
//! The published procedure has none, and neither has a measurement here. Before the first
//! measurement every configuration runs a few thousand items in two turns whose figures are thrown
//! away (with `--items`, at most as many each as were asked for): this warms the process and the
//! CPUs, and gives the pace of a run without `--items`. Since every measurement has an engine of
//! its own, the workers it creates are counted from nothing, and creating them is part of what is
//! measured.

mod args;
mod date;
mod gate;
mod host;
mod html;
mod interval;
mod json;
mod load;
mod measure;
mod pace;
mod plan;
mod report;
mod stats;
mod svg;
mod table;

use std::time::Instant;

use cmwq::topology::{CpuSet, Topology};
use indicatif::ProgressBar;

use crate::out_file::OutFile;
use crate::output;
use cmwq_command::CliError;
use cmwq_command::figures::progress_bar;

pub(crate) use args::Args;
use args::{Format, Options};
use host::Machine;
use measure::{Measured, Setting, measure};
use pace::{Cost, Pace};
use plan::Config;
use report::{Measurements, Report};

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    if args.load.is_given() {
        return load::run(args);
    }
    let options = args.options()?;
    let _control = match args.control {
        true => Some(cmwq_control::serve()),
        false => cmwq_control::serve_if_asked().transpose(),
    }
    .transpose()
    .map_err(|error| CliError::failed(format!("cannot serve: {error}")))?;
    let topology = args.machine.topology()?;
    let cpus = issuer_cpus(&topology, options.threads)?;
    if let Some(items) = options.items {
        args::check_samples(cpus.len(), items)?;
    }
    let page = options
        .html
        .as_deref()
        .map(|path| OutFile::open("--html", path))
        .transpose()?;
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
    let layouts = layouts(&setting, &configs)?;
    let measured_as = plan::measured_as(&configs, &layouts);
    let bar = progress_bar(distinct(&measured_as).len() * (options.runs + 1));
    // Without a reader nothing is measured, unless for the page.
    let is_wanted = || page.is_some() || output::is_read();
    let plan = Plan {
        options: &options,
        configs: &configs,
        measured_as: &measured_as,
        bar: &bar,
        is_wanted: &is_wanted,
    };
    let measured = measure_all(&setting, &plan, |items| {
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
    let Some(measured) = measured? else {
        return Ok(());
    };
    let report = Report::new(
        &options,
        &args.machine,
        machine,
        cpus.len(),
        &Measurements {
            configs: &configs,
            layouts: &layouts,
            measured_as: &measured_as,
            measured: &measured,
        },
    );
    let written = page.map_or(Ok(()), |page| page.write(&html::render(&report)));
    // What was measured is shown whatever becomes of the page.
    output::print(&match options.format {
        Format::Text => format!("\n{}", table::render(&report)),
        Format::Json => json::render(&report)?,
    })?;
    written
}

/// The CPU of each issuer: the allowed CPUs in turn.
fn issuer_cpus(topology: &Topology, threads: Option<usize>) -> Result<Vec<usize>, CliError> {
    let cpus: Vec<usize> = topology.allowed().iter().collect();
    if cpus.is_empty() {
        return Err(CliError::failed(
            "the machine has no online CPU that this process may use; at least one is needed",
        ));
    }
    let threads = threads.unwrap_or(cpus.len());
    Ok(cpus.iter().copied().cycle().take(threads).collect())
}

/// The pods of each configuration, from the engine that it would be measured on.
fn layouts(setting: &Setting<'_>, configs: &[Config]) -> Result<Vec<Vec<CpuSet>>, CliError> {
    let mut layouts = Vec::with_capacity(configs.len());
    for config in configs {
        let engine = measure::engine(setting, config)?;
        let pods = engine.pods(config.scope);
        layouts.push(plan::layout(pods, setting.topology.allowed()));
    }
    Ok(layouts)
}

/// The configurations that are measured, in order.
fn distinct(measured_as: &[usize]) -> Vec<usize> {
    let is_measured = |&index: &usize| measured_as[index] == index;
    (0..measured_as.len()).filter(is_measured).collect()
}

/// What is to be measured.
struct Plan<'a> {
    options: &'a Options,
    configs: &'a [Config],
    measured_as: &'a [usize],
    bar: &'a ProgressBar,
    /// Checked before every turn.
    is_wanted: &'a dyn Fn() -> bool,
}

/// Calibrates, calls `announce` with the number of items, and measures in turns what is to be
/// measured. Yields the runs of each configuration, none of one that another is measured for;
/// nothing at all once it is not wanted any more.
fn measure_all(
    setting: &Setting<'_>,
    plan: &Plan<'_>,
    announce: impl FnOnce(u64) -> Result<(), CliError>,
) -> Result<Option<Vec<Vec<Measured>>>, CliError> {
    let Plan {
        options,
        configs,
        bar,
        ..
    } = *plan;
    let begun = Instant::now();
    let used_s = || begun.elapsed().as_secs_f64();
    let threads = setting.cpus.len();
    let distinct = distinct(plan.measured_as);
    let warm_up_items = pace::calibration_items(threads).min(options.items.unwrap_or(u64::MAX));
    let mut costs = Vec::with_capacity(distinct.len());
    for &index in &distinct {
        bar.set_message(format!("calibrating {}", configs[index].label()));
        let cost = || timed(setting, &configs[index], warm_up_items).map(|(_, cost)| cost);
        costs.push(cost()?.least(cost()?));
        bar.inc(1);
    }
    let most = args::most_items(threads);
    let mut pace = Pace::new(costs, options.runs, most, used_s());
    // Positions in `distinct`, as the costs.
    let positions: Vec<usize> = (0..distinct.len()).collect();
    let turns = plan::turns(&positions, options.runs);
    let ahead = |turn: usize| turns[turn..].iter().map(|&(_, position)| position);
    announce(match options.items {
        Some(items) => items,
        None => pace.items(used_s(), ahead(0)),
    })?;

    let mut measured: Vec<Vec<Measured>> = configs.iter().map(|_| Vec::new()).collect();
    for (turn, &(run, position)) in turns.iter().enumerate() {
        if !(plan.is_wanted)() {
            return Ok(None);
        }
        let config = &configs[distinct[position]];
        bar.set_message(format!(
            "{} run {} of {}",
            config.label(),
            run + 1,
            options.runs
        ));
        let items = match options.items {
            Some(items) => items,
            None => pace.items(used_s(), ahead(turn)),
        };
        let (result, cost) = timed(setting, config, items)?;
        pace.note(position, cost);
        measured[distinct[position]].push(result);
        bar.inc(1);
    }
    Ok(Some(measured))
}

/// Measures one configuration once, and what that took.
fn timed(setting: &Setting<'_>, config: &Config, items: u64) -> Result<(Measured, Cost), CliError> {
    let begun = Instant::now();
    let measured = measure(setting, config, items)?;
    let cost = Cost::of(begun.elapsed(), measured.elapsed, items);
    Ok((measured, cost))
}
