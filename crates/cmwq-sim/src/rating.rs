//! The command `explore --rates`.

use cmwq_command::{CliError, output};
use cmwq_sim::apart;
use cmwq_sim::rates::{Case, Rated};
use std::ops::Range;
use std::process::ExitCode;

/// Rates the seeds; the status says whether all keep to the oracles.
pub(crate) fn run(seeds: Range<u64>, jobs: usize, shows: bool) -> Result<ExitCode, CliError> {
    let first = seeds.start;
    let mut failures = 0_u64;
    let mut all: Vec<Rated> = Vec::new();
    let works = seeds.map(|seed| move || rate(seed));
    let done = apart::run_all(jobs, works, |number, result| {
        let seed = first + number as u64;
        let (text, rated, complaint) = result.map_err(|why| format!("seed {seed}: {why}"))?;
        all.push(rated);
        if complaint.is_empty() {
            return if shows {
                say(&format!("seed {seed}: {text}: {}", figures(&[rated])))
            } else {
                Ok(())
            };
        }
        failures += 1;
        say(&format!(
            "FAILED seed {seed}: {text}: {complaint}\nreplay: cmwq-sim explore --rates --seed {seed}"
        ))
    });
    done.map_err(CliError::new)?;
    say(&format!(
        "rated {} seeds, {failures} failures; the worst of each: {}",
        all.len(),
        figures(&all)
    ))
    .map_err(CliError::new)?;
    Ok(if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The worst of each figure.
fn figures(all: &[Rated]) -> String {
    let most = |of: fn(&Rated) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let least = all.iter().map(|rated| rated.to_one_cpu);
    let parts = all.iter().filter_map(|rated| rated.of_bound);
    format!(
        "{:.2} of one CPU's rate, {:.2} wake-ups an item, {:.1} threads a CPU, {:.0} us beside an idle CPU, {:.0} operations under a lock, {:.1} bytes more an item, {:.2} of what all CPUs bear",
        least.fold(f64::INFINITY, f64::min),
        most(|rated| rated.wakeups),
        most(|rated| rated.threads),
        most(|rated| rated.idled_us),
        most(|rated| rated.held as f64),
        most(|rated| rated.grown),
        parts.fold(f64::INFINITY, f64::min),
    )
}

/// The case in words, its figures, and what is wrong with them; empty: nothing is.
fn rate(seed: u64) -> Result<(String, Rated, String), String> {
    let case = Case::new(seed).map_err(|failed| failed.to_string())?;
    let text = case.text();
    let rated = case.run().map_err(|failed| format!("{text}: {failed}"))?;
    let complaint = case.judge(rated).err().unwrap_or_default();
    Ok((text, rated, complaint))
}

fn say(line: &str) -> Result<(), String> {
    output::print(&format!("{line}\n")).map_err(|error| error.to_string())
}
