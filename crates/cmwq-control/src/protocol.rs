//! The messages: lines of JSON. `docs/control.md` describes them for authors of other clients.

use crate::error::ControlError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Grows when a client of the version before would not understand the answers.
pub const PROTOCOL_VERSION: u32 = 1;
/// The longest request, with its newline.
pub const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// The most events that a thread's buffer holds for a client that records a trace.
pub const MAX_TRACE_EVENTS: usize = 256 * 1024;

/// One line from the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// What is asked for.
    pub method: String,
    /// An object with what the method takes.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub params: Value,
    /// Comes back with the answer.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub id: Value,
}

/// One line to the client: either a result or an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// What was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ControlError>,
    /// As in the request.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub id: Value,
}

/// The answer to `hello`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL_VERSION`].
    pub protocol: u32,
    /// The library's version.
    pub version: String,
    /// The process.
    pub pid: u32,
    /// Its name, as the system shows it.
    pub name: String,
    /// Its user.
    pub uid: u32,
    /// Workqueues that there are.
    pub queues: usize,
    /// Limits that several workqueues share.
    #[serde(default)]
    pub groups: usize,
    /// Worker threads that there are.
    pub workers: usize,
    /// What became of attempts to use the endpoint.
    pub endpoint: EndpointCounts,
}

/// What an endpoint has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointCounts {
    /// Requests answered, errors included.
    pub requests: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Connections refused because they came from another user.
    pub refused_users: u64,
    /// Connections refused because there were too many, or ended to make room.
    pub crowded_out: u64,
    /// Connections ended because the client was silent in mid-request, did not take its answer, or sent too long a line.
    pub cut_off: u64,
}

/// The answer to `state`: everything at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// When, in ns on the monotonic clock: for rates.
    pub at_ns: u64,
    /// Each engine with its pools and queues.
    pub engines: Vec<Engine>,
    /// The limits that several queues share, the oldest first.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// Counters of the program's own, the oldest first.
    #[serde(default)]
    pub counters: Vec<Counter>,
}

/// A counter of the program's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub help: String,
    /// How many so far.
    pub value: u64,
}

/// A limit that several queues share, of one engine or of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its number in the process.
    pub serial: u64,
    /// Its name; other groups may have the same.
    pub name: String,
    /// How many items of its queues may be active.
    pub max_active: usize,
    /// Credits that its queues hold: those of active items, and some kept for the next items while no queue waits.
    pub held: usize,
    /// Waiters for a credit: queues, an unbound one once for each node where it waits.
    pub waiting: usize,
    /// The keys of its queues.
    pub queues: Vec<String>,
}

/// One engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Engine {
    /// Its number in the process.
    pub serial: u64,
    /// The CPUs that there can be, as a list such as `0-3,8`. All CPUs here are of the engine's topology.
    pub possible: String,
    /// Those of them that there are.
    pub cpus: String,
    /// The nodes and their CPUs.
    pub nodes: Vec<(u32, String)>,
    /// All parameters, as the kernel's files show them.
    pub parameters: BTreeMap<String, String>,
    /// The pods of every scope.
    pub scopes: Vec<Scope>,
    /// The pools.
    pub pools: Vec<Pool>,
    /// The queues.
    pub queues: Vec<Queue>,
    /// What the engine has counted, pools that are gone included.
    pub totals: Totals,
}

/// An engine's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Items started and completed, and those whose function panicked.
    pub started: u64,
    /// See `started`.
    pub completed: u64,
    /// See `started`.
    pub panics: u64,
    /// Idle workers woken.
    pub wakeups: u64,
    /// Items that workers of other pods stole and ran.
    pub stolen: u64,
    /// Times that a pool's lock was waited for.
    pub lock_waits: u64,
    /// Workers that exist, that were created, and attempts that failed.
    pub workers: u64,
    /// See `workers`.
    pub workers_created: u64,
    /// See `workers`.
    pub create_failures: u64,
    /// Workers found blocked without having declared it.
    pub blocked_seen: u64,
    /// CPU time of its items, in ns.
    pub cpu_ns: u64,
}

/// The pods of a scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// The scope's name.
    pub name: String,
    /// Each pod's CPUs, and its node.
    pub pods: Vec<(String, Option<u32>)>,
    /// By CPU number: an index into `pods`.
    pub cpu_pod: Vec<Option<usize>>,
}

/// A worker pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Its number.
    pub id: u32,
    /// `unbound`, `percpu` or `bh`.
    pub kind: String,
    /// The CPU that it is for, if it is for one.
    pub cpu: Option<usize>,
    /// As the kernel's: 1 BH, 2 a worker is being created, 4 not bound to one CPU.
    #[serde(default)]
    pub flags: u32,
    /// The thread that creates a worker, while one is being created; 0: it has not begun.
    #[serde(default)]
    pub manager: Option<i32>,
    /// For how long, in ns, nothing has been started while something waits.
    #[serde(default)]
    pub hung_ns: Option<u64>,
    /// Shares of queues in it.
    pub users: usize,
    /// The nice level asked for.
    pub nice: i32,
    /// The nice level that its workers have.
    pub effective_nice: Option<i32>,
    /// The pod.
    pub pod_cpus: String,
    /// Where its items may run at all.
    pub cpus: String,
    /// Whether items stay in the pod.
    pub strict: bool,
    /// The node.
    pub node: Option<u32>,
    /// The real CPUs that its workers are bound to.
    pub binding: String,
    /// How many workers may run at a time, and how many do.
    pub target: usize,
    /// See `target`.
    pub running: usize,
    /// Items ready to run.
    pub waiting: usize,
    /// Its workers.
    pub workers: Vec<Worker>,
    /// What they run.
    pub runs: Vec<Run>,
    /// Items started and completed.
    pub started: u64,
    /// See `started`.
    pub completed: u64,
    /// Idle workers woken.
    pub wakeups: u64,
    /// Items that workers of other pods stole and ran.
    pub stolen: u64,
    /// Times that its lock was waited for.
    pub lock_waits: u64,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// Its number in the pool.
    pub id: u32,
    /// Its thread.
    pub tid: i32,
    /// `starting`, `idle`, `searching`, `running`, `blocked`, `cpu_intensive` or `stealing`.
    pub doing: String,
}

