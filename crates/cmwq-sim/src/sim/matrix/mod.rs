//! `cmwq sim --matrix`: many machines, loads, scopes and shard sizes, and half of each machine.
//!
//! | file | holds |
//! |---|---|
//! | `plan` | which runs |
//! | `results` | the file with the runs that are done |
//! | `judge` | what the runs of one machine and load say together |
//! | `page` | the heat maps |

mod judge;
mod page;
mod plan;
mod results;

use super::args::Arguments;
use super::rows;
use crate::Format;
use cmwq_command::CliError;
use cmwq_sim::apart;
use judge::Judged;
use plan::{Matrix, Run};
use results::Results;
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) fn run(arguments: &Arguments, file: &Path) -> Result<(), CliError> {
    let matrix = Matrix::new(arguments).map_err(CliError::new)?;
    super::with_page(arguments.html.as_deref(), |page| {
        let mut results = Results::open(file).map_err(CliError::new)?;
        carry_out(&matrix, &mut results, arguments).map_err(CliError::new)?;
        let judged = judge::all(&matrix, &results);
        if let Some(path) = page {
            std::fs::write(path, page::render(&matrix, &judged))
                .map_err(|error| CliError::failed(format!("--html {}: {error}", path.display())))?;
        }
        print(&judged, arguments.format)
    })
}

/// Runs what is not done yet, as far as the time allows.
fn carry_out(matrix: &Matrix, results: &mut Results, arguments: &Arguments) -> Result<(), String> {
    let began = Instant::now();
    let has_time = || {
        let within = arguments.within.map(Duration::from_secs);
        within.is_none_or(|within| began.elapsed() < within)
    };
    let runs: Vec<Run> = matrix.runs();
    let left: Vec<&Run> = runs.iter().filter(|run| !results.has(&run.key)).collect();
    let bar = super::bar(runs.len());
    bar.set_position((runs.len() - left.len()) as u64);
    // The plan is made before its process: a machine is described to the library once.
    let works = left.iter().take_while(|_| has_time()).map(|run| {
        let plan = matrix.of_cmwq(run);
        move || rows::of_cmwq(&plan?)
    });
    apart::run_all(arguments.jobs(), works, |number, ran| {
        let key = &left[number].key;
        let mut ran: rows::Ran = ran.map_err(|error| format!("{key}: {error}"))?;
        ran.forget_details();
        bar.set_message(key.to_string());
        bar.inc(1);
        results.add(key.clone(), ran)
    })?;
    bar.finish_and_clear();
    let done = runs.iter().filter(|run| results.has(&run.key)).count();
    if done < runs.len() {
        eprintln!(
            "{done} of {} runs are done; the same command goes on",
            runs.len()
        );
    }
    Ok(())
}

fn print(judged: &[Judged], format: Format) -> Result<(), CliError> {
    if format == Format::Json {
        return crate::print_json(&judged);
    }
    say!(
        "{:22} {:16} {:>11} {:>6} {:>10} {:>6} {:16} {:>6} {:>6} {:>8} {:>9} {:>6}",
        "machine",
        "load",
        "items/s",
        "spread",
        "done p50",
        "/best",
        "best",
        "/bound",
        "/half",
        "wakes",
        "CPU ns",
        "lines"
    );
    let ratio = |of: Option<f64>| of.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    for one in judged {
        let default = &one.default;
        say!(
            "{:22} {:16} {:>11.0} {:>6.2} {:>10} {:>6} {:16} {:>6} {:>6} {:>8.3} {:>9.0} {:>6.1}{}",
            one.machine,
            one.load,
            default.items_per_s,
            default.spread,
            default.done_p50_ns,
            ratio(one.to_best),
            one.best,
            ratio(one.to_bound),
            ratio(one.to_half),
            default.wakeups,
            default.busy_ns,
            default.line_transfers,
            if default.is_steady {
                ""
            } else {
                "  not steady"
            }
        );
    }
    say!(
        "/best: the default (cache_shard, 8 cores) by the best scope and shard size; /bound: by what the CPUs bear; /half: by the same machine with half of its CPUs. Loads with pauses or a given rate are compared by their median time to the end (done p50, ns), others by items/s. spread: the fastest seed by the slowest. wakes, CPU, lines (transfers of cache lines): for each item"
    );
    // A machine has several loads, which stand together.
    for same in judged.chunk_by(|one, next| one.machine == next.machine) {
        if !same[0].assumed.is_empty() {
            say!(
                "{}: assumed: {}",
                same[0].machine,
                same[0].assumed.join("; ")
            );
        }
    }
    Ok(())
}
