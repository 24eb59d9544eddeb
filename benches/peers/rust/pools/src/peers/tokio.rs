//! tokio: its tasks, and its blocking pool with the default of up to 512 threads.

use super::{AWAITED, PLAIN, Peer, Row, plain};
use crate::everyday::{self, Everyday, Gathering, Joined};
use crate::job::{Job, Joining, Pool};
use crate::loops::{awaited, window};
use crate::machine::unpin;
use crate::options::Options;
use crate::report::Report;
use cmwq_loads::Load;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

const JOINED: &[Row] = &[("roundtrip", "join"), ("window", "join")];

/// The runtime's pool of so many threads.
const BOUNDED: &[Row] = &[
    ("await-cache", "future-2"),
    ("await-cache", "future-4"),
    ("await-cache", "future-8"),
];

pub(super) const SPAWN: Peer = Peer {
    name: "tokio-spawn",
    version: env!("PEER_TOKIO"),
    rows: &[PLAIN, JOINED, &[("stream", "end")]],
    everyday: Everyday::NONE,
    run: |options| run(Tasks(runtime(options)?), options),
};

pub(super) const SPAWN_BLOCKING: Peer = Peer {
    name: "tokio-spawn-blocking",
    version: env!("PEER_TOKIO"),
    rows: &[PLAIN, JOINED, AWAITED, BOUNDED],
    everyday: Everyday {
        joins: &["join", "future"],
        bursts: &["park"],
        flows: &["park"],
    },
    run: |options| match options.mode.as_str() {
        "future" if Load::named(&options.lap).is_some() => {
            everyday::gathered(Awaited(runtime(options)?), options)
        }
        mode if mode.starts_with("future") => {
            let runtime = awaited::runtime(options)?;
            let pool = BlockingOf(runtime.handle().clone());
            awaited::awaited(&runtime, pool, options)
        }
        _ => run(Blocking(runtime(options)?), options),
    },
};

fn runtime(options: &Options) -> Result<Runtime, String> {
    Builder::new_multi_thread()
        .worker_threads(options.workers)
        .on_thread_start(unpin)
        .build()
        .map_err(|error| error.to_string())
}

struct Tasks(Runtime);
struct Blocking(Runtime);

/// The blocking pool of the runtime whose tasks await.
struct BlockingOf(Handle);

impl awaited::Awaiting for BlockingOf {
    async fn run(&self, job: Job) {
        self.0
            .spawn_blocking(move || job.run())
            .await
            .expect("items do not panic");
    }
}

impl Pool for Tasks {
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, job: &Job) {
        let job = *job;
        self.0.spawn(async move { job.run() });
    }
}

impl Joining for Tasks {
    type Handle = JoinHandle<()>;

    fn spawn(&self, job: Job) -> JoinHandle<()> {
        self.0.spawn(async move { job.run() })
    }

    fn join(&self, handle: JoinHandle<()>) {
        self.0.block_on(handle).expect("items do not panic");
    }
}

impl Pool for Blocking {
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, job: &Job) {
        let job = *job;
        self.0.spawn_blocking(move || job.run());
    }
}

impl Joining for Blocking {
    type Handle = JoinHandle<()>;

    fn spawn(&self, job: Job) -> JoinHandle<()> {
        self.0.spawn_blocking(move || job.run())
    }

    fn join(&self, handle: JoinHandle<()>) {
        self.0.block_on(handle).expect("items do not panic");
    }
}

/// All handles are awaited in one task, on the issuer's thread.
struct Awaited(Runtime);

impl Gathering for Awaited {
    fn gather(&self, jobs: &[Job]) {
        let spawn = |&job: &Job| self.0.spawn_blocking(move || job.run());
        let handles: Vec<JoinHandle<()>> = jobs.iter().map(spawn).collect();
        self.0.block_on(async move {
            for handle in handles {
                handle.await.expect("items do not panic");
            }
        });
    }
}

fn run<P>(pool: P, options: &Options) -> Result<Report, String>
where
    P: Pool<Item = Job> + Joining + Send + 'static,
{
    match (options.lap.as_str(), options.mode.as_str()) {
        ("window", "join") => window::joined(&pool, options, window::COMPUTE),
        (_, "join") => everyday::gathered(Joined(pool), options),
        _ => plain::run(pool, options),
    }
}
