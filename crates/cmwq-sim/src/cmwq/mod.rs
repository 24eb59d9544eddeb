//! Loads on cmwq itself: the library's own sources, compiled for the virtual machine.
//!
//! | file | holds |
//! |---|---|
//! | `virtual_machine` | the virtual machine and the library, as the loads know them |
//! | `blocks` | the published block loads, which are no load of `cmwq-loads` |
//! | `tree` | the machine as the library reads it |
//! | `bound` | what the CPUs bear |

mod blocks;
mod bound;
mod tree;
mod virtual_machine;

pub use bound::{bound, merit};
pub use tree::topology;

use crate::kernel::Latencies;
use cmwq_loads::{Found, Load, Mix, Pause, Rate, Shape, Span};
use cmwq_simulated::affinity::AffinityScope;
use cmwq_simulated::topology::{Topology, TopologyError};
use cmwq_simulated::{Engine, Workqueue};
use cmwq_vm::machine::Machine;
use cmwq_vm::os::{self, Totals};
use cmwq_vm::{Outcome, Stuck};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// What the issuers do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doing {
    /// One of the loads that are the same on real machines.
    Load(Load),
    /// Each of so many issuers keeps 64 blocks of 32 KiB in flight: an item deciphers a block, its
    /// issuer verifies it. The device is taken to be as fast as needed.
    Blocks(usize),
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The machine.
    pub machine: Machine,
    /// The same, as the library reads it: see [`topology`].
    pub topology: Topology,
    /// The queue's scope.
    pub scope: AffinityScope,
    /// Cores of a shard.
    pub shard_size: usize,
    /// Workers never run items of other pods.
    pub strict: bool,
    /// What the issuers do.
    pub doing: Doing,
    /// The length of a time window; 0: as long as the load needs.
    pub window_ns: u64,
    /// The seed.
    pub seed: u64,
    /// How often it is looked whether something waits beside idle CPUs; 0: never.
    pub probe_ns: u64,
}

/// What came out, of the last two time windows.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Pods of the scope.
    pub pods: usize,
    /// What the load found.
    pub found: Found,
    /// Time inside the queueing call.
    pub enqueue: Latencies,
    /// What the machine did meanwhile.
    pub did: Totals,
    /// The longest time for which something waited, nothing began, and a CPU idled; as far as the
    /// probe sees it.
    pub idled_ns: u64,
    /// Bytes that are in use after the load, more than before.
    pub grown: i64,
    /// Jobs that have run in all.
    pub ran: u64,
    /// The account of the whole run.
    pub outcome: Outcome,
}

/// Why there is no result.
#[derive(Debug)]
pub enum Failed {
    /// The machine cannot be described to the library.
    Description(io::Error),
    /// The library does not accept its description.
    Topology(TopologyError),
    /// The run has no end.
    Stuck(Stuck),
    /// An item was lost or ran twice.
    Wrong(String),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::Description(error) => write!(f, "the machine cannot be written down: {error}"),
            Failed::Topology(error) => write!(f, "the machine is not accepted: {error}"),
            Failed::Stuck(stuck) => write!(f, "the run has no end: {stuck}"),
            Failed::Wrong(what) => f.write_str(what),
        }
    }
}

/// Four virtual minutes: a load that takes longer hangs.
const LIMIT_NS: u64 = 240_000_000_000;

/// By so many percent two time windows may differ whose rates agree.
const TOLERANCE_PERCENT: u32 = 5;
/// A run that is not steady after so many windows never is, as far as we know.
const MOST_WINDOWS: u32 = 10;

/// Runs the load. One run for each process: what the library has once in a process is as new.
///
/// # Errors
/// See [`Failed`]. A run without an end is a defect of the library or of the machine.
pub fn run(plan: &Plan) -> Result<Measured, Failed> {
    let result = Rc::new(RefCell::new(None));
    let place = result.clone();
    let job = plan.clone();
    let main = move || *place.borrow_mut() = Some(perform(&job));
    let outcome = cmwq_vm::run(&plan.machine, plan.seed, LIMIT_NS, main).map_err(Failed::Stuck)?;
    let result = result.take().expect("the main thread leaves its result");
    let (pods, parts, grown) = result;
    let parts = parts.map_err(Failed::Wrong)?;
    Ok(Measured {
        pods,
        found: parts.found,
        enqueue: parts.enqueue,
        did: parts.did,
        idled_ns: parts.idled_ns,
        grown,
        ran: parts.ran,
        outcome,
    })
}

