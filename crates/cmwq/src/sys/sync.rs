//! Locks. A poisoned lock cannot occur: work functions never run under one, and the engine's own sections do not panic. If one does, the
//! data is as consistent as the panic left it and the process goes on.

#[cfg(not(cmwq_loom))]
use std::sync as imp;

#[cfg(cmwq_loom)]
use loom::sync as imp;

#[cfg(not(cmwq_loom))]
use super::atomic::{Ordering, plain::AtomicU32};
#[cfg(not(cmwq_loom))]
use super::task;

pub(crate) use imp::MutexGuard;

#[derive(Default)]
pub(crate) struct Mutex<T> {
    inner: imp::Mutex<T>,
    /// How many threads wait for it in [`lock_noting`](Self::lock_noting). A hint.
    #[cfg(not(cmwq_loom))]
    waiting: AtomicU32,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex {
            inner: imp::Mutex::new(value),
            #[cfg(not(cmwq_loom))]
            waiting: AtomicU32::new(0),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(all(debug_assertions, not(cmwq_loom)))]
        return engine_sleeps::forgiven(&self.inner);
        #[cfg(not(all(debug_assertions, not(cmwq_loom))))]
        self.inner
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
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

    /// As [`lock`](Self::lock), and whether another thread held it.
    #[inline]
    pub(crate) fn lock_noting(&self) -> (MutexGuard<'_, T>, bool) {
        // The first step of `lock` is the same, so this costs nothing when the lock is free.
        #[cfg(not(cmwq_loom))]
        if let Some(guard) = self.try_lock() {
            return (guard, false);
        }
        #[cfg(not(cmwq_loom))]
        {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let guard = self.spin().unwrap_or_else(|| self.lock());
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            (guard, true)
        }
        #[cfg(cmwq_loom)]
        (self.lock(), false)
    }

    /// The calling thread has just released the lock and will take it again: it gives threads that wait for it in [`lock_noting`](Self::lock_noting) the
    /// time to take it. The lock itself is not fair: a thread that sleeps for it takes longer to wake up than the releasing thread to come back.
    pub(crate) fn let_others(&self) {
        #[cfg(not(cmwq_loom))]
        {
            /// How often the thread yields at most: a sleeping thread needs about 50 us to wake up.
            const YIELDS: usize = 100;
            let before = self.waiting.load(Ordering::Relaxed);
            let no_other_came = || {
                task::yield_now();
                self.waiting.load(Ordering::Relaxed) == before
            };
            if before > 0 {
                let _ = (0..YIELDS).all(|_| no_other_came());
            }
        }
    }

    /// Waits for a few microseconds without sleeping. The standard library's lock does not spin if
    /// a thread already sleeps for it; so all threads that come later would sleep too, and each
    /// holder would have to wake one.
    #[cfg(not(cmwq_loom))]
    #[cold]
    fn spin(&self) -> Option<MutexGuard<'_, T>> {
        /// Pauses of the processor before each try: together some 100.
        const PAUSES: [u32; 6] = [4, 8, 16, 24, 24, 24];
        PAUSES.into_iter().find_map(|pauses| {
            (0..pauses).for_each(|_| task::pause());
            self.try_lock()
        })
    }
}

/// Debug builds check whether an item that must not sleep did. Waiting for one of the engine's own locks is not the item's fault, so it is
/// counted apart.
#[cfg(all(debug_assertions, not(cmwq_loom)))]
pub(crate) mod engine_sleeps {
    use crate::sys::thread;
    use std::cell::Cell;
    use std::sync::{Mutex, MutexGuard, TryLockError};

    thread_local! {
        static COUNT: Cell<i64> = const { Cell::new(0) };
    }

    /// How often the calling thread has slept on a lock of the engine.
    pub(crate) fn count() -> i64 {
        COUNT.get()
    }

    pub(super) fn forgiven<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
        match lock.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        let before = thread::voluntary_switches();
        let guard = lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        COUNT.set(COUNT.get() + thread::voluntary_switches() - before);
        guard
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

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
