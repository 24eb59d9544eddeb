//! The messages: lines of JSON. `docs/control.md` describes them for authors of other clients.

mod state;

pub use state::{Counter, Engine, Group, Pool, Queue, Run, Scope, State, Times, Totals, Worker};

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

/// Asks the endpoint for one thing: a line of JSON from the client.
///
/// ```
/// use cmwq_control::protocol::Request;
///
/// let line = r#"{"method":"get","params":{"queue":"io","attribute":"nice"},"id":1}"#;
/// let request: Request = serde_json::from_str(line)?;
/// assert_eq!((request.method.as_str(), &request.params["queue"]), ("get", &"io".into()));
/// # Ok::<(), serde_json::Error>(())
/// ```
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

/// Answers a [`Request`], with either a result or an error: a line of JSON to the client.
///
/// ```
/// use cmwq_control::protocol::Reply;
///
/// let line = r#"{"error":{"errno":"ENOENT","message":"there is no queue io"},"id":1}"#;
/// let reply: Reply = serde_json::from_str(line)?;
/// assert_eq!(reply.error.expect("it failed").code(), 2);
/// # Ok::<(), serde_json::Error>(())
/// ```
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

/// Says which process answers and which protocol it speaks: the answer to `hello`, from
/// [`Client::hello`](crate::Client::hello) and [`processes`](crate::processes).
///
/// ```
/// for (pid, hello) in cmwq_control::processes() {
///     match hello {
///         Ok(hello) => println!("{pid} {}: {} workqueues", hello.name, hello.queues),
///         Err(error) => println!("{pid} cannot be asked: {error}"),
///     }
/// }
/// ```
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

/// Counts what became of attempts to use an endpoint: a part of [`Hello`].
///
/// ```
/// let control = cmwq_control::serve()?; // in the process that is watched
/// let counts = cmwq_control::Client::connect_to(control.path())?.hello()?.endpoint;
/// println!("{} of {} requests were answered with an error", counts.errors, counts.requests);
/// # Ok::<(), cmwq_control::ControlError>(())
/// ```
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
    /// Connections ended because the client was silent in mid-request, did not take its answer, or
    /// sent too long a line.
    pub cut_off: u64,
}

/// A part of what was recorded: the answer to `trace_read`, from
/// [`Client::trace_read`](crate::Client::trace_read).
///
/// ```
/// # let queue = cmwq::Workqueue::builder("io").build()?;
/// let control = cmwq_control::serve()?; // in the process that is watched
/// let mut client = cmwq_control::Client::connect_to(control.path())?;
/// client.trace_start(1000)?; // at most 1000 events of each thread
/// queue.spawn(|| ()).join()?;
/// loop {
///     let chunk = client.trace_read()?;
///     let events: usize = chunk.threads.iter().map(|thread| thread.events.len()).sum();
///     println!("{events} events of {} functions", chunk.functions.len());
///     if !chunk.more {
///         break;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

/// The events of one thread: a part of a [`TraceChunk`].
///
/// ```
/// # let queue = cmwq::Workqueue::builder("io").build()?;
/// let control = cmwq_control::serve()?; // in the process that is watched
/// let mut client = cmwq_control::Client::connect_to(control.path())?;
/// client.trace_start(1000)?;
/// queue.spawn(|| ()).join()?;
/// for thread in client.trace_read()?.threads {
///     for (at_ns, kind, ..) in &thread.events {
///         println!("thread {} ({}), {at_ns} ns: event of kind {kind}", thread.tid, thread.name);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// Time in ns, kind (0 queue_work, 1 activate_work, 2 execute_start, 3 execute_end), item,
    /// function, queue, requested CPU, CPU.
    pub events: Vec<(u64, u8, u64, u64, u64, i32, i32)>,
}
