//! The command `explore`.

use clap::Args;
use cmwq_command::{CliError, output, whole};
use cmwq_sim::explore::program::{FaultSet, Program};
use cmwq_sim::explore::{Case, Runner, Scheduler, Verdict, shrink};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A year: more is a slip of the hand.
const MOST_SECONDS: u64 = 31_536_000;
/// More processes at a time are a slip of the hand, too.
const MOST_JOBS: usize = 1024;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Number of seeds to run; each seed is one random program on one random machine
    #[arg(long, default_value_t = 1000, conflicts_with = "seed", allow_hyphen_values = true, value_parser = whole(1, u64::MAX))]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0, conflicts_with = "seed", allow_hyphen_values = true, value_parser = whole(0, u64::MAX))]
    from: u64,
    /// Run this seed only, to replay a failure
    #[arg(long, allow_hyphen_values = true, value_parser = whole(0, u64::MAX))]
    seed: Option<u64>,
    /// How the next thread is chosen: time (by what each step costs on the machine), pct (random
    /// priorities) or walk (at random at each step)
    #[arg(long, default_value = "time", value_parser = Scheduler::parse)]
    scheduler: Scheduler,
    /// Faults that may happen: preempt, stop, wakeups, threads, cpus, clock, fork, quota, lag,
    /// steps; all of these, or none. Besides, weak: a thread may see old values of memory wherever
    /// the orderings in the code allow it. For example all,weak
    #[arg(long, default_value = "all", value_parser = FaultSet::parse)]
    faults: FaultSet,
    /// With --seed: the number of the schedule, as the report of a failure names it
    #[arg(long, default_value_t = 0, requires = "seed", allow_hyphen_values = true, value_parser = whole(0, u64::MAX))]
    schedule: u64,
    /// With --seed: run only the operations with these numbers, as the report of a failure names them
    #[arg(long, value_delimiter = ',', requires = "seed", allow_hyphen_values = true, value_parser = whole(0, usize::MAX))]
    ops: Option<Vec<usize>>,
    /// Number of processes that run at the same time
    #[arg(long, default_value_t = 1, allow_hyphen_values = true, value_parser = whole(1, MOST_JOBS))]
    jobs: usize,
    /// End after this many seconds, even if seeds are left
    #[arg(long, conflicts_with = "seed", allow_hyphen_values = true, value_parser = whole(1, MOST_SECONDS))]
    seconds: Option<u64>,
    /// The most runs that are spent on making the program of the first failure smaller; 0: leave it as it is
    #[arg(long, default_value_t = 400, allow_hyphen_values = true, value_parser = whole(0, usize::MAX))]
    shrink: usize,
    /// Go on after a failure, and do not make its program smaller
    #[arg(long, conflicts_with = "seed")]
    keep_going: bool,
    /// Run each seed twice, and fail if the two runs differ in any operation
    #[arg(long, conflicts_with = "seed")]
    twice: bool,
    /// Print the program that the seed makes
    #[arg(long, requires = "seed")]
    show: bool,
    /// Instead of a random program, each seed is a load on a machine, without faults. It fails if
    /// many CPUs are much slower than one CPU that does all the work, or if threads are woken
    /// without end
    #[arg(long, conflicts_with_all = ["faults", "scheduler", "schedule", "ops", "seconds", "shrink", "keep_going", "twice", "show"])]
    rates: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    if arguments.rates {
        let first = arguments.seed.unwrap_or(arguments.from);
        let count = arguments.seed.map_or(arguments.seeds, |_| 1);
        let seeds = first..first.saturating_add(count);
        return crate::rating::run(seeds, arguments.jobs, arguments.seed.is_some());
    }
    explore(arguments).map(|failures| match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Prints a line, if there is still a reader.
fn say(line: &str) -> Result<(), CliError> {
    output::print(&format!("{line}\n"))
}

/// What has been explored so far.
struct Count {
    began: Instant,
    seeds: u64,
    operations: u64,
    /// Of one seed.
    most_operations: u64,
    failures: Vec<(Case, String)>,
    said: Instant,
}

impl Count {
    /// Now and then.
    fn tell(&mut self) {
        if self.said.elapsed() >= Duration::from_secs(10) {
            self.said = Instant::now();
            // Without standard error it is not told.
            let _ = writeln!(io::stderr(), "{}", self.text());
        }
    }

    fn text(&self) -> String {
        let seconds = self.began.elapsed().as_secs_f64();
        format!(
            "explored {} seeds, {} operations (at most {} in one), {} failures, {:.0} seeds/s",
            self.seeds,
            self.operations,
            self.most_operations,
            self.failures.len(),
            self.seeds as f64 / seconds.max(0.001),
        )
    }
}

fn no_process(error: io::Error) -> CliError {
    CliError::failed(format!("a process for a seed: {error}"))
}

/// The number of failures.
fn explore(arguments: &Arguments) -> Result<usize, CliError> {
    let runner = Runner::new();
    if let Some(seed) = arguments.seed {
        return replay(&runner, arguments, seed);
    }
    let mut count = Count {
        began: Instant::now(),
        seeds: 0,
        operations: 0,
        most_operations: 0,
        failures: Vec::new(),
        said: Instant::now(),
    };
    let end = arguments
        .seconds
        .map(|seconds| count.began + Duration::from_secs(seconds));
    let times = if arguments.twice { 2 } else { 1 };
    let (from, seeds) = (arguments.from, arguments.seeds);
    let beyond = from.checked_add(seeds).ok_or_else(|| {
        CliError::new(format!(
            "--from {from} and --seeds {seeds}: the last seed would be beyond {}",
            u64::MAX
        ))
    });
    let seeds = from..beyond?;
    let cases = seeds.flat_map(|seed| {
        let case = Case {
            scheduler: arguments.scheduler,
            ..Case::new(seed, arguments.faults)
        };
        std::iter::repeat_n(case, times)
    });
    let mut first = None;
    let ran = runner.run_all(cases, arguments.jobs, |case, verdict| {
        let is_second = first.as_ref().is_some_and(|(of, _)| of == case);
        let differs = first
            .take()
            .is_some_and(|(_, seen)| is_second && seen != verdict);
        if !is_second {
            count.seeds += 1;
        }
        match &verdict {
            Verdict::Passed(passed) => {
                count.operations += passed.operations;
                count.most_operations = count.most_operations.max(passed.operations);
            }
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
    });
    ran.map_err(no_process)?;
    if arguments.keep_going {
        for (case, why) in &count.failures {
            say(&format!("FAILED {}: {why}", case.replay()))?;
        }
    } else if let Some((case, why)) = count.failures.first() {
        report(&runner, arguments, case, why)?;
    }
    say(&count.text())?;
    Ok(count.failures.len())
}

fn replay(runner: &Runner, arguments: &Arguments, seed: u64) -> Result<usize, CliError> {
    let case = Case {
        seed,
        faults: arguments.faults,
        schedule: arguments.schedule,
        scheduler: arguments.scheduler,
        ops: arguments
            .ops
            .as_ref()
            .map(|ops| ops.iter().copied().collect()),
    };
    let ops = Program::new(seed, arguments.faults).ops;
    let is_there = |number: &usize| ops.iter().any(|op| op.number == *number);
    let unknown = arguments.ops.iter().flatten().find(|op| !is_there(op));
    if let Some(unknown) = unknown {
        let last = ops.iter().map(|op| op.number).max().unwrap_or(0);
        return Err(CliError::new(format!(
            "--ops {unknown}: the program of this seed and these faults has operations 0 to {last}"
        )));
    }
    if arguments.show {
        say(&format!("{:#?}", case.program()))?;
    }
    match runner.run(&case).map_err(no_process)? {
        Verdict::Passed(passed) => {
            let (hash, operations) = (passed.log_hash, passed.operations);
            say(&format!("passed: {operations} operations, log {hash:016x}"))?;
            Ok(0)
        }
        Verdict::Failed(why) if arguments.ops.is_some() => {
            say(&format!("FAILED {}: {why}", case.replay()))?;
            Ok(1)
        }
        Verdict::Failed(why) => {
            report(runner, arguments, &case, &why)?;
            Ok(1)
        }
    }
}

/// Says how it failed, how to replay that, and what a smaller program is that fails too.
fn report(runner: &Runner, arguments: &Arguments, case: &Case, why: &str) -> Result<(), CliError> {
    say(&format!("FAILED {}: {why}", case.replay()))?;
    if arguments.shrink > 0 {
        let shrunk = shrink(runner, case, why, arguments.jobs, arguments.shrink);
        let (small, why) = shrunk.map_err(no_process)?;
        let (all, left) = (case.program().ops.len(), small.program().ops.len());
        say(&format!("shrunk from {all} operations to {left}: {why}"))?;
        say(&format!("replay: {}", small.replay()))?;
        for op in small.program().ops {
            say(&format!(
                "  issuer {} {:?} (seed {:#x})",
                op.issuer, op.kind, op.seed
            ))?;
        }
    }
    Ok(())
}
