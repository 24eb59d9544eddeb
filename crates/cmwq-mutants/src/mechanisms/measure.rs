//! Builds the library with its switches, and runs loads with one of them off.

use super::switches::{self, Mechanism};
use crate::copy::{self, failed};
use crate::lines::shuffle;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;
use std::{fs, thread};

/// Nothing is off.
pub(crate) const ALL_ON: &str = "-";
/// Nothing is off in these runs either. A single one would be off by chance now and then.
pub(crate) const ALL_ON_AGAIN: &str = "=";

/// Where loads are run.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Machine {
    Real,
    #[value(name = "2")]
    Two,
    #[value(name = "2-packed")]
    TwoPacked,
    #[value(name = "16")]
    Sixteen,
    #[value(name = "64")]
    SixtyFour,
    #[value(name = "8x16")]
    EightCaches,
}

impl Machine {
    pub(crate) const ALL: [Machine; 6] = [
        Machine::Real,
        Machine::Two,
        Machine::TwoPacked,
        Machine::Sixteen,
        Machine::SixtyFour,
        Machine::EightCaches,
    ];

    /// The simulated machine: its name, its CPUs, and where its kernel wakes threads.
    fn simulated(self) -> Option<(&'static str, &'static str, &'static str)> {
        Some(match self {
            Machine::Real => return None,
            Machine::Two => ("2", "l3:1 core:2", "idle"),
            Machine::TwoPacked => ("2-packed", "l3:1 core:2", "waker"),
            Machine::Sixteen => ("16", "l3:1 core:16", "idle"),
            Machine::SixtyFour => ("64", "l3:1 core:64", "idle"),
            Machine::EightCaches => ("8x16", "l3:8 core:16", "idle"),
        })
    }

    pub(crate) fn name(self) -> &'static str {
        self.simulated().map_or("real", |(name, ..)| name)
    }

    fn loads(self) -> &'static [&'static str] {
        match self {
            Machine::Real => REAL,
            Machine::Two | Machine::TwoPacked | Machine::Sixteen => FEW_CPUS,
            Machine::SixtyFour | Machine::EightCaches => MANY_CPUS,
        }
    }
}

/// As `peer-pools cmwq LOAD MODE OPTION` takes them.
const REAL: &[&str] = &[
    "scatter-8 join",
    "scatter-64 join",
    "scatter-64 join item_ns=1000",
    "scatter-512 join item_ns=1000",
    "scatter-64 scope",
    "scatter-512 flush item_ns=1000",
    "burst-4 completion",
    "busy-burst-16 completion",
    "busy-burst-256 completion",
    "open-60 completion",
    "clients-4 completion",
    "clients-50 completion",
    "stages completion",
    "mixed completion",
    "trickle-100us completion",
    "saturated completion",
    "blocking completion",
    "window completion issuers=1",
    "window completion issuers=4 spin=3000",
    "roundtrip completion issuers=1",
    "roundtrip completion issuers=4",
    "roundtrip join issuers=2",
    "flood execute issuers=1",
    "flood work issuers=2",
    "flood spawn issuers=1",
];

/// As `cmwq sim --load` takes them.
const FEW_CPUS: &[&str] = &[
    "scatter-8",
    "scatter-64",
    "scatter-64/1",
    "scatter-512/1",
    "burst-16",
    "busy-burst-256",
    "open-60",
    "clients-50",
    "stages",
    "mixed",
    "trickle-100us",
    "saturated",
    "blocking",
    "window@1",
    "window@4",
    "window/3",
    "roundtrip",
    "flood@1",
];

/// The same without loops of empty items, which take up to a minute each there.
const MANY_CPUS: &[&str] = &[
    "scatter-8",
    "scatter-64",
    "scatter-64/1",
    "scatter-512/1",
    "burst-16",
    "busy-burst-256",
    "open-60",
    "clients-50",
    "stages",
    "mixed",
    "trickle-100us",
    "saturated",
    "blocking",
    "window@1",
    "window@4",
    "window/3",
];

