//! The pools, and which loops each of them runs in which modes.
//!
//! Modes say how the issuer learns that an item has run (`start`, in idle and hogged: the item
//! takes the time of its start):
//!
//! | mode | round trip | window, block |
//! |---|---|---|
//! | `park` | the item unparks the issuer | |
//! | `channel` | the item sends on a channel of one place | |
//! | `completion` | the item signals a `cmwq::Completion` | each item has one; the issuer waits for the oldest |
//! | `join` | the pool's own handle; the waiter sleeps | handles; the issuer waits for the oldest |
//! | `future`, `oneshot` | (await) the pool's own handle is a future; the item sends on a channel for one value | |
//! | `help` | the pool's own handle; the waiter may run the item itself | the same |
//! | `compute` | | no items: threads that only compute |
//! | `count` | | items mark themselves in one word, and the first unparks the issuer |
//! | `eventfd` | | (epoll) as `count`, and the first writes to an eventfd that the issuer's event loop watches |
//! | `queue` | | (epoll) items deliver to a `cmwq::CompletionQueue`, whose eventfd the issuer's event loop watches |
//! | `iterator`, `chunks` | | (loop) the pool's parallel iterator; its parallel loop over chunks |
//! | `scope` | | (fork) a scope for each node |

#[cfg(feature = "peers")]
mod affinitypool;
#[cfg(feature = "peers")]
mod async_executor;
#[cfg(feature = "peers")]
mod blocking;
#[cfg(feature = "peers")]
mod chili;
mod cmwq;
#[cfg(feature = "peers")]
mod crossbeam;
#[cfg(feature = "peers")]
mod crossfire;
#[cfg(feature = "peers")]
mod disruptor;
mod no_pool;
#[cfg(feature = "peers")]
mod rayon;
#[cfg(feature = "peers")]
mod tokio;

use crate::everyday::Everyday;
use crate::options::Options;
use crate::report::Report;

/// Loop and mode.
type Row = (&'static str, &'static str);

/// The rows of a pool whose items carry no handle.
#[cfg(feature = "peers")]
const PLAIN: &[Row] = &[
    ("roundtrip", "park"),
    ("roundtrip", "channel"),
    ("flood", "park"),
    ("window", "count"),
    ("epoll", "eventfd"),
    ("batch-1", "park"),
    ("batch-10", "park"),
    ("batch-100", "park"),
    ("idle", "start"),
    ("block", "count"),
    ("hogged", "start"),
];

/// The rows of a pool whose items are futures.
#[cfg(feature = "peers")]
const AWAITED: &[Row] = &[
    ("await-current", "future"),
    ("await-current-empty", "future"),
    ("await-multi", "future"),
    ("await-multi-empty", "future"),
    ("await-reads", "future"),
    ("await-cache", "future"),
];

/// A peer of this program.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    rows: &'static [&'static [Row]],
    /// The modes of the loads of every day.
    pub(crate) everyday: Everyday,
    pub(crate) run: fn(&Options) -> Result<Report, String>,
}

impl Peer {
    /// Its loops and modes.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> {
        let own = self.rows.iter().flat_map(|rows| rows.iter().copied());
        own.chain(self.everyday.rows())
    }
}

/// All that were built.
pub(crate) fn all() -> Vec<Peer> {
    vec![
        cmwq::PEER,
        no_pool::PEER,
        #[cfg(feature = "peers")]
        tokio::SPAWN,
        #[cfg(feature = "peers")]
        tokio::SPAWN_BLOCKING,
        #[cfg(feature = "peers")]
        rayon::PEER,
        #[cfg(feature = "peers")]
        crossbeam::MESSAGES,
        #[cfg(feature = "peers")]
        crossbeam::CLOSURES,
        #[cfg(feature = "peers")]
        affinitypool::PEER,
        #[cfg(feature = "peers")]
        crossfire::PEER,
        #[cfg(feature = "peers")]
        disruptor::PEER,
        #[cfg(feature = "peers")]
        async_executor::PEER,
        #[cfg(feature = "peers")]
        blocking::PEER,
        #[cfg(feature = "peers")]
        chili::PEER,
    ]
}

/// The loops that a pool runs whose items carry no handle, signalled by the standard library's means.
#[cfg(feature = "peers")]
mod plain {
    use crate::everyday;
    use crate::job::Pool;
    use crate::loops::{batch, hogged, idle, stream, window};
    use crate::options::Options;
    use crate::report::Report;
    use crate::signal::{Channel, Eventfd, Park};
    use cmwq_loads::Load;
    use cmwq_loads::real;

    pub(super) fn run<P>(pool: P, options: &Options) -> Result<Report, String>
    where
        P: Pool + Send + Sync + 'static,
        P::Item: Sync + 'static,
    {
        match (options.lap.as_str(), options.mode.as_str()) {
            (lap, "park" | "count") if Load::named(lap).is_some() => {
                everyday::counted_by::<real::Park, P>(pool, options)
            }
            ("roundtrip", "channel") => everyday::counted_by::<Channel, P>(pool, options),
            ("epoll", "eventfd") => everyday::counted_by::<Eventfd, P>(pool, options),
            (lap, "park") if lap.starts_with("batch-") => batch::bursts::<Park, P>(&pool, options),
            ("block", "count") => window::counted::<real::Park, _>(&pool, options, window::BLOCK),
            ("idle", "start") => idle::idle(&pool, options),
            ("stream", "end") => stream::stream(&pool, options),
            ("hogged", "start") => hogged::hogged(&pool, options),
            _ => Err(options.unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmwq_loads::Load;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    /// A run that has not ended by then has no end.
    const DEADLINE: Duration = Duration::from_secs(60);

    #[test]
    fn every_row_of_every_peer_comes_to_its_end_with_some_items() {
        for peer in all() {
            let short = ["roundtrip", "flood", "window", "batch-10", "scope"];
            let runs = |&(lap, mode): &Row| {
                mode != "compute"
                    && (short.contains(&lap) || Load::everyday().any(|load| load.name == lap))
            };
            for (lap, mode) in peer.rows().filter(runs) {
                let settings = [
                    "issuers=2",
                    "time_ms=6",
                    "warmup_ms=2",
                    "items=1000",
                    "spin=50",
                ];
                let arguments: Vec<String> = [peer.name, lap, mode]
                    .iter()
                    .chain(&settings)
                    .map(|text| (*text).to_owned())
                    .collect();
                let options = Options::parse(&arguments).expect("a row");
                let (sender, ended) = channel();
                let run = peer.run;
                thread::spawn(move || sender.send(run(&options).map(|report| report.line())));
                let what = format!("{} {lap} {mode}", peer.name);
                let result = ended.recv_timeout(DEADLINE);
                let line = result.unwrap_or_else(|_| panic!("{what}: it has no end"));
                let line = line.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(line.contains("\"items\":"), "{what}: {line}");
            }
        }
    }

    #[test]
    fn a_load_without_rounds_is_refused_where_rounds_end_by_joins() {
        let arguments = ["cmwq", "open-60", "join", "time_ms=6"].map(str::to_owned);
        let options = Options::parse(&arguments).expect("a load");
        let error = (cmwq::PEER.run)(&options).err().expect("no such mode");
        assert!(
            error.contains("no mode 'join' of loop 'open-60'"),
            "{error}"
        );
    }
}
