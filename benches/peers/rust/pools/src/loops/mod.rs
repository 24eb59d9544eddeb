//! The loops that `cmwq_loads` does not define. Every run checks that each item has run exactly once.

#[cfg(feature = "peers")]
pub(crate) mod awaited;
pub(crate) mod batch;
pub(crate) mod fork;
pub(crate) mod hogged;
pub(crate) mod idle;
pub(crate) mod parallel;
#[cfg(feature = "peers")]
mod reads;
pub(crate) mod stream;
pub(crate) mod window;

use crate::machine::{cpu_time, now_ns, pin_issuer, switches};
use crate::options::Options;
use crate::report::Report;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
#[cfg(feature = "peers")]
use std::time::Duration;

const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const STOPPED: u8 = 2;

/// What the issuers of a timed run are to do; read by each of them before every item.
pub(crate) struct Phase(AtomicU8);

/// What an issuer has counted.
#[derive(Default)]
pub(crate) struct Tally {
    /// Items in the measured time.
    pub(crate) items: u64,
    /// Items queued and items run, from the very start.
    pub(crate) queued: u64,
    pub(crate) ran: u64,
    pub(crate) enqueue_ns: Vec<u64>,
    pub(crate) latency_ns: Vec<u64>,
    pub(crate) sleeper_ns: Vec<u64>,
    /// From queueing an item to when its issuer learns that it has ended.
    pub(crate) told_ns: Vec<u64>,
    /// From queueing an item to its start, and from its end to when its issuer goes on.
    pub(crate) start_ns: Vec<u64>,
    pub(crate) wake_ns: Vec<u64>,
}

impl Tally {
    /// Adds what another issuer has counted.
    fn add(&mut self, other: Tally) {
        self.items += other.items;
        self.queued += other.queued;
        self.ran += other.ran;
        self.enqueue_ns.extend(other.enqueue_ns);
        self.latency_ns.extend(other.latency_ns);
        self.sleeper_ns.extend(other.sleeper_ns);
        self.told_ns.extend(other.told_ns);
        self.start_ns.extend(other.start_ns);
        self.wake_ns.extend(other.wake_ns);
    }
}

impl Phase {
    /// The number of the phase, and whether the issuers go on.
    pub(crate) fn go_on(&self, tally: &mut Tally, measuring: &mut bool) -> bool {
        let phase = self.0.load(Ordering::Relaxed);
        if phase == MEASURING && !*measuring {
            *measuring = true;
            tally.items = 0;
            tally.enqueue_ns.clear();
            tally.latency_ns.clear();
            tally.sleeper_ns.clear();
            tally.told_ns.clear();
            tally.start_ns.clear();
            tally.wake_ns.clear();
        }
        phase != STOPPED
    }
}

/// Runs `issuer` on that many threads, pinned, for the time of the options, and adds up.
pub(crate) fn timed(
    options: &Options,
    issuers: usize,
    issuer: impl Fn(usize, &Phase) -> Tally + Sync,
) -> Result<Report, String> {
    let phase = Phase(AtomicU8::new(WARMING_UP));
    let ready = Barrier::new(issuers + 1);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..issuers)
            .map(|number| {
                let (phase, ready, issuer) = (&phase, &ready, &issuer);
                scope.spawn(move || {
                    pin_issuer(number);
                    ready.wait();
                    issuer(number, phase)
                })
            })
            .collect();
        ready.wait();
        thread::sleep(options.warmup);
        let (start, cpu_before, switches_before) = (now_ns(), cpu_time(), switches());
        phase.0.store(MEASURING, Ordering::Relaxed);
        thread::sleep(options.time);
        phase.0.store(STOPPED, Ordering::Relaxed);
        let (end, cpu_after, switched) = (now_ns(), cpu_time(), switches() - switches_before);
        let mut sum = Tally::default();
        for thread in threads {
            let tally = thread.join().map_err(|_| "an issuer panicked")?;
            sum.add(tally);
        }
        let cpu_s = (cpu_after - cpu_before).as_secs_f64();
        let per_item = switched as f64 / sum.items.max(1) as f64;
        let report = report(sum, end - start, cpu_s)?;
        Ok(report.number("switches_per_item", per_item))
    })
}

