//! chili: forks and joins alone, at less cost for each than others.

use super::Peer;
use crate::everyday::Everyday;
use crate::loops::fork::{self, Forking};
use chili::{Config, Scope, ThreadPool};
use std::num::NonZero;

pub(super) const PEER: Peer = Peer {
    name: "chili",
    version: env!("PEER_CHILI"),
    rows: &[&[("fork", "join")]],
    everyday: Everyday::NONE,
    run: |options| {
        let config = Config {
            thread_count: NonZero::new(options.workers),
            ..Config::default()
        };
        match (options.lap.as_str(), options.mode.as_str()) {
            ("fork", "join") => fork::trees(&Chili(ThreadPool::with_config(config)), options),
            _ => Err(options.unknown()),
        }
    },
};

struct Chili(ThreadPool);

impl Forking for Chili {
    fn leaves(&self, depth: u32, steps: u64) -> u64 {
        leaves(&mut self.0.scope(), depth, steps)
    }
}

fn leaves(scope: &mut Scope<'_>, depth: u32, steps: u64) -> u64 {
    if depth == 0 {
        return fork::leaf(steps);
    }
    let half = |scope: &mut Scope<'_>| leaves(scope, depth - 1, steps);
    let (one, other) = scope.join(half, half);
    one + other
}
