//! Hogged: how soon an empty item starts while items queued before it compute for long. In batches:
//! first the hogs are queued, then a sample every period, whether or not the samples before it have
//! started. A batch ends with its hogs and samples.

use super::{Tally, report};
use crate::job::{Job, Pool, Target, forever};
use crate::machine::{cpu_time, now_ns, pin_issuer, spin};
use crate::options::Options;
use crate::report::Report;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// How often the issuer checks whether a batch has ended.
const POLL_EVERY: Duration = Duration::from_millis(1);

/// The items of a batch: the first ones are hogs, the others are samples.
struct Batch {
    spin: u64,
    spins: u64,
    hogs: usize,
    /// Hogs that have ended in this batch, and when the last of them did.
    ended: AtomicU64,
    last_end_ns: AtomicU64,
    /// Items that have run, over all batches.
    ran: AtomicU64,
    samples: Vec<Sample>,
}

#[derive(Default)]
struct Sample {
    started_ns: AtomicU64,
    /// How many hogs had ended when it started.
    ended: AtomicU64,
}

impl Target for Batch {
    fn run(&self, index: u32) {
        match (index as usize).checked_sub(self.hogs) {
            None => {
                (0..self.spins).for_each(|_| spin(self.spin));
                self.last_end_ns.fetch_max(now_ns(), Ordering::Relaxed);
                self.ended.fetch_add(1, Ordering::Release);
            }
            Some(number) => {
                let sample = &self.samples[number];
                sample.started_ns.store(now_ns(), Ordering::Relaxed);
                let ended = self.ended.load(Ordering::Acquire);
                sample.ended.store(ended, Ordering::Relaxed);
            }
        }
        self.ran.fetch_add(1, Ordering::Release);
    }
}

/// What the issuer has counted.
#[derive(Default)]
struct Outcome {
    tally: Tally,
    /// Samples during whose wait a hog ended.
    after_hogs: u64,
    /// From the first hog's submission to the last hog's end, for each batch.
    batch_ns: Vec<u64>,
}

/// Batches until as many samples were taken as the options ask for.
pub(crate) fn hogged<P: Pool>(pool: &P, options: &Options) -> Result<Report, String> {
    let (start, cpu_before) = (now_ns(), cpu_time());
    let outcome = thread::scope(|scope| {
        scope
            .spawn(|| {
                pin_issuer(0);
                batches(pool, options)
            })
            .join()
    })
    .map_err(|_| "the issuer panicked")?;
    let max = outcome.tally.latency_ns.iter().max().copied();
    let report = report(
        outcome.tally,
        now_ns() - start,
        (cpu_time() - cpu_before).as_secs_f64(),
    )?;
    let max = max.ok_or("the hogs ended before the first sample")?;
    Ok(report
        .number("latency_max_ns", max as f64)
        .number("after_hogs", outcome.after_hogs as f64)
        .percentiles("batch", outcome.batch_ns))
}

fn batches<P: Pool>(pool: &P, options: &Options) -> Outcome {
    let batch = forever(Batch {
        spin: options.spin,
        spins: options.spins,
        hogs: options.hogs,
        ended: AtomicU64::new(0),
        last_end_ns: AtomicU64::new(0),
        ran: AtomicU64::new(0),
        samples: (0..options.batch).map(|_| Sample::default()).collect(),
    });
    let items: Vec<P::Item> = (0..options.hogs + options.batch)
        .map(|index| pool.item(Job::new(batch, index as u32)))
        .collect();
    let mut outcome = Outcome::default();
    for _ in 0..options.samples.div_ceil(options.batch) {
        one_batch(pool, options, batch, &items, &mut outcome);
    }
    outcome
}

