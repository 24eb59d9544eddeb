//! Which runs, in which order, and doing them.

use crate::args::{Args, Hogging, Lap};
use crate::machine::SPIN;
use crate::process::{self, Figures, Watch};
use crate::programs::{Built, Offer, Program};
use crate::results::{DISTURBED_PERCENT, Entry, NO_POOL, Row, derive};
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// What every run is told.
pub(crate) struct Settings {
    pub(crate) cpus: usize,
    pub(crate) spin_steps: u64,
}

/// A row to measure and who takes part.
struct Start<'a> {
    lap: Lap,
    issuers: usize,
    item_us: Option<f64>,
    peers: Vec<&'a (Program, Offer)>,
}

/// Measures everything that was asked for, in a row the peers in turns: row after row, or, where the
/// time is limited, one round of each row after the other. And says for what there was no time.
pub(crate) fn measure(built: &Built, args: &Args, settings: &Settings) -> (Vec<Row>, Vec<String>) {
    let mut starts = Vec::new();
    for lap in args.loops() {
        let peers = built
            .offers
            .iter()
            .filter(|(_, offer)| offer.lap == lap.name() && wanted(args, offer))
            .collect::<Vec<_>>();
        for issuers in args.issuers_of(lap, settings.cpus) {
            for item_us in args.item_us_of(lap) {
                starts.push(Start {
                    lap,
                    issuers,
                    item_us,
                    peers: peers.clone(),
                });
            }
        }
    }
    let total = starts.iter().map(|start| start.peers.len()).sum::<usize>() * args.runs() as usize;
    let mut progress = Progress::new(total);
    let mut begun: Vec<Row> = starts.iter().map(Start::row).collect();
    for (run, at) in order(starts.len(), args.runs(), args.within.is_some()) {
        // A round is measured whole: peers must have as many runs.
        if progress.is_late(args) {
            break;
        }
        measure_round(
            run,
            &starts[at],
            &mut begun[at],
            args,
            settings,
            &mut progress,
        );
    }
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    for mut row in begun {
        if row.entries.iter().any(|entry| !entry.runs.is_empty()) || !progress.is_late(args) {
            row.compare_with_ceiling();
            rows.push(row);
        } else {
            let (lap, issuers) = (&row.lap, row.issuers);
            left_out.push(format!("no time was left for {lap} with {issuers} issuers"));
        }
    }
    (rows, left_out)
}

/// The rounds of all rows: the number of each, from 1, and its row. If the time may end before all
/// are done, each row has its first round before any has its second.
fn order(rows: usize, runs: u32, is_limited: bool) -> Vec<(u32, usize)> {
    match is_limited {
        true => (1..=runs)
            .flat_map(|run| (0..rows).map(move |at| (run, at)))
            .collect(),
        false => (0..rows)
            .flat_map(|at| (1..=runs).map(move |run| (run, at)))
            .collect(),
    }
}

/// Whether a peer takes part; cmwq always does, and what tells the ceiling.
pub(crate) fn wanted(args: &Args, offer: &Offer) -> bool {
    let always = ["cmwq", NO_POOL].contains(&offer.peer.as_str());
    always || args.peers.is_empty() || args.peers.contains(&offer.peer)
}

/// A line for each peer and loop that were named and do not go together.
pub(crate) fn without_loop(built: &Built, args: &Args) -> Vec<String> {
    let mut lines = Vec::new();
    for peer in &args.peers {
        let offers = built.offers.iter().map(|(_, offer)| offer);
        let own: BTreeSet<&str> = offers
            .filter(|offer| offer.peer == *peer)
            .map(|offer| offer.lap.as_str())
            .collect();
        let all: Vec<&str> = own.iter().copied().collect();
        let laps = args.loops().into_iter().map(|lap| lap.name());
        // A peer that is not there at all is refused.
        for lap in laps.filter(|lap| !own.is_empty() && !own.contains(lap)) {
            lines.push(format!(
                "{peer} in {lap}: it has no such loop; it has {}",
                all.join(", ")
            ));
        }
    }
    lines
}

impl Start<'_> {
    /// The row, before anything is measured.
    fn row(&self) -> Row {
        let entries = self.peers.iter().map(|(_, offer)| Entry {
            peer: offer.peer.clone(),
            version: offer.version.clone(),
            mode: offer.mode.clone(),
            runs: Vec::new(),
            error: None,
        });
        Row {
            lap: self.lap.name().to_owned(),
            issuers: self.issuers,
            item_us: self.item_us,
            entries: entries.collect(),
        }
    }
}

