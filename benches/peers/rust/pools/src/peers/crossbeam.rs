//! An unbounded crossbeam channel and threads that receive from it.

use super::{Peer, plain};
use crate::job::{Job, Pool};
use crate::options::Options;
use crate::report::Report;
use crossbeam_channel::{Sender, unbounded};
use std::thread;

pub(super) const PEER: Peer = Peer {
    name: "crossbeam-channel",
    version: env!("PEER_CROSSBEAM_CHANNEL"),
    rows: &[
        ("roundtrip", "park"),
        ("roundtrip", "channel"),
        ("flood", "park"),
        ("window", "count"),
        ("idle", "start"),
        ("block", "count"),
    ],
    run,
};

struct Channel(Sender<Job>);

impl Pool for Channel {
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, job: &Job) {
        self.0.send(*job).expect("the receivers live as long");
    }
}

fn run(options: &Options) -> Result<Report, String> {
    let (sender, receiver) = unbounded::<Job>();
    let pool = Channel(sender);
    thread::scope(|scope| {
        for _ in 0..options.workers {
            let receiver = receiver.clone();
            scope.spawn(move || receiver.iter().for_each(Job::run));
        }
        let report = plain::run(&pool, options);
        drop(pool);
        report
    })
}
