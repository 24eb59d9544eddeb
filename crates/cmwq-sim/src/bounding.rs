//! The command `corpus`.

use clap::Args;
use cmwq_command::{CliError, output, whole};
use cmwq_sim::apart;
use cmwq_sim::corpus::{
    Checked, Ledger, OPERATIONS, PROTOCOLS, Prepared, Program, Scheduler, Seeds, Way,
};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs of every program before any has more: bugs that many schedules show are found early.
const PASSES: [u64; 5] = [64, 512, 4_096, 32_768, u64::MAX];

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run these programs only; a program is written as the names of its operations, joined by +
    /// (see --operations)
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["pairs", "protocols"])]
    programs: Vec<String>,
    /// Run the programs of two operations only
    #[arg(long, conflicts_with = "protocols")]
    pairs: bool,
    /// Run only the programs of the protocols: publishing, cancelling, credits, retiring,
    /// caller-runs joins, wakers of tasks; with a --depth above 2 the smallest of each
    #[arg(long)]
    protocols: bool,
    /// How the next thread is chosen: time (as its computing takes), pct (random priorities, with
    /// the guarantee that --depth describes) or walk (at random at each step)
    #[arg(long, default_value = "pct", value_parser = Scheduler::parse)]
    scheduler: Scheduler,
    /// Look for faults that appear when this many pairs of steps happen in a certain order
    #[arg(long, default_value_t = 2, allow_hyphen_values = true, value_parser = whole(1, 5_u32))]
    depth: u32,
    /// With a weak memory: a thread may see old values of memory wherever the orderings in the code allow it
    #[arg(long)]
    weak: bool,
    /// Run with this seed only, to replay a failure; or with several seeds, one after the other
    #[arg(long, value_delimiter = ',', requires = "programs", conflicts_with_all = ["runs", "state"], allow_hyphen_values = true, value_parser = whole(0, u64::MAX))]
    seed: Vec<u64>,
    /// As if a run with so many steps had been seen, to replay a failure
    #[arg(long, requires = "seed", allow_hyphen_values = true, value_parser = whole(1, u64::MAX))]
    length: Option<u64>,
    /// The most runs of each program. By default as many as find each fault of the given depth with
    /// a probability of 99.9 %
    #[arg(long, allow_hyphen_values = true, value_parser = whole(1, u64::MAX))]
    runs: Option<u64>,
    /// End after this many seconds
    #[arg(long, allow_hyphen_values = true, value_parser = whole(1, 31_536_000_u64))]
    seconds: Option<u64>,
    /// Number of processes that run at the same time
    #[arg(long, default_value_t = 1, allow_hyphen_values = true, value_parser = whole(1, 1024_usize))]
    jobs: usize,
    /// Keep in this file how far each program has come; the next call with the same file goes on from there
    #[arg(long)]
    state: Option<PathBuf>,
    /// Print the names of the operations, and run nothing
    #[arg(long)]
    operations: bool,
}

impl Arguments {
    fn way(&self) -> Way {
        Way {
            scheduler: self.scheduler,
            depth: self.depth,
            weak: self.weak,
        }
    }
}

