//! The `cmwq` command: each subcommand in a file or folder of its own.
#![forbid(unsafe_code)]

mod bench;
mod cli_error;
mod machine;
mod output;
mod topology;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::cli_error::CliError;

/// Concurrency-managed workqueues: look at a machine's pods, and measure what each affinity scope costs and gains.
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
    }
}
