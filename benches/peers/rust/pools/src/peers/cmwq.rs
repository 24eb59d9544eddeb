//! cmwq with its defaults: an unbound queue on the process's engine.

#[cfg(feature = "peers")]
use super::AWAITED;
use super::Peer;
use crate::everyday::{self, Everyday, Gathering, Joined};
use crate::job::{Job, Joining, Pool};
#[cfg(feature = "peers")]
use crate::loops::awaited;
use crate::loops::fork::{self, Forking, Scoping};
use crate::loops::parallel::{self, Looping};
use crate::loops::{batch, hogged, idle, stream, window};
use crate::options::Options;
use crate::report::Report;
use crate::signal::{Eventfd, Rung, Watched};
use cmwq::types::{Chunks, Completed};
use cmwq::{Completion, CompletionQueue, JoinHandle, Work, Workqueue};
use cmwq_loads::Load;
use cmwq_loads::real::Park;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(super) const PEER: Peer = Peer {
    name: "cmwq",
    version: env!("PEER_CMWQ"),
    rows: &[
        &[
            ("roundtrip", "completion"),
            ("roundtrip", "join"),
            ("flood", "work"),
            ("flood", "execute"),
            ("flood", "spawn"),
            ("window", "completion"),
            ("window", "join"),
            ("window", "count"),
            ("window", "park"),
            ("epoll", "eventfd"),
            ("epoll", "queue"),
            ("batch-1", "work"),
            ("batch-1", "execute"),
            ("batch-1", "spawn"),
            ("batch-10", "work"),
            ("batch-10", "singly"),
            ("batch-10", "execute"),
            ("batch-10", "spawn"),
            ("batch-100", "work"),
            ("batch-100", "singly"),
            ("batch-100", "execute"),
            ("batch-100", "spawn"),
            ("loop-1e5", "chunks"),
            ("loop-1e7", "chunks"),
            ("fork", "scope"),
            ("scope", "scope"),
            ("idle", "start"),
            ("block", "completion"),
            ("block", "join"),
            ("block", "count"),
            ("block", "declared"),
            ("hogged", "start"),
            ("stream", "end"),
        ],
        #[cfg(feature = "peers")]
        AWAITED,
    ],
    everyday: Everyday {
        #[cfg(feature = "peers")]
        joins: &["join", "scope", "flush", "future"],
        #[cfg(not(feature = "peers"))]
        joins: &["join", "scope", "flush"],
        bursts: &["completion", "park"],
        flows: &["completion", "park"],
    },
    run,
};

/// Items that are queued again and again.
struct Reusable(Workqueue);

impl Pool for Reusable {
    const REUSABLE: bool = true;
    type Item = Work;

    fn item(&self, job: Job) -> Work {
        Work::new(move || job.run())
    }

    fn submit(&self, item: &Work) {
        let _ = self.0.queue(item);
    }

    fn submit_all(&self, items: &[Work]) {
        let _ = self.0.queue_batch(items);
    }
}

/// The same, each by a call of its own.
struct Singly(Reusable);

impl Pool for Singly {
    const REUSABLE: bool = true;
    type Item = Work;

    fn item(&self, job: Job) -> Work {
        self.0.item(job)
    }

    fn submit(&self, item: &Work) {
        self.0.submit(item);
    }
}

/// A closure for each item, without a handle.
struct Executed(Workqueue);

impl Pool for Executed {
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, job: &Job) {
        let job = *job;
        self.0.execute(move || job.run()).expect("it is open");
    }

    fn submit_all(&self, jobs: &[Job]) {
        let closures = jobs.iter().map(|&job| move || job.run());
        self.0.execute_batch(closures).expect("it is open");
    }
}

/// A closure for each item, with a handle.
struct Spawned(Workqueue);

impl Pool for Spawned {
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, job: &Job) {
        let job = *job;
        drop(self.0.spawn(move || job.run()));
    }

    fn submit_all(&self, jobs: &[Job]) {
        let closures = jobs.iter().map(|&job| move || job.run());
        drop(self.0.spawn_batch(closures));
    }
}

