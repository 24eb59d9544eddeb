//! The events of a recording, as plain data.

/// Tells what happened in a [`TraceEvent`]: one of the kernel's four trace events.
///
/// ```
/// use cmwq_trace::TraceKind;
///
/// println!("{}, then {}", TraceKind::QueueWork.name(), TraceKind::ExecuteStart.name());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceKind {
    /// An instance of an item was accepted. A delayed item is accepted when its timer expires.
    QueueWork,
    /// The instance became active.
    ActivateWork,
    /// The item's function is about to be called.
    ExecuteStart,
    /// The item's function has returned.
    ExecuteEnd,
}

impl TraceKind {
    /// Returns the kernel's name of the event.
    pub fn name(self) -> &'static str {
        match self {
            TraceKind::QueueWork => "workqueue_queue_work",
            TraceKind::ActivateWork => "workqueue_activate_work",
            TraceKind::ExecuteStart => "workqueue_execute_start",
            TraceKind::ExecuteEnd => "workqueue_execute_end",
        }
    }
}

/// One event of a [`ThreadTrace`]. Use the addresses only to compare.
///
/// ```
/// use cmwq_trace::{TraceEvent, TraceKind};
///
/// /// How long the items waited that have started, in ns: in the order in which they started.
/// fn waits(events: &[TraceEvent]) -> Vec<u64> {
///     let of = |kind| events.iter().filter(move |event| event.kind == kind);
///     let queued = |start: &TraceEvent| {
///         let mut before = of(TraceKind::QueueWork).filter(|event| event.at_ns <= start.at_ns);
///         before.rfind(|event| event.item == start.item)
///     };
///     let started = of(TraceKind::ExecuteStart);
///     started.filter_map(|start| Some(start.at_ns - queued(start)?.at_ns)).collect()
/// }
/// let queued = TraceEvent::new(1000, TraceKind::QueueWork, 0x10, 0x20, 0x30);
/// let started = TraceEvent::new(1700, TraceKind::ExecuteStart, 0x10, 0x20, 0x30);
/// assert_eq!(waits(&[queued, started]), [700]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceEvent {
    /// The time of the event on the monotonic clock, in ns.
    pub at_ns: u64,
    /// Its kind.
    pub kind: TraceKind,
    /// The item's address.
    pub item: usize,
    /// The address of its function; in the process itself `cmwq::observe::function_name` names it.
    pub func: usize,
    /// The item's queue: `cmwq::observe::LiveQueue::id`. It is 0 where the kernel's event has no
    /// queue.
    pub queue: usize,
    /// The CPU that the issuer named, or -1 if it named none. Only [`TraceKind::QueueWork`] sets
    /// this field and `cpu`.
    pub requested_cpu: i32,
    /// The CPU of the item's pool, or -1 for a pool that is not bound to one CPU.
    pub cpu: i32,
}

impl TraceEvent {
    /// Makes an event that names no CPU.
    pub fn new(at_ns: u64, kind: TraceKind, item: usize, func: usize, queue: usize) -> Self {
        TraceEvent {
            at_ns,
            kind,
            item,
            func,
            queue,
            requested_cpu: -1,
            cpu: -1,
        }
    }
}

// The documentation of `Recording::begin` in the crate `cmwq` states this size.
const _: () = assert!(size_of::<TraceEvent>() == 48);

/// What one thread has recorded.
///
/// ```
/// use cmwq_trace::{ThreadTrace, TraceEvent, TraceKind};
///
/// let mut thread = ThreadTrace::new(4711, "kworker/u8:0");
/// thread.events.push(TraceEvent::new(1000, TraceKind::ExecuteStart, 0x10, 0x20, 0x30));
/// for event in &thread.events {
///     println!("{} {} {}", thread.tid, event.at_ns, event.kind.name());
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadTrace {
    /// The kernel's id of the thread.
    pub tid: i32,
    /// The thread's name. Workers have a name in the kernel's form.
    pub name: String,
    /// The number of the pool, if the thread is a worker.
    pub pool: Option<u32>,
    /// The events in the order in which they happened.
    pub events: Vec<TraceEvent>,
    /// How many further events did not fit into the buffer.
    pub lost: u64,
}

impl ThreadTrace {
    /// Makes the trace of a thread that is no worker and has recorded nothing.
    pub fn new(tid: i32, name: impl Into<String>) -> Self {
        ThreadTrace {
            tid,
            name: name.into(),
            pool: None,
            events: Vec::new(),
            lost: 0,
        }
    }
}
