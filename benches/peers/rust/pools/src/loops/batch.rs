//! Batch: queue as fast as possible in bursts, each with one call where the pool has one, then wait
//! for all; in rounds, so that memory is bounded. The time of every 61st burst is divided by its
//! items.

use super::{Tally, report};
use crate::job::{Job, Pool, Target, forever};
use crate::machine::{cpu_time, now_ns, peak_memory_kib, pin_issuer};
use crate::options::Options;
use crate::report::Report;
use crate::signal::Signal;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

const TIMED_EVERY: usize = 61;

/// An issuer's round: what is still to run. Lines of their own, the issuers have nothing in common.
#[repr(align(128))]
struct Round<S> {
    left: AtomicI64,
    signal: S,
}

impl<S: Signal> Target for Round<S> {
    fn run(&self, _: u32) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.signal.set();
        }
    }
}

/// Rounds until the time of the options has passed; the first, shorter, warms up.
pub(crate) fn bursts<S: Signal, P: Pool>(pool: &P, options: &Options) -> Result<Report, String> {
    let burst = burst_of(&options.lap)?;
    let share = (options.items / options.issuers).max(1);
    let (start_together, end_together) = (
        Barrier::new(options.issuers + 1),
        Barrier::new(options.issuers + 1),
    );
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..options.issuers)
            .map(|number| {
                let (start_together, end_together, stop) = (&start_together, &end_together, &stop);
                scope.spawn(move || {
                    pin_issuer(number);
                    let round = forever(Round {
                        left: AtomicI64::new(0),
                        signal: S::new(),
                    });
                    round.signal.adopt();
                    let prepared = if P::REUSABLE { share } else { burst };
                    let items: Vec<P::Item> = (0..prepared)
                        .map(|_| pool.item(Job::new(round, 0)))
                        .collect();
                    let mut tally = Tally::default();
                    for number in 0_u64.. {
                        let count = if number == 0 {
                            share.div_ceil(10)
                        } else {
                            share
                        };
                        start_together.wait();
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        round.signal.reset();
                        round.left.store(count as i64, Ordering::Release);
                        queue_bursts(pool, &items, count, burst, &mut tally.enqueue_ns);
                        round.signal.wait();
                        end_together.wait();
                        if number == 0 {
                            tally.enqueue_ns.clear();
                        } else {
                            tally.items += count as u64;
                        }
                        tally.queued += count as u64;
                        tally.ran += (count as i64 - round.left.load(Ordering::Acquire)) as u64;
                    }
                    tally
                })
            })
            .collect();

        let round = || {
            // Before the issuers begin: this thread may get a CPU only when much of the round is over.
            let (start, cpu_before) = (now_ns(), cpu_time());
            start_together.wait();
            end_together.wait();
            (now_ns() - start, (cpu_time() - cpu_before).as_secs_f64())
        };
        round();
        let (mut wall_ns, mut cpu_s) = (0, 0.0);
        while wall_ns < options.time.as_nanos() as u64 {
            let (ns, s) = round();
            wall_ns += ns;
            cpu_s += s;
        }
        stop.store(true, Ordering::Relaxed);
        start_together.wait();
        let mut sum = Tally::default();
        for thread in threads {
            let tally = thread.join().map_err(|_| "an issuer panicked")?;
            sum.items += tally.items;
            sum.queued += tally.queued;
            sum.ran += tally.ran;
            sum.enqueue_ns.extend(tally.enqueue_ns);
        }
        Ok(report(sum, wall_ns, cpu_s)?.number("peak_kib", peak_memory_kib() as f64))
    })
}

/// `batch-100`: bursts of 100.
fn burst_of(lap: &str) -> Result<usize, String> {
    let burst = lap
        .strip_prefix("batch-")
        .and_then(|text| text.parse().ok());
    burst
        .filter(|&burst| burst > 0)
        .ok_or_else(|| format!("'{lap}': expected batch- and a number of items"))
}

fn queue_bursts<P: Pool>(
    pool: &P,
    items: &[P::Item],
    count: usize,
    burst: usize,
    enqueue_ns: &mut Vec<u64>,
) {
    for (number, first) in (0..count).step_by(burst).enumerate() {
        let length = burst.min(count - first);
        let first = if P::REUSABLE { first } else { 0 };
        let items = &items[first..first + length];
        if number.is_multiple_of(TIMED_EVERY) {
            let start = now_ns();
            pool.submit_all(items);
            enqueue_ns.push((now_ns() - start) / length as u64);
        } else {
            pool.submit_all(items);
        }
    }
}
