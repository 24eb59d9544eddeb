//! Idle: the program queues one item every two milliseconds, and measures the time from before it is
//! queued to its start. Then it does nothing for as long as the caller wants, and the caller measures
//! the CPU time of this process meanwhile.

use super::{Tally, report};
use crate::job::{Job, Pool, Target, forever};
use crate::machine::{cpu_time, now_ns, pin_issuer};
use crate::options::Options;
use crate::report::Report;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Items that come one at a time.
struct Starts {
    started_ns: AtomicU64,
    runs: AtomicU64,
}

impl Target for Starts {
    fn run(&self, _: u32) {
        self.started_ns.store(now_ns(), Ordering::Relaxed);
        self.runs.fetch_add(1, Ordering::Release);
    }
}

/// Prints `idle` when the idle time begins, which ends with a line on standard input.
pub(crate) fn idle<P: Pool>(pool: &P, options: &Options) -> Result<Report, String> {
    let (start, cpu_before) = (now_ns(), cpu_time());
    let sum = thread::scope(|scope| {
        scope
            .spawn(|| {
                pin_issuer(0);
                one_at_a_time(pool, options)
            })
            .join()
    })
    .map_err(|_| "the issuer panicked")?;
    let report = report(
        sum,
        now_ns() - start,
        (cpu_time() - cpu_before).as_secs_f64(),
    )?;
    println!("idle");
    std::io::stdout()
        .flush()
        .map_err(|error| error.to_string())?;
    std::io::stdin()
        .lock()
        .read_line(&mut String::new())
        .map_err(|error| error.to_string())?;
    Ok(report)
}

fn one_at_a_time<P: Pool>(pool: &P, options: &Options) -> Tally {
    let starts = forever(Starts {
        started_ns: AtomicU64::new(0),
        runs: AtomicU64::new(0),
    });
    let item = pool.item(Job::new(starts, 0));
    let mut tally = Tally::default();
    for _ in 0..options.samples {
        thread::sleep(options.period);
        let queued_ns = now_ns();
        pool.submit(&item);
        tally.queued += 1;
        // The issuer sleeps until it is over; an item that is late is waited for.
        while starts.runs.load(Ordering::Acquire) != tally.queued {
            thread::sleep(options.period / 4);
        }
        tally.items += 1;
        tally
            .latency_ns
            .push(starts.started_ns.load(Ordering::Relaxed) - queued_ns);
    }
    tally.ran = starts.runs.load(Ordering::Acquire);
    tally
}
