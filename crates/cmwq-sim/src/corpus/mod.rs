//! Small programs under schedules with a guarantee.
//!
//! A program does one public operation on each of two or three threads. All programs follow from
//! [one table](OPERATIONS) of operations: every pair, and every triple of those that act on one
//! item, one queue or one pool. Their machine is set up once; each run begins there, under a
//! schedule of its own seed. By the bound of the plan by priorities (see [`cmwq_vm::Plan`]) so many
//! runs find every bug of a given depth in a program with 99.9 %: [`Size::runs`].
//!
//! What must hold is in `world`: as for random programs (see [`crate::explore`]), and nothing waits
//! while no thread is able to run.

mod awaiting;
mod common;
mod facts;
mod forking;
mod ledger;
mod operation;
mod program;
mod protocols;
#[cfg(target_env = "gnu")]
mod rewind;
mod snapshot;
mod table;
mod world;

pub use crate::explore::Scheduler;
pub use ledger::{Entry, Ledger};
pub use operation::{Operation, Subject};
pub use program::Program;
pub use protocols::PROTOCOLS;
pub use table::OPERATIONS;

use cmwq_vm::Plan;
use serde::{Deserialize, Serialize};
use snapshot::{BATCH, Order, Report, Snapshot};
use std::collections::BTreeMap;
use std::time::Instant;

/// Runs of a program from which it is known which of its steps another thread can notice.
const LEARNING: u64 = 64;
/// Runs of a program from which its size is known.
const SIZING: u64 = 64;
/// If more of the runs before the first seed fail, the first seeds will fail too, and the size is
/// of no interest.
const FAILURES: usize = 1;
/// The seeds of both are none of the others'.
const SIZING_SEEDS: u64 = 1 << 62;
/// As many operations as the longest run so far, times this, and a run hangs.
const HANGS_AFTER: u64 = 200;
/// Before any length is known.
const FIRST_LENGTH: u64 = 500;

/// How large a program is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Size {
    /// Threads that did anything.
    pub threads: u64,
    /// Steps of the longest run.
    pub length: u64,
    /// The most steps of each thread.
    pub lengths: Vec<u64>,
}

impl Size {
    fn add(&mut self, lengths: &[u64]) {
        let threads = lengths.iter().filter(|&&steps| steps > 0).count();
        self.threads = self.threads.max(threads as u64);
        self.length = self.length.max(lengths.iter().sum());
        if self.lengths.len() < lengths.len() {
            self.lengths.resize(lengths.len(), 0);
        }
        for (most, &steps) in self.lengths.iter_mut().zip(lengths) {
            *most = (*most).max(steps);
        }
    }

    /// Runs that find every bug of this depth with 99.9 %.
    #[must_use]
    pub fn runs(&self, depth: u32) -> u64 {
        if self.length == 0 {
            // It is not known, because runs have failed before: the first seeds show how.
            return LEARNING;
        }
        let bound = self.threads as f64 * (self.length as f64).powi(depth as i32 - 1);
        (1000_f64.ln() * bound).ceil() as u64
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Of all that happened.
    pub log: u64,
    /// What promise was broken.
    pub failure: Option<String>,
    /// Steps of each thread.
    pub lengths: Vec<u64>,
}

impl Run {
    /// Steps of all threads.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.lengths.iter().sum()
    }
}

impl From<Report> for Run {
    fn from(report: Report) -> Run {
        Run {
            log: report.log,
            failure: report.failure,
            lengths: report.lengths,
        }
    }
}

/// How the runs of a program are scheduled, and on what memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Which thread is next.
    pub scheduler: Scheduler,
    /// Orders of two steps that a bug needs.
    pub depth: u32,
    /// The memory is weak.
    pub weak: bool,
}

impl Way {
    /// In one word, as a file of states has it.
    #[must_use]
    pub fn name(self) -> String {
        let weak = if self.weak { ",weak" } else { "" };
        format!("{}{weak}", self.scheduler.name())
    }

    /// By its word, and the depth.
    ///
    /// # Errors
    /// A sentence with the names that there are.
    pub fn parse(name: &str, depth: u32) -> Result<Way, String> {
        let strong = name.strip_suffix(",weak");
        Ok(Way {
            scheduler: Scheduler::parse(strong.unwrap_or(name))?,
            depth,
            weak: strong.is_some(),
        })
    }
}

/// What some runs of one program came to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Checked {
    /// How large it is.
    pub size: Size,
    /// Change points were among so many steps.
    pub among: u64,
    /// Runs so far.
    pub runs: u64,
    /// The first run that failed: its seed, and how.
    pub failure: Option<(u64, String)>,
}

