//! Locks of the virtual machine, built like the standard library's: three states and a futex, with
//! some spinning first.

use super::atomic::{AtomicU32, Ordering};
use super::park::{wait_on, wake_all_at, wake_one};
use super::task;
use cmwq_vm::Held;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

const FREE: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;
/// Polls before a thread sleeps.
const SPINS: u32 = 100;

#[derive(Default)]
pub(crate) struct Mutex<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: as for a lock of the standard library: only the lock holder uses the value.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: the lock owns the value.
unsafe impl<T: Send> Send for Mutex<T> {}

/// The calling thread holds the lock.
pub(crate) struct MutexGuard<'a, T> {
    lock: &'a Mutex<T>,
    /// The data as it was when the lock was taken: what the holder changes moves to its CPU. `None`
    /// outside a machine.
    held: Option<Held>,
    _not_send: std::marker::PhantomData<*const ()>,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Mutex {
            state: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    fn guard(&self) -> MutexGuard<'_, T> {
        let held = cmwq_vm::is_inside().then(|| {
            // SAFETY: the value is there as long as the lock, and only the lock holder writes it.
            unsafe { cmwq_vm::hold(self.value.get().addr(), size_of::<T>()) }
        });
        MutexGuard {
            lock: self,
            held,
            _not_send: std::marker::PhantomData,
        }
    }

    #[track_caller]
    fn take(&self) -> bool {
        self.state
            .compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        if !self.take() {
            self.wait();
        }
        self.guard()
    }

    #[track_caller]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.take().then(|| self.guard())
    }

    #[track_caller]
    fn spin(&self) -> u32 {
        for _ in 0..SPINS {
            let state = self.state.load(Ordering::Relaxed);
            if state != LOCKED {
                return state;
            }
            task::pause();
        }
        LOCKED
    }

    #[track_caller]
    fn wait(&self) {
        if self.spin() == FREE && self.take() {
            return;
        }
        while self.state.swap(CONTENDED, Ordering::Acquire) != FREE {
            wait_on(&self.state, CONTENDED, None);
            self.spin();
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            // SAFETY: the lock is there.
            unsafe { cmwq_vm::release(held) };
        }
        if self.lock.state.swap(FREE, Ordering::Release) == CONTENDED {
            wake_one(&self.lock.state);
        }
    }
}

#[derive(Default)]
pub(crate) struct Condvar(AtomicU32);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.wait_at_most(guard, None)
    }

    /// As [`wait`](Self::wait), for at most `timeout`.
    pub(crate) fn wait_for<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> MutexGuard<'a, T> {
        self.wait_at_most(guard, Some(timeout))
    }

    fn wait_at_most<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Option<Duration>,
    ) -> MutexGuard<'a, T> {
        let seen = self.0.load(Ordering::Relaxed);
        let lock = guard.lock;
        drop(guard);
        wait_on(&self.0, seen, timeout);
        lock.lock()
    }

    pub(crate) fn notify_all(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        wake_all_at(&raw const self.0);
    }
}

/// Debug builds count sleeps on the engine's own locks. In the virtual machine no item is checked for that.
#[cfg(debug_assertions)]
pub(crate) mod engine_sleeps {
    pub(crate) fn count() -> i64 {
        0
    }
}
