//! Virtual machines do not fork; the locks of the process are the machine's locks.
#![forbid(unsafe_code)]

use super::sync::{Mutex, MutexGuard};

pub(crate) fn generation() -> u32 {
    0
}

/// The locks of the process.
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

/// Which of the two processes continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    #[expect(dead_code, reason = "nothing forks")]
    Parent,
    Child,
}

/// Releases the lock after the fork.
pub(crate) type Held = Box<dyn FnOnce(Side)>;

/// Takes the lock before a fork.
type Take = fn() -> Held;

/// There are no forks.
pub(crate) fn notice() {}

pub(crate) fn hold_during_forks(_lock: ProcessLock, _take: Take) {}

/// A lock of the process.
pub(crate) struct ProcessMutex<T: 'static> {
    value: Mutex<T>,
}

impl<T> ProcessMutex<T> {
    pub(crate) const fn new(_which: ProcessLock, value: T, _take: Take) -> Self {
        ProcessMutex {
            value: Mutex::new(value),
        }
    }

    pub(crate) fn lock(&'static self) -> MutexGuard<'static, T> {
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
