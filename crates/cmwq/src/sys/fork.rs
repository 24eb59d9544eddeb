//! Noticing that the process is the child of a fork: it has the memory of its parent, but only the thread that forked.
//!
//! What the whole process shares must be whole in the child. So each lock of the process is held by whoever forks while he
//! does: in the child nobody else can have it, and what it guards is in nobody's hands. The locks of one engine are not: an
//! inherited engine is not touched any more.

use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicBool, AtomicU32};
use std::cell::RefCell;
use std::sync::atomic::AtomicPtr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many forks this process is away from the one that first asked.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The generation of the process: it differs in a child from what it was in its parent.
#[inline]
pub(crate) fn generation() -> u32 {
    // Relaxed: written only in a child that has one thread.
    GENERATION.load(Ordering::Relaxed)
}

/// The locks of the process, in the order in which they may be taken inside each other.
#[derive(Clone, Copy)]
pub(crate) enum ProcessLock {
    SystemQueues,
    GlobalEngine,
    Engines,
    Registry,
    Gates,
    Timers,
    Recorder,
    Latencies,
    TimingWanted,
    Warnings,
    Reports,
}

const LOCKS: usize = ProcessLock::Reports as usize + 1;

/// Which of the two processes goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Parent,
    Child,
}

/// Lets the lock go after the fork, in both processes, on the thread that forked.
pub(crate) type Held = Box<dyn FnOnce(Side)>;

/// Takes the lock before a fork.
type Take = fn() -> Held;

static TAKE: [AtomicPtr<()>; LOCKS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; LOCKS];

thread_local! {
    /// What the forking thread holds, in the order in which it was taken.
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

extern "C" fn before() {
    let held = TAKE.iter().filter_map(|take| {
        let take = take.load(Ordering::Acquire);
        // SAFETY: what is not null was a `Take` in `hold_during_forks`; both have the size of a pointer.
        (!take.is_null()).then(|| unsafe { std::mem::transmute::<*mut (), Take>(take) }())
    });
    // A thread that is ending has no such place any more: then nothing is held.
    let _ = HELD.try_with(|place| place.borrow_mut().extend(held));
}

fn after(side: Side) {
    let held = HELD.try_with(|place| place.take()).unwrap_or_default();
    for lock in held.into_iter().rev() {
        lock(side);
    }
}

extern "C" fn in_parent() {
    after(Side::Parent);
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    super::thread::forget_tid();
    after(Side::Child);
}

/// From now on forks are noticed, and whoever forks holds this lock meanwhile. To be called before the lock is taken for the
/// first time.
pub(crate) fn hold_during_forks(lock: ProcessLock, take: Take) {
    TAKE[lock as usize].store(take as *mut (), Ordering::Release);
    notice();
}

/// From now on forks change the [generation].
pub(crate) fn notice() {
    // No Once: were it torn by a fork, the child would wait for it.
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.swap(true, Ordering::AcqRel) {
        // SAFETY: the handlers may run on any thread that forks. That they cannot be registered (no memory) leaves forks
        // unnoticed.
        unsafe {
            libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
        }
    }
}

/// A lock of the process.
pub(crate) struct ProcessMutex<T: 'static> {
    which: ProcessLock,
    value: Mutex<T>,
    take: Take,
}

impl<T> ProcessMutex<T> {
    /// For a static; `take` calls [`hold`](Self::hold) of it.
    pub(crate) const fn new(which: ProcessLock, value: T, take: Take) -> Self {
        ProcessMutex {
            which,
            value: Mutex::new(value),
            take,
        }
    }

    pub(crate) fn lock(&'static self) -> MutexGuard<'static, T> {
        hold_during_forks(self.which, self.take);
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes it before a fork.
    pub(crate) fn hold(&'static self) -> Held {
        self.hold_and(|_| ())
    }

    /// As [`hold`](Self::hold); `in_child` puts right there what the threads that are not there have left.
    pub(crate) fn hold_and(&'static self, in_child: fn(&mut T)) -> Held {
        let mut held = self.lock();
        Box::new(move |side| {
            if side == Side::Child {
                in_child(&mut held);
            }
        })
    }
}