fn say(line: &str) -> Result<(), CliError> {
    output::print(&format!("{line}\n"))
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    if arguments.operations {
        return tell_operations().map(|()| ExitCode::SUCCESS);
    }
    let programs = programs(arguments).map_err(CliError::new)?;
    if !arguments.seed.is_empty() {
        return replay(arguments, &programs);
    }
    let failures = check(arguments, programs)?;
    Ok(match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn tell_operations() -> Result<(), CliError> {
    for operation in OPERATIONS {
        say(&format!("{:24} {:?}", operation.name, operation.on))?;
    }
    let (pairs, triples) = (Program::pairs().count(), Program::triples().count());
    say(&format!(
        "{} operations, {pairs} pairs, {triples} triples",
        OPERATIONS.len()
    ))
}

fn programs(arguments: &Arguments) -> Result<Vec<Program>, String> {
    if arguments.protocols {
        // The number of runs grows with a power of the program's size.
        let most = if arguments.depth > 2 { 1 } else { usize::MAX };
        let names = PROTOCOLS
            .iter()
            .flat_map(|(_, programs)| programs.iter().take(most));
        return names.map(|name| Program::named(name)).collect();
    }
    match (arguments.programs.is_empty(), arguments.pairs) {
        (false, _) => arguments
            .programs
            .iter()
            .map(|name| Program::named(name))
            .collect(),
        (true, true) => Ok(Program::pairs().collect()),
        (true, false) => Ok(Program::all().collect()),
    }
}

/// The command that replays a run.
fn replay_line(arguments: &Arguments, program: &str, length: u64, seed: u64) -> String {
    let (depth, scheduler) = (arguments.depth, arguments.scheduler.name());
    let weak = if arguments.weak { " --weak" } else { "" };
    format!(
        "cmwq-sim corpus --programs {program} --scheduler {scheduler} --depth {depth}{weak} --length {length} --seed {seed}"
    )
}

fn replay(arguments: &Arguments, programs: &[Program]) -> Result<ExitCode, CliError> {
    let mut status = ExitCode::SUCCESS;
    for program in programs {
        let mut prepared = Prepared::new(program).map_err(CliError::new)?;
        prepared.expect(arguments.length.unwrap_or(0));
        let (name, length) = (program.name(), prepared.size().length);
        for &seed in &arguments.seed {
            let run = prepared.run(arguments.way(), seed);
            let run = run.map_err(CliError::new)?;
            let (steps, log) = (run.steps(), run.log);
            match run.failure {
                None => say(&format!("passed {name}: {steps} steps, log {log:016x}"))?,
                Some(why) => {
                    let replay = replay_line(arguments, &name, length, seed);
                    say(&format!("FAILED {replay}: {why}"))?;
                    status = ExitCode::FAILURE;
                }
            }
        }
    }
    Ok(status)
}

/// One program, and which of its runs are next.
struct Task {
    program: Program,
    seeds: Seeds,
    /// Runs that the bound asks for, by the longest run so far.
    needed: u64,
    /// The steps of that one.
    length: u64,
}

/// The runs of some programs, pass by pass.
struct Search<'a> {
    arguments: &'a Arguments,
    programs: Vec<Program>,
    ledger: Ledger,
    until: Option<Instant>,
    runs: u64,
    failures: usize,
}

impl Search<'_> {
    fn is_in_time(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }

    /// What is left to do until each program has so many runs, or as many as the bound asks for.
    fn tasks(&self, target: u64) -> Vec<Task> {
        let way = self.arguments.way();
        let left = |program: &Program| {
            let known = self.ledger.get(&program.name(), way);
            let bound = match known.needed {
                0 => u64::MAX,
                needed => needed,
            };
            let most = target.min(bound).saturating_sub(known.runs);
            let seeds = Seeds {
                from: known.runs,
                most,
                until: self.until,
            };
            (most > 0 && known.failed.is_none()).then(|| Task {
                program: program.clone(),
                seeds,
                needed: known.needed,
                length: known.size.1,
            })
        };
        self.programs.iter().filter_map(left).collect()
    }

    fn pass(&mut self, target: u64) -> Result<(), String> {
        let way = self.arguments.way();
        let (tasks, until) = (self.tasks(target), self.until);
        let in_time = |_: &&Task| until.is_none_or(|until| Instant::now() < until);
        let works = tasks.iter().take_while(in_time).map(|task| {
            move || {
                let mut prepared = Prepared::new(&task.program)?;
                // Earlier runs may have been longer.
                prepared.expect(task.length);
                let bound = prepared.size().runs(way.depth).max(task.needed);
                let most = task.seeds.most.min(bound.saturating_sub(task.seeds.from));
                let seeds = Seeds { most, ..task.seeds };
                prepared.check(way, seeds)
            }
        });
        let mut written = Instant::now();
        apart::run_all(self.arguments.jobs, works, |at, result| {
            self.take_down(&tasks[at].program.name(), result)?;
            if written.elapsed() > Duration::from_secs(10) {
                written = Instant::now();
                self.ledger.write()?;
            }
            Ok(())
        })
    }

    fn take_down(&mut self, name: &str, result: Result<Checked, String>) -> Result<(), String> {
        let checked = result.map_err(|why| format!("{name}: {why}"))?;
        self.runs += checked.runs;
        if let Some((seed, why)) = &checked.failure {
            self.failures += 1;
            let replay = replay_line(self.arguments, name, checked.among, *seed);
            say(&format!("FAILED {replay}: {why}")).map_err(|error| error.to_string())?;
        }
        self.ledger.add(name, self.arguments.way(), &checked);
        Ok(())
    }
}

/// The number of programs that have failed.
fn check(arguments: &Arguments, programs: Vec<Program>) -> Result<usize, CliError> {
    let began = Instant::now();
    let mut search = Search {
        arguments,
        programs,
        ledger: Ledger::read(arguments.state.as_deref()).map_err(CliError::new)?,
        until: arguments
            .seconds
            .map(|seconds| began + Duration::from_secs(seconds)),
        runs: 0,
        failures: 0,
    };
    let most = arguments.runs.unwrap_or(u64::MAX);
    for pass in PASSES {
        loop {
            let done = search.pass(pass.min(most));
            search.ledger.write().map_err(CliError::new)?;
            done.map_err(CliError::new)?;
            // A run that was longer than all before has raised the bound.
            if pass < u64::MAX || !search.is_in_time() || search.tasks(most).is_empty() {
                break;
            }
        }
        if !search.is_in_time() || pass >= most {
            break;
        }
    }
    let names = search.programs.iter().map(Program::name);
    let come = search.ledger.text(names, arguments.way());
    let (runs, failures) = (search.runs, search.failures);
    let seconds = began.elapsed().as_secs_f64();
    say(&format!(
        "{runs} runs in {seconds:.0} s, {failures} failures; {come}"
    ))?;
    Ok(failures)
}
