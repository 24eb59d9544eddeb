//! rayon: a pool of its own, entered from outside. A thread that is none of the pool's sleeps while it waits.

use super::{PLAIN, Peer, plain};
use crate::everyday::{self, Everyday, Gathering, Joined};
use crate::job::{Job, Joining, Pool};
use crate::loops::awaited;
use crate::loops::fork::{self, Forking, Scoping};
use crate::loops::parallel::{self, Looping};
use crate::options::Options;
use crate::report::Report;
use cmwq_loads::Load;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const PEER: Peer = Peer {
    name: "rayon",
    version: env!("PEER_RAYON"),
    rows: &[
        PLAIN,
        &[
            ("roundtrip", "join"),
            ("loop-1e5", "iterator"),
            ("loop-1e7", "iterator"),
            ("fork", "join"),
            ("scope", "scope"),
            ("scope", "in-place"),
            ("stream", "end"),
            ("await-current", "oneshot"),
            ("await-current-empty", "oneshot"),
            ("await-multi", "oneshot"),
            ("await-multi-empty", "oneshot"),
            ("await-reads", "oneshot"),
            ("await-cache", "oneshot"),
        ],
    ],
    everyday: Everyday {
        joins: &["scope"],
        bursts: &["park"],
        flows: &["park"],
    },
    run,
};

struct Rayon(ThreadPool);

impl Pool for Rayon {
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, job: &Job) {
        let job = *job;
        self.0.spawn(move || job.run());
    }
}

/// The item sends on tokio's channel for one value.
impl awaited::Awaiting for Rayon {
    async fn run(&self, job: Job) {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.0.spawn(move || {
            job.run();
            sender.send(()).expect("its task waits");
        });
        receiver.await.expect("items do not panic");
    }
}

impl Looping for Rayon {
    fn sum(&self, values: &[u64]) -> u64 {
        let elements = || values.par_iter().copied().map(parallel::element);
        self.0
            .install(|| elements().reduce(|| 0, u64::wrapping_add))
    }
}

impl Forking for Rayon {
    fn leaves(&self, depth: u32, steps: u64) -> u64 {
        self.0.install(|| leaves(depth, steps))
    }
}

fn leaves(depth: u32, steps: u64) -> u64 {
    if depth == 0 {
        return fork::leaf(steps);
    }
    let half = || leaves(depth - 1, steps);
    let (one, other) = rayon::join(half, half);
    one + other
}

/// The scope runs in the pool; with `true`, on the calling thread, which then waits.
struct InScope(Rayon, bool);

impl Scoping for InScope {
    fn scoped(&self, leaves: u64, steps: u64) -> u64 {
        let ran = AtomicU64::new(0);
        let pool = &self.0.0;
        match self.1 {
            true => pool.in_place_scope(|scope| spawn_all(scope, &ran, leaves, steps)),
            false => pool.scope(|scope| spawn_all(scope, &ran, leaves, steps)),
        }
        ran.into_inner()
    }
}

fn spawn_all<'s>(scope: &rayon::Scope<'s>, ran: &'s AtomicU64, leaves: u64, steps: u64) {
    for _ in 0..leaves {
        scope.spawn(move |_| _ = ran.fetch_add(fork::leaf(steps), Ordering::Relaxed));
    }
}

/// The issuer is none of the pool's threads: it sleeps until the scope has ended.
impl Gathering for Rayon {
    fn gather(&self, jobs: &[Job]) {
        self.0.in_place_scope(|scope| {
            for &job in jobs {
                scope.spawn(move |_| job.run());
            }
        });
    }
}

/// `install` queues and waits in one.
impl Joining for Rayon {
    type Handle = Job;

    fn spawn(&self, job: Job) -> Job {
        job
    }

    fn join(&self, job: Job) {
        self.0.install(|| job.run());
    }
}

fn run(options: &Options) -> Result<Report, String> {
    let pool = ThreadPoolBuilder::new()
        .num_threads(options.workers)
        .build()
        .map(Rayon)
        .map_err(|error| error.to_string())?;
    match (options.lap.as_str(), options.mode.as_str()) {
        (_, "oneshot") => awaited::awaited(&awaited::runtime(options)?, pool, options),
        ("roundtrip", "join") => everyday::gathered(Joined(pool), options),
        (_, "iterator") => parallel::sums(&pool, options),
        ("fork", "join") => fork::trees(&pool, options),
        (lap, "scope") if Load::named(lap).is_some() => everyday::gathered(pool, options),
        ("scope", mode) => fork::scopes(&InScope(pool, mode == "in-place"), options),
        _ => plain::run(pool, options),
    }
}
