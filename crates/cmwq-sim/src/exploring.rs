//! The command `explore`.

use clap::Args;
use cmwq_sim::explore::program::FaultSet;
use cmwq_sim::explore::{Case, Runner, Verdict, shrink};
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Args)]
pub(crate) struct Arguments {
    /// How many seeds
    #[arg(long, default_value_t = 1000, conflicts_with = "seed")]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0, conflicts_with = "seed")]
    from: u64,
    /// This seed only: replays a failure
    #[arg(long)]
    seed: Option<u64>,
    /// Faults that may happen: preempt, stop, wakeups, threads, cpus, clock, fork, quota, lag; or all, or none
    #[arg(long, default_value = "all", value_parser = FaultSet::parse)]
    faults: FaultSet,
    /// The schedule of a shrunk failure
    #[arg(long, default_value_t = 0, requires = "seed")]
    schedule: u64,
    /// The operations of a shrunk failure
    #[arg(long, value_delimiter = ',', requires = "seed")]
    ops: Option<Vec<usize>>,
    /// Processes at a time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Ends after so many seconds, with whatever seed it has come to
    #[arg(long)]
    seconds: Option<u64>,
    /// Runs that may be spent on shrinking the first failure
    #[arg(long, default_value_t = 400)]
    shrink: usize,
    /// Goes on after a failure, which is not shrunk then
    #[arg(long)]
    keep_going: bool,
    /// Runs each seed twice, and compares the runs operation by operation
    #[arg(long)]
    twice: bool,
    /// Prints the program of the seed
    #[arg(long, requires = "seed")]
    show: bool,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match explore(arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cmwq-sim: {error}");
            ExitCode::from(2)
        }
    }
}

/// What has been explored so far.
struct Count {
    began: Instant,
    seeds: u64,
    operations: u64,
    failures: Vec<(Case, String)>,
    said: Instant,
}

impl Count {
    /// Now and then.
    fn tell(&mut self) {
        if self.said.elapsed() >= Duration::from_secs(10) {
            self.said = Instant::now();
            eprintln!("{}", self.text());
        }
    }

    fn text(&self) -> String {
        let seconds = self.began.elapsed().as_secs_f64();
        format!(
            "explored {} seeds, {} operations, {} failures, {:.0} seeds/s",
            self.seeds,
            self.operations,
            self.failures.len(),
            self.seeds as f64 / seconds.max(0.001),
        )
    }
}

/// The number of failures.
fn explore(arguments: &Arguments) -> std::io::Result<usize> {
    let runner = Runner::new();
    if let Some(seed) = arguments.seed {
        return replay(&runner, arguments, seed);
    }
    let mut count = Count {
        began: Instant::now(),
        seeds: 0,
        operations: 0,
        failures: Vec::new(),
        said: Instant::now(),
    };
    let end = arguments
        .seconds
        .map(|seconds| count.began + Duration::from_secs(seconds));
    let times = if arguments.twice { 2 } else { 1 };
    let seeds = arguments.from..arguments.from.saturating_add(arguments.seeds);
    let cases = seeds.flat_map(|seed| {
        let case = Case::new(seed, arguments.faults);
        std::iter::repeat_n(case, times)
    });
    let mut first = None;
    runner.run_all(cases, arguments.jobs, |case, verdict| {
        let is_second = first.as_ref().is_some_and(|(of, _)| of == case);
        let differs = first
            .take()
            .is_some_and(|(_, seen)| is_second && seen != verdict);
        if !is_second {
            count.seeds += 1;
        }
        match &verdict {
            Verdict::Passed(passed) => count.operations += passed.operations,
            Verdict::Failed(why) if !is_second => count.failures.push((case.clone(), why.clone())),
            Verdict::Failed(_) => {}
        }
        if differs {
            let why = "two runs of one seed differ".to_owned();
            count.failures.push((case.clone(), why));
        }
        if arguments.twice && !is_second {
            first = Some((case.clone(), verdict));
        }
        count.tell();
        let in_time = end.is_none_or(|end| Instant::now() < end);
        in_time && (count.failures.is_empty() || arguments.keep_going)
    })?;
    if arguments.keep_going {
        for (case, why) in &count.failures {
            println!("FAILED {}: {why}", case.replay());
        }
    } else if let Some((case, why)) = count.failures.first() {
        report(&runner, arguments, case, why)?;
    }
    println!("{}", count.text());
    std::io::stdout().flush()?;
    Ok(count.failures.len())
}

fn replay(runner: &Runner, arguments: &Arguments, seed: u64) -> std::io::Result<usize> {
    let case = Case {
        seed,
        faults: arguments.faults,
        schedule: arguments.schedule,
        ops: arguments
            .ops
            .as_ref()
            .map(|ops| ops.iter().copied().collect()),
    };
    if arguments.show {
        println!("{:#?}", case.program());
    }
    match runner.run(&case)? {
        Verdict::Passed(passed) => {
            let (hash, operations) = (passed.log_hash, passed.operations);
            println!("passed: {operations} operations, log {hash:016x}");
            Ok(0)
        }
        Verdict::Failed(why) if arguments.ops.is_some() => {
            println!("FAILED {}: {why}", case.replay());
            Ok(1)
        }
        Verdict::Failed(why) => {
            report(runner, arguments, &case, &why)?;
            Ok(1)
        }
    }
}

/// Says how it failed, how to replay that, and what a smaller program is that fails too.
fn report(runner: &Runner, arguments: &Arguments, case: &Case, why: &str) -> std::io::Result<()> {
    println!("FAILED {}: {why}", case.replay());
    std::io::stdout().flush()?;
    if arguments.shrink > 0 {
        let (small, why) = shrink(runner, case, why, arguments.jobs, arguments.shrink)?;
        let (all, left) = (case.program().ops.len(), small.program().ops.len());
        println!("shrunk from {all} operations to {left}: {why}");
        println!("replay: {}", small.replay());
        for op in small.program().ops {
            println!("  issuer {} {:?} (seed {:#x})", op.issuer, op.kind, op.seed);
        }
    }
    Ok(())
}
