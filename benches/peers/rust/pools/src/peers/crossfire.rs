//! An unbounded channel of crossfire and threads that receive from it: messages of one type. It has
//! no call for several.

use super::{Peer, plain};
use crate::everyday::Everyday;
use crate::job::{Job, Pool};
use crate::options::Options;
use crate::report::Report;
use crossfire::MTx;
use crossfire::mpmc::{List, unbounded_blocking};
use std::thread;

pub(super) const PEER: Peer = Peer {
    name: "crossfire",
    version: env!("PEER_CROSSFIRE"),
    rows: &[&[
        ("flood", "park"),
        ("batch-1", "park"),
        ("batch-10", "park"),
        ("batch-100", "park"),
    ]],
    everyday: Everyday::NONE,
    run,
};

struct Messages(MTx<List<Job>>);

impl Pool for Messages {
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, job: &Job) {
        self.0.send(*job).expect("the receivers live as long");
    }
}

fn run(options: &Options) -> Result<Report, String> {
    // As its documentation advises on virtual machines.
    crossfire::detect_backoff_cfg();
    let (sender, receiver) = unbounded_blocking();
    let pool = Messages(sender);
    thread::scope(|scope| {
        for _ in 0..options.workers {
            let receiver = receiver.clone();
            scope.spawn(move || {
                while let Ok(job) = receiver.recv() {
                    job.run();
                }
            });
        }
        // Its sender is the last, and goes with it: the threads end.
        plain::run(pool, options)
    })
}
