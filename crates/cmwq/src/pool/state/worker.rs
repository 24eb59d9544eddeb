//! What the holders of a pool's lock know of a worker, and what other threads use of it.
#![forbid(unsafe_code)]

use super::hogs::Computing;
use crate::item::Batch;
use crate::pool::task::run::{Interrupted, Open};
use crate::pool::wake::placement::Place;
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicBool, AtomicU32};
use crate::sys::park::Parker;
use crate::sys::thread::{self, ThreadState};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// What the lock holders know of one worker.
pub(in crate::pool) struct WorkerSlot {
    pub(in crate::pool) handle: Arc<WorkerHandle>,
    pub(in crate::pool) state: WorkerState,
    /// How many items it has started. The monitor tells by this whether it still runs the same
    /// item.
    pub(in crate::pool) runs: u64,
    /// What the monitor sampled last: `runs`, the thread's CPU time, and whether it counted as running.
    pub(in crate::pool) seen_runs: u64,
    pub(in crate::pool) seen_cpu_ns: u64,
    pub(in crate::pool) seen_counted: bool,
    /// How long its item has computed since it last slept, as far as the monitor has seen.
    pub(in crate::pool) computing: Computing,
    /// The pool workqueue of its item.
    pub(in crate::pool) pwq: u32,
    /// Whether it was woken up and has not run an item since.
    pub(in crate::pool) woken: bool,
    /// Where it runs, or has slept.
    pub(in crate::pool) place: Place,
    /// How much of the thread's CPU time is accounted to queues.
    pub(in crate::pool) accounted_cpu_ns: u64,
    pub(in crate::pool) die: bool,
    /// Its open batch, if it has one.
    pub(in crate::pool) batch: Option<Open>,
    /// The item of its batch that it had begun when the batch was closed.
    pub(in crate::pool) interrupted: Option<Interrupted>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pool) enum WorkerState {
    Starting,
    Idle {
        since_ns: u64,
    },
    Searching,
    Busy(Busy),
    /// A thief from another pool: it runs items here, and counts in none of the pool's numbers.
    Guest,
    /// Steals from another pool. In its own pool it counts as running only under a limit over all
    /// pools, and only until its item blocks or takes long.
    Away {
        counts: bool,
    },
}

/// How a worker that runs an item counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pool) enum Busy {
    /// It counts as running.
    Running,
    /// It declared that it blocks, or was found asleep: another worker may run instead.
    Blocked,
    /// It runs a CPU hog, or an item of a CPU-intensive queue: others run beside it until the item ends.
    CpuIntensive,
}

/// What a waker needs of a worker. A thread that is about to wake the worker keeps it alive.
pub(crate) struct WorkerHandle {
    pub(in crate::pool) parker: Parker,
    /// The kernel's thread id, 0 before the worker has started.
    pub(in crate::pool) tid: AtomicU32,
    /// Whether it is inside an item's function. Only the worker writes it. Between items the worker
    /// may sleep while it waits for the pool's lock; that is no sleep of an item.
    pub(in crate::pool) in_item: AtomicBool,
    /// Whether an item has ended its thread: the worker then leaves the pool before it takes
    /// another item. Only the worker uses it.
    pub(in crate::pool) ends: AtomicBool,
    /// Its batch. Only the worker writes this line, apart from the thread that closes the batch.
    pub(in crate::pool) batch: CachePadded<Batch>,
}

impl WorkerSlot {
    /// The slot of a worker that has run nothing in this pool yet.
    pub(in crate::pool) fn new(handle: Arc<WorkerHandle>, state: WorkerState) -> Self {
        WorkerSlot {
            handle,
            state,
            runs: 0,
            seen_runs: 0,
            seen_cpu_ns: 0,
            seen_counted: true,
            computing: Computing::default(),
            pwq: 0,
            woken: false,
            place: Place::default(),
            accounted_cpu_ns: 0,
            die: false,
            batch: None,
            interrupted: None,
        }
    }
}

impl WorkerState {
    pub(in crate::pool) fn is_running(self) -> bool {
        self == WorkerState::Busy(Busy::Running)
    }
}

impl WorkerHandle {
    /// The kernel's thread id, 0 before the worker has started.
    pub(in crate::pool) fn tid(&self) -> i32 {
        self.tid.load(Ordering::Relaxed) as i32
    }

    #[inline]
    pub(in crate::pool) fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    pub(in crate::pool) fn wake(&self) {
        self.parker.unpark();
    }

    /// Whether it sleeps because it has nothing to do, and no thread has woken it yet.
    pub(in crate::pool) fn is_parked(&self) -> bool {
        self.parker.is_parked()
    }

    /// Whether it is asleep inside the function of an item.
    pub(in crate::pool) fn sleeps_in_item(&self) -> bool {
        self.state_in_item() == ThreadState::Asleep
    }

    /// As [`sleeps_in_item`](Self::sleeps_in_item), but also `true` if the system does not tell.
    /// For a worker whose CPU clock stands still.
    pub(in crate::pool) fn may_sleep_in_item(&self) -> bool {
        self.state_in_item() != ThreadState::Awake
    }

    /// The state that the system reports, if it is inside an item's function; else it counts as awake.
    fn state_in_item(&self) -> ThreadState {
        let in_item = || self.in_item.load(Ordering::Relaxed);
        if !in_item() {
            return ThreadState::Awake;
        }
        let state = thread::state_of(self.tid());
        // Checked again, because the worker may have left the item and gone to sleep in between.
        if in_item() { state } else { ThreadState::Awake }
    }
}
