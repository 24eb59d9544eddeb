//! Recording events on demand: a buffer for each thread, so that recording shares nothing between threads.
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
    /// An instance was accepted (a delayed one: at its expiry).
    QueueWork,
    /// It became active.
    ActivateWork,
    /// Its function is about to be called.
    ExecuteStart,
    /// Its function has returned.
    ExecuteEnd,
}

impl TraceKind {
    /// The kernel's name for it.
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
    /// When, on the monotonic clock, in ns.
    pub at_ns: u64,
    /// Its kind.
    pub kind: TraceKind,
    /// The item's address.
    pub item: usize,
    /// The address of its function; [`function_name`](crate::observe::function_name) names it.
    pub func: usize,
    /// Its queue: [`LiveQueue::id`](crate::observe::LiveQueue::id); 0 where the kernel's event has no queue.
    pub queue: usize,
    /// The CPU that the issuer named; -1: none. For [`TraceKind::QueueWork`] only, like `cpu`.
    pub requested_cpu: i32,
    /// The CPU of the item's pool; -1: an unbound pool.
    pub cpu: i32,
}

// As `Recording::begin` says.
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
    /// The thread's name; the kernel's form for workers.
    pub name: String,
    /// The pool of a worker.
    pub pool: Option<u32>,
    /// In the order in which they happened.
    pub events: Vec<TraceEvent>,
    /// How many more events there were than the buffer holds.
    pub lost: u64,
}

struct Buffer {
    tid: i32,
    /// The fork generation: in a child of the process the thread is another one.
    born: u32,
    /// The first thread that takes the trace reads it: the thread itself may hold a pool's lock.
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
    /// In a fork's child: a thread that does not exist here may have been writing.
    fn forget_torn(&mut self) {
        self.of_threads
            .retain(|buffer| buffer.inner.try_lock().is_ok());
    }
}

/// What a thread keeps at most, however many are asked for.
const MOST_EVENTS: usize = 1 << 20;

/// Events that each buffer holds.
static CAPACITY: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: RefCell<Option<Arc<Buffer>>> = const { RefCell::new(None) };
    /// The number of the worker's pool.
    static POOL: Cell<Option<u32>> = const { Cell::new(None) };
}

/// From now on the calling thread is a worker of this pool, or of none.
pub(crate) fn set_pool(pool: Option<u32>) {
    // A thread that is ending is no longer a worker, and records nothing.
    let _ = POOL.try_with(|own| own.set(pool));
}

/// Room for the events of a thread: none if there is no memory for it.
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

/// Records an event if a recording runs. May be called under a pool's lock: it takes no lock that is held for long.
pub(in crate::trace) fn record(event: TraceEvent) {
    if probe::switch() & bits::RECORD == 0 {
        return;
    }
    // A thread that is ending has no buffer any more.
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
    /// Begins. Each thread keeps the first `events_per_thread` events, 2^20 at most, since the last [`take`](Self::take) and counts the rest; an event
    /// takes 48 bytes. `None`: another recording runs.
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

    /// What has been recorded since the beginning, or since the last call.
    pub fn take(&self) -> Vec<ThreadTrace> {
        let mut buffers = BUFFERS.lock();
        let mut taken = Vec::new();
        buffers.of_threads.retain(|buffer| {
            // This is the only reference: its thread has ended.
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
