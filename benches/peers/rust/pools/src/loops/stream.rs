//! Stream: requests come one after the other at a fixed rate, whatever becomes of those before
//! them. Each computes, and is timed from the moment at which it was to come to its end, so that
//! what holds the issuer up counts as well.

use super::{Tally, report};
use crate::job::{Job, Pool, Target, forever};
use crate::machine::{cpu_time, now_ns, spin};
use crate::options::Options;
use crate::report::Report;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

struct Requests {
    /// When each is to come.
    planned_ns: Vec<AtomicU64>,
    took_ns: Vec<AtomicU64>,
    spin: u64,
    ran: AtomicU64,
}

impl Target for Requests {
    fn run(&self, index: u32) {
        spin(self.spin);
        let index = index as usize;
        let took = now_ns() - self.planned_ns[index].load(Ordering::Relaxed);
        self.took_ns[index].store(took, Ordering::Relaxed);
        self.ran.fetch_add(1, Ordering::Release);
    }
}

/// A request every [`period`](Options::period), for the time of the options. The issuer is a thread
/// of its own, and not pinned.
pub(crate) fn stream<P: Pool>(pool: &P, options: &Options) -> Result<Report, String> {
    let count = options.time.as_nanos() / options.period.as_nanos().max(1);
    let count = usize::try_from(count)
        .ok()
        .filter(|count| (1..=10_000_000).contains(count))
        .ok_or("the time has no request, or more than ten millions")?;
    let requests = forever(Requests {
        planned_ns: (0..count).map(|_| AtomicU64::new(0)).collect(),
        took_ns: (0..count).map(|_| AtomicU64::new(0)).collect(),
        spin: options.spin,
        ran: AtomicU64::new(0),
    });
    let items: Vec<P::Item> = (0..count)
        .map(|index| pool.item(Job::new(requests, index as u32)))
        .collect();
    // What a quota has left after the start of the process is not the stream's affair.
    thread::sleep(options.warmup);
    let (start, cpu_before) = (now_ns(), cpu_time());
    for (index, item) in items.iter().enumerate() {
        let planned = start + options.period.as_nanos() as u64 * (index as u64 + 1);
        let early = planned.saturating_sub(now_ns());
        if early > 0 {
            thread::sleep(Duration::from_nanos(early));
        }
        requests.planned_ns[index].store(planned, Ordering::Relaxed);
        pool.submit(item);
    }
    // Acquire: with the times that the items have stored.
    while requests.ran.load(Ordering::Acquire) < count as u64 {
        thread::sleep(Duration::from_millis(1));
    }
    let mut tally = Tally {
        items: count as u64,
        queued: count as u64,
        ..Tally::default()
    };
    tally.latency_ns = requests
        .took_ns
        .iter()
        .map(|took| took.load(Ordering::Relaxed))
        .collect();
    tally.ran = requests.ran.load(Ordering::Acquire);
    let (wall, cpu) = (now_ns() - start, cpu_time() - cpu_before);
    report(tally, wall, cpu.as_secs_f64())
}
