//! Detects that the process is a fork's child: it has its parent's memory, but only the thread that forked.
//!
//! State of the whole process must be consistent in the child. So the thread that forks holds each
//! lock of the process meanwhile: in the child no other thread can hold it. The locks of one engine
//! are not held: a child does not touch an inherited engine.

use crate::sys::local::thread_local;
#[cfg(cmwq_sim)]
use crate::sys::sync::{Mutex, MutexGuard};
use crossbeam_utils::CachePadded;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
#[cfg(not(cmwq_sim))]
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many forks lie between this process and the one that first called [`notice`]. Each item reads
/// it, so it has a cache line of its own.
static GENERATION: CachePadded<AtomicU32> = CachePadded::new(AtomicU32::new(0));

/// The generation of the process: a child's differs from its parent's.
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
    Epochs,
    Timers,
    Recorder,
    Latencies,
    TimingWanted,
    Warnings,
    Reports,
    /// Last: a thread that holds another one may start a thread.
    #[cfg_attr(cmwq_sim, allow(dead_code, reason = "its threads are not std's"))]
    Threads,
}

const LOCKS: usize = ProcessLock::Threads as usize + 1;

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

/// The locks that are entered: how each is taken, or null.
struct Entered([AtomicPtr<()>; LOCKS]);

static ENTERED: Entered = Entered::new();

thread_local! {
    /// The locks that the forking thread holds, in the order in which it took them.
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
    /// Whether the thread is inside a fork. The handlers may be registered more than once; only the
    /// first call of them has an effect.
    static FORKS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the handlers are registered. Relaxed: they are the C library's by then, which has a lock
/// for them that a fork takes.
static WATCHED: AtomicBool = AtomicBool::new(false);

extern "C" fn before() {
    // They are called, so they are registered. Noting that keeps threads from registering them
    // during the fork, when some C libraries hold the lock that registering takes.
    WATCHED.store(true, Ordering::Relaxed);
    if FORKS.replace(true) {
        return;
    }
    // A thread that is ending has no `HELD` any more: then it holds nothing.
    let _ = HELD.try_with(|place| place.replace(ENTERED.hold_all()));
}

impl Entered {
    const fn new() -> Self {
        Entered([const { AtomicPtr::new(std::ptr::null_mut()) }; LOCKS])
    }

    fn takes(&self) -> impl Iterator<Item = Take> {
        // Relaxed, also in `enter`: what is found is the address of a function, and `hold_all` counts
        // again under the lock that is held while one is stored.
        let entered = self.0.iter().map(|take| take.load(Ordering::Relaxed));
        let entered = entered.filter(|take| !take.is_null());
        // SAFETY: it was a `Take` in `enter`; both have the size of a pointer.
        entered.map(|take| unsafe { std::mem::transmute::<*mut (), Take>(take) })
    }

    /// Takes all locks that are entered, and keeps others from being entered until the fork is
    /// over.
    fn hold_all(&self) -> Vec<Held> {
        loop {
            let mut held: Vec<Held> = self.takes().map(|take| take()).collect();
            // Taken after all others, because a thread that holds one of those may enter another.
            let entering = entering();
            if self.takes().count() == held.len() {
                held.push(Box::new(move |_| drop(entering)));
                return held;
            }
            // A lock was entered meanwhile whose place in the order may be before these: begin
            // again.
            drop(entering);
            release(held, Side::Parent);
        }
    }

    fn enter(&self, lock: ProcessLock, take: Take) {
        let place = &self.0[lock as usize];
        if place.load(Ordering::Relaxed).is_null() {
            // Waits for a fork that began before the lock was entered: such a fork does not hold
            // the lock.
            let _entering = entering();
            place.store(take as *mut (), Ordering::Relaxed);
        }
    }
}

fn release(held: Vec<Held>, side: Side) {
    for lock in held.into_iter().rev() {
        lock(side);
    }
}

fn after(side: Side) {
    let held = HELD.try_with(|place| place.take()).unwrap_or_default();
    release(held, side);
}

/// Guards changes of [`ENTERED`].
static ENTERING: Mutex<()> = Mutex::new(());

fn entering() -> MutexGuard<'static, ()> {
    let entering = ENTERING.lock();
    #[cfg(not(cmwq_sim))]
    let entering = entering.unwrap_or_else(PoisonError::into_inner);
    entering
}