fn one_batch<P: Pool>(
    pool: &P,
    options: &Options,
    batch: &Batch,
    items: &[P::Item],
    outcome: &mut Outcome,
) {
    let (hogs, samples) = items.split_at(batch.hogs);
    batch.ended.store(0, Ordering::Relaxed);
    let begin_ns = now_ns();
    for hog in hogs {
        pool.submit(hog);
        outcome.tally.queued += 1;
    }
    // The first sample follows the hogs at once.
    let mut submitted = Vec::with_capacity(samples.len());
    for item in samples {
        if !submitted.is_empty() {
            thread::sleep(options.period);
        }
        let ended = batch.ended.load(Ordering::Acquire);
        if ended >= hogs.len() as u64 {
            break;
        }
        submitted.push((now_ns(), ended));
        pool.submit(item);
        outcome.tally.queued += 1;
    }
    while batch.ran.load(Ordering::Acquire) < outcome.tally.queued {
        thread::sleep(POLL_EVERY);
    }
    outcome.tally.ran = batch.ran.load(Ordering::Acquire);
    outcome.tally.items += submitted.len() as u64;
    for ((submitted_ns, ended), sample) in submitted.into_iter().zip(&batch.samples) {
        let started_ns = sample.started_ns.load(Ordering::Relaxed);
        outcome.tally.latency_ns.push(started_ns - submitted_ns);
        outcome.after_hogs += u64::from(sample.ended.load(Ordering::Relaxed) > ended);
    }
    let end_ns = batch.last_end_ns.load(Ordering::Relaxed);
    outcome.batch_ns.push(end_ns - begin_ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::time::Instant;

    /// One thread that runs items in order.
    struct OneThread(Sender<Job>);

    impl OneThread {
        fn new() -> Self {
            let (sender, receiver) = channel::<Job>();
            thread::spawn(move || {
                receiver.iter().for_each(Job::run);
            });
            OneThread(sender)
        }
    }

    impl Pool for OneThread {
        type Item = Job;

        fn item(&self, job: Job) -> Job {
            job
        }

        fn submit(&self, job: &Job) {
            self.0.send(*job).expect("the thread receives");
        }
    }

    /// Runs items within `submit`, so many times each.
    struct Inline(usize);

    impl Pool for Inline {
        type Item = Job;

        fn item(&self, job: Job) -> Job {
            job
        }

        fn submit(&self, job: &Job) {
            (0..self.0).for_each(|_| job.run());
        }
    }

    /// A thread for each item.
    struct Threads;

    impl Pool for Threads {
        type Item = Job;

        fn item(&self, job: Job) -> Job {
            job
        }

        fn submit(&self, job: &Job) {
            let job = *job;
            thread::spawn(move || job.run());
        }
    }

    fn options(more: &[&str]) -> Options {
        let usual = [
            "x",
            "hogged",
            "start",
            "hogs=2",
            "spin=1000",
            "spins=20000",
            "samples=8",
            "batch=4",
            "period_us=1000",
        ];
        let settings: Vec<String> = usual
            .iter()
            .chain(more)
            .map(|&text| text.to_owned())
            .collect();
        Options::parse(&settings).expect("valid")
    }

    fn figure(line: &str, key: &str) -> Option<f64> {
        let (_, rest) = line.split_once(&format!("\"{key}\":"))?;
        rest.split([',', '}']).next()?.parse().ok()
    }

    #[test]
    fn behind_the_hogs_of_a_single_thread_every_sample_waits_for_their_end() {
        let line = hogged(&OneThread::new(), &options(&[]))
            .expect("it passes")
            .line();
        let [samples, after, max, p99, batch] = [
            "items",
            "after_hogs",
            "latency_max_ns",
            "latency_p99_ns",
            "batch_p99_ns",
        ]
        .map(|key| figure(&line, key).unwrap_or_else(|| panic!("no {key}: {line}")));
        assert!((1.0..=8.0).contains(&samples), "{line}");
        assert_eq!(after, samples, "{line}");
        assert!(max >= p99 && p99 > 0.0 && batch > 0.0, "{line}");
    }

    #[test]
    fn where_every_item_has_a_thread_the_run_passes_and_ends_with_the_hogs() {
        let start = Instant::now();
        let line = hogged(&Threads, &options(&["samples=4", "batch=100000"]))
            .expect("it passes")
            .line();
        let wall = start.elapsed().as_secs_f64();
        assert!(figure(&line, "items").unwrap() < 100_000.0, "{line}");
        assert!(figure(&line, "seconds").unwrap() <= wall, "{line}");
    }

    #[test]
    fn items_that_run_twice_and_a_run_without_a_sample_fail() {
        let error = |result: Result<Report, String>| result.err().expect("it fails");
        let twice = error(hogged(&Inline(2), &options(&["spins=1"])));
        assert!(twice.contains("items were queued"), "{twice}");
        let none = error(hogged(&Inline(1), &options(&["spins=1"])));
        assert!(none.contains("before the first sample"), "{none}");
    }
}
