//! Fork: a tree of forks and joins, again and again. Each of the 4096 leaves computes for a
//! hundredth of what an item of `window` does (200 ns), and each node above forks one half of its
//! leaves and does the other itself. Pools for recursion are made for this. Every tree is timed.
//! The items are the leaves.
//!
//! Scope: the same with 64 leaves that the issuer spawns in a scope, which it waits for.

use super::{Tally, timed};
use crate::machine::{now_ns, spin};
use crate::options::Options;
use crate::report::Report;

/// The tree has two to the power of this leaves.
const DEPTH: u32 = 12;
/// The leaves of a scope.
const SPAWNED: u64 = 64;
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

/// A pool with scopes.
pub(crate) trait Scoping: Sync {
    /// The number of leaves, after that many have computed in a scope that the caller opens.
    fn scoped(&self, leaves: u64, steps: u64) -> u64;
}

/// Each issuer has its own trees.
pub(crate) fn trees<P: Forking>(pool: &P, options: &Options) -> Result<Report, String> {
    wholes(options, 1 << DEPTH, |steps| pool.leaves(DEPTH, steps))
}

/// Each issuer has its own scopes.
pub(crate) fn scopes<P: Scoping>(pool: &P, options: &Options) -> Result<Report, String> {
    wholes(options, SPAWNED, |steps| pool.scoped(SPAWNED, steps))
}

fn wholes(
    options: &Options,
    leaves: u64,
    whole: impl Fn(u64) -> u64 + Sync,
) -> Result<Report, String> {
    let steps = (options.spin / SHARE).max(1);
    timed(options, options.issuers, |_, phase| {
        let mut tally = Tally::default();
        let mut measuring = false;
        while phase.go_on(&mut tally, &mut measuring) {
            let start = now_ns();
            tally.ran += whole(steps);
            tally.latency_ns.push(now_ns() - start);
            tally.queued += leaves;
            tally.items += leaves;
        }
        tally
    })
}