/// One run of each peer.
fn measure_round(
    run: u32,
    start: &Start<'_>,
    row: &mut Row,
    args: &Args,
    settings: &Settings,
    progress: &mut Progress,
) {
    for ((program, offer), entry) in start.peers.iter().zip(&mut row.entries) {
        progress.step(&format!(
            "run {run}/{}: {} with {} issuers, {}",
            args.runs(),
            row.lap,
            row.issuers,
            entry.label()
        ));
        // Who failed once is left out: its figures would be of another number of runs.
        if entry.error.is_some() {
            continue;
        }
        let arguments = arguments(start, offer, args, settings);
        match undisturbed(
            program,
            &arguments,
            &watch(start.lap, args, settings.cpus),
            args.patience(),
        ) {
            Ok(mut figures) => {
                derive(&mut figures);
                if start.lap == Lap::Hogged {
                    figures.extend(told(&args.hogging(settings.cpus)));
                }
                entry.runs.push(figures);
            }
            Err(error) => {
                entry.runs.clear();
                entry.error = Some(error);
            }
        }
    }
}

/// Runs it again, as often as `patience` says, if others took more of the CPUs than
/// [`DISTURBED_PERCENT`]; the least disturbed run counts.
fn undisturbed(
    program: &Program,
    arguments: &[String],
    watch: &Watch,
    patience: u32,
) -> Result<Figures, String> {
    let others = |figures: &Figures| figures.get("others_percent").copied().unwrap_or(0.0);
    let mut best = process::run_beside(program, arguments, watch)?;
    for _ in 0..patience {
        if others(&best) <= DISTURBED_PERCENT {
            break;
        }
        let again = process::run_beside(program, arguments, watch)?;
        if others(&again) < others(&best) {
            best = again;
        }
    }
    Ok(best)
}

fn arguments(start: &Start<'_>, offer: &Offer, args: &Args, settings: &Settings) -> Vec<String> {
    let mut arguments = vec![offer.peer.clone(), offer.lap.clone(), offer.mode.clone()];
    let mut set = |key: &str, value: u128| arguments.push(format!("{key}={value}"));
    set("issuers", start.issuers as u128);
    set("workers", settings.cpus as u128);
    set("time_ms", args.time(start.lap).as_millis());
    if let Lap::Everyday(_) = start.lap {
        set("warmup_ms", args.time(start.lap).as_millis().div_ceil(4));
    }
    if let Some(item_us) = start.item_us {
        set("item_ns", (item_us * 1e3) as u128);
    }
    match start.lap {
        lap if lap.spins() => set("spin", settings.spin_steps.into()),
        Lap::Hogged => {
            let hogging = args.hogging(settings.cpus);
            set("hogs", hogging.hogs as u128);
            set("spin", settings.spin_steps.into());
            set("spins", hogging.hog.as_nanos() / SPIN.as_nanos());
            set("samples", hogging.samples.into());
            set("batch", hogging.batch.into());
            set("period_us", hogging.period.as_micros());
        }
        Lap::Idle if args.quick => set("samples", 100),
        lap if lap.has_rounds() && args.quick => set("items", 20_000),
        _ => {}
    }
    arguments
}

fn watch(lap: Lap, args: &Args, cpus: usize) -> Watch {
    let mut limit = Duration::from_secs(60) + args.time(lap) * 8 + args.idle_time();
    if lap == Lap::Hogged {
        // Even with less than one CPU for all of it.
        limit += args.hogging(cpus).cpu_time() * 2;
    }
    Watch {
        idle_time: (lap == Lap::Idle).then(|| args.idle_time()),
        limit,
    }
}

/// What the table of the hogged loop has to say of its runs.
fn told(hogging: &Hogging) -> [(String, f64); 3] {
    [
        ("hogs", hogging.hogs as f64),
        ("hog_ms", hogging.hog.as_secs_f64() * 1e3),
        ("period_ms", hogging.period.as_secs_f64() * 1e3),
    ]
    .map(|(key, value)| (key.to_owned(), value))
}

/// A line on standard error that says how far it is.
struct Progress {
    done: usize,
    total: usize,
    since: Instant,
    is_terminal: bool,
}

