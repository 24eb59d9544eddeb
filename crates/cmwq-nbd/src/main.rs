//! The `cmwq-nbd` command: each subcommand in a file or folder of its own.

mod bench;
mod cli_error;
mod generate;
mod output;
mod serve;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::cli_error::CliError;

const EXAMPLES: &str = "\
Examples:
  cmwq-nbd serve --memory 256M --socket disk.sock
  cmwq-nbd serve disk.img --cipher aes-xts-plain64 --key-file disk.key --socket disk.sock
  cmwq-nbd bench --runtime 1 --runs 1 --scenarios 3,4k

Exit status: 0 done, 2 a value was refused or the command failed. `cmwq-nbd COMMAND --help` has more.";

/// An encrypted block device over NBD on cmwq workqueues.
#[derive(Parser)]
#[command(name = "cmwq-nbd", version, arg_required_else_help = false, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a file, a block device or memory
    Serve(serve::Args),
    /// Measure scopes and other servers with fio and the published tests
    Bench(bench::Args),
    /// Print the completions for a shell
    Completions(generate::CompletionsArgs),
    /// Write the man pages into a folder
    Man(generate::ManArgs),
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
        Command::Completions(args) => generate::completions(Cli::command(), &args),
        Command::Man(args) => generate::man(Cli::command(), &args),
    }
}