/// An item in execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The thread that runs it.
    pub tid: i32,
    /// Whether that is a rescuer.
    pub rescuer: bool,
    /// The queue's name.
    pub queue: String,
    /// The function.
    pub function: String,
    /// The item's own description; otherwise the queue's name.
    #[serde(default)]
    pub description: String,
    /// For how long, in ns.
    pub for_ns: u64,
    /// What runs next on the same worker.
    pub behind_it: Vec<String>,
}

/// A workqueue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// Its number in the process.
    pub serial: u64,
    /// Its name.
    pub name: String,
    /// What commands take: the name, with `#serial` behind it where others have the same.
    pub key: String,
    /// `percpu`, `unbound`, `ordered` or `bh`.
    pub kind: String,
    /// The kind and the flags.
    pub flags: String,
    /// The attributes, as the kernel's files show them.
    pub attributes: BTreeMap<String, String>,
    /// The least that may be active on each node.
    pub min_active: usize,
    /// The limit.
    pub max_active: usize,
    /// The pool of each CPU, by number.
    pub cpu_pool: Vec<Option<u32>>,
    /// The pool of CPUs that have no pod.
    pub default_pool: Option<u32>,
    /// Node, active items, limit.
    pub nodes: Vec<(Option<u32>, usize, usize)>,
    /// The shares of pools: pool, active, inactive items.
    pub pwqs: Vec<(u32, usize, usize)>,
    /// The number of the group whose limit it shares.
    #[serde(default)]
    pub group: Option<u64>,
    /// The rescuer's thread and its CPUs.
    pub rescuer: Option<(i32, String)>,
    /// Items started and completed.
    pub started: u64,
    /// See `started`.
    pub completed: u64,
    /// CPU time, in ns.
    pub cpu_ns: u64,
    /// CPU-intensive violations.
    pub cpu_intensive: u64,
    /// Concurrency-management wake-ups.
    pub cm_wakeups: u64,
    /// Calls for the rescuer.
    pub mayday: u64,
    /// Items that it ran.
    pub rescued: u64,
    /// Items that workers of other pods stole and ran.
    pub stolen: u64,
    /// Items that their waiters ran (caller-runs joins).
    pub waiter_runs: u64,
    /// Workers woken for it.
    pub wakeups: u64,
    /// Waits for the locks of its pools.
    pub lock_waits: u64,
    /// Calls of `queue()` that were timed.
    pub enqueue_timed: u64,
    /// Their median, in ns.
    pub enqueue_p50_ns: Option<u64>,
    /// 99 of 100 took no longer, in ns.
    pub enqueue_p99_ns: Option<u64>,
    /// How long its items wait and run.
    #[serde(default)]
    pub times: Times,
    /// How many of its items are queued and not started, and how many may be, if that is bounded.
    #[serde(default)]
    pub room: Option<(usize, usize)>,
    /// Attempts to queue that found no room.
    #[serde(default)]
    pub refused: u64,
}

/// How long items of a workqueue wait (from the call that queued them to their start) and run (to their end), in ns, of a sample of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// Waits that were measured.
    pub waits: u64,
    /// Half of them took no longer.
    pub wait_p50_ns: Option<u64>,
    /// 99 of 100 took no longer.
    pub wait_p99_ns: Option<u64>,
    /// For how long the oldest of the sampled items that wait now has waited.
    pub longest_waiting_ns: Option<u64>,
    /// Runs that were measured.
    pub runs: u64,
    /// Half of them took no longer.
    pub run_p50_ns: Option<u64>,
    /// 99 of 100 took no longer.
    pub run_p99_ns: Option<u64>,
    /// For how long the oldest of the items that run now has run.
    pub longest_running_ns: Option<u64>,
}

/// The answer to `trace_read`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceChunk {
    /// Each thread with events; one may come in several parts.
    pub threads: Vec<TraceThread>,
    /// The functions in it, by address.
    pub functions: BTreeMap<u64, String>,
    /// The queues that there are, by what the events say.
    pub queues: BTreeMap<u64, String>,
    /// More has been taken already: ask again.
    pub more: bool,
}

/// One thread's part of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceThread {
    /// The thread.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// The pool whose worker it is, and the pod's CPUs.
    pub pool: Option<(u32, String)>,
    /// Events that did not fit into its buffer.
    pub lost: u64,
    /// Time in ns, kind (0 queue_work, 1 activate_work, 2 execute_start, 3 execute_end), item, function, queue, requested CPU, CPU.
    pub events: Vec<(u64, u8, u64, u64, u64, i32, i32)>,
}
