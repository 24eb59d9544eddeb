//! The command line.

use clap::builder::PossibleValue;
use clap::{Parser, ValueEnum};
use cmwq_loads::Load;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

/// Measures cmwq beside the thread pools that a program would use instead: six loops unless others
/// are named, each in every language that this machine has a compiler for. The pools take turns,
/// run by run, so that a machine whose speed changes from minute to minute does not favour one of
/// them.
#[derive(Parser)]
#[command(
    bin_name = "benches/peers/run",
    name = "benches/peers/run",
    after_help = "Examples:\n  benches/peers/run --quick\n  benches/peers/run --everyday\n  benches/peers/run --loops roundtrip,flood --peers tokio-spawn,rayon --runs 9\n  \
                  benches/peers/run --format json > run.json; benches/peers/run --from run.json --html page.html"
)]
pub(crate) struct Args {
    /// Which loops (see below); by default the first six.
    #[arg(long, value_enum, value_delimiter = ',')]
    loops: Vec<Lap>,
    /// Measure loads that programs have every day (bursts, joins, clients, stages and so on)
    /// instead of the six loops.
    #[arg(long)]
    pub(crate) everyday: bool,
    /// With --everyday: how long an item computes, in microseconds; each number gives a row.
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, value_parser = microseconds)]
    pub(crate) item_us: Vec<f64>,
    /// Which pools to compare with cmwq (see --list); by default all that were built.
    #[arg(long, value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// How often each is measured; the median, the least and the greatest are printed.
    #[arg(long, default_value_t = 5, allow_hyphen_values = true, value_parser = whole(1, 1000))]
    pub(crate) runs: u32,
    /// Numbers of threads that queue items, instead of each loop's own.
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, value_parser = whole(1, 1024))]
    pub(crate) issuers: Vec<u32>,
    /// Measured time of a run, in milliseconds: 1000; in the loads of every day 250, unless it goes
    /// on until it is steady.
    #[arg(long, allow_hyphen_values = true, value_parser = whole(10, 600_000))]
    pub(crate) time_ms: Option<u32>,
    /// How often a run is tried again if others used the CPUs meanwhile; the least disturbed counts.
    #[arg(long, value_name = "TIMES", default_value_t = 2, allow_hyphen_values = true, value_parser = whole(0, 100))]
    pub(crate) again: u32,
    /// One short run of each with fewer threads, to see that everything works; the rates mean nothing.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
    /// Also write a page with bar charts, which needs no other file.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Also write every figure as a line of CSV: median, least and greatest.
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// With --html: put the text of this file at the end of the page.
    #[arg(long, value_name = "FILE", requires = "html")]
    pub(crate) notes: Option<PathBuf>,
    /// Begin no run after this many seconds; rows that were not reached are left out.
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, value_parser = whole(1, 1_000_000))]
    pub(crate) within: Option<u32>,
    /// Build nothing; run the programs in this folder whose names begin with `peer-`.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) programs: Option<PathBuf>,
    /// Measure nothing; show what `--format json` wrote earlier (several files: their rows together).
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(crate) from: Vec<PathBuf>,
    /// Build only the programs without cmwq's competitors in Rust, Go, Java, C and C++: cmwq alone.
    #[arg(long)]
    pub(crate) only_cmwq: bool,
    /// Say which peers there are, and measure nothing.
    #[arg(long)]
    pub(crate) list: bool,
}

/// Reads an option that is a whole number of this range.
fn whole(least: u32, most: u32) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let number = text.parse().ok();
        let allowed = number.filter(|number| (least..=most).contains(number));
        allowed.ok_or_else(|| format!("it must be a whole number from {least} to {most}"))
    }
}

/// Reads what an item computes.
fn microseconds(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    let allowed = number.filter(|number| (0.0..=1e6).contains(number));
    allowed.ok_or_else(|| "it must be a number of microseconds from 0 to 1000000".to_owned())
}

