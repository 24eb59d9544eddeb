//! No pool: a thread on each CPU that computes items one after the other, and does nothing else. What that makes is the ceiling of
//! `window` and `block`: CPUs that are all busy may be slower than one alone, and a machine's host may take some.

use super::{Peer, unknown};
use crate::loops::{Tally, timed};
use crate::machine::{allowed_cpus, spin};
use crate::options::Options;
use crate::report::Report;

pub(super) const PEER: Peer = Peer {
    name: "no-pool",
    version: "-",
    rows: &[("window", "compute"), ("block", "compute")],
    run,
};

fn run(options: &Options) -> Result<Report, String> {
    match (options.lap.as_str(), options.mode.as_str()) {
        ("window" | "block", "compute") => compute(options),
        _ => Err(unknown(options)),
    }
}

/// The number of issuers of the row does not matter: the ceiling is of the machine.
fn compute(options: &Options) -> Result<Report, String> {
    timed(options, allowed_cpus().len(), |_, phase| {
        let mut tally = Tally::default();
        let mut measuring = false;
        while phase.go_on(&mut tally, &mut measuring) {
            spin(options.spin);
            tally.queued += 1;
            tally.ran += 1;
            tally.items += 1;
        }
        tally
    })
}
