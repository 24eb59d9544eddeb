//! Await: asynchronous tasks on a tokio runtime, each of which hands an item to a pool and awaits
//! it, again and again. What is measured is how a pool serves a program whose threads must not
//! wait. Every seventh item of a task is timed, from before it is queued to when its task goes on.

use super::{Phase, Tally, reads, timed_by};
use crate::job::{Job, Target, forever};
use crate::machine::{cpu_time, now_ns, spin, unpin};
use crate::options::Options;
use crate::report::Report;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::{Builder, Runtime};

const TIMED_EVERY: u64 = 7;

/// A pool whose items can be awaited.
pub(crate) trait Awaiting: Send + Sync + 'static {
    fn run(&self, job: Job) -> impl Future<Output = ()> + Send;
}

/// A task's item. What the allocator puts beside it is not left to chance.
#[repr(align(128))]
struct Item {
    spin: u64,
    runs: AtomicU64,
}

impl Target for Item {
    fn run(&self, _: u32) {
        if self.spin != 0 {
            spin(self.spin);
        }
        // One item of a task at a time.
        let runs = self.runs.load(Ordering::Relaxed);
        self.runs.store(runs + 1, Ordering::Relaxed);
    }
}

/// The runtime that a row's name asks for, with the drivers that servers have.
pub(crate) fn runtime(options: &Options) -> Result<Runtime, String> {
    let mut builder = match options.lap.starts_with("await-current") {
        true => Builder::new_current_thread(),
        false => Builder::new_multi_thread(),
    };
    builder
        .worker_threads(2)
        .max_blocking_threads(most_threads(options))
        .enable_all()
        .on_thread_start(unpin)
        .build()
        .map_err(|error| error.to_string())
}

/// Threads of the runtime's own pool: as the mode says behind a hyphen, or tokio's default.
fn most_threads(options: &Options) -> usize {
    let number = options.mode.rsplit_once('-');
    number
        .and_then(|(_, number)| number.parse().ok())
        .unwrap_or(512)
}

/// As many tasks as the options have issuers.
pub(crate) fn awaited<P: Awaiting>(
    runtime: &Runtime,
    pool: P,
    options: &Options,
) -> Result<Report, String> {
    if let "await-reads" | "await-cache" = options.lap.as_str() {
        return reads::reads(runtime, pool, options);
    }
    let spin = match options.lap.ends_with("-empty") {
        true => 0,
        false => options.spin,
    };
    let pool = Arc::new(pool);
    timed_by(options, cpu_time, |phase| {
        let phase: &'static Phase = forever(phase);
        let tasks: Vec<_> = (0..options.issuers)
            .map(|_| runtime.spawn(task(pool.clone(), phase, spin)))
            .collect();
        // A current-thread runtime runs its tasks on the thread that blocks on it.
        let wait = move |sum: &mut Tally| {
            runtime.block_on(async {
                for task in tasks {
                    sum.add(task.await.map_err(|_| "a task panicked")?);
                }
                Ok(())
            })
        };
        (phase, wait)
    })
}

async fn task<P: Awaiting>(pool: Arc<P>, phase: &'static Phase, spin: u64) -> Tally {
    let item = forever(Item {
        spin,
        runs: AtomicU64::new(0),
    });
    let mut tally = Tally::default();
    let mut measuring = false;
    while phase.go_on(&mut tally, &mut measuring) {
        let start_ns = tally.queued.is_multiple_of(TIMED_EVERY).then(now_ns);
        pool.run(Job::new(item, 0)).await;
        if let Some(start_ns) = start_ns {
            tally.told_ns.push(now_ns() - start_ns);
        }
        tally.queued += 1;
        tally.items += 1;
    }
    tally.ran = item.runs.load(Ordering::Relaxed);
    tally
}
