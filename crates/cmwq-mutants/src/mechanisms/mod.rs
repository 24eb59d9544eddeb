//! What each mechanism that serves speed is worth: the loads of every day, with one mechanism at a
//! time switched off in a copy of the library. See `scripts/mechanisms`.

mod measure;
mod switches;
mod table;

use crate::copy;
use measure::{Machine, Results};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use switches::{MECHANISMS, Mechanism};

/// Runs the loads of every day with one mechanism of the library at a time switched off
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Prints the mechanisms, and runs nothing
    #[arg(long, conflicts_with = "table")]
    list: bool,
    /// Prints what was measured so far, in Markdown, and runs nothing
    #[arg(long)]
    table: bool,
    /// Only mechanisms whose names contain one of these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where: real is this machine, the others are simulated
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Machine::ALL)]
    machines: Vec<Machine>,
    /// Only these loads
    #[arg(long, value_delimiter = ',')]
    loads: Vec<String>,
    /// Runs of each load on this machine with each mechanism off, or simulated seeds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// How long a run on this machine takes, in milliseconds
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u32).range(20..=60_000))]
    time_ms: u32,
    /// Ends after so many seconds; the next run goes on there
    #[arg(long, default_value_t = 86_400)]
    seconds: u64,
}

pub(crate) fn run(arguments: &Arguments) -> io::Result<()> {
    let until = Instant::now() + Duration::from_secs(arguments.seconds);
    let is_wanted = |mechanism: &&Mechanism| {
        let names = &arguments.only;
        names.is_empty()
            || names
                .iter()
                .any(|part| mechanism.name.contains(part.as_str()))
    };
    let wanted: Vec<&Mechanism> = MECHANISMS.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        return Err(copy::failed(
            "--only: no mechanism has such a name; see --list",
        ));
    }
    if arguments.list {
        for mechanism in wanted {
            println!("{}: {}", mechanism.name, mechanism.about);
        }
        return Ok(());
    }
    let root = PathBuf::from(".").canonicalize()?;
    let kept = root.join("target/mechanisms");
    std::fs::create_dir_all(&kept)?;
    let mut results = Results::read(&kept.join("results.tsv"))?;
    if !arguments.table {
        let built = measure::build(&root, &kept)?;
        let plan = measure::Plan {
            machines: &arguments.machines,
            loads: &arguments.loads,
            mechanisms: &wanted,
            runs: arguments.runs,
            time_ms: arguments.time_ms,
        };
        plan.run(&built, until, &mut results)?;
    }
    print!("{}", table::table(&wanted, &arguments.machines, &results));
    Ok(())
}
