//! Looks for the pieces of the museum by exploration: `cmwq-museum` for all, or `cmwq-museum NAME...`.
//!
//! Prints a line for each: its name, after how many seeds it was found, and how it showed. Fails if
//! one is not found within its budget.
//!
//! With `--rates SECONDS` it goes on for so long with each piece, and prints how often it was
//! found: what a change of the exploration is measured by. With `--compare SECONDS` it does so
//! under each scheduler, and prints the mean runs until a piece was found. With `--search` it looks
//! for the small program that finds a piece. After `--compare SECONDS`, `--in PROGRAM` takes this
//! small program instead, and `--in random` random ones.

#![allow(
    dead_code,
    unfulfilled_lint_expectations,
    unused_imports,
    unreachable_pub,
    reason = "the simulator's modules, of which this uses parts; build.rs uses the rest of the pieces"
)]

extern crate cmwq_museum as cmwq_simulated;

#[path = "../../cmwq-sim/src/apart.rs"]
mod apart;
#[path = "../../cmwq-sim/src/cmwq/mod.rs"]
mod cmwq;
mod compare;
#[path = "../../cmwq-sim/src/corpus/mod.rs"]
mod corpus;
#[path = "../../cmwq-sim/src/explore/mod.rs"]
mod explore;
#[path = "../../cmwq-sim/src/kernel/mod.rs"]
mod kernel;
mod pieces;
#[path = "../../cmwq-sim/src/pods.rs"]
mod pods;
#[path = "../../cmwq-sim/src/rates.rs"]
mod rates;

use corpus::Program;
use explore::program::FaultSet;
use explore::{Case, Runner, Verdict};
use pieces::Piece;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[global_allocator]
static ARENA: cmwq_vm::Arena = cmwq_vm::Arena;

/// Pieces for which the library's sources have no place any more.
const WITHOUT_A_PLACE: &[&str] = include!(concat!(env!("OUT_DIR"), "/without_a_place.rs"));

