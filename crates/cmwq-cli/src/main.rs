//! The `cmwq` command: each subcommand in a file or folder of its own.
#![forbid(unsafe_code)]

mod bench;
mod cli_error;
mod control;
mod machine;
mod mount;
mod output;
mod top;
mod topology;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::cli_error::CliError;

/// Concurrency-managed workqueues: look at a machine's pods, measure what each affinity scope costs and gains, and see and steer the
/// workqueues of running processes.
#[derive(Parser)]
#[command(name = "cmwq", version, arg_required_else_help = false)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show a machine and the pods that each affinity scope cuts it into
    Topology(topology::Args),
    /// Measure each affinity scope with the published micro-benchmark
    Bench(bench::Args),
    /// List the processes that can be looked at
    List(control::list::Args),
    /// Show the pods, pools, workqueues, rescuers and limits of a process
    Dump(control::dump::Args),
    /// Show again and again what the workqueues of a process do
    Monitor(control::monitor::Args),
    /// Show what runs and what waits in a process
    Busy(control::busy::BusyArgs),
    /// Show the attributes of a workqueue
    Get(control::attributes::GetArgs),
    /// Change an attribute of a workqueue
    Set(control::attributes::SetArgs),
    /// Show or change the parameters of a process
    Param(control::attributes::ParamArgs),
    /// Watch a process on the whole screen
    Top(top::Args),
    /// Show the processes as a file system in the layout of the kernel's files
    Mount(mount::Args),
    /// Show the counters of a process as OpenMetrics text
    Metrics(control::busy::MetricsArgs),
    /// Record what happens in a process, for Perfetto
    Trace(control::trace::Args),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::warn(&error.to_string());
            ExitCode::from(CliError::EXIT_CODE)
        }
    }
}

fn run() -> Result<(), CliError> {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return Err(CliError::from_clap(&error)),
        Err(help) => return output::print(&help.render().to_string()),
    };
    match cli.command {
        Command::Topology(args) => topology::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::List(args) => control::list::run(&args),
        Command::Dump(args) => control::dump::run(&args),
        Command::Monitor(args) => control::monitor::run(&args),
        Command::Busy(args) => control::busy::run(&args),
        Command::Get(args) => control::attributes::get(&args),
        Command::Set(args) => control::attributes::set(&args),
        Command::Param(args) => control::attributes::param(&args),
        Command::Top(args) => top::run(&args),
        Command::Mount(args) => mount::run(&args),
        Command::Metrics(args) => control::busy::metrics(&args),
        Command::Trace(args) => control::trace::run(&args),
    }
}
