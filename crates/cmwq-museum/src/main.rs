//! Looks for the pieces of the museum by exploration: `cmwq-museum` for all, or `cmwq-museum NAME...`.
//!
//! Prints a line for each: its name, after how many seeds it was found, and how it showed. Fails if one is not found within its budget.
//!
//! With `--rates SECONDS` it goes on for so long with each piece, and prints how often it was found: what a change of the exploration is measured by.

extern crate cmwq_museum as cmwq_simulated;

#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "the simulator's, of which this uses a part"
)]
#[path = "../../cmwq-sim/src/explore/mod.rs"]
mod explore;
#[allow(dead_code, unreachable_pub, reason = "build.rs uses the rest")]
mod pieces;

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
    let mut rates = None;
    if let [option, seconds] = wanted.get(..2).unwrap_or_default()
        && option == "--rates"
    {
        let Ok(seconds) = seconds.parse() else {
            eprintln!("cmwq-museum: --rates: {seconds:?} is no number of seconds");
            return ExitCode::from(2);
        };
        rates = Some(Duration::from_secs(seconds));
        wanted.drain(..2);
    }
    if wanted.iter().any(|name| name == "--list") {
        pieces::all().for_each(|piece| println!("{}", piece.name));
        return ExitCode::SUCCESS;
    }
    if wanted.iter().any(|name| name == "--table") {
        for piece in pieces::all() {
            let kind = match piece.faults {
                _ if piece.known => "known",
                "all,weak" => "ordering",
                _ => "line",
            };
            println!("| {} | {kind} | {} |", piece.name, piece.what);
        }
        return ExitCode::SUCCESS;
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
        if let Some(time) = rates {
            match rate(&runner, piece, time) {
                Ok(rate) => println!("{}: {rate}", piece.name),
                Err(error) => {
                    eprintln!("cmwq-museum: {error}");
                    return ExitCode::from(2);
                }
            }
            continue;
        }
        match find(&runner, piece) {
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

/// After how many seeds the piece was found, and how it showed.
fn find(runner: &Runner, piece: &Piece) -> std::io::Result<Option<(u64, String)>> {
    let faults = FaultSet::parse(piece.faults).expect("the pieces name faults that there are");
    let cases = (0..piece.budget).map(|seed| Case::new(seed, faults));
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

/// How often the piece is found, and how long it takes on average: by seeds that pass, since a failure ends a search.
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
