//! Locks. A poisoned lock cannot occur: work functions never run under one, and the engine's own
//! sections do not panic. If one does, the data is as consistent as the panic left it and the
//! process goes on.

use std::time::Duration;

#[cfg(not(cmwq_loom))]
use std::sync as imp;

#[cfg(cmwq_loom)]
use loom::sync as imp;

pub(crate) use imp::MutexGuard;

#[derive(Default)]
pub(crate) struct Mutex<T> {
    inner: imp::Mutex<T>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex {
            inner: imp::Mutex::new(value),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let lock = || {
            self.inner
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
        };
        #[cfg(all(debug_assertions, not(cmwq_loom)))]
        return self
            .try_lock()
            .unwrap_or_else(|| engine_sleeps::forgiven(lock));
        #[cfg(not(all(debug_assertions, not(cmwq_loom))))]
        lock()
    }

    /// The lock, if it is free.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.inner.try_lock() {
            Ok(guard) => Some(guard),
            #[cfg(not(cmwq_loom))]
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(_) => None,
        }
    }
}

/// Debug builds check whether an item that must not sleep did. Waiting for one of the engine's own
/// locks is not the item's fault, so it is counted apart.
#[cfg(all(debug_assertions, not(cmwq_loom)))]
pub(crate) mod engine_sleeps {
    use crate::sys::thread;
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<i64> = const { Cell::new(0) };
    }

    /// How often the calling thread has slept on a lock of the engine.
    pub(crate) fn count() -> i64 {
        COUNT.get()
    }

    /// Calls `waits`, which sleeps on a lock of the engine.
    pub(crate) fn forgiven<R>(waits: impl FnOnce() -> R) -> R {
        let before = thread::voluntary_switches();
        let result = waits();
        COUNT.set(COUNT.get() + thread::voluntary_switches() - before);
        result
    }
}

#[derive(Default)]
pub(crate) struct Condvar(imp::Condvar);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0
            .wait(guard)
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// As [`wait`](Self::wait), for at most `timeout`.
    pub(crate) fn wait_for<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> MutexGuard<'a, T> {
        let waited = self.0.wait_timeout(guard, timeout);
        waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
