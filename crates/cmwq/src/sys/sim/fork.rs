//! Forks of the virtual machine's process. As in the real back end the thread that forks holds each lock of the process meanwhile.
#![forbid(unsafe_code)]

use super::local::thread_local;
use super::sync::{Mutex, MutexGuard};
use cmwq_vm::ForkHandlers;
use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between this process and the one that first called [`notice`].
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The generation of the process: a child's differs from its parent's.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// The locks of the process, in the order in which they may be taken inside each other.
#[derive(Clone, Copy)]
pub(crate) enum ProcessLock {
    SystemQueues,
    GlobalEngine,
    Engines,
    Registry,
    Epochs,
    Timers,
    Recorder,
    Latencies,
    TimingWanted,
    Warnings,
    Reports,
}

const LOCKS: usize = ProcessLock::Reports as usize + 1;

/// Which of the two processes continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Parent,
    Child,
}

/// Releases the lock after the fork, in both processes, on the thread that forked.
pub(crate) type Held = Box<dyn FnOnce(Side)>;

/// Takes the lock before a fork.
type Take = fn() -> Held;

static TAKE: [OnceLock<Take>; LOCKS] = [const { OnceLock::new() }; LOCKS];

thread_local! {
    /// The locks that the forking thread holds, in the order in which it took them.
    static HELD: RefCell<Vec<Held>> = RefCell::default();
}

fn before() {
    let held: Vec<Held> = TAKE
        .iter()
        .flat_map(OnceLock::get)
        .map(|take| take())
        .collect();
    let _ = HELD.try_with(|place| place.borrow_mut().extend(held));
}

fn after(side: Side) {
    let held = HELD.try_with(|place| place.take()).unwrap_or_default();
    for lock in held.into_iter().rev() {
        lock(side);
    }
}

fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    after(Side::Child);
}

/// From now on the thread that forks holds this lock meanwhile. To be called before the lock is first taken.
pub(crate) fn hold_during_forks(lock: ProcessLock, take: Take) {
    TAKE[lock as usize].get_or_init(|| take);
    notice();
}

/// From now on forks change the [generation].
pub(crate) fn notice() {
    cmwq_vm::at_fork(ForkHandlers {
        before,
        in_parent: || after(Side::Parent),
        in_child,
    });
}

/// A lock of the process.
pub(crate) struct ProcessMutex<T: 'static> {
    which: ProcessLock,
    value: Mutex<T>,
    take: Take,
}

impl<T> ProcessMutex<T> {
    pub(crate) const fn new(which: ProcessLock, value: T, take: Take) -> Self {
        ProcessMutex {
            which,
            value: Mutex::new(value),
            take,
        }
    }

    pub(crate) fn lock(&'static self) -> MutexGuard<'static, T> {
        hold_during_forks(self.which, self.take);
        self.value.lock()
    }

    pub(crate) fn hold(&'static self) -> Held {
        self.hold_and(|_| ())
    }

    pub(crate) fn hold_and(&'static self, in_child: fn(&mut T)) -> Held {
        let mut held = self.lock();
        Box::new(move |side| {
            if side == Side::Child {
                in_child(&mut held);
            }
        })
    }
}
