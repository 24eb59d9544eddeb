//! The crate `blocking`: a pool of up to 500 threads whose items are futures, as smol and async-std use it.

use super::{AWAITED, Peer};
use crate::everyday::{self, Everyday, Gathering};
use crate::job::Job;
use crate::loops::awaited::{self, Awaiting};
use cmwq_loads::Load;
use futures_lite::future::block_on;

pub(super) const PEER: Peer = Peer {
    name: "blocking",
    version: env!("PEER_BLOCKING"),
    rows: &[AWAITED],
    everyday: Everyday {
        joins: &["future"],
        bursts: &["future"],
        flows: &[],
    },
    run: |options| match options.mode.as_str() {
        "future" if Load::named(&options.lap).is_some() => everyday::gathered(Unblock, options),
        "future" => awaited::awaited(&awaited::runtime(options)?, Unblock, options),
        _ => Err(options.unknown()),
    },
};

struct Unblock;

impl Awaiting for Unblock {
    async fn run(&self, job: Job) {
        blocking::unblock(move || job.run()).await;
    }
}

impl Gathering for Unblock {
    fn gather(&self, jobs: &[Job]) {
        let spawn = |&job: &Job| blocking::unblock(move || job.run());
        let tasks: Vec<_> = jobs.iter().map(spawn).collect();
        block_on(async move {
            for task in tasks {
                task.await;
            }
        });
    }
}
