//! Recording events on demand. Each thread has a buffer of its own, so threads that record share no
//! memory for it.
#![forbid(unsafe_code)]

use crate::sys::fork::{self, ProcessLock, ProcessMutex};
use crate::sys::local::thread_local;
use crate::sys::probe::{self, bits};
use crate::sys::{clock, thread};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Tells what happened in a [`TraceEvent`]: one of the kernel's four trace events.
///
/// ```
/// use cmwq::observe::TraceKind;
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
/// use cmwq::observe::Recording;
///
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// if let Some(recording) = Recording::begin(1000) { // at most 1000 events of each thread
///     queue.execute(|| println!("an item"))?;
///     queue.flush()?;
///     for thread in recording.take() {
///         for event in &thread.events {
///             println!("{} {} {}", thread.tid, event.at_ns, event.kind.name());
///         }
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
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
    /// The address of its function; [`function_name`](crate::observe::function_name) names it.
    pub func: usize,
    /// The item's queue: [`LiveQueue::id`](crate::observe::LiveQueue::id). It is 0 where the
    /// kernel's event has no queue.
    pub queue: usize,
    /// The CPU that the issuer named, or -1 if it named none. Only [`TraceKind::QueueWork`] sets
    /// this field and `cpu`.
    pub requested_cpu: i32,
    /// The CPU of the item's pool, or -1 for a pool that is not bound to one CPU.
    pub cpu: i32,
}

// The documentation of `Recording::begin` states this size.
const _: () = assert!(size_of::<TraceEvent>() == 48);

/// What one thread has recorded, from [`Recording::take`].
///
/// ```
/// use cmwq::observe::Recording;
///
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// if let Some(recording) = Recording::begin(1000) { // at most 1000 events of each thread
///     queue.execute(|| println!("an item"))?;
///     queue.flush()?;
///     for thread in recording.take() {
///         for event in &thread.events {
///             println!("{} {} {}", thread.tid, event.at_ns, event.kind.name());
///         }
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
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

struct Buffer {
    tid: i32,
    /// The fork generation of the buffer. In a child of the process its thread is another one.
    born: u32,
    /// The name of the thread. The first thread that takes the trace reads it, since the thread
    /// itself may hold a pool's lock when it records.
    name: OnceLock<String>,
    pool: Option<u32>,
    inner: Mutex<RecorderState>,
}

struct RecorderState {
    events: Vec<TraceEvent>,
    lost: u64,
}

impl Buffer {
    fn name(&self) -> &str {
        self.name.get_or_init(|| {
            std::fs::read_to_string(format!("/proc/self/task/{}/comm", self.tid))
                .map(|name| name.trim_end().to_owned())
                .unwrap_or_default()
        })
    }

    fn lock(&self) -> MutexGuard<'_, RecorderState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Buffers {
    recording: bool,
    of_threads: Vec<Arc<Buffer>>,
}

static BUFFERS: ProcessMutex<Buffers> = ProcessMutex::new(
    ProcessLock::Recorder,
    Buffers {
        recording: false,
        of_threads: Vec::new(),
    },
    || BUFFERS.hold_and(Buffers::forget_torn),
);

impl Buffers {
    /// Removes, in the child of a fork, each buffer that its thread was writing at the fork: that
    /// thread does not exist in the child, so the buffer stays locked for ever.
    fn forget_torn(&mut self) {
        self.of_threads
            .retain(|buffer| buffer.inner.try_lock().is_ok());
    }
}

/// The largest number of events that a thread keeps, however many were asked for.
const MOST_EVENTS: usize = 1 << 20;

/// How many events each buffer holds.
static CAPACITY: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: RefCell<Option<Arc<Buffer>>> = const { RefCell::new(None) };
    /// The number of the pool, if the thread is a worker.
    static POOL: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Declares that the calling thread is from now on a worker of this pool, or of none.
pub(crate) fn set_pool(pool: Option<u32>) {
    // A thread that is ending is no longer a worker, and records nothing.
    let _ = POOL.try_with(|own| own.set(pool));
}

/// Reserves memory for the events of a thread. If there is none, the buffer has no capacity.
fn room() -> Vec<TraceEvent> {
    let mut events = Vec::new();
    let _ = events.try_reserve_exact(CAPACITY.load(Ordering::Relaxed));
    events
}

