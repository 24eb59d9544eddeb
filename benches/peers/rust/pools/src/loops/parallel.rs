//! Loop: a parallel loop over the elements of a slice in memory, again and again; `loop-1e5` has
//! 100,000 of them and `loop-1e7` ten million. An issuer waits for the end of its loop, and may
//! take part. Every loop is timed. The items are the elements.

use super::{Tally, timed};
use crate::machine::now_ns;
use crate::options::Options;
use crate::report::Report;
use std::hint::black_box;

/// A pool with a parallel loop.
pub(crate) trait Looping: Sync {
    /// The sum of what [`element`] makes of each value.
    fn sum(&self, values: &[u64]) -> u64;
}

/// Some steps that need each other: a few nanoseconds.
pub(crate) fn element(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// The same on the calling thread alone.
pub(crate) fn sum_of(values: &[u64]) -> u64 {
    let elements = values.iter().copied().map(element);
    elements.fold(0, u64::wrapping_add)
}

/// So many values, in memory that has been written.
pub(crate) fn values_of(lap: &str) -> Result<Vec<u64>, String> {
    let count = match lap {
        "loop-1e5" => 100_000,
        "loop-1e7" => 10_000_000,
        _ => return Err(format!("'{lap}': expected loop-1e5 or loop-1e7")),
    };
    Ok((0..count).collect())
}

/// Each issuer has values of its own. A sum that is wrong counts for no element.
pub(crate) fn sums<P: Looping>(pool: &P, options: &Options) -> Result<Report, String> {
    let values = values_of(&options.lap)?;
    timed(options, options.issuers, |_, phase| {
        let values = values.clone();
        let expected = sum_of(&values);
        let mut tally = Tally::default();
        let mut measuring = false;
        while phase.go_on(&mut tally, &mut measuring) {
            let start = now_ns();
            let sum = pool.sum(black_box(&values));
            tally.latency_ns.push(now_ns() - start);
            let count = values.len() as u64;
            tally.queued += count;
            tally.items += count;
            if sum == expected {
                tally.ran += count;
            }
        }
        tally
    })
}
