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
    let mut rated = 0_u64;
    let mut worst = Rated {
        to_one_cpu: f64::INFINITY,
        wakeups: 0.0,
    };
    let works = seeds.map(|seed| move || rate(seed));
    let done = apart::run_all(jobs, works, |number, result| {
        let seed = first + number as u64;
        let (text, to_one_cpu, wakeups, complaint) =
            result.map_err(|why| format!("seed {seed}: {why}"))?;
        rated += 1;
        worst.to_one_cpu = worst.to_one_cpu.min(to_one_cpu);
        worst.wakeups = worst.wakeups.max(wakeups);
        let figures = format!("{to_one_cpu:.2} of one CPU, {wakeups:.2} wake-ups an item");
        if complaint.is_empty() {
            return if shows {
                say(&format!("seed {seed}: {text}: {figures}"))
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
        "rated {rated} seeds, {failures} failures; the worst has {:.2} of one CPU's rate, {:.2} wake-ups an item",
        worst.to_one_cpu, worst.wakeups
    ))
    .map_err(CliError::new)?;
    Ok(if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The case in words, its figures, and what is wrong with them; empty: nothing is.
fn rate(seed: u64) -> Result<(String, f64, f64, String), String> {
    let case = Case::new(seed).map_err(|failed| failed.to_string())?;
    let text = case.text();
    let rated = case.run().map_err(|failed| format!("{text}: {failed}"))?;
    let complaint = case.judge(rated).err().unwrap_or_default();
    Ok((text, rated.to_one_cpu, rated.wakeups, complaint))
}

fn say(line: &str) -> Result<(), String> {
    output::print(&format!("{line}\n")).map_err(|error| error.to_string())
}
