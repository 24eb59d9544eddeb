//! affinitypool: as many threads as are asked for, a queue for each, items whose futures must be
//! awaited (one that is dropped cancels its item).

use super::{AWAITED, Peer};
use crate::everyday::{self, Everyday, Gathering};
use crate::job::Job;
use crate::loops::awaited::{self, Awaiting};
use crate::options::Options;
use crate::report::Report;
use affinitypool::Threadpool;
use futures_lite::future::block_on;

pub(super) const PEER: Peer = Peer {
    name: "affinitypool",
    version: env!("PEER_AFFINITYPOOL"),
    rows: &[AWAITED],
    everyday: Everyday {
        joins: &["future"],
        bursts: &["future"],
        flows: &[],
    },
    run,
};

struct Affine(Threadpool);

impl Awaiting for Affine {
    async fn run(&self, job: Job) {
        self.0.spawn(move || job.run()).await;
    }
}

impl Gathering for Affine {
    fn gather(&self, jobs: &[Job]) {
        let spawn = |&job: &Job| self.0.spawn(move || job.run());
        let futures: Vec<_> = jobs.iter().map(spawn).collect();
        block_on(async move {
            for future in futures {
                future.await;
            }
        });
    }
}

fn run(options: &Options) -> Result<Report, String> {
    let pool = Affine(Threadpool::new(options.workers));
    match options.lap.starts_with("await-") {
        true => awaited::awaited(&awaited::runtime(options)?, pool, options),
        false => everyday::gathered(pool, options),
    }
}
