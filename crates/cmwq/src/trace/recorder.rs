//! Recording events on demand. Each thread has a buffer of its own, so threads that record share no
//! memory for it.
#![forbid(unsafe_code)]

use crate::sys::fork::{self, ProcessLock, ProcessMutex};
use crate::sys::local::thread_local;
use crate::sys::probe::{self, bits};
use crate::sys::{clock, thread};
use cmwq_trace::{ThreadTrace, TraceEvent, TraceKind};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

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
    TraceEvent::new(clock::now_ns(), kind, item, func, queue)
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
                let mut trace = ThreadTrace::new(buffer.tid, buffer.name());
                trace.pool = buffer.pool;
                trace.events = std::mem::replace(&mut inner.events, room());
                trace.lost = std::mem::take(&mut inner.lost);
                taken.push(trace);
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