struct Parts {
    found: Found,
    enqueue: Latencies,
    did: Totals,
    idled_ns: u64,
    ran: u64,
}

/// The pods, what came out, and by how many bytes what is in use has grown.
fn perform(plan: &Plan) -> (usize, Result<Parts, String>, i64) {
    let engine = Engine::builder()
        .topology(plan.topology.clone())
        .cache_shard_size(plan.shard_size)
        .build()
        .expect("a topology is given");
    let pods = engine.pods(plan.scope).pods().len();
    let queue: Workqueue = engine
        .workqueue("bench_wq")
        .affinity_scope(plan.scope)
        .affinity_strict(plan.strict)
        .build()
        .expect("these attributes are legal");
    let memory = || os::totals().memory as i64;
    let before = memory();
    let parts = match &plan.doing {
        Doing::Load(load) => {
            let cpus = plan.machine.cpus.len();
            let load = adapted(load, cpus);
            let span = span(&load, cpus, plan.window_ns);
            virtual_machine::run(queue, &load, span, plan.probe_ns)
        }
        Doing::Blocks(issuers) => Ok(blocks::run(plan, *issuers, queue)),
    };
    (pods, parts, memory() - before)
}

/// Items that all issuers of a flood queue in a round, and one of them at most. On real machines each
/// has 20,000; on 128 virtual CPUs such rounds would take minutes of the host's time.
const FLOOD: usize = 40_000;
/// See `FLOOD`.
const FLOOD_OF_ONE: usize = 5_000;

/// The load as it is simulated. Issuers of a flood do not wait for each other: in its short rounds that
/// would be a large part.
fn adapted(load: &Load, cpus: usize) -> Load {
    let mut load = load.clone();
    load.together = false;
    let share = (FLOOD / load.issuers.on(cpus)).clamp(1, FLOOD_OF_ONE) as u32;
    if let Shape::Gather { items, .. } = &mut load.shape {
        *items = (*items).min(share);
    }
    load
}

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// What queueing and running an item without length takes at most where it is fast.
const ITEM_NS: u64 = 25;

/// How long the load needs: a window has enough rounds that one more or less of each issuer does not
/// matter.
fn span(load: &Load, cpus: usize, window_ns: u64) -> Span {
    let issuers = load.issuers.on(cpus) as u64;
    let rounds = (40 / issuers.isqrt()).max(8);
    let computing = |items: u64| items * issuers * (load.mean_ns() as u64 / cpus as u64 + ITEM_NS);
    let period = match load.shape {
        Shape::Gather { items, pause, .. } => match pause {
            Pause::None => computing(items.into()),
            Pause::Sleep(ns) | Pause::Every(ns) => ns,
            Pause::Compute(ns) => ns + computing(items.into()),
        },
        // Four times all that is in flight.
        Shape::Flow { in_flight, .. } => computing(in_flight.into()) * 4 / rounds,
        Shape::Arrive { rate } => match rate {
            Rate::Percent(_) => 100 * US,
            Rate::Every(ns) => ns,
        },
    };
    let least = [
        2 * MS,
        rounds * period,
        // Each phase of a load that moves is whole.
        2 * load.moving_ns,
        // Long and blocking items, and slices of threads that compute.
        20 * load.mean_ns() as u64,
        if load.hogs { 50 * MS } else { 0 },
        if load.mix == Mix::Even { 0 } else { 10 * MS },
    ];
    let window_ns = match window_ns {
        0 => least.into_iter().max().unwrap_or(2 * MS),
        given => given,
    };
    Span {
        warm_up_ns: window_ns,
        window_ns,
        most_windows: MOST_WINDOWS,
        tolerance_percent: TOLERANCE_PERCENT,
    }
}