fn main() -> ExitCode {
    let mut wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut how = How::Find;
    if let [option, seconds] = wanted.get(..2).unwrap_or_default()
        && let Some(timed) = How::timed(option)
    {
        let Ok(seconds) = seconds.parse() else {
            eprintln!("cmwq-museum: {option}: {seconds:?} is no number of seconds");
            return ExitCode::from(2);
        };
        how = timed(Duration::from_secs(seconds));
        wanted.drain(..2);
    }
    if wanted.first().is_some_and(|option| option == "--search") {
        how = How::Search;
        wanted.remove(0);
    }
    let mut program = None;
    if let [option, name] = wanted.get(..2).unwrap_or_default()
        && option == "--in"
    {
        if name != "random"
            && let Err(error) = Program::named(name)
        {
            eprintln!("cmwq-museum: --in: {error}");
            return ExitCode::from(2);
        }
        program = Some(name.clone());
        wanted.drain(..2);
    }
    if wanted.iter().any(|name| name == "--list") {
        pieces::all().for_each(|piece| println!("{}", piece.name));
        return ExitCode::SUCCESS;
    }
    if wanted.iter().any(|name| name == "--table") {
        for piece in pieces::all() {
            println!("| {} | {} | {} |", piece.name, piece.kind(), piece.what);
        }
        return ExitCode::SUCCESS;
    }
    if let [option, seeds] = wanted.get(..2).unwrap_or_default()
        && option == "--unchanged"
    {
        let Ok(seeds) = seeds.parse() else {
            eprintln!("cmwq-museum: --unchanged: {seeds:?} is no number of seeds");
            return ExitCode::from(2);
        };
        return unchanged(&Runner::new(), seeds);
    }
    if let Some(unknown) = wanted
        .iter()
        .find(|name| pieces::all().all(|p| p.name != **name))
    {
        eprintln!("cmwq-museum: no piece {unknown:?}; --list prints all");
        return ExitCode::from(2);
    }
    if !WITHOUT_A_PLACE.is_empty() {
        eprintln!(
            "cmwq-museum: the library has changed where these were put in: {WITHOUT_A_PLACE:?}"
        );
        return ExitCode::FAILURE;
    }
    let runner = Runner::new();
    let mut missed = 0;
    for (number, piece) in pieces::all().enumerate() {
        if !wanted.is_empty() && wanted.iter().all(|name| name != piece.name) {
            continue;
        }
        cmwq_simulated::mutation::choose(number);
        let said = match how {
            How::Find => None,
            How::Rates(time) => Some(rate(&runner, piece, time)),
            How::Compare(time) => Some(compare::compare(&runner, piece, program.as_deref(), time)),
            How::Search => Some(Ok(compare::search(piece))),
        };
        match said {
            None => {}
            Some(Ok(said)) => {
                println!("{}: {said}", piece.name);
                continue;
            }
            Some(Err(error)) => {
                eprintln!("cmwq-museum: {error}");
                return ExitCode::from(2);
            }
        }
        let found = match piece.program {
            Some(program) => Ok(compare::find(piece, program)),
            None if piece.rated => Ok(compare::find_by_rates(piece.budget)),
            None => find(&runner, piece),
        };
        match found {
            Ok(Some((seeds, why))) => {
                let why = why.lines().next().unwrap_or("").to_owned();
                println!("{}: found after {seeds} seeds: {why}", piece.name);
            }
            Ok(None) => {
                missed += 1;
                println!("{}: NOT FOUND within {} seeds", piece.name, piece.budget);
            }
            Err(error) => {
                eprintln!("cmwq-museum: {error}");
                return ExitCode::from(2);
            }
        }
    }
    match missed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Runs so many seeds without any piece, on both memories.
fn unchanged(runner: &Runner, seeds: u64) -> ExitCode {
    for faults in ["all", "all,weak"] {
        let set = FaultSet::parse(faults).expect("there are such faults");
        let cases = (0..seeds).map(|seed| Case::new(seed, set));
        let mut found = None;
        let ran = runner.run_all(cases, 1, |case, verdict| {
            if let Verdict::Failed(why) = verdict {
                found = Some((case.seed, why));
            }
            found.is_none()
        });
        if let Err(error) = ran {
            eprintln!("cmwq-museum: {error}");
            return ExitCode::from(2);
        }
        if let Some((seed, why)) = found {
            println!("without any piece, faults {faults}, seed {seed}: {why}");
            return ExitCode::FAILURE;
        }
    }
    println!("without any piece: nothing in {seeds} seeds");
    ExitCode::SUCCESS
}

/// What is done with each piece.
#[derive(Clone, Copy)]
enum How {
    Find,
    Rates(Duration),
    Compare(Duration),
    Search,
}

impl How {
    fn timed(option: &str) -> Option<fn(Duration) -> How> {
        match option {
            "--rates" => Some(How::Rates),
            "--compare" => Some(How::Compare),
            _ => None,
        }
    }
}

/// After how many seeds the piece was found, and how it showed.
fn find(runner: &Runner, piece: &Piece) -> std::io::Result<Option<(u64, String)>> {
    let faults = FaultSet::parse(piece.faults).expect("the pieces name faults that there are");
    let scheduler = compare::scheduler(piece);
    let cases = (0..piece.budget).map(|seed| Case {
        scheduler,
        ..Case::new(seed, faults)
    });
    let mut found = None;
    runner.run_all(cases, 1, |case, verdict| {
        if let Verdict::Failed(why) = verdict {
            found = Some((case.seed + 1, why));
        }
        found.is_none()
    })?;
    Ok(found)
}

/// How often a piece is found at most before its rate is told.
const ENOUGH: u32 = 10;

/// How often the piece is found, and how long it takes on average: by seeds that pass, since a
/// failure ends a search.
fn rate(runner: &Runner, piece: &Piece, time: Duration) -> std::io::Result<String> {
    let faults = FaultSet::parse(piece.faults).expect("the pieces name faults that there are");
    let cases = (0..).map(|seed| Case::new(seed, faults));
    let (began, mut last) = (Instant::now(), Instant::now());
    let (mut passed, mut failed, mut operations) = (0, 0, 0);
    let (mut in_passed, mut in_failed) = (Duration::ZERO, Duration::ZERO);
    runner.run_all(cases, 1, |_, verdict| {
        let took = last.elapsed();
        last = Instant::now();
        match verdict {
            Verdict::Passed(run) => {
                passed += 1;
                operations += run.operations;
                in_passed += took;
            }
            Verdict::Failed(_) => {
                failed += 1;
                in_failed += took;
            }
        }
        began.elapsed() < time && failed < ENOUGH
    })?;
    let each = f64::from(failed.max(1));
    let once = if failed > 0 { "once in" } else { "not in" };
    Ok(format!(
        "found {failed} of {} seeds; {once} {:.1} seeds, {:.0} operations, {:.1} ms; a failure takes {:.1} ms",
        passed + failed,
        f64::from(passed + failed) / each,
        operations as f64 / each,
        in_passed.as_secs_f64() * 1e3 / each,
        in_failed.as_secs_f64() * 1e3 / each,
    ))
}