/// The seeds of some runs, and when to stop.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// The first seed.
    pub from: u64,
    /// So many at most.
    pub most: u64,
    /// Not longer.
    pub until: Option<Instant>,
}

/// A program whose machine is set up.
pub struct Prepared {
    snapshot: Snapshot,
    size: Size,
}

impl Prepared {
    /// Sets it up, and finds out how large it is. The process must have one thread.
    ///
    /// # Errors
    /// It cannot be set up.
    pub fn new(program: &Program) -> Result<Prepared, String> {
        let snapshot = Snapshot::new(|server| program.hold(server));
        let mut prepared = Prepared {
            snapshot: snapshot.map_err(|error| format!("a process for a program: {error}"))?,
            size: Size::default(),
        };
        let mut failures = prepared.learn()?;
        // With priorities alone, then with change points among as many steps.
        for run in 0..SIZING {
            if failures > FAILURES {
                break;
            }
            let depth = if run < SIZING / 2 { 1 } else { 2 };
            let length = prepared.size.length.max(1);
            let plan = Plan::Priorities { depth, length };
            let order = Order::by(&plan, SIZING_SEEDS + run, FIRST_LENGTH * HANGS_AFTER * 4);
            let report = prepared.snapshot.run(order)?;
            prepared.size.add(&report.lengths);
            failures += usize::from(report.failure.is_some());
        }
        Ok(prepared)
    }

    /// What no other thread can notice is no step from now on. Walks mix the threads most, and
    /// priorities let one be far ahead. Returns how many runs have failed.
    fn learn(&mut self) -> Result<usize, String> {
        let (mut places, mut failures) = (BTreeMap::new(), 0);
        for run in 0..LEARNING {
            if failures > FAILURES {
                return Ok(failures);
            }
            let plan = match run % 2 {
                0 => Plan::Walk {
                    lengths: Vec::new(),
                },
                _ => Plan::Priorities {
                    depth: 2,
                    length: FIRST_LENGTH,
                },
            };
            let seed = SIZING_SEEDS + SIZING + run;
            let mut order = Order::by(&plan, seed, FIRST_LENGTH * HANGS_AFTER * 4);
            order.learn = 1;
            let report = self.snapshot.run(order)?;
            failures += usize::from(report.failure.is_some());
            for (place, noticed) in report.places {
                *places.entry(place).or_insert(false) |= noticed;
            }
        }
        let unnoticed = places.iter().filter(|(_, noticed)| !**noticed);
        let unnoticed: Vec<usize> = unnoticed.map(|(&place, _)| place).collect();
        self.snapshot.pass_over(&unnoticed);
        Ok(failures)
    }

    /// Runs of so many steps are known: change points are among as many.
    pub fn expect(&mut self, length: u64) {
        self.size.length = self.size.length.max(length);
    }

    /// How large it is.
    #[must_use]
    pub fn size(&self) -> &Size {
        &self.size
    }

    /// One run.
    ///
    /// # Errors
    /// There is no process to be had.
    pub fn run(&mut self, way: Way, seed: u64) -> Result<Run, String> {
        Ok(self.snapshot.run(self.order(way, seed))?.into())
    }

    fn order(&self, way: Way, seed: u64) -> Order {
        let depth = way.depth;
        let most = (self.size.length * HANGS_AFTER).max(FIRST_LENGTH * HANGS_AFTER);
        let mut order = match way.scheduler {
            Scheduler::Time => Order::by_time(seed),
            Scheduler::Pct => {
                let length = self.size.length.max(1);
                Order::by(&Plan::Priorities { depth, length }, seed, most)
            }
            Scheduler::Walk => {
                let lengths = self.size.lengths.clone();
                Order::by(&Plan::Walk { lengths }, seed, most)
            }
        };
        order.weak = way.weak.into();
        order
    }

    /// Runs these seeds, until one fails.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn check(&mut self, way: Way, seeds: Seeds) -> Result<Checked, String> {
        let mut checked = Checked {
            size: self.size.clone(),
            among: self.size.length,
            ..Checked::default()
        };
        while checked.runs < seeds.most && checked.failure.is_none() {
            if seeds.until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            let mut order = self.order(way, seeds.from + checked.runs);
            order.runs = (seeds.most - checked.runs).min(BATCH as u64);
            for report in self.snapshot.runs(order)? {
                checked.size.add(&report.lengths);
                checked.failure = report.failure.map(|why| (seeds.from + checked.runs, why));
                checked.runs += 1;
            }
        }
        Ok(checked)
    }
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn a_program_whose_size_is_not_known_is_run() {
        assert!(
            Size::default().runs(2) > 1,
            "its first runs show what fails"
        );
    }
}
