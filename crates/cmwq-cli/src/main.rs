//! The `cmwq` command: each subcommand in a file or folder of its own.
#![forbid(unsafe_code)]

mod bench;
mod control;
mod machine;
mod mount;
mod out_file;
mod output;
mod signals;
mod sim;
mod top;
mod topology;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use cmwq_command::{CliError, ColorArgs, generate};

const EXAMPLES: &str = "\
Examples:
  cmwq topology                     this machine, and each scope's pods
  cmwq bench                        rates and latencies; 15 s at most
  cmwq sim --machine 9d64           the same on a machine not at hand
  cmwq list                         processes that serve the endpoint
  cmwq top -p my-server             one of them, full screen
  cmwq set io affinity_scope cache  change a workqueue of the only one

Exit status: 0 done, 1 the command failed, 2 it was asked wrongly: a value was refused. `cmwq COMMAND --help` has more.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  mkdir -p ~/.local/share/bash-completion/completions
  cmwq completions bash >~/.local/share/bash-completion/completions/cmwq
  source <(cmwq completions zsh)
  mkdir -p ~/.config/fish/completions
  cmwq completions fish >~/.config/fish/completions/cmwq.fish

What is written holds for shells that start afterwards. The Debian package brings all three.";

const MAN_EXAMPLES: &str = "\
Examples:
  mkdir -p ~/.local/share/man/man1
  cmwq man ~/.local/share/man/man1
  man cmwq";

/// Concurrency-managed workqueues: show a machine's pods, measure the affinity scopes, inspect and
/// change the workqueues of running processes.
#[derive(Parser)]
#[command(name = "cmwq", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    _color: ColorArgs,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show a machine and the pods of each affinity scope
    Topology(topology::Args),
    /// Measure each affinity scope with the published micro-benchmark
    Bench(Box<bench::Args>),
    /// Simulate the library on machines of many CPUs, to choose a scope and a shard size (needs the
    /// package cmwq-sim)
    #[command(disable_help_flag = true)]
    Sim(sim::Args),
    /// List the processes that serve the control endpoint
    List(control::list::Args),
    /// Show the pods, pools, workqueues, rescuers and limits of a process
    Dump(control::dump::Args),
    /// Print the counters of the workqueues of a process at an interval
    Monitor(control::monitor::Args),
    /// Show the items that run and wait in a process
    Busy(control::busy::BusyArgs),
    /// Show the attributes of a workqueue
    Get(control::attributes::GetArgs),
    /// Change an attribute of a workqueue
    Set(control::attributes::SetArgs),
    /// Show or change the parameters of a process
    Param(control::attributes::ParamArgs),
    /// Watch a process, full screen
    Top(top::Args),
    /// Show the processes as a file system in the layout of the kernel's files
    Mount(mount::Args),
    /// Show the counters of a process as OpenMetrics text
    Metrics(control::busy::MetricsArgs),
    /// Record the events of a process, for Perfetto
    Trace(control::trace::Args),
    /// Print the completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(generate::CompletionsArgs),
    /// Write the man pages into a folder
    #[command(after_help = MAN_EXAMPLES)]
    Man(generate::ManArgs),
}

fn main() -> ExitCode {
    cmwq_command::run("cmwq", |cli: Cli| run(cli).map(|()| ExitCode::SUCCESS))
}

fn run(cli: Cli) -> Result<(), CliError> {
    match cli.command {
        Command::Topology(args) => topology::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Sim(args) => sim::run(&args),
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
        Command::Completions(args) => generate::completions(Cli::command(), &args),
        Command::Man(args) => generate::man(Cli::command(), &args),
    }
}
