//! cmwq with its defaults: an unbound queue on the process's engine.

use super::{Peer, unknown};
use crate::job::{Job, Joining, Pool};
#[cfg(feature = "peers")]
use crate::loops::awaited;
use crate::loops::{flood, hogged, idle, round_trip, stream, window};
use crate::options::Options;
use crate::report::Report;
use cmwq::{Completion, JoinHandle, Work, Workqueue};
use std::time::Duration;

pub(super) const PEER: Peer = Peer {
    name: "cmwq",
    version: env!("PEER_CMWQ"),
    rows: &[
        ("roundtrip", "completion"),
        ("roundtrip", "join"),
        ("flood", "work"),
        ("flood", "execute"),
        ("flood", "spawn"),
        ("window", "completion"),
        ("window", "join"),
        ("window", "count"),
        ("idle", "start"),
        ("block", "completion"),
        ("block", "join"),
        ("block", "count"),
        ("block", "declared"),
        ("hogged", "start"),
        ("stream", "end"),
        #[cfg(feature = "peers")]
        ("await-current", "future"),
        #[cfg(feature = "peers")]
        ("await-current-empty", "future"),
        #[cfg(feature = "peers")]
        ("await-multi", "future"),
        #[cfg(feature = "peers")]
        ("await-multi-empty", "future"),
    ],
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

/// A sleep that the pool is told of.
const DECLARED: window::Kind = window::Kind {
    sleep: Some(|time: Duration| cmwq::blocking(|| std::thread::sleep(time))),
};

fn run(options: &Options) -> Result<Report, String> {
    let queue = Workqueue::builder("peers")
        .build()
        .map_err(|error| error.to_string())?;
    match (options.lap.as_str(), options.mode.as_str()) {
        ("roundtrip", "completion") => {
            round_trip::signalled::<Completion, _>(&Reusable(queue), options)
        }
        ("roundtrip", "join") => round_trip::joined(&Spawned(queue), options),
        ("flood", "work") => flood::flood::<Completion, _>(&Reusable(queue), options),
        ("flood", "execute") => flood::flood::<Completion, _>(&Executed(queue), options),
        ("flood", "spawn") => flood::flood::<Completion, _>(&Spawned(queue), options),
        ("window", "completion") => {
            window::signalled::<Completion, _>(&Reusable(queue), options, window::COMPUTE)
        }
        ("window", "join") => window::joined(&Spawned(queue), options, window::COMPUTE),
        ("window", "count") => {
            window::counted::<Completion, _>(&Reusable(queue), options, window::COMPUTE)
        }
        ("idle", "start") => idle::idle(&Reusable(queue), options),
        ("stream", "end") => stream::stream(&Reusable(queue), options),
        ("hogged", "start") => hogged::hogged(&Reusable(queue), options),
        ("block", "count") => {
            window::counted::<Completion, _>(&Reusable(queue), options, window::BLOCK)
        }
        ("block", "join") => window::joined(&Spawned(queue), options, window::BLOCK),
        ("block", "completion") => {
            window::signalled::<Completion, _>(&Reusable(queue), options, window::BLOCK)
        }
        ("block", "declared") => {
            window::counted::<Completion, _>(&Reusable(queue), options, DECLARED)
        }
        #[cfg(feature = "peers")]
        (lap, "future") if lap.starts_with("await-") => {
            awaited::awaited(&awaited::runtime(options)?, Spawned(queue), options)
        }
        _ => Err(unknown(options)),
    }
}
