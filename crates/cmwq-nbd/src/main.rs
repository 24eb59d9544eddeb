//! The `cmwq-nbd` command: each subcommand in a file or folder of its own.

mod bench;
mod cli_error;
mod output;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::cli_error::CliError;

/// An encrypted block device over NBD on cmwq workqueues.
#[derive(Parser)]
#[command(name = "cmwq-nbd", version, arg_required_else_help = false)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a file, a block device or memory
    Serve(serve::Args),
    /// Measure scopes, and other servers, with fio and the published tests
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
        Command::Serve(args) => serve::run(&args),
        Command::Bench(args) => bench::run(&args),
    }
}
