//! The command of the simulator.
#![forbid(unsafe_code)]

/// Prints a line. When the reader has closed the output, the command ends.
macro_rules! say {
    ($($line:tt)*) => {
        if !cmwq_command::output::print_until_closed(&(format!($($line)*) + "\n"))? {
            return Ok(());
        }
    };
}

mod bounding;
mod exploring;
mod rating;
mod sim;
mod stored;

use clap::{Parser, Subcommand, ValueEnum};
use cmwq_command::{CliError, ColorArgs, output};
use cmwq_sim::kernel::Latencies;
use cmwq_sim::published::{P50_FACTOR, Role, Row};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;

/// A run's addresses, and so its cache lines, depend on nothing else.
#[global_allocator]
static ARENA: cmwq_vm::Arena = cmwq_vm::Arena;

const EXAMPLES: &str = "\
Examples:
  cmwq sim                                         72 CPUs, a row for each scope
  cmwq sim --load scatter-64 --placement waker     spawn 64 items, join them; threads wake up on their waker's CPU
  cmwq sim --machine 9d64 --engine both            beside the kernel's protocol
  cmwq sim --synthetic 'l3:4 core:6 pu:2' --sweep  which shard size to take
  cmwq sim --calibrate cpu=3248519,cache=708168    predicts the other scopes' rows
  cmwq sim --published --format json               every published row beside ours
  cmwq sim --matrix results.jsonl --html page.html many machines, loads and scopes, as a page

Exit status: 0 done, 1 the simulation failed, 2 a value was refused.";

#[derive(Parser)]
#[command(
    name = "cmwq-sim",
    arg_required_else_help = true,
    version,
    about = "Runs the library on simulated machines of many CPUs: to compare settings, and to look for faults",
    after_help = "Example: cmwq-sim sim --machine 9d64 --engine kernel --scopes cache,cache_shard"
)]
struct Arguments {
    #[command(flatten)]
    _color: ColorArgs,

    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

#[derive(Subcommand)]
enum Command {
    /// Simulates a benchmark on a machine, and prints a row for each affinity scope (also called as
    /// `cmwq sim`)
    #[command(after_help = EXAMPLES)]
    Sim(Box<sim::Arguments>),
    /// Runs random programs on random machines, with faults, and checks that the library keeps its promises
    #[command(after_help = "Example: cmwq-sim explore --seeds 1000 --faults preempt,wakeups")]
    Explore(exploring::Arguments),
    /// Checks every pair of public operations as a small program, in enough random orders to find a
    /// fault with a known probability
    #[command(after_help = "Example: cmwq-sim corpus --programs queue+cancel --depth 2")]
    Corpus(bounding::Arguments),
    /// Simulates storage loads whose measurements on a kernel were published, and prints both with
    /// the difference of each row
    #[command(after_help = stored::AFTER_HELP)]
    Storage(stored::Arguments),
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    p50: u64,
    p90: u64,
    p95: u64,
    p99: u64,
}

impl Percentiles {
    pub(crate) fn of(latencies: &Latencies) -> Percentiles {
        Percentiles {
            p50: latencies.percentile(50),
            p90: latencies.percentile(90),
            p95: latencies.percentile(95),
            p99: latencies.percentile(99),
        }
    }
}

#[derive(Serialize)]
struct Table<T> {
    rows: Vec<T>,
}

fn main() -> ExitCode {
    cmwq_command::run("cmwq-sim", |arguments: Arguments| {
        match &arguments.command {
            Command::Explore(arguments) => exploring::run(arguments),
            Command::Corpus(arguments) => bounding::run(arguments),
            Command::Storage(arguments) => stored::run(arguments).map(|()| ExitCode::SUCCESS),
            Command::Sim(arguments) => sim::run(arguments).map(|()| ExitCode::SUCCESS),
        }
    })
}

/// A line on standard error.
pub(crate) fn warn(message: impl std::fmt::Display) {
    output::warn("cmwq-sim", message);
}

pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value).map_err(CliError::failed)?;
    say!("{text}");
    Ok(())
}

pub(crate) fn print_published(rows: Vec<Row>, format: Format) -> Result<(), CliError> {
    if format == Format::Json {
        return print_json(&Table { rows });
    }
    say!(
        "{:3} {:24} {:>12} {:>12} {:>7} {:>19}  {:>8}  used to",
        "set",
        "row",
        "published",
        "simulated",
        "ratio",
        "p50 ns",
        "workers"
    );
    for row in &rows {
        let number = |value: f64| match value {
            small if small < 100.0 => format!("{small:.2}"),
            large => format!("{large:.0}"),
        };
        let published = row
            .enqueue_p50_published_ns
            .map_or("-".to_owned(), |ns| ns.to_string());
        say!(
            "{:3} {:24} {:>12} {:>12} {:>+6.1}% {:>9} {:>9}{} {:>8}  {}",
            row.set,
            row.row,
            number(row.published),
            number(row.predicted),
            row.ratio_error * 100.0,
            published,
            row.enqueue_p50_predicted_ns,
            if row.is_p50_near() == Some(false) {
                '*'
            } else {
                ' '
            },
            row.workers,
            if row.role == Role::Calibrate {
                "calibrate"
            } else {
                "predict"
            },
        );
    }
    let judged: Vec<bool> = rows.iter().filter_map(Row::is_p50_near).collect();
    let near = judged.iter().filter(|&&near| near).count();
    say!(
        "{near} of {} medians of enqueueing are within a factor of {P50_FACTOR}; the others are marked *",
        judged.len()
    );
    Ok(())
}