/// A loop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lap {
    /// Queue one item, wait for it.
    Roundtrip,
    /// Queue as fast as possible, then wait for all.
    Flood,
    /// Keep 64 items of 20 µs in flight.
    Window,
    /// From submit to start when idle, and CPU time used when idle.
    Idle,
    /// As window, and every fourth item sleeps 1 ms in a system call first.
    Block,
    /// From submit to start of empty items behind items that compute for a second each.
    Hogged,
    /// As window, with issuers that wait in an event loop.
    Epoll,
    /// As flood, in bursts of so many items.
    Batch1,
    Batch10,
    Batch100,
    /// A parallel loop over so many elements.
    Loop1e5,
    Loop1e7,
    /// A tree of forks and joins.
    Fork,
    /// 64 short items in a scope.
    Scope,
    /// Tasks of a tokio runtime that await an item; the issuers are tasks. On one thread or on two,
    /// items of 20 µs or empty.
    AwaitCurrent,
    AwaitCurrentEmpty,
    AwaitMulti,
    AwaitMultiEmpty,
    /// Tasks of a tokio runtime that await short reads, while all CPUs are busy.
    AwaitReads,
    /// Tasks of a tokio runtime that await the reading of small files.
    AwaitCache,
    /// One of the loads of every day.
    Everyday(&'static Load),
}

/// The loops of this program: those that are usual come first.
const OWN: [Lap; 20] = [
    Lap::Roundtrip,
    Lap::Flood,
    Lap::Window,
    Lap::Idle,
    Lap::Block,
    Lap::Hogged,
    Lap::Epoll,
    Lap::Batch1,
    Lap::Batch10,
    Lap::Batch100,
    Lap::Loop1e5,
    Lap::Loop1e7,
    Lap::Fork,
    Lap::Scope,
    Lap::AwaitCurrent,
    Lap::AwaitCurrentEmpty,
    Lap::AwaitMulti,
    Lap::AwaitMultiEmpty,
    Lap::AwaitReads,
    Lap::AwaitCache,
];
/// How many of them run if none is named.
const USUAL: usize = 6;

impl ValueEnum for Lap {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Lap>> = LazyLock::new(|| {
            let loads = Load::everyday().map(Lap::Everyday);
            OWN.into_iter().chain(loads).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(self.about()))
    }
}

/// A run of the hogged loop.
pub(crate) struct Hogging {
    /// Items that compute for long, in each batch.
    pub(crate) hogs: usize,
    /// How long each of them computes on a CPU alone.
    pub(crate) hog: Duration,
    /// Empty items over all batches, and in one.
    pub(crate) samples: u32,
    pub(crate) batch: u32,
    /// From one empty item to the next.
    pub(crate) period: Duration,
}

