//! The part of a task that it shares with the thread or task that waits for it: completion,
//! references, waker.

use crate::item::Completion;
use crate::pool::Pool;
use crate::sys::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::sys::cell::{alone, alone_at_last};
use crate::sys::fork;
use crate::trace::Foreign;
use std::task::Waker;

/// The part of a task that does not depend on the closure and its result.
pub(super) struct ResultState {
    pub(super) done: Completion,
    pub(super) references: AtomicU32,
    /// The fork generation of the process that spawned the closure.
    born: u32,
    /// A box with the waker of the polling task. Null: no task polls.
    waker: AtomicPtr<Foreign<Waker>>,
}

impl ResultState {
    pub(super) fn new() -> Self {
        ResultState {
            done: Completion::new(),
            references: AtomicU32::new(0),
            born: fork::generation(),
            waker: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Whether the closure was spawned in a process from which this one was forked, so that it will
    /// not run here.
    #[inline]
    pub(super) fn is_inherited(&self) -> bool {
        self.born != fork::generation()
    }

    /// Stores the waker of the polling task. `false`: the result is there already.
    pub(super) fn register(&self, waker: &Waker) -> bool {
        let known = self.take_waker();
        let waker = match known {
            Some(known) if known.is(|known| known.will_wake(waker)) => known,
            // This clones the caller's own waker. If that panics, the panic belongs to the caller.
            _ => Box::new(Foreign::new(waker.clone())),
        };
        let waker = Box::into_raw(waker);
        alone(waker);
        self.waker.store(waker, Ordering::Release);
        // The thread that completes the task after this finds that there is a waiter, and with it
        // the waker.
        self.done.mark_polled()
    }

    #[cold]
    pub(super) fn wake(&self) {
        if let Some(waker) = self.take_waker() {
            Pool::wake_task(waker);
        }
    }

    fn take_waker(&self) -> Option<Box<Foreign<Waker>>> {
        // Acquire: the waker, from the thread that has stored it. It leaves nothing for others.
        let waker = self.waker.swap(std::ptr::null_mut(), Ordering::Acquire);
        if waker.is_null() {
            return None;
        }
        alone_at_last(waker);
        // SAFETY: the pointer came from Box::into_raw, and the swap made this thread its owner.
        Some(unsafe { Box::from_raw(waker) })
    }
}

impl Drop for ResultState {
    fn drop(&mut self) {
        // Relaxed is enough: no other thread has the task any more. The check is cheap, and there
        // is rarely a waker.
        if !self.waker.load(Ordering::Relaxed).is_null() {
            drop(self.take_waker());
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Wake;

    struct Quiet;

    impl Wake for Quiet {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn who_polls_is_forgotten_with_the_task() {
        let quiet = Arc::new(Quiet);
        let shared = ResultState::new();
        assert!(shared.register(&Waker::from(quiet.clone())));
        assert_eq!(Arc::strong_count(&quiet), 2);
        drop(shared);
        assert_eq!(Arc::strong_count(&quiet), 1);
    }
}
