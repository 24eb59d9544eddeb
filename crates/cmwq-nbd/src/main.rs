//! The `cmwq-nbd` command: each subcommand in a file or folder of its own.

mod bench;
mod serve;

use std::fmt::Display;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use cmwq_command::{CliError, ColorArgs, generate, output};

const EXAMPLES: &str = "\
Examples:
  cmwq-nbd serve --memory 256M --socket disk.sock
  cmwq-nbd serve disk.img --cipher aes-xts-plain64 --key-file disk.key --socket disk.sock
  cmwq-nbd bench --runtime 1 --runs 1 --scenarios 3,4k

Exit status: 0 done, 1 the command failed, 2 it was asked wrongly: a value was refused. `cmwq-nbd COMMAND --help` has more.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  mkdir -p ~/.local/share/bash-completion/completions
  cmwq-nbd completions bash >~/.local/share/bash-completion/completions/cmwq-nbd
  source <(cmwq-nbd completions zsh)
  mkdir -p ~/.config/fish/completions
  cmwq-nbd completions fish >~/.config/fish/completions/cmwq-nbd.fish

What is written holds for shells that start afterwards. The Debian package brings all three.";

const MAN_EXAMPLES: &str = "\
Examples:
  mkdir -p ~/.local/share/man/man1
  cmwq-nbd man ~/.local/share/man/man1
  man cmwq-nbd";

/// An encrypted block device over NBD on cmwq workqueues.
#[derive(Parser)]
#[command(name = "cmwq-nbd", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    _color: ColorArgs,

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
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(generate::CompletionsArgs),
    /// Write the man pages into a folder
    #[command(after_help = MAN_EXAMPLES)]
    Man(generate::ManArgs),
}

fn main() -> ExitCode {
    cmwq_command::run("cmwq-nbd", |cli: Cli| run(cli).map(|()| ExitCode::SUCCESS))
}

/// Writes a line to standard error.
fn warn(message: impl Display) {
    output::warn("cmwq-nbd", message);
}

fn run(cli: Cli) -> Result<(), CliError> {
    match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Completions(args) => generate::completions(Cli::command(), &args),
        Command::Man(args) => generate::man(Cli::command(), &args),
    }
}