/// What is added to the name of a load for its 99th percentile.
const P99: &str = " p99";

/// The load's figure is the time until an item is done, and not the rate.
fn is_timed(load: &str) -> bool {
    let timed = [
        "burst",
        "busy-burst",
        "open",
        "clients",
        "trickle",
        "saturated",
    ];
    timed.iter().any(|begins| load.starts_with(begins))
}

pub(crate) struct Built {
    pools: PathBuf,
    sim: PathBuf,
}

/// Builds the loops and the simulator with a copy of the library in which each mechanism can be
/// switched off.
pub(crate) fn build(root: &Path, kept: &Path) -> io::Result<Built> {
    let tree = copy::of_workspace(root, kept, switches::put_in)?;
    let folder = kept.join("build");
    println!("building the loops and the simulator");
    let sim = ["build", "--release", "--quiet", "-p", "cmwq-sim"];
    copy::said(copy::cargo(&tree, &folder, &sim))?;
    let loops = [
        "build",
        "--release",
        "--quiet",
        "--no-default-features",
        "-p",
        "peer-pools",
    ];
    let mut cargo = copy::cargo(&tree, &folder, &loops);
    cargo.args(["--manifest-path", "benches/peers/rust/Cargo.toml"]);
    copy::said(cargo)?;
    Ok(Built {
        pools: folder.join("release/peer-pools"),
        sim: folder.join("release/cmwq-sim"),
    })
}

/// One run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) machine: String,
    pub(crate) load: String,
    /// The mechanism that is off.
    pub(crate) off: String,
    /// From 1; of a simulated one the seed.
    pub(crate) run: u32,
}

/// What was measured so far, in a file. A figure is better if it is greater.
pub(crate) struct Results {
    path: PathBuf,
    pub(crate) of: BTreeMap<Key, f64>,
}

impl Results {
    pub(crate) fn read(path: &Path) -> io::Result<Results> {
        let mut of = BTreeMap::new();
        for line in fs::read_to_string(path).unwrap_or_default().lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [machine, load, off, run, figure] = fields[..] else {
                return Err(failed(&format!("{}: no result: {line}", path.display())));
            };
            let (Ok(run), Ok(figure)) = (run.parse(), figure.parse()) else {
                return Err(failed(&format!("{}: no number: {line}", path.display())));
            };
            let [machine, load, off] = [machine, load, off].map(str::to_owned);
            of.insert(
                Key {
                    machine,
                    load,
                    off,
                    run,
                },
                figure,
            );
        }
        let path = path.to_owned();
        Ok(Results { path, of })
    }

    fn note(&mut self, key: Key, figure: f64) -> io::Result<()> {
        let mut file = fs::File::options();
        let mut file = file.append(true).create(true).open(&self.path)?;
        writeln!(
            file,
            "{}\t{}\t{}\t{}\t{figure}",
            key.machine, key.load, key.off, key.run
        )?;
        self.of.insert(key, figure);
        Ok(())
    }
}

pub(crate) struct Plan<'a> {
    pub(crate) machines: &'a [Machine],
    pub(crate) loads: &'a [String],
    pub(crate) mechanisms: &'a [&'a Mechanism],
    pub(crate) runs: u32,
    pub(crate) time_ms: u32,
}

