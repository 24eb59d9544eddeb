//! The conformance suite: one kernel behaviour, one case. Tests carry the number of their case in
//! their names; some cases have several. The other files of `tests/` hold what is cmwq's own.
//!
//! | case | what must hold | module |
//! |---|---|---|
//! | 1 | queueing any number of times before a run, or during one, gives one more run | `items` |
//! | 2 | the run to come sees what an issuer did before it found the item pending | `items` |
//! | 3 | an item overlaps itself on two queues, never on one: not across scopes, nor after new attributes | `items` |
//! | 4 | an item may be freed by its function; another function at its address is another item | `items` |
//! | 5 | a waiting cancel ends an item that requeues itself; it tells whether it removed an instance | `control` |
//! | 6 | an item disabled twice stays so after one enable; requests meanwhile are lost | `control` |
//! | 7 | enabling what is not disabled removes a pending instance | `control` |
//! | 8 | moving a delayed item tells whether it was pending: idle no, timer yes, queued yes, running no | `delays` |
//! | 9 | no delay means no timer, and leaves an armed one's target; a delay sets it anew | `delays` |
//! | 10 | flushing an item that runs and is pending waits for the pending instance | `items` |
//! | 11 | forty flushes beside a steady producer all return, none early | `flushes` |
//! | 12 | a drain takes what the queue's own items queue, and drops the rest with one warning | `flushes` |
//! | 13 | the limit holds per CPU, or per node for unbound queues and never below `min_active` | `limits` |
//! | 14 | a raised limit lets nothing overtake what waits | `limits` |
//! | 15 | an ordered queue keeps its order through a hundred changes of attributes | `limits` |
//! | 16 | a burst onto a sleeping pool wakes workers one by one, and loses nothing | `pools` |
//! | 17 | an item that says it blocks is replaced at once; coming back it starts no third | `concurrency` |
//! | 18 | an item that computes for too long gets company, and a report now and then | `concurrency` |
//! | 19 | without new threads, or while one takes long, queues with a rescuer go on; the others do when threads can be had again | `rescuers` |
//! | 20 | idle workers go after their time, but two stay | `pools` |
//! | 21 | letting workers go strands no item | `pools` |
//! | 22 | shards are cut as the rule says, siblings together | `pools` |
//! | 23 | scope names are exact; the default cannot be `default` | `pools` |
//! | 24 | a new default scope moves the queues on `default`; what is queued ends where it is | `pools` |
//! | 25 | a pod without CPUs is served by the pool of all, until its CPUs are back | `cpus` |
//! | 26 | freezing: what is active ends, what is new waits; thawing starts it in order | `freezer` |
//! | 27 | a timer whose queue is gone does no harm | `delays` |
//! | 28 | what waits for a threshold is reported, whatever the reason but a freeze; long items alone are not; no handler holds the engine up | `watchdog` |
//! | 29 | items started and completed are counted, each once | `statistics` |
//! | 30 | a panic leaks no place under the limit, and flushes return | `panics` |
//!
//! `stress/main.rs` lists which fault put into the engine on purpose is caught by which test.

#[path = "../harness/mod.rs"]
mod harness;
#[path = "../harness/thread_creation.rs"]
mod thread_creation;

mod concurrency;
mod control;
mod cpus;
mod delays;
mod flushes;
mod freezer;
mod items;
mod limits;
mod panics;
mod pools;
mod rescuers;
mod statistics;
mod watchdog;

use cmwq::affinity::AffinityScope;
use cmwq::raw::RawWork;
use cmwq::topology::{CpuSet, Topology};
use cmwq::types::{CpuLimit, Queued, WorkqueueAttrs};
use cmwq::{Completion, DelayedWork, Engine, Error, JoinError, Refused, Work, Workqueue};
use harness::{
    Broken, Deadline, Door, Heard, Random, bind_to, block_on, counting, engine, eventually, held,
    in_own_process, own_name, own_process, quiet_panic, settle_with, threads_named,
};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// A delay that no test waits for.
const LONG: Duration = Duration::from_secs(3600);

/// As [`engine`], for items that only end when several run at once: below a CPU quota no fewer
/// workers may run than on the machine described.
fn engine_without_limit(synthetic: &str) -> Engine {
    let engine = engine(synthetic);
    engine.set_cpu_limit(CpuLimit::None).expect("ours");
    engine
}

/// All that may start in an unbound queue's pools has started.
fn settle(engine: &Engine, attrs: &WorkqueueAttrs) {
    settle_with(engine, engine.workqueue("probe").attrs(attrs.clone()));
}