impl Joining for Spawned {
    type Handle = JoinHandle<()>;

    fn spawn(&self, job: Job) -> JoinHandle<()> {
        self.0.spawn(move || job.run())
    }

    fn join(&self, handle: JoinHandle<()>) {
        handle.join().expect("items do not panic");
    }
}

#[cfg(feature = "peers")]
impl awaited::Awaiting for Spawned {
    async fn run(&self, job: Job) {
        self.0
            .spawn(move || job.run())
            .await
            .expect("items do not panic");
    }
}

/// An issuer's completion queue, which it watches in its event loop.
struct Delivered<'a> {
    queue: &'a Workqueue,
    completions: CompletionQueue<()>,
    watched: Watched,
    entries: Vec<Completed<()>>,
}

impl<'a> Delivered<'a> {
    fn open(queue: &'a Workqueue) -> Result<Self, String> {
        let completions = CompletionQueue::<()>::builder().eventfd().build();
        let completions = completions.map_err(|error| error.to_string())?;
        let watched = Watched::new(completions.fd().expect("it was asked for"));
        Ok(Delivered {
            queue,
            completions,
            watched,
            entries: Vec::new(),
        })
    }
}

impl window::Delivery for Delivered<'_> {
    fn submit(&mut self, job: Job) {
        let token = job.index.into();
        let submitted = self
            .completions
            .submit(self.queue, token, move || job.run());
        submitted.expect("it is open, and has no limit");
    }

    fn take(&mut self, ran: &mut Vec<u32>) {
        while self.completions.drain(usize::MAX, &mut self.entries) == 0 {
            if self.completions.arm() {
                self.watched.wait();
            }
        }
        ran.extend(self.entries.drain(..).map(|entry| entry.token as u32));
    }
}

/// A handle that is a future.
#[cfg(feature = "peers")]
struct Awaited(Spawned);

#[cfg(feature = "peers")]
impl Gathering for Awaited {
    fn gather(&self, jobs: &[Job]) {
        let handles: Vec<_> = jobs.iter().map(|&job| self.0.spawn(job)).collect();
        futures_lite::future::block_on(async move {
            for handle in handles {
                handle.await.expect("items do not panic");
            }
        });
    }
}

impl Gathering for Scoped {
    fn gather(&self, jobs: &[Job]) {
        cmwq::scope(&self.0, |s| {
            for &job in jobs {
                s.spawn(move || job.run());
            }
        });
    }
}

/// Closures without handles, and a flush of their queue.
struct Flushed(Workqueue);

impl Gathering for Flushed {
    fn gather(&self, jobs: &[Job]) {
        for &job in jobs {
            self.0
                .execute(move || job.run())
                .expect("the queue accepts items");
        }
        self.0.flush().expect("not from an item of the queue");
    }
}

/// A load of every day.
fn everyday(queue: Workqueue, options: &Options) -> Result<Report, String> {
    match options.mode.as_str() {
        "completion" => everyday::counted_by::<Rung, _>(Executed(queue), options),
        "park" => everyday::counted_by::<Park, _>(Executed(queue), options),
        "join" => everyday::gathered(Joined(Spawned(queue)), options),
        "scope" => everyday::gathered(Scoped(queue), options),
        "flush" => everyday::gathered(Flushed(queue), options),
        #[cfg(feature = "peers")]
        "future" => everyday::gathered(Awaited(Spawned(queue)), options),
        _ => Err(options.unknown()),
    }
}

/// Loops and trees.
struct Scoped(Workqueue);

impl Looping for Scoped {
    fn sum(&self, values: &[u64]) -> u64 {
        let sum = AtomicU64::new(0);
        self.0
            .for_each_chunk(0..values.len(), Chunks::default(), |chunk| {
                // It wraps.
                sum.fetch_add(parallel::sum_of(&values[chunk]), Ordering::Relaxed);
            });
        sum.into_inner()
    }
}