impl Progress {
    fn new(total: usize) -> Progress {
        Progress {
            done: 0,
            total,
            since: Instant::now(),
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Whether no run may begin any more.
    fn is_late(&self, args: &Args) -> bool {
        let within = args
            .within
            .map(|seconds| Duration::from_secs(seconds.into()));
        within.is_some_and(|within| self.since.elapsed() >= within)
    }

    fn step(&mut self, what: &str) {
        let (start, end) = if self.is_terminal {
            ("\r\x1b[K", "")
        } else {
            ("", "\n")
        };
        let left = match self.done {
            0 => String::new(),
            done => {
                let rest =
                    self.since.elapsed().as_secs_f64() / done as f64 * (self.total - done) as f64;
                format!(", about {:.0} s left", rest)
            }
        };
        self.done += 1;
        // Progress that nobody reads is no reason to stop.
        let _ = write!(
            std::io::stderr(),
            "{start}[{}/{}] {what}{left}{end}",
            self.done,
            self.total
        );
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn each_row_has_a_round_before_any_has_two_if_the_time_is_limited() {
        assert_eq!(order(2, 2, true), [(1, 0), (1, 1), (2, 0), (2, 1)]);
        assert_eq!(order(2, 2, false), [(1, 0), (2, 0), (1, 1), (2, 1)]);
    }

    #[test]
    fn a_peer_without_the_loop_is_named() {
        let offer = |peer: &str, lap: &str| {
            let program = Program {
                path: "program".into(),
                arguments: Vec::new(),
            };
            let offer = Offer {
                peer: peer.to_owned(),
                version: "1".to_owned(),
                lap: lap.to_owned(),
                mode: "park".to_owned(),
            };
            (program, offer)
        };
        let built = Built {
            offers: vec![
                offer("cmwq", "roundtrip"),
                offer("a", "await-empty"),
                offer("b", "roundtrip"),
            ],
            missing: Vec::new(),
        };
        let said = |line: &str| {
            let args = Args::parse_from(std::iter::once("run").chain(line.split(' ')));
            without_loop(&built, &args)
        };
        let line = "a in roundtrip: it has no such loop; it has await-empty";
        assert_eq!(said("--loops roundtrip --peers a,b"), [line]);
        assert!(said("--loops roundtrip --peers b").is_empty());
        assert!(said("--loops roundtrip").is_empty(), "not asked for");
    }

    fn hogged_arguments(more: &[&str]) -> Vec<String> {
        arguments_of(Lap::Hogged, more)
    }

    fn arguments_of(lap: Lap, more: &[&str]) -> Vec<String> {
        let args = Args::parse_from(["run"].iter().chain(more));
        let settings = Settings {
            cpus: 2,
            spin_steps: 7_000,
        };
        let offer = Offer {
            peer: "a".to_owned(),
            version: "1".to_owned(),
            lap: lap.name().to_owned(),
            mode: "start".to_owned(),
        };
        let start = Start {
            lap,
            issuers: 1,
            item_us: None,
            peers: Vec::new(),
        };
        arguments(&start, &offer, &args, &settings)
    }

    #[test]
    fn a_run_of_the_hogged_loop_is_told_its_hogs_and_samples() {
        let usual = hogged_arguments(&[]);
        assert_eq!(usual[..3], ["a", "hogged", "start"]);
        for setting in [
            "issuers=1",
            "workers=2",
            "hogs=8",
            "spin=7000",
            "spins=50000",
            "samples=200",
            "batch=25",
            "period_us=20000",
        ] {
            assert!(
                usual.iter().any(|given| given == setting),
                "{setting}: {usual:?}"
            );
        }
        let quick = hogged_arguments(&["--quick"]);
        for setting in ["hogs=3", "spins=10000", "samples=10"] {
            assert!(
                quick.iter().any(|given| given == setting),
                "{setting}: {quick:?}"
            );
        }
    }

    #[test]
    fn a_loop_is_told_of_the_calibrated_spin_if_its_items_compute_and_of_its_items_if_it_has_rounds()
     {
        let is_told = |lap, more: &[&str], key: &str| {
            let told = arguments_of(lap, more);
            told.iter().any(|setting| setting.starts_with(key))
        };
        for lap in [Lap::Epoll, Lap::Fork, Lap::AwaitMulti] {
            assert!(is_told(lap, &[], "spin=7000"), "{}", lap.name());
        }
        for lap in [Lap::Batch100, Lap::Loop1e7, Lap::AwaitMultiEmpty] {
            assert!(!is_told(lap, &[], "spin="), "{}", lap.name());
        }
        assert!(is_told(Lap::Batch10, &["--quick"], "items=20000"));
        assert!(!is_told(Lap::Batch10, &[], "items="));
    }

    #[test]
    fn a_run_of_the_hogged_loop_is_not_stopped_before_its_hogs_have_ended() {
        let args = Args::parse_from(["run", "--time-ms", "10"]);
        let watch = watch(Lap::Hogged, &args, 64);
        assert!(watch.limit > args.hogging(64).cpu_time());
        assert!(watch.idle_time.is_none());
    }
}
