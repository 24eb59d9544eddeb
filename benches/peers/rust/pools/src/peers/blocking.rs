//! The crate `blocking`: a pool of up to 500 threads whose items are futures, as smol and async-std use it.

use super::{Peer, unknown};
use crate::job::Job;
use crate::loops::awaited::{self, Awaiting};

pub(super) const PEER: Peer = Peer {
    name: "blocking",
    version: env!("PEER_BLOCKING"),
    rows: &[
        ("await-current", "future"),
        ("await-current-empty", "future"),
        ("await-multi", "future"),
        ("await-multi-empty", "future"),
    ],
    run: |options| match options.mode.as_str() {
        "future" => awaited::awaited(&awaited::runtime(options)?, Unblock, options),
        _ => Err(unknown(options)),
    },
};

struct Unblock;

impl Awaiting for Unblock {
    async fn run(&self, job: Job) {
        blocking::unblock(move || job.run()).await;
    }
}
