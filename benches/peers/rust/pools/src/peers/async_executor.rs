//! async-executor: an executor and threads that run it.

use super::{PLAIN, Peer, plain};
use crate::everyday::{self, Everyday, Joined};
use crate::job::{Job, Joining, Pool};
use crate::loops::window;
use crate::options::Options;
use crate::report::Report;
use async_executor::{Executor, Task};
use futures_lite::future::{block_on, pending};
use std::thread;

pub(super) const PEER: Peer = Peer {
    name: "async-executor",
    version: env!("PEER_ASYNC_EXECUTOR"),
    rows: &[
        PLAIN,
        &[
            ("roundtrip", "join"),
            ("roundtrip", "help"),
            ("window", "join"),
            ("window", "help"),
        ],
    ],
    everyday: Everyday::NONE,
    run,
};

/// Waits by running the executor, if it is told to.
struct Spawner<const HELPS: bool>(&'static Executor<'static>);

impl<const HELPS: bool> Pool for Spawner<HELPS> {
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, job: &Job) {
        let job = *job;
        self.0.spawn(async move { job.run() }).detach();
    }
}

impl<const HELPS: bool> Joining for Spawner<HELPS> {
    type Handle = Task<()>;

    fn spawn(&self, job: Job) -> Task<()> {
        self.0.spawn(async move { job.run() })
    }

    fn join(&self, task: Task<()>) {
        if HELPS {
            block_on(self.0.run(task));
        } else {
            block_on(task);
        }
    }
}

fn run(options: &Options) -> Result<Report, String> {
    let executor = crate::job::forever(Executor::new());
    for _ in 0..options.workers {
        thread::spawn(|| block_on(executor.run(pending::<()>())));
    }
    let (sleeper, helper) = (Spawner::<false>(executor), Spawner::<true>(executor));
    match (options.lap.as_str(), options.mode.as_str()) {
        ("roundtrip", "join") => everyday::gathered(Joined(sleeper), options),
        ("roundtrip", "help") => everyday::gathered(Joined(helper), options),
        ("window", "join") => window::joined(&sleeper, options, window::COMPUTE),
        ("window", "help") => window::joined(&helper, options, window::COMPUTE),
        _ => plain::run(sleeper, options),
    }
}