/// Measures tasks for the time of the options, with `cpu_time` for what they and their items have
/// used. `start` starts them and returns what waits for their end, which a thread of its own does
/// meanwhile.
#[cfg(feature = "peers")]
pub(crate) fn timed_by<W>(
    options: &Options,
    cpu_time: impl Fn() -> Duration,
    start: impl FnOnce(Phase) -> (&'static Phase, W),
) -> Result<Report, String>
where
    W: FnOnce(&mut Tally) -> Result<(), &'static str> + Send,
{
    let (phase, wait) = start(Phase(AtomicU8::new(WARMING_UP)));
    thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            let mut sum = Tally::default();
            wait(&mut sum).map(|()| sum)
        });
        thread::sleep(options.warmup);
        let (start, cpu_before, switches_before) = (now_ns(), cpu_time(), switches());
        phase.0.store(MEASURING, Ordering::Relaxed);
        thread::sleep(options.time);
        phase.0.store(STOPPED, Ordering::Relaxed);
        let (end, cpu_after, switched) = (now_ns(), cpu_time(), switches() - switches_before);
        let sum = waiter.join().map_err(|_| "the runtime panicked")??;
        let cpu_s = (cpu_after - cpu_before).as_secs_f64();
        let per_item = switched as f64 / sum.items.max(1) as f64;
        let report = report(sum, end - start, cpu_s)?;
        Ok(report.number("switches_per_item", per_item))
    })
}

/// Checks the count and writes the report.
fn report(sum: Tally, wall_ns: u64, cpu_s: f64) -> Result<Report, String> {
    if sum.ran != sum.queued {
        return Err(format!("{} items were queued, {} ran", sum.queued, sum.ran));
    }
    Ok(Report::new()
        .number("items", sum.items as f64)
        .number("seconds", wall_ns as f64 / 1e9)
        .number("cpu_s", cpu_s)
        .percentiles("enqueue", sum.enqueue_ns)
        .percentiles("latency", sum.latency_ns)
        .percentiles("sleeper", sum.sleeper_ns)
        .percentiles("told", sum.told_ns)
        .percentiles("start", sum.start_ns)
        .percentiles("wake", sum.wake_ns))
}

#[cfg(test)]
mod tests {
    use super::fork::{self, Forking, Scoping};
    use super::parallel::{self, Looping};
    use super::{batch, stream, window};
    use crate::everyday;
    use crate::job::{Job, Pool};
    use crate::options::Options;
    #[cfg(feature = "peers")]
    use crate::signal::Channel;
    use crate::signal::{Eventfd, Rung};
    use cmwq::Completion;
    use cmwq_loads::real::Park;

    /// Runs items at once, so many times each.
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

    #[cfg(feature = "peers")]
    impl super::awaited::Awaiting for Inline {
        async fn run(&self, job: Job) {
            (0..self.0).for_each(|_| job.run());
        }
    }

    /// The numbers of what it has run are delivered at once.
    struct Delivers(Inline, Vec<u32>);

    impl window::Delivery for Delivers {
        fn submit(&mut self, job: Job) {
            self.0.submit(&job);
            self.1.push(job.index);
        }

        fn take(&mut self, ran: &mut Vec<u32>) {
            ran.append(&mut self.1);
        }
    }

    impl Looping for Inline {
        fn sum(&self, values: &[u64]) -> u64 {
            (0..self.0).fold(0, |sum, _| sum.wrapping_add(parallel::sum_of(values)))
        }
    }

    impl Forking for Inline {
        fn leaves(&self, depth: u32, steps: u64) -> u64 {
            (0..self.0 << depth).map(|_| fork::leaf(steps)).sum()
        }
    }

    impl Scoping for Inline {
        fn scoped(&self, leaves: u64, steps: u64) -> u64 {
            (0..self.0 as u64 * leaves).map(|_| fork::leaf(steps)).sum()
        }
    }

    fn options(lap: &str) -> Options {
        let settings = [
            "x",
            lap,
            "x",
            "issuers=2",
            "time_ms=5",
            "warmup_ms=1",
            "items=1000",
            "spin=10",
        ];
        Options::parse(&settings.map(str::to_owned)).expect("valid")
    }

