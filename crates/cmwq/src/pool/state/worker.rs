//! What the holders of a pool's lock know of a worker, and what others use of it.
#![forbid(unsafe_code)]

use super::hogs::Computing;
use crate::item::Batch;
use crate::pool::task::run::{Open, Run};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicBool, AtomicU32};
use crate::sys::cpu;
use crate::sys::park::Parker;
use crate::sys::thread::{self, ThreadState};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// What the lock's holders know of one worker.
pub(in crate::pool) struct WorkerSlot {
    pub(in crate::pool) handle: Arc<WorkerHandle>,
    pub(in crate::pool) state: WorkerState,
    /// Items started, to tell one item from the next.
    pub(in crate::pool) runs: u64,
    /// What the monitor saw last: `runs`, the thread's CPU time, and whether it counted as running.
    pub(in crate::pool) seen_runs: u64,
    pub(in crate::pool) seen_cpu_ns: u64,
    pub(in crate::pool) seen_counted: bool,
    /// How long its item has computed since it last slept, as far as the monitor has seen.
    pub(in crate::pool) computing: Computing,
    /// The pool workqueue of the item it runs.
    pub(in crate::pool) pwq: u32,
    /// It was woken up and has not run an item since.
    pub(in crate::pool) woken: bool,
    /// How much of the thread's CPU time has been charged to queues.
    pub(in crate::pool) charged_cpu_ns: u64,
    pub(in crate::pool) die: bool,
    /// Its batch, while that is open.
    pub(in crate::pool) batch: Option<Open>,
    /// The item of its batch that it had begun when the batch was closed.
    pub(in crate::pool) interrupted: Option<Run>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pool) enum WorkerState {
    Starting,
    Idle {
        since_ns: u64,
    },
    Searching,
    Busy(Busy),
    /// Helps another pool. It counts as running at home only if there is a limit over all pools, until its item blocks or lasts.
    Away {
        counts: bool,
    },
}

/// How a worker that runs an item counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pool) enum Busy {
    /// It counts as running.
    Running,
    /// It said that it blocks, or was found asleep: another may run in its place.
    Blocked,
    /// A CPU hog, or of a queue whose items are: others run beside it until the item ends.
    CpuIntensive,
}

/// What a waker needs of a worker; kept alive by whoever is about to wake it.
pub(crate) struct WorkerHandle {
    pub(in crate::pool) parker: Parker,
    /// The kernel's thread id, 0 before the worker has started.
    pub(in crate::pool) tid: AtomicU32,
    /// It is inside an item's function. Written by the worker alone: between items it may sleep for the pool's lock, which is not
    /// the item's sleep.
    pub(in crate::pool) in_item: AtomicBool,
    /// The CPU of who has woken it, or what [`placement`] has for that.
    pub(in crate::pool) woken_from: AtomicU32,
    /// Its worker's line, but for who closes it.
    pub(in crate::pool) batch: CachePadded<Batch>,
}

impl WorkerState {
    pub(in crate::pool) fn is_running(self) -> bool {
        self == WorkerState::Busy(Busy::Running)
    }
}

/// In the place of the CPU that a worker was woken from: that is not of interest.
pub(in crate::pool) const NOT_ASKED: u32 = u32::MAX;

impl WorkerHandle {
    /// The kernel's thread id, 0 before the worker has started.
    pub(in crate::pool) fn tid(&self) -> i32 {
        self.tid.load(Ordering::Relaxed) as i32
    }

    /// Wakes it. Where it begins matters if its waker goes on.
    pub(in crate::pool) fn wake(&self, goes_on: bool) {
        let from = match goes_on {
            true => cpu::current().map_or(NOT_ASKED, |cpu| cpu as u32),
            false => NOT_ASKED,
        };
        self.woken_from.store(from, Ordering::Relaxed);
        self.parker.unpark();
    }

    /// Whether it sleeps, inside the function of an item.
    pub(in crate::pool) fn sleeps_in_item(&self) -> bool {
        self.state_in_item() == ThreadState::Asleep
    }

    /// As [`sleeps_in_item`](Self::sleeps_in_item), also where the system cannot say: of a worker whose CPU clock stands still.
    pub(in crate::pool) fn may_sleep_in_item(&self) -> bool {
        self.state_in_item() != ThreadState::Awake
    }

    /// What the system says of it, if it is inside the function of an item; outside it is awake.
    fn state_in_item(&self) -> ThreadState {
        let in_item = || self.in_item.load(Ordering::Relaxed);
        if !in_item() {
            return ThreadState::Awake;
        }
        let state = thread::state_of(self.tid.load(Ordering::Relaxed) as i32);
        // Again: it may have come out, and gone to sleep, in between.
        if in_item() { state } else { ThreadState::Awake }
    }
}
