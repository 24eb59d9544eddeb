//! The command line.

use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Measures cmwq beside the thread pools that a program would use instead: five loops, each in every language that
/// this machine has a compiler for. Peers take turns, run by run, so that a machine that changes its mood does it to all.
#[derive(Parser)]
#[command(
    bin_name = "benches/peers/run",
    name = "benches/peers/run",
    after_help = "Examples:\n  benches/peers/run --quick\n  benches/peers/run --loops roundtrip,flood --peers tokio-spawn,rayon --runs 9\n  \
                  benches/peers/run --format json > run.json; benches/peers/run --from run.json --html page.html"
)]
pub(crate) struct Args {
    /// Which loops.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["roundtrip", "flood", "window", "idle", "block"])]
    pub(crate) loops: Vec<Lap>,
    /// Which peers beside cmwq (see --list); all that were built if left out.
    #[arg(long, value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// Runs of each; medians, least and greatest of them are printed.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
    /// Numbers of issuers instead of each loop's own.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) issuers: Vec<u32>,
    /// Measured time of a run, in milliseconds.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=600_000))]
    pub(crate) time_ms: u32,
    /// How often a run is tried again if others used the CPUs meanwhile; the least disturbed counts.
    #[arg(long, value_name = "TIMES", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) again: u32,
    /// One short run of each, with fewer issuers: that all works, not how fast it is.
    #[arg(long)]
    pub(crate) quick: bool,
    /// How to print.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
    /// Also write a page with bars; it needs nothing but itself.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
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

/// A loop.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
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
        }
    }
}

impl Args {
    pub(crate) fn runs(&self) -> u32 {
        if self.quick { 1 } else { self.runs }
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_millis(if self.quick { 150 } else { self.time_ms.into() })
    }

    /// How often a run that others disturbed is tried again.
    pub(crate) fn patience(&self) -> u32 {
        if self.quick { 0 } else { self.again }
    }

    /// How long the idle loop does nothing.
    pub(crate) fn idle_time(&self) -> Duration {
        Duration::from_secs(if self.quick { 1 } else { 10 })
    }

    /// Numbers of issuers for a loop on a machine with so many CPUs.
    pub(crate) fn issuers_of(&self, lap: Lap, cpus: usize) -> Vec<usize> {
        if lap == Lap::Idle {
            return vec![1];
        }
        let mut numbers = match lap {
            _ if !self.issuers.is_empty() => self.issuers.iter().map(|&n| n as usize).collect(),
            _ if self.quick => vec![1, cpus],
            Lap::Roundtrip => vec![1, cpus, 2 * cpus, 8 * cpus],
            Lap::Window | Lap::Flood => vec![1, 2, 4, cpus],
            Lap::Idle | Lap::Block => vec![1, cpus],
        };
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}