    #[test]
    fn a_pool_that_runs_every_item_once_passes() {
        let pool = Inline(1);
        for lap in ["roundtrip", "flood", "window", "epoll"] {
            let options = options(lap);
            assert!(everyday::counted_by::<Rung, _>(Inline(1), &options).is_ok());
            assert!(everyday::counted_by::<Park, _>(Inline(1), &options).is_ok());
            #[cfg(feature = "peers")]
            assert!(everyday::counted_by::<Channel, _>(Inline(1), &options).is_ok());
            assert!(everyday::counted_by::<Eventfd, _>(Inline(1), &options).is_ok());
        }
        let block = options("block");
        assert!(window::counted::<Rung, _>(&pool, &block, window::COMPUTE).is_ok());
        let in_turn = window::signalled::<Completion, _>;
        assert!(in_turn(&pool, &options("window"), window::COMPUTE).is_ok());
        assert!(stream::stream(&pool, &options("stream")).is_ok());
        let open = || Ok(Delivers(Inline(1), Vec::new()));
        assert!(window::delivered(open, &options("epoll"), window::COMPUTE).is_ok());
        for lap in ["batch-1", "batch-100", "batch-10000"] {
            assert!(batch::bursts::<Completion, _>(&pool, &options(lap)).is_ok());
        }
        assert!(parallel::sums(&pool, &options("loop-1e5")).is_ok());
        assert!(fork::trees(&pool, &options("fork")).is_ok());
        assert!(fork::scopes(&pool, &options("scope")).is_ok());
    }

    #[test]
    fn a_pool_that_runs_items_twice_fails_in_every_loop() {
        let pool = Inline(2);
        for lap in ["roundtrip", "flood", "window", "epoll"] {
            let options = options(lap);
            assert!(everyday::counted_by::<Rung, _>(Inline(2), &options).is_err());
        }
        let block = options("block");
        assert!(window::counted::<Rung, _>(&pool, &block, window::COMPUTE).is_err());
        let in_turn = window::signalled::<Completion, _>;
        assert!(in_turn(&pool, &options("window"), window::COMPUTE).is_err());
        assert!(stream::stream(&pool, &options("stream")).is_err());
        let open = || Ok(Delivers(Inline(2), Vec::new()));
        assert!(window::delivered(open, &options("epoll"), window::COMPUTE).is_err());
        assert!(batch::bursts::<Completion, _>(&pool, &options("batch-10")).is_err());
        assert!(parallel::sums(&pool, &options("loop-1e5")).is_err());
        assert!(fork::trees(&pool, &options("fork")).is_err());
        assert!(fork::scopes(&pool, &options("scope")).is_err());
    }

    #[cfg(feature = "peers")]
    #[test]
    fn awaited_items_and_reads_are_counted_too() {
        use super::awaited::{awaited, runtime};
        for lap in [
            "await-current",
            "await-multi-empty",
            "await-reads",
            "await-cache",
        ] {
            let options = options(lap);
            let run = |times| awaited(&runtime(&options)?, Inline(times), &options);
            let report = run(1).expect("each ran once");
            let is_read = matches!(lap, "await-reads" | "await-cache");
            assert_eq!(report.line().contains("wake_p999_ns"), is_read);
            assert!(run(2).is_err(), "{lap}");
        }
    }

    #[test]
    fn the_size_of_a_burst_or_of_a_loop_that_is_none_is_refused() {
        let pool = Inline(1);
        for lap in ["batch-", "batch-0", "batch-x", "batches"] {
            let error = batch::bursts::<Completion, _>(&pool, &options(lap)).err();
            assert!(error.expect("refused").contains(lap));
        }
        let error = parallel::sums(&pool, &options("loop-2")).err();
        assert!(error.expect("refused").contains("loop-2"));
    }

    #[test]
    fn wrong_settings_are_refused_by_name() {
        for (wrong, named) in [
            ("issuers=0", "issuers=0"),
            ("colour=1", "colour"),
            ("spin", "spin"),
        ] {
            let arguments = ["cmwq", "flood", "work", wrong].map(str::to_owned);
            let error = Options::parse(&arguments).err().expect("refused");
            assert!(error.contains(named), "{error}");
        }
    }
}