impl Hogging {
    /// CPU time of all hogs of a run.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.hog * self.samples.div_ceil(self.batch) * self.hogs as u32
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

impl Lap {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Lap::Roundtrip => "roundtrip",
            Lap::Flood => "flood",
            Lap::Window => "window",
            Lap::Idle => "idle",
            Lap::Block => "block",
            Lap::Hogged => "hogged",
            Lap::Epoll => "epoll",
            Lap::Batch1 => "batch-1",
            Lap::Batch10 => "batch-10",
            Lap::Batch100 => "batch-100",
            Lap::Loop1e5 => "loop-1e5",
            Lap::Loop1e7 => "loop-1e7",
            Lap::Fork => "fork",
            Lap::Scope => "scope",
            Lap::AwaitCurrent => "await-current",
            Lap::AwaitCurrentEmpty => "await-current-empty",
            Lap::AwaitMulti => "await-multi",
            Lap::AwaitMultiEmpty => "await-multi-empty",
            Lap::AwaitReads => "await-reads",
            Lap::AwaitCache => "await-cache",
            Lap::Everyday(load) => load.name,
        }
    }

    /// What it does, in a line.
    fn about(self) -> &'static str {
        match self {
            Lap::Roundtrip => "Queue one item, wait for it",
            Lap::Flood => "Queue as fast as possible, then wait for all",
            Lap::Window => "Keep 64 items of 20 µs in flight",
            Lap::Idle => "From submit to start when idle, and CPU time used when idle",
            Lap::Block => "As window, and every fourth item sleeps 1 ms in a system call first",
            Lap::Hogged => "From submit to start of empty items behind items of a second",
            Lap::Epoll => "As window, with issuers that wait in an event loop",
            Lap::Batch1 | Lap::Batch10 | Lap::Batch100 => "As flood, in bursts of so many items",
            Lap::Loop1e5 | Lap::Loop1e7 => "A parallel loop over so many elements",
            Lap::Fork => "A tree of forks and joins",
            Lap::Scope => "64 short items in a scope",
            Lap::AwaitCurrent => "Tasks of a tokio runtime of one thread await items of 20 µs",
            Lap::AwaitCurrentEmpty => "The same with empty items",
            Lap::AwaitMulti => "Tasks of a tokio runtime of two threads await items of 20 µs",
            Lap::AwaitMultiEmpty => "The same with empty items",
            Lap::AwaitCache => {
                "Tasks await the opening and reading of small files of the page cache"
            }
            Lap::AwaitReads => {
                "Tasks await reads from the page cache while a thread computes on each CPU"
            }
            Lap::Everyday(load) => load.about,
        }
    }

    /// Whether its items compute for as long as the spin that was calibrated, or for a share of it.
    pub(crate) fn spins(self) -> bool {
        use Lap::{AwaitCurrent, AwaitMulti, Block, Epoll, Fork, Scope, Window};
        matches!(
            self,
            Window | Block | Epoll | Fork | Scope | AwaitCurrent | AwaitMulti | Lap::Everyday(_)
        )
    }

    /// Whether it is measured in rounds of so many items.
    pub(crate) fn has_rounds(self) -> bool {
        use Lap::{Batch1, Batch10, Batch100, Flood};
        matches!(self, Flood | Batch1 | Batch10 | Batch100)
    }
}

impl Args {
    pub(crate) fn runs(&self) -> u32 {
        if self.quick { 1 } else { self.runs }
    }

    /// The loops that were named, or else those that are usual.
    pub(crate) fn loops(&self) -> Vec<Lap> {
        match (self.loops.is_empty(), self.everyday) {
            (true, false) => OWN[..USUAL].to_vec(),
            (true, true) => Load::everyday().map(Lap::Everyday).collect(),
            (false, _) => self.loops.clone(),
        }
    }

    pub(crate) fn time(&self, lap: Lap) -> Duration {
        let usual = match lap {
            Lap::Everyday(_) => 250,
            _ => 1000,
        };
        Duration::from_millis(match self.time_ms {
            _ if self.quick => 150,
            Some(time_ms) => time_ms.into(),
            None => usual,
        })
    }

    /// The measured time of the loop that takes longest.
    pub(crate) fn longest(&self) -> Duration {
        let times = self.loops().into_iter().map(|lap| self.time(lap));
        times.max().unwrap_or_default()
    }

    /// What an item computes, where it is not the load's own.
    pub(crate) fn item_us_of(&self, lap: Lap) -> Vec<Option<f64>> {
        match lap {
            Lap::Everyday(_) if !self.item_us.is_empty() => {
                self.item_us.iter().copied().map(Some).collect()
            }
            _ => vec![None],
        }
    }

    /// How often a run that others disturbed is tried again.
    pub(crate) fn patience(&self) -> u32 {
        if self.quick { 0 } else { self.again }
    }

    /// How long the idle loop does nothing.
    pub(crate) fn idle_time(&self) -> Duration {
        Duration::from_secs(if self.quick { 1 } else { 10 })
    }

