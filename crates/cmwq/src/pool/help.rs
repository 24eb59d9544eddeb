//! Helping between pods: idle workers run items of a pool that has more than its CPUs will get to soon.
//!
//! This moves the work, where the kernel moves the worker. The monitor decides which pools want help and wakes idle
//! neighbours, nearest first; a worker looks for them only when its own pool has nothing, and one shared counter that
//! stays zero while nobody wants help is all that it reads otherwise. It comes home after every item.

use super::guard::{Run, Task};
use super::{Current, Pool, WorkerState, block};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicI32, AtomicU64};
use crate::sys::sync::Mutex;
use crate::work::closure::Small;
use crate::work::{Started, WorkFn};
use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};

/// Where a pod lies on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub(crate) llc: usize,
    pub(crate) node: Option<u32>,
    pub(crate) first_cpu: usize,
}

impl Place {
    /// Larger is farther: another LLC, another node, then by CPU number, so that all helpers do not choose alike.
    fn distance(self, other: Place) -> (u8, usize) {
        let level = match (self.llc == other.llc, self.node == other.node) {
            (true, true) => 0,
            (_, true) => 1,
            _ => 2,
        };
        (level, self.first_cpu.abs_diff(other.first_cpu))
    }
}

/// The pools that may help each other: non-strict, of one nice level, for one set of CPUs.
pub(crate) struct Group {
    members: Mutex<Vec<Weak<Pool>>>,
    /// Grows with every change of `members`.
    version: AtomicU64,
    /// How many members want help.
    wanted: AtomicI32,
}

impl Group {
    pub(crate) fn new() -> Arc<Group> {
        Arc::new(Group {
            members: Mutex::new(Vec::new()),
            version: AtomicU64::new(1),
            wanted: AtomicI32::new(0),
        })
    }

    pub(crate) fn join(&self, pool: &Arc<Pool>) {
        self.members.lock().push(Arc::downgrade(pool));
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn leave(&self, pool: &Arc<Pool>) {
        self.members
            .lock()
            .retain(|member| !std::ptr::eq(member.as_ptr(), Arc::as_ptr(pool)));
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(super) fn count_wanted(&self, one_more: bool) {
        self.wanted
            .fetch_add(if one_more { 1 } else { -1 }, Ordering::Relaxed);
    }

    /// All members but `pool`, nearest first.
    pub(super) fn neighbours_of(&self, pool: &Pool) -> Vec<Arc<Pool>> {
        let mut others: Vec<Arc<Pool>> = self
            .members
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        others.retain(|other| other.id != pool.id);
        others.sort_by_key(|other| pool.attrs.place.distance(other.attrs.place));
        others
    }
}

/// A worker's view of its pool's neighbours, made anew when the group has changed.
pub(super) struct Neighbours {
    version: u64,
    nearest_first: Vec<Weak<Pool>>,
}

impl Neighbours {
    pub(super) fn new() -> Self {
        Neighbours {
            version: 0,
            nearest_first: Vec::new(),
        }
    }

    fn of(&mut self, pool: &Pool) -> &[Weak<Pool>] {
        let version = pool.group.version.load(Ordering::Acquire);
        if version != self.version {
            self.nearest_first = pool
                .group
                .neighbours_of(pool)
                .iter()
                .map(Arc::downgrade)
                .collect();
            self.version = version;
        }
        &self.nearest_first
    }
}

impl Pool {
    /// Whether any neighbour wants help: one read of a line that rarely changes.
    #[inline]
    pub(super) fn neighbours_want_help(&self) -> bool {
        !self.attrs.strict && self.group.wanted.load(Ordering::Relaxed) > 0
    }

    /// Runs one item of the nearest pool that wants help. The caller's own pool must count it as away.
    pub(super) fn help(self: &Arc<Self>, neighbours: &mut Neighbours) -> bool {
        for other in neighbours.of(self) {
            let Some(other) = other.upgrade() else {
                continue;
            };
            if !other.help_wanted.load(Ordering::Relaxed) {
                continue;
            }
            let mut task = other.lock().task_for_helper();
            if task.is_none() {
                other.set_help_wanted(false);
                continue;
            }
            while let Some(Task { started, run }) = task {
                let panicked = run_item(started, run);
                task = other.lock().end_task(run, panicked);
            }
            return true;
        }
        false
    }

    /// Wakes an idle worker of this pool so that it looks for neighbours to help, if it has a CPU to spare.
    pub(super) fn send_help(self: &Arc<Self>) -> bool {
        let mut guard = self.lock();
        if guard.dying || guard.searching > 0 || guard.running >= guard.target {
            return false;
        }
        guard.wake_idle() || {
            guard.want_worker();
            false
        }
    }
}

/// Calls the function of an item; tells whether it panicked.
pub(super) fn run_item(started: Started, run: Run) -> bool {
    call(started, run.current)
}

/// What somebody has begun.
pub(crate) trait Callable {
    fn address(&self) -> usize;
    fn func(&self) -> Option<WorkFn>;
    /// A panic is handed back.
    fn call(self) -> Result<(), Box<dyn Any + Send>>;
}

impl Callable for Started {
    #[inline]
    fn address(&self) -> usize {
        Started::address(self)
    }

    #[inline]
    fn func(&self) -> Option<WorkFn> {
        Started::func(self)
    }

    #[inline]
    fn call(self) -> Result<(), Box<dyn Any + Send>> {
        Started::call(self)
    }
}

impl Callable for Small {
    #[inline]
    fn address(&self) -> usize {
        Small::address(self)
    }

    #[inline]
    fn func(&self) -> Option<WorkFn> {
        Some(Small::func(self))
    }

    #[inline]
    fn call(self) -> Result<(), Box<dyn Any + Send>> {
        Small::call(self)
    }
}

/// Calls the function of an item; tells whether it panicked.
#[inline]
pub(super) fn call(begun: impl Callable, current: Current) -> bool {
    let outer = block::enter_queue(current);
    let panicked = call_next(begun);
    block::leave_queue(outer);
    panicked
}

/// Calls the function of an item of the queue that the thread has [entered](block::enter_queue); tells whether it panicked.
#[inline]
pub(super) fn call_next(begun: impl Callable) -> bool {
    #[cold]
    fn dispose(payload: Box<dyn Any + Send>) -> bool {
        // The payload's destructor is the user's code too.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(payload)));
        true
    }
    block::begin_item(begun.address(), begun.func());
    let result = begun.call();
    block::end_item();
    result.is_err_and(dispose)
}

/// While away a worker is neither searching nor running at home.
pub(super) fn away(pool: &Arc<Pool>, id: u32, f: impl FnOnce() -> bool) -> bool {
    {
        let mut guard = pool.lock();
        guard.searching -= 1;
        guard.workers[id].state = WorkerState::Away;
    }
    let helped = f();
    let mut guard = pool.lock();
    guard.searching += 1;
    guard.workers[id].state = WorkerState::Searching;
    helped
}
