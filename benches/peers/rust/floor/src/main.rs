//! What this machine must spend whatever a pool does: cache lines from CPU to CPU, wake-ups,
//! switches, clocks.
//!
//! `peer-floor` prints a table, `peer-floor --json` a line of JSON. Every figure is the least of
//! several rounds (where threads sleep: the median), so that other work on the machine matters
//! little; the two CPUs are the first two that the process may use, and what needs two is left out
//! where there is one.

mod pair;
mod single;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

/// A cost: its name for programs, for people, and nanoseconds.
type Cost = (&'static str, &'static str, f64);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let as_json = match arguments.as_slice() {
        [] => false,
        [json] if json == "--json" => true,
        _ => {
            eprintln!(
                "peer-floor measures what this machine must spend. It takes --json, or nothing."
            );
            return ExitCode::from(2);
        }
    };
    let cpus = allowed_cpus();
    let mut costs = single::costs(cpus[0]);
    costs.extend(pair::costs_on_one(cpus[0]));
    if let [first, second, ..] = cpus[..] {
        costs.extend(pair::costs_on_two(first, second));
    }
    let text = if as_json { json(&costs) } else { table(&costs) };
    // A reader that has gone away is no error.
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn json(costs: &[Cost]) -> String {
    let figures: Vec<String> = costs
        .iter()
        .map(|(key, _, ns)| format!("\"{key}\":{ns:.1}"))
        .collect();
    format!("{{{}}}\n", figures.join(","))
}

fn table(costs: &[Cost]) -> String {
    costs
        .iter()
        .map(|(_, name, ns)| match ns {
            ns if *ns < 1_000.0 => format!("{name:<66} {ns:>8.1} ns\n"),
            ns => format!("{name:<66} {:>8.1} us\n", ns / 1e3),
        })
        .collect()
}

fn allowed_cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).expect("the own affinity can be read");
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect()
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).expect("an allowed CPU");
}

/// Nanoseconds of one call, over rounds of `calls`: the least.
fn per_call(calls: u32, mut call: impl FnMut()) -> f64 {
    const ROUNDS: usize = 15;
    least((0..ROUNDS).map(|_| {
        let start = Instant::now();
        for _ in 0..calls {
            call();
        }
        start.elapsed().as_nanos() as f64 / f64::from(calls)
    }))
}

fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
