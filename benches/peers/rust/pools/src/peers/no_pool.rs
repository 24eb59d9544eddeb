//! No pool: pinned threads that compute items one after the other, and do nothing else. What that
//! makes is the ceiling of `window`, `epoll`, `loop` and `block`: CPUs that are all busy may be
//! slower than one alone, a sleep costs a system call, an interrupt and two switches, and a
//! machine's host may take some.

use super::Peer;
use crate::everyday::Everyday;
use crate::loops::window::SLEEP;
use crate::loops::{Tally, parallel, timed};
use crate::machine::{allowed_cpus, spin};
use crate::options::Options;
use crate::report::Report;
use std::hint::black_box;
use std::thread::sleep;

/// So many of a CPU's threads that there are always some which do not sleep: of 80 us of computing
/// each sleeps a millisecond.
const THREADS_THAT_SLEEP: usize = 24;

pub(super) const PEER: Peer = Peer {
    name: "no-pool",
    version: "-",
    rows: &[&[
        ("window", "compute"),
        ("epoll", "compute"),
        ("block", "compute"),
        ("loop-1e5", "compute"),
        ("loop-1e7", "compute"),
    ]],
    everyday: Everyday::NONE,
    run,
};

/// The number of issuers of the row does not matter: the ceiling is of the machine.
fn run(options: &Options) -> Result<Report, String> {
    let cpus = allowed_cpus().len();
    match (options.lap.as_str(), options.mode.as_str()) {
        ("window" | "epoll", "compute") => compute(options, cpus, || ()),
        ("loop-1e5" | "loop-1e7", "compute") => shares(options, cpus),
        ("block", "compute") => compute(options, cpus * THREADS_THAT_SLEEP, || sleep(SLEEP)),
        _ => Err(options.unknown()),
    }
}

/// Each thread computes items, four between two pauses.
fn compute(options: &Options, threads: usize, pause: fn()) -> Result<Report, String> {
    timed(options, threads, |_, phase| {
        let mut tally = Tally::default();
        let mut measuring = false;
        while phase.go_on(&mut tally, &mut measuring) {
            if tally.queued.is_multiple_of(4) {
                pause();
            }
            spin(options.spin);
            tally.queued += 1;
            tally.ran += 1;
            tally.items += 1;
        }
        tally
    })
}

/// Each thread has its share of the elements of a loop, again and again.
fn shares(options: &Options, threads: usize) -> Result<Report, String> {
    let values = parallel::values_of(&options.lap)?;
    let share = values.len().div_ceil(threads);
    timed(options, threads, |number, phase| {
        let own = values.chunks(share).nth(number).unwrap_or_default();
        let own = own.to_vec();
        let mut tally = Tally::default();
        let mut measuring = false;
        while phase.go_on(&mut tally, &mut measuring) {
            black_box(parallel::sum_of(black_box(&own)));
            tally.queued += own.len() as u64;
            tally.ran += own.len() as u64;
            tally.items += own.len() as u64;
        }
        tally
    })
}