extern "C" fn in_parent() {
    if FORKS.replace(false) {
        after(Side::Parent);
    }
}

extern "C" fn in_child() {
    if !FORKS.replace(false) {
        return;
    }
    GENERATION.fetch_add(1, Ordering::Relaxed);
    #[cfg(not(cmwq_sim))]
    super::thread::forget_tid();
    after(Side::Child);
}

/// From now on forks are noticed, and the thread that forks holds this lock meanwhile. To be called
/// before the lock is first taken.
pub(crate) fn hold_during_forks(lock: ProcessLock, take: Take) {
    notice();
    ENTERED.enter(lock, take);
}

/// From now on forks change the [generation].
pub(crate) fn notice() {
    // This is no `Once`: a fork could leave one half done, and the child would wait for it. The
    // flag is set only after the handlers are registered, so threads that come here first at the
    // same time each register them.
    if !WATCHED.load(Ordering::Relaxed) {
        register();
        WATCHED.store(true, Ordering::Relaxed);
    }
}

#[cfg(cmwq_sim)]
fn register() {
    cmwq_vm::at_fork(cmwq_vm::ForkHandlers {
        before: || before(),
        in_parent: || in_parent(),
        in_child: || in_child(),
    });
}

#[cfg(not(cmwq_sim))]
fn register() {
    // SAFETY: the handlers may run on any thread that forks. If they cannot be registered (no
    // memory), forks go unnoticed.
    unsafe {
        libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
    }
}

/// A lock of the process.
pub(crate) struct ProcessMutex<T: 'static> {
    which: ProcessLock,
    value: Mutex<T>,
    take: Take,
}

impl<T> ProcessMutex<T> {
    /// For a static; `take` calls its [`hold`](Self::hold).
    pub(crate) const fn new(which: ProcessLock, value: T, take: Take) -> Self {
        ProcessMutex {
            which,
            value: Mutex::new(value),
            take,
        }
    }

    pub(crate) fn lock(&'static self) -> MutexGuard<'static, T> {
        hold_during_forks(self.which, self.take);
        let value = self.value.lock();
        #[cfg(not(cmwq_sim))]
        let value = value.unwrap_or_else(PoisonError::into_inner);
        value
    }

    /// Takes the lock before a fork.
    pub(crate) fn hold(&'static self) -> Held {
        self.hold_and(|_| ())
    }

    /// As [`hold`](Self::hold); in the child, `in_child` repairs what threads that do not exist
    /// there have left.
    pub(crate) fn hold_and(&'static self, in_child: fn(&mut T)) -> Held {
        let mut held = self.lock();
        Box::new(move |side| {
            if side == Side::Child {
                in_child(&mut held);
            }
        })
    }
}

#[cfg(all(test, not(cmwq_loom), not(cmwq_sim), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_entered_while_others_are_taken_is_held_too() {
        static ENTERED: Entered = Entered::new();
        static HOLDS: AtomicU32 = AtomicU32::new(0);
        // While the last lock is taken another thread may enter one that comes before it.
        let last: Take = || {
            ENTERED.enter(ProcessLock::Epochs, || {
                HOLDS.fetch_add(1, Ordering::Relaxed);
                Box::new(|_| {
                    HOLDS.fetch_sub(1, Ordering::Relaxed);
                })
            });
            Box::new(|_| ())
        };
        ENTERED.enter(ProcessLock::Reports, last);
        let held = ENTERED.hold_all();
        assert_eq!(HOLDS.load(Ordering::Relaxed), 1, "it is held");
        release(held, Side::Parent);
        assert_eq!(HOLDS.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_fork_counts_once_though_two_threads_have_registered_the_handlers() {
        static LOCK: ProcessMutex<()> = ProcessMutex::new(ProcessLock::Reports, (), || LOCK.hold());
        drop(LOCK.lock());
        register();
        let before = generation();
        let is_free = || LOCK.value.try_lock().is_ok();
        // SAFETY: the child only looks, and leaves by _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_well = is_free() && generation() == before + 1;
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(i32::from(!is_well)) }
        }
        let mut status = -1;
        // SAFETY: waits for our own child; `status` is valid for writes.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        assert!(is_free() && generation() == before);
    }
}
