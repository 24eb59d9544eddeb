//! Builds the peers' programs, runs them in turns, and compares. See `benches/peers/README.md`.

mod args;
mod csv;
mod html;
mod machine;
mod metrics;
mod plan;
mod process;
mod programs;
mod results;
mod text;

use args::{Args, Format, Lap};
use clap::Parser;
use plan::Settings;
use process::{Figures, Watch};
use programs::{Built, Program};
use results::Results;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    let failed = |file: &Path, error| format!("{}: {error}", file.display());
    for file in [&args.html, &args.csv].into_iter().flatten() {
        // Asked before hours of measuring; what is there stays until then.
        let there = OpenOptions::new().append(true).create(true).open(file);
        there.map_err(|error| failed(file, error))?;
    }
    let notes = match &args.notes {
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| format!("--notes {}: {error}", file.display()))?,
        None => String::new(),
    };
    let mut results = if args.from.is_empty() {
        let built = build(args)?;
        if args.list {
            return list(&built, args);
        }
        measure(&built, args)
    } else {
        read(&args.from)?
    };
    results.compare();
    let page = match &args.html {
        Some(file) => {
            std::fs::write(file, html::render(&results, &notes)).map_err(|e| failed(file, e))
        }
        None => Ok(()),
    };
    let table = match &args.csv {
        Some(file) => std::fs::write(file, csv::render(&results)).map_err(|e| failed(file, e)),
        None => Ok(()),
    };
    match args.format {
        Format::Text => print(&text::render(&results))?,
        Format::Json => {
            let json = serde_json::to_string_pretty(&results).map_err(|error| error.to_string())?;
            print(&(json + "\n"))?;
        }
    }
    page.and(table)
}

/// Builds what can be built, says what cannot, and refuses peers that no program offers.
fn build(args: &Args) -> Result<Built, String> {
    if let Some(folder) = &args.programs {
        return wanted_are_there(programs::built_before(folder)?, args);
    }
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let only_rust = args
        .loops()
        .iter()
        .all(|lap| matches!(lap, Lap::Everyday(_)));
    let built = programs::build(&peers, &out_directory()?, args.only_cmwq, only_rust)?;
    wanted_are_there(built, args)
}

fn wanted_are_there(mut built: Built, args: &Args) -> Result<Built, String> {
    built.missing.extend(plan::without_loop(&built, args));
    for line in &built.missing {
        eprintln!("missing: {line}");
    }
    for peer in &args.peers {
        if !built.offers.iter().any(|(_, offer)| &offer.peer == peer) {
            let mut known: Vec<&str> = built
                .offers
                .iter()
                .map(|(_, offer)| offer.peer.as_str())
                .collect();
            known.dedup();
            return Err(format!("--peers {peer}: there are {}", known.join(", ")));
        }
    }
    Ok(built)
}

/// Beside this program.
fn out_directory() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(this.parent().unwrap_or(Path::new(".")).join("peers"))
}

fn list(built: &Built, args: &Args) -> Result<(), String> {
    let lines: String = built
        .offers
        .iter()
        .filter(|(_, offer)| plan::wanted(args, offer))
        .filter(|(_, offer)| args.loops().iter().any(|lap| lap.name() == offer.lap))
        .map(|(_, offer)| {
            format!(
                "{:<10} {:<22} {:<11} {}\n",
                offer.lap, offer.peer, offer.mode, offer.version
            )
        })
        .collect();
    print(&lines)
}

fn measure(built: &Built, args: &Args) -> Results {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let (spin_steps, item_ns) = machine::calibrate_spin();
    let settings = Settings { cpus, spin_steps };
    let (rows, left_out) = plan::measure(built, args, &settings);
    let missing = built.missing.iter().chain(&left_out).cloned().collect();
    Results {
        tool: "cmwq-peers".to_owned(),
        machine: machine::describe(),
        date: machine::today(),
        cpus,
        runs: args.runs(),
        time_ms: args.longest().as_millis() as u64,
        idle_ms: args.idle_time().as_millis() as u64,
        item_ns,
        floor: if args.quick { Figures::new() } else { floor() },
        missing,
        rows,
        comparisons: Vec::new(),
    }
}

/// What the machine must spend in any case. Nothing if the program that measures it fails: it is
/// for information.
fn floor() -> Figures {
    let Ok(out) = out_directory() else {
        return Figures::new();
    };
    let program = Program {
        path: out.with_file_name("peer-floor"),
        arguments: Vec::new(),
    };
    let watch = Watch {
        idle_time: None,
        limit: Duration::from_secs(60),
    };
    process::run(&program, &["--json".to_owned()], &watch).unwrap_or_else(|error| {
        eprintln!("missing: the floor: {error}");
        Figures::new()
    })
}

/// Results that were written earlier; of several files, the machine and the settings are those of the first.
fn read(files: &[PathBuf]) -> Result<Results, String> {
    let mut all: Option<Results> = None;
    for file in files {
        let name = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
        let results: Results =
            serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
        match &mut all {
            None => all = Some(results),
            Some(all) => {
                all.missing.extend(results.missing);
                all.missing.sort();
                all.missing.dedup();
                all.add(results.rows);
            }
        }
    }
    all.ok_or_else(|| "--from: no file".to_owned())
}

/// To standard output; a reader that has gone away is no error.
fn print(text: &str) -> Result<(), String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_cannot_be_written_is_refused_before_anything_else() {
        let line = [
            "run",
            "--html",
            "/nowhere/page.html",
            "--from",
            "/nowhere/run.json",
        ];
        let error = run(&Args::parse_from(line)).expect_err("no such folder");
        assert!(error.contains("/nowhere/page.html"), "{error}");
    }
}
