//! One run of one scope, in a process of its own: prints its figures as a line of JSON.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread;

use cmwq::topology::Topology;
use cmwq::{Completion, Engine, Workqueue};
use cmwq_command::CliError;
use cmwq_loads::real::Threads;
use cmwq_loads::{Bell, Found, Job, Latency, Pool, Span};
use serde::{Deserialize, Serialize};

use super::super::args::Args;
use super::super::plan::Config;
use super::options::{Options, Wait};
use crate::output;

/// The figures of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) items_per_s: f64,
    /// Of each time window, from the first after the warm-up.
    pub(super) window_rates: Vec<f64>,
    pub(super) steady: bool,
    /// How long the two windows took that the figures are of.
    pub(super) measured_ms: f64,
    pub(super) items: u64,
    pub(super) start_ns: Percentiles,
    pub(super) done_ns: Percentiles,
    pub(super) cpu_us_per_item: f64,
    pub(super) wakeups_per_item: f64,
    pub(super) switches_per_item: f64,
    pub(super) peak_threads: usize,
}

/// Percentiles in nanoseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Percentiles {
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) p999: u64,
}

impl From<Latency> for Percentiles {
    fn from(latency: Latency) -> Self {
        Percentiles {
            p50: latency.p50_ns,
            p99: latency.p99_ns,
            p999: latency.p999_ns,
        }
    }
}

impl From<Found> for Run {
    fn from(found: Found) -> Self {
        Run {
            items_per_s: found.items_per_s,
            window_rates: found.window_rates,
            steady: found.is_steady,
            measured_ms: found.measured_ns as f64 / 1e6,
            items: found.items,
            start_ns: found.start.into(),
            done_ns: found.done.into(),
            cpu_us_per_item: found.cpu_ns_per_item / 1e3,
            wakeups_per_item: found.wakeups_per_item,
            switches_per_item: found.switches_per_item,
            peak_threads: found.peak_threads,
        }
    }
}

/// How an issuer waits: asleep, for a completion.
struct Done(Completion);

impl Bell for Done {
    const COUNTS: bool = true;

    fn new() -> Done {
        Done(Completion::new())
    }

    fn ring(&self) {
        self.0.complete_one();
    }

    fn wait(&self) {
        self.0.wait();
    }
}

/// A workqueue. Items are closures; those of a round that is joined have handles or are a scope's.
struct Queue {
    queue: Workqueue,
    wait: Wait,
}

impl Pool for Queue {
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, job: &Job) {
        let job = *job;
        // The queue lives as long as its issuers.
        self.queue
            .execute(move || job.run())
            .expect("the queue is open");
    }

    fn gather(&self, jobs: &[Job]) -> bool {
        if self.wait == Wait::Scope {
            cmwq::scope(&self.queue, |scope| {
                for &job in jobs {
                    scope.spawn(move || job.run());
                }
            });
            return true;
        }
        let spawn = |&job: &Job| self.queue.spawn(move || job.run());
        let handles: Vec<_> = jobs.iter().map(spawn).collect();
        for handle in handles {
            match self.wait {
                Wait::Future => block_on(handle),
                _ => handle.join(),
            }
            .expect("items do not panic");
        }
        true
    }
}

/// Wakes the thread that waits for a future.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future as the runtimes of asynchronous programs do: it is polled, and the thread sleeps
/// until it is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// An engine for one configuration.
pub(super) fn engine(topology: &Topology, config: &Config) -> Result<Engine, CliError> {
    let mut builder = Engine::builder().topology(topology.clone());
    if let Some(size) = config.shard_size {
        builder = builder.cache_shard_size(size);
    }
    let failed = |error| CliError::failed(format!("cannot start an engine: {error}"));
    builder.build().map_err(failed)
}

/// Measures and prints.
pub(super) fn run(args: &Args, steps_per_us: f64) -> Result<(), CliError> {
    let options = Options::read(args)?;
    let config = Config {
        scope: options.scopes[0],
        shard_size: options.shard_sizes.first().copied(),
        in_sweep: false,
    };
    let engine = engine(&args.machine.topology()?, &config)?;
    let queue = engine
        .workqueue("bench_wq")
        .affinity_scope(config.scope)
        .affinity_strict(options.strict)
        .build()
        .map_err(|error| CliError::failed(format!("cannot create a workqueue: {error}")))?;
    let machine = Threads::<Done>::new(steps_per_us);
    let span = Span::of(options.time_ms * 1_000_000);
    let wait = options.wait.unwrap_or(Wait::Join);
    let pool = Arc::new(Queue { queue, wait });
    let found = cmwq_loads::run(&machine, &pool, &options.load, span)
        .map_err(|error| CliError::failed(format!("cannot trust the measurement: {error}")))?;
    let text = serde_json::to_string(&Run::from(found))
        .map_err(|error| CliError::failed(format!("cannot write the figures: {error}")))?;
    output::print(&(text + "\n"))
}