impl Plan<'_> {
    /// Runs what is not known yet, machine after machine: on this one run by run, each round in
    /// another order; simulated ones as many at a time as there are CPUs.
    pub(crate) fn run(
        &self,
        built: &Built,
        until: Instant,
        results: &mut Results,
    ) -> io::Result<()> {
        for &machine in self.machines {
            let left = self.left(machine, results);
            let jobs = match machine {
                Machine::Real => 1,
                _ => thread::available_parallelism().map_or(1, usize::from),
            };
            println!("{}: {} runs", machine.name(), left.len());
            let next = Mutex::new(left.into_iter());
            let results = Mutex::new(&mut *results);
            thread::scope(|scope| -> io::Result<()> {
                let work = || -> io::Result<()> {
                    loop {
                        let key = next.lock().expect("no thread panics").next();
                        let Some(key) = key.filter(|_| Instant::now() < until) else {
                            return Ok(());
                        };
                        let figures = self.figures(built, machine, &key)?;
                        let mut results = results.lock().expect("no thread panics");
                        for (suffix, figure) in figures {
                            let mut key = key.clone();
                            key.load += suffix;
                            results.note(key, figure)?;
                        }
                    }
                };
                let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
                threads
                    .into_iter()
                    .try_for_each(|thread| thread.join().expect("it does not panic"))
            })?;
        }
        Ok(())
    }

    fn left(&self, machine: Machine, results: &Results) -> Vec<Key> {
        let again = (machine == Machine::Real).then_some(ALL_ON_AGAIN);
        let offs: BTreeSet<&str> = self
            .mechanisms
            .iter()
            .map(|mechanism| mechanism.name)
            .chain([ALL_ON])
            .chain(again)
            .collect();
        let is_wanted = |load: &&&str| {
            self.loads.is_empty()
                || self
                    .loads
                    .iter()
                    .any(|name| load.starts_with(name.as_str()))
        };
        let mut left = Vec::new();
        for run in 1..=self.runs {
            let mut round = Vec::new();
            for load in machine.loads().iter().filter(is_wanted) {
                round.extend(offs.iter().map(|off| Key {
                    machine: machine.name().to_owned(),
                    load: (*load).to_owned(),
                    off: (*off).to_owned(),
                    run,
                }));
            }
            shuffle(&mut round, u64::from(run));
            left.extend(
                round
                    .into_iter()
                    .filter(|key| !results.of.contains_key(key)),
            );
        }
        left
    }

    /// The load's figure, and what others it has: what to add to the load's name for them.
    fn figures(&self, built: &Built, machine: Machine, key: &Key) -> io::Result<Figures> {
        let mut command = match machine.simulated() {
            None => {
                let mut command = Command::new(&built.pools);
                command.arg("cmwq").args(key.load.split(' '));
                command.args([
                    format!("time_ms={}", self.time_ms),
                    "warmup_ms=30".to_owned(),
                ]);
                command
            }
            Some((_, cpus, placement)) => {
                let mut command = Command::new(&built.sim);
                let seed = key.run.to_string();
                command.args(["sim", "--synthetic", cpus, "--placement", placement]);
                command.args(["--scopes", "cache_shard", "--load", &key.load]);
                command.args(["--seed", &seed, "--seeds", "1", "--jobs", "1"]);
                command.args(["--format", "json"]);
                command
            }
        };
        if let Some(number) = switches::number(&key.off) {
            command.env("CMWQ_OFF", number.to_string());
        }
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let figures = match machine {
            Machine::Real => of_loop(&key.load, &said),
            _ => of_simulation(&key.load, &said),
        };
        figures.ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            failed(&format!("{command:?} failed: {errors}"))
        })
    }
}

type Figures = Vec<(&'static str, f64)>;

fn of_loop(load: &str, said: &str) -> Option<Figures> {
    let row: serde_json::Value = serde_json::from_str(said.lines().last()?).ok()?;
    let items = row["items"].as_f64()? / row["seconds"].as_f64()?;
    figures(load, items, &row["done_p50_ns"], &row["done_p99_ns"])
}

fn of_simulation(load: &str, said: &str) -> Option<Figures> {
    let all: serde_json::Value = serde_json::from_str(said).ok()?;
    let row = all["rows"].get(0)?;
    let items = row["items_per_s"].as_f64()?;
    figures(load, items, &row["done_ns"]["p50"], &row["done_ns"]["p99"])
}

fn figures(
    load: &str,
    items: f64,
    p50_ns: &serde_json::Value,
    p99_ns: &serde_json::Value,
) -> Option<Figures> {
    Some(match is_timed(load) {
        true => vec![("", 1e9 / p50_ns.as_f64()?), (P99, 1e9 / p99_ns.as_f64()?)],
        false => vec![("", items)],
    })
}
