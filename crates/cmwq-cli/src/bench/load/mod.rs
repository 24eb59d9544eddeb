//! `cmwq bench --loop`: the scopes under a load of every day, and a verdict in words.
//!
//! | file | holds |
//! |---|---|
//! | `options` | which load, scopes and runs |
//! | `child` | one run, in a process of its own |
//! | `verdict` | what the runs say, in words |
//! | `report` | the results: text, and the JSON |
//!
//! Every run is a process of its own, so that it starts as a program does: its threads, context
//! switches and CPU time are those of this run, and nothing is left over from the scope before.

mod child;
mod options;
mod report;
mod verdict;

use std::process::{Command, Stdio};

use cmwq::topology::Topology;

use super::args::{Args, Format};
use super::host::Machine;
use super::plan::{self, Config};
use super::progress_bar;
use crate::out_file::OutFile;
use crate::output;
use cmwq_command::CliError;

pub(super) use options::Given;

use child::Run;
use options::Options;
use report::Report;

/// Measures each scope under the load, in turns.
pub(super) fn run(args: &Args) -> Result<(), CliError> {
    if args.load.name.as_deref() == Some("list") {
        return output::print(&options::list());
    }
    if let Some(steps_per_us) = args.load.one_run {
        return child::run(args, steps_per_us);
    }
    let options = Options::read(args)?;
    let topology = args.machine.topology()?;
    if topology.is_injected() {
        return Err(CliError::new(
            "--loop: it measures this machine: leave out --sysfs-root, --synthetic and CMWQ_TOPOLOGY",
        ));
    }
    let table = options.given.csv.as_deref();
    let table = table.map(|path| OutFile::open("--csv", path)).transpose()?;
    let machine = Machine::describe(&args.machine, &topology, topology.allowed().len());
    let configs = options.configs();
    let layouts = layouts(&topology, &configs)?;
    let measured_as = measured_as(&configs, &layouts);
    let distinct = super::distinct(&measured_as);
    let issuers = options.load.issuers.on(machine.real_cpus);
    let head = report::head(&machine, &options, issuers);
    if options.format == Format::Text {
        output::print(&head)?;
    }
    let steps_per_us = cmwq_loads::real::calibrate();
    let bar = progress_bar(distinct.len() * options.runs);
    let mut runs: Vec<Vec<Run>> = configs.iter().map(|_| Vec::new()).collect();
    for (run, index) in plan::turns(&distinct, options.runs) {
        if !output::is_read() {
            return Ok(());
        }
        bar.set_message(format!(
            "{} run {} of {}",
            configs[index].label(),
            run + 1,
            options.runs
        ));
        runs[index].push(measure(&options, &configs[index], steps_per_us)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let report = Report::new(
        &options,
        machine,
        issuers,
        &configs,
        &measured_as,
        &layouts,
        runs,
    );
    let written = table.map_or(Ok(()), |table| table.write(&report.csv()));
    // What was measured is shown whatever becomes of the file.
    output::print(&match options.format {
        Format::Text => report.text(),
        Format::Json => report.json()?,
    })?;
    written
}

/// The CPUs of each pod, for each configuration.
fn layouts(
    topology: &Topology,
    configs: &[Config],
) -> Result<Vec<Vec<cmwq::topology::CpuSet>>, CliError> {
    let layout = |config: &Config| {
        let engine = child::engine(topology, config)?;
        Ok(plan::layout(engine.pods(config.scope), topology.allowed()))
    };
    configs.iter().map(layout).collect()
}

/// For each configuration the one that is measured for it: the first with the same pods. The
/// default is the first of all.
fn measured_as(configs: &[Config], layouts: &[Vec<cmwq::topology::CpuSet>]) -> Vec<usize> {
    (0..configs.len())
        .map(|index| {
            let same = |&other: &usize| layouts[other] == layouts[index];
            (0..index).find(same).unwrap_or(index)
        })
        .collect()
}

/// One run, in a process of its own.
fn measure(options: &Options, config: &Config, steps_per_us: f64) -> Result<Run, CliError> {
    let failed = |error: String| {
        CliError::failed(format!(
            "cannot measure the scope {}: {error}",
            config.label()
        ))
    };
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let output = Command::new(program)
        .arg("bench")
        .args(options.of_child(config, steps_per_us))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("it ended and said nothing");
        return Err(failed(last.to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}
