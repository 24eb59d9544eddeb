//! Changes one statement, condition or bound of the library's sources at a time, and runs what is
//! meant to find that: unit tests, exploration, and tests with real threads. See `scripts/mutants`.

mod build;
mod run;
mod sites;

pub(crate) use run::shuffle;

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Takes out one statement, forces one condition or moves one bound at a time
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Prints what was not found so far, and how much was found by what, and runs nothing
    #[arg(long)]
    table: bool,
    /// Only places in files whose path contains one of these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds of exploration for each mutant at most, random and small programs each
    #[arg(long, default_value_t = 2)]
    explore: u64,
    /// Ends after so many seconds; the next run goes on there
    #[arg(long, default_value_t = 86_400)]
    seconds: u64,
    /// In this order of chance, so that a part of them is a sample
    #[arg(long)]
    seed: Option<u64>,
    /// Mutants at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Repeats what was not found before
    #[arg(long)]
    again: bool,
}

pub(crate) fn run(arguments: &Arguments) -> std::io::Result<()> {
    let began = Instant::now();
    let root = PathBuf::from(".").canonicalize()?;
    let kept = root.join("target/mutants");
    std::fs::create_dir_all(&kept)?;
    let mut results = run::Results::read(&kept.join("results.tsv"))?;
    let is_wanted =
        |file: &str| arguments.only.is_empty() || arguments.only.iter().any(|o| file.contains(o));
    if arguments.table {
        print!("{}", results.table(is_wanted));
        return Ok(());
    }
    let built = build::build(&root, &kept)?;
    let checks = run::Checks::learn(&built, &kept, arguments.explore)?;
    let mut wanted: Vec<&sites::Mutant> = built
        .mutants
        .iter()
        .filter(|mutant| is_wanted(&mutant.file))
        .filter(|mutant| !results.knows(mutant, arguments.again))
        .collect();
    if let Some(seed) = arguments.seed {
        run::shuffle(&mut wanted, seed);
    }
    let until = began + Duration::from_secs(arguments.seconds);
    checks.run(&wanted, until, arguments.jobs, &mut results)
}