    /// What a run of the hogged loop queues on a machine with so many CPUs.
    pub(crate) fn hogging(&self, cpus: usize) -> Hogging {
        if self.quick {
            return Hogging {
                hogs: cpus + 1,
                hog: Duration::from_millis(200),
                samples: 10,
                batch: 10,
                period: Duration::from_millis(10),
            };
        }
        Hogging {
            hogs: 4 * cpus,
            hog: Duration::from_secs(1),
            samples: 200,
            batch: 25,
            period: Duration::from_millis(20),
        }
    }

    /// Numbers of issuers for a loop on a machine with so many CPUs.
    pub(crate) fn issuers_of(&self, lap: Lap, cpus: usize) -> Vec<usize> {
        if matches!(lap, Lap::Idle | Lap::Hogged) {
            return vec![1];
        }
        let mut numbers = match lap {
            _ if !self.issuers.is_empty() => self.issuers.iter().map(|&n| n as usize).collect(),
            Lap::Everyday(load) => vec![load.issuers.on(cpus)],
            _ if self.quick => vec![1, cpus],
            Lap::Roundtrip => vec![1, cpus, 2 * cpus, 8 * cpus],
            Lap::Window | Lap::Flood | Lap::Epoll => vec![1, 2, 4, cpus],
            Lap::Batch1 | Lap::Batch10 | Lap::Batch100 => vec![1, cpus],
            Lap::Loop1e5 | Lap::Loop1e7 | Lap::Fork | Lap::Scope => vec![1, cpus],
            Lap::AwaitCurrent | Lap::AwaitCurrentEmpty => vec![1, 16, 64],
            Lap::AwaitMulti | Lap::AwaitMultiEmpty => vec![1, 16, 64],
            Lap::AwaitReads => vec![8, 16],
            Lap::AwaitCache => vec![16, 64],
            Lap::Idle | Lap::Block | Lap::Hogged => vec![1, cpus],
        };
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(more: &[&str]) -> Args {
        Args::parse_from(["run"].iter().chain(more))
    }

    #[test]
    fn six_loops_run_if_none_is_named_and_each_runs_if_it_is() {
        let usual: Vec<&str> = args(&[]).loops().iter().map(|lap| lap.name()).collect();
        assert_eq!(
            usual,
            ["roundtrip", "flood", "window", "idle", "block", "hogged"]
        );
        for lap in Lap::value_variants() {
            let named = args(&["--loops", lap.name()]).loops();
            assert!(named == [*lap], "{}", lap.name());
        }
    }

    #[test]
    fn a_number_out_of_range_is_refused_with_what_is_allowed() {
        for option in ["--runs", "--issuers", "--time-ms", "--again"] {
            for bad in ["", "-1", "x", "1.5", "4294967296"] {
                let refused = Args::try_parse_from(["run", option, bad]).err();
                let error = refused.expect("must be refused").to_string();
                assert!(
                    error.contains(&format!("'{bad}'")) && error.contains("a whole number from"),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn the_hogged_loop_has_one_issuer_and_more_hogs_than_cpus() {
        for more in [&["--quick"][..], &["--issuers", "4"][..]] {
            assert_eq!(args(more).issuers_of(Lap::Hogged, 2), [1]);
        }
        let hogging = args(&[]).hogging(2);
        assert_eq!((hogging.hogs, hogging.samples), (8, 200));
        assert_eq!(hogging.cpu_time(), Duration::from_secs(64));
        for cpus in [1, 2, 64] {
            for more in [&[][..], &["--quick"][..]] {
                let hogging = args(more).hogging(cpus);
                assert!(hogging.hogs > cpus);
                // The samples of a batch come before the first hogs end on CPUs of their own.
                assert!(hogging.period * hogging.batch < hogging.hog);
            }
        }
        assert!(args(&["--quick"]).hogging(2).cpu_time() < Duration::from_secs(1));
    }
}
