//! Pieces under each scheduler, in random programs and in small ones.

use crate::apart;
use crate::corpus::{Checked, Prepared, Program, Seeds, Way};
use crate::explore::program::FaultSet;
use crate::explore::{Case, Runner, Scheduler, Verdict};
use crate::pieces::Piece;
use crate::rates;
use std::time::{Duration, Instant};

/// How often a piece is found at most under one scheduler.
const ENOUGH: u64 = 5;
/// Runs of every pair in a search, pass by pass.
const PASSES: [u64; 3] = [8, 56, 448];
const DEPTH: u32 = 2;

/// After how many runs of a small program the piece was found, and how it showed.
pub(crate) fn find(piece: &Piece, program: &str) -> Option<(u64, String)> {
    let program = Program::named(program).expect("the pieces name programs that there are");
    found_in(&program, way(piece, scheduler(piece)), 0, piece.budget).0
}

/// The one that finds the piece soonest.
pub(crate) fn scheduler(piece: &Piece) -> Scheduler {
    Scheduler::parse(piece.scheduler).expect("the pieces name schedulers that there are")
}

/// How small programs look for the piece.
fn way(piece: &Piece, scheduler: Scheduler) -> Way {
    Way {
        scheduler,
        depth: DEPTH,
        weak: piece.is_weak(),
    }
}

/// After how many loads the oracles of rates found the piece, and how it showed.
pub(crate) fn find_by_rates(most: u64) -> Option<(u64, String)> {
    let complaint = |seed: u64| {
        // What a run leaves behind in the process would make the next one another.
        let rated = apart::run(move || {
            let case = rates::Case::new(seed).map_err(|failed| failed.to_string())?;
            let rated = case.run().map_err(|failed| failed.to_string())?;
            case.judge(rated)
        });
        rated.err().map(|why| (seed + 1, why))
    };
    (0..most).find_map(complaint)
}

/// As [`find`], from a seed on, and under a scheduler; and how many runs there were.
fn found_in(program: &Program, way: Way, from: u64, most: u64) -> (Option<(u64, String)>, u64) {
    let prepared = Prepared::new(program);
    checked(prepared.and_then(|mut it| it.check(way, some(from, most))))
}

fn some(from: u64, most: u64) -> Seeds {
    Seeds {
        from,
        most,
        until: None,
    }
}

fn checked(checked: Result<Checked, String>) -> (Option<(u64, String)>, u64) {
    match checked {
        // The set-up is by costs, and finds it before any run.
        Err(why) => (Some((1, why)), 1),
        Ok(checked) => {
            let runs = checked.runs;
            (checked.failure.map(|(_, why)| (runs, why)), runs)
        }
    }
}

/// The first pair of operations that finds the piece, under random priorities or as a walk.
pub(crate) fn search(piece: &Piece) -> String {
    let mut runs = 0;
    let mut from = 0;
    for pass in PASSES {
        for program in Program::pairs() {
            let mut prepared = Prepared::new(&program);
            for (scheduler, how) in [(Scheduler::Pct, "pct"), (Scheduler::Walk, "walk")] {
                let prepared = prepared.as_mut().map_err(|why| why.clone());
                let way = way(piece, scheduler);
                let (found, done) =
                    checked(prepared.and_then(|it| it.check(way, some(from, pass))));
                runs += done;
                if let Some((_, why)) = found {
                    let why = why.lines().next().unwrap_or("").to_owned();
                    let name = program.name();
                    return format!("{name}: {how} found it after {runs} runs of all pairs: {why}");
                }
            }
        }
        from += pass;
    }
    let budget = piece.budget;
    format!("NOT FOUND within {runs} runs of all pairs (budget {budget})")
}

/// The mean runs until the piece is found, under each scheduler: in the small program that is named
/// or the piece's own, or else in random programs.
pub(crate) fn compare(
    runner: &Runner,
    piece: &Piece,
    program: Option<&str>,
    time: Duration,
) -> std::io::Result<String> {
    let program = program.or(piece.program).filter(|name| *name != "random");
    let mut text = Vec::new();
    for (scheduler, name) in Scheduler::ALL {
        let until = Instant::now() + time;
        let (found, runs) = match program {
            Some(program) => in_small(program, way(piece, scheduler), until),
            None => in_random(runner, piece, scheduler, until)?,
        };
        text.push(match found {
            0 => format!("{name} not in {runs}"),
            found => format!("{name} {:.1}", runs as f64 / found as f64),
        });
    }
    Ok(text.join(", "))
}

fn in_small(program: &str, way: Way, until: Instant) -> (u64, u64) {
    let program = Program::named(program).expect("the pieces name programs that there are");
    let Ok(mut prepared) = Prepared::new(&program) else {
        return (1, 1);
    };
    let (mut found, mut runs) = (0, 0);
    while found < ENOUGH && Instant::now() < until {
        let failed = match prepared.run(way, runs) {
            Ok(run) => run.failure.is_some(),
            Err(_) => return (1, 1),
        };
        runs += 1;
        found += u64::from(failed);
    }
    (found, runs)
}

fn in_random(
    runner: &Runner,
    piece: &Piece,
    scheduler: Scheduler,
    until: Instant,
) -> std::io::Result<(u64, u64)> {
    let faults = FaultSet::parse(piece.faults).expect("the pieces name faults that there are");
    let cases = (0..).map(|seed| Case {
        scheduler,
        ..Case::new(seed, faults)
    });
    let (mut found, mut runs) = (0, 0);
    runner.run_all(cases, 1, |_, verdict| {
        runs += 1;
        found += u64::from(matches!(verdict, Verdict::Failed(_)));
        found < ENOUGH && Instant::now() < until
    })?;
    Ok((found, runs))
}
