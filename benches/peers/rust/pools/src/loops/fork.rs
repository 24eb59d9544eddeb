//! Fork: a tree of forks and joins, again and again. Each of the 4096 leaves computes for a hundredth of what an item of `window` does (200 ns), and each
//! node above forks one half of its leaves and does the other itself. Pools for recursion are made for this. Every tree is timed. The items are
//! the leaves.

use super::{Tally, timed};
use crate::machine::{now_ns, spin};
use crate::options::Options;
use crate::report::Report;

/// The tree has two to the power of this leaves.
const DEPTH: u32 = 12;
/// The share of an item of `window` that a leaf computes.
const SHARE: u64 = 100;

/// A pool that forks.
pub(crate) trait Forking: Sync {
    /// The number of leaves below a node so far above them, after all have [computed](leaf).
    fn leaves(&self, depth: u32, steps: u64) -> u64;
}

/// Computes, and counts for one.
pub(crate) fn leaf(steps: u64) -> u64 {
    spin(steps);
    1
}

/// Each issuer has its own trees.
pub(crate) fn trees<P: Forking>(pool: &P, options: &Options) -> Result<Report, String> {
    let steps = (options.spin / SHARE).max(1);
    timed(options, options.issuers, |_, phase| {
        let mut tally = Tally::default();
        let mut measuring = false;
        while phase.go_on(&mut tally, &mut measuring) {
            let start = now_ns();
            tally.ran += pool.leaves(DEPTH, steps);
            tally.latency_ns.push(now_ns() - start);
            tally.queued += 1 << DEPTH;
            tally.items += 1 << DEPTH;
        }
        tally
    })
}