fn new_buffer() -> Arc<Buffer> {
    let buffer = Arc::new(Buffer {
        tid: thread::current_tid(),
        born: fork::generation(),
        name: OnceLock::new(),
        pool: POOL.try_with(Cell::get).unwrap_or(None),
        inner: Mutex::new(RecorderState {
            events: room(),
            lost: 0,
        }),
    });
    BUFFERS.lock().of_threads.push(buffer.clone());
    buffer
}

/// Records an event if a recording runs. The caller may hold a pool's lock: this takes no lock that
/// is held for long.
pub(in crate::trace) fn record(event: TraceEvent) {
    if probe::switch() & bits::RECORD == 0 {
        return;
    }
    // A thread that is ending has no buffer any more. Its event is not recorded.
    let _ = OWN.try_with(|own| {
        let mut own = own.borrow_mut();
        if own
            .as_ref()
            .is_some_and(|buffer| buffer.born != fork::generation())
        {
            *own = None;
        }
        let buffer = own.get_or_insert_with(new_buffer);
        let mut inner = buffer.lock();
        let capacity = CAPACITY.load(Ordering::Relaxed);
        if inner.events.len() < capacity.min(inner.events.capacity()) {
            inner.events.push(event);
        } else {
            inner.lost += 1;
        }
    });
}

pub(in crate::trace) fn event(
    kind: TraceKind,
    item: usize,
    func: usize,
    queue: usize,
) -> TraceEvent {
    TraceEvent {
        at_ns: clock::now_ns(),
        kind,
        item,
        func,
        queue,
        requested_cpu: -1,
        cpu: -1,
    }
}

/// Records what happens: as long as it exists, every thread of the process that queues or runs
/// items records its events. Only one can exist at a time.
///
/// ```
/// use cmwq::observe::Recording;
///
/// let queue = cmwq::Workqueue::builder("io").build()?;
/// if let Some(recording) = Recording::begin(1000) { // at most 1000 events of each thread
///     queue.execute(|| println!("an item"))?;
///     queue.flush()?;
///     for thread in recording.take() {
///         for event in &thread.events {
///             println!("{} {} {}", thread.tid, event.at_ns, event.kind.name());
///         }
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "events are recorded only while it lives"]
pub struct Recording(());

impl Recording {
    /// Begins a recording. Each thread keeps the first `events_per_thread` events, at most 2^20,
    /// since the last [`take`](Self::take), and counts the further ones. An event takes 48 bytes.
    /// `None`: another recording runs.
    pub fn begin(events_per_thread: usize) -> Option<Recording> {
        let mut buffers = BUFFERS.lock();
        if buffers.recording {
            return None;
        }
        buffers.recording = true;
        CAPACITY.store(events_per_thread.min(MOST_EVENTS), Ordering::Relaxed);
        for buffer in &buffers.of_threads {
            let mut inner = buffer.lock();
            inner.events = room();
            inner.lost = 0;
        }
        probe::set(bits::RECORD, true);
        Some(Recording(()))
    }

    /// Returns what has been recorded since the beginning, or since the last call.
    pub fn take(&self) -> Vec<ThreadTrace> {
        let mut buffers = BUFFERS.lock();
        let mut taken = Vec::new();
        buffers.of_threads.retain(|buffer| {
            // If this is the only reference, the thread of the buffer has ended.
            let gone = Arc::strong_count(buffer) == 1;
            let mut inner = buffer.lock();
            if !inner.events.is_empty() || inner.lost > 0 {
                taken.push(ThreadTrace {
                    tid: buffer.tid,
                    name: buffer.name().to_owned(),
                    pool: buffer.pool,
                    events: std::mem::replace(&mut inner.events, room()),
                    lost: std::mem::take(&mut inner.lost),
                });
            }
            !gone
        });
        taken
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        probe::set(bits::RECORD, false);
        let mut buffers = BUFFERS.lock();
        buffers.of_threads.retain(|buffer| {
            let mut inner = buffer.lock();
            inner.events = Vec::new();
            inner.lost = 0;
            Arc::strong_count(buffer) > 1
        });
        buffers.recording = false;
    }
}