impl Forking for Scoped {
    fn leaves(&self, depth: u32, steps: u64) -> u64 {
        if depth == 0 {
            return fork::leaf(steps);
        }
        let mut forked = 0;
        let own = cmwq::scope(&self.0, |s| {
            s.spawn(|| forked = self.leaves(depth - 1, steps));
            self.leaves(depth - 1, steps)
        });
        forked + own
    }
}

impl Scoping for Scoped {
    fn scoped(&self, leaves: u64, steps: u64) -> u64 {
        let ran = AtomicU64::new(0);
        cmwq::scope(&self.0, |s| {
            for _ in 0..leaves {
                s.spawn(|| _ = ran.fetch_add(fork::leaf(steps), Ordering::Relaxed));
            }
        });
        ran.into_inner()
    }
}

/// A sleep that the pool is told of.
const DECLARED: window::Kind = window::Kind {
    sleep: Some(|time: Duration| cmwq::blocking(|| std::thread::sleep(time))),
};

fn run(options: &Options) -> Result<Report, String> {
    let queue = Workqueue::builder("peers")
        .build()
        .map_err(|error| error.to_string())?;
    if Load::everyday().any(|load| load.name == options.lap) {
        return everyday(queue, options);
    }
    match (options.lap.as_str(), options.mode.as_str()) {
        ("roundtrip", "completion") => everyday::counted_by::<Rung, _>(Reusable(queue), options),
        ("roundtrip", "join") => everyday::gathered(Joined(Spawned(queue)), options),
        ("flood", "work") => everyday::counted_by::<Rung, _>(Reusable(queue), options),
        ("flood", "execute") => everyday::counted_by::<Rung, _>(Executed(queue), options),
        ("flood", "spawn") => everyday::counted_by::<Rung, _>(Spawned(queue), options),
        ("window", "completion") => {
            window::signalled::<Completion, _>(&Reusable(queue), options, window::COMPUTE)
        }
        ("window", "join") => window::joined(&Spawned(queue), options, window::COMPUTE),
        ("window", "count") => everyday::counted_by::<Rung, _>(Reusable(queue), options),
        ("window", "park") => everyday::counted_by::<Park, _>(Reusable(queue), options),
        ("epoll", "eventfd") => everyday::counted_by::<Eventfd, _>(Reusable(queue), options),
        ("epoll", "queue") => {
            window::delivered(|| Delivered::open(&queue), options, window::COMPUTE)
        }
        (lap, "work") if lap.starts_with("batch-") => {
            batch::bursts::<Completion, _>(&Reusable(queue), options)
        }
        (lap, "singly") if lap.starts_with("batch-") => {
            batch::bursts::<Completion, _>(&Singly(Reusable(queue)), options)
        }
        (lap, "execute") if lap.starts_with("batch-") => {
            batch::bursts::<Completion, _>(&Executed(queue), options)
        }
        (lap, "spawn") if lap.starts_with("batch-") => {
            batch::bursts::<Completion, _>(&Spawned(queue), options)
        }
        (_, "chunks") => parallel::sums(&Scoped(queue), options),
        ("fork", "scope") => fork::trees(&Scoped(queue), options),
        ("scope", "scope") => fork::scopes(&Scoped(queue), options),
        ("idle", "start") => idle::idle(&Reusable(queue), options),
        ("stream", "end") => stream::stream(&Reusable(queue), options),
        ("hogged", "start") => hogged::hogged(&Reusable(queue), options),
        ("block", "count") => window::counted::<Rung, _>(&Reusable(queue), options, window::BLOCK),
        ("block", "join") => window::joined(&Spawned(queue), options, window::BLOCK),
        ("block", "completion") => {
            window::signalled::<Completion, _>(&Reusable(queue), options, window::BLOCK)
        }
        ("block", "declared") => window::counted::<Rung, _>(&Reusable(queue), options, DECLARED),
        #[cfg(feature = "peers")]
        (lap, "future") if lap.starts_with("await-") => {
            awaited::awaited(&awaited::runtime(options)?, Spawned(queue), options)
        }
        _ => Err(options.unknown()),
    }
}
