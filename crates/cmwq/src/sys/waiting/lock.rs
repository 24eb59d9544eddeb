//! The lock of a pool: a word on which threads sleep, as the standard library's lock is one.
//!
//! A holder needs less time than a wake-up takes, and many workers of many CPUs come for the lock of
//! one pool. So a thread polls the word before it sleeps for it, for about as long as a wake-up takes:
//!
//! - It polls also while other threads sleep. The standard library's lock does not spin then, so all
//!   threads that come later sleep too, and each holder has to wake one.
//! - It tries to take the lock only when the word says that it is free. An attempt that fails moves
//!   the word's cache line away from the holder, who needs it next.
//!
//! Which thread takes the lock next is not decided: one that polls takes it before one that sleeps.

#[cfg(not(cmwq_loom))]
pub(crate) use word::{Lock, LockGuard};

#[cfg(cmwq_loom)]
pub(crate) use modelled::{Lock, LockGuard};

/// The models of the layers above use the model checker's own lock; this one has a model of its own.
#[cfg(any(not(cmwq_loom), test))]
mod word {
    use crate::sys::atomic::{AtomicU32, Ordering};
    #[cfg(all(debug_assertions, not(any(cmwq_loom, cmwq_sim))))]
    use crate::sys::sync::engine_sleeps;
    use crate::sys::waiting::park::{wait_on, wake_one};
    #[cfg(cmwq_loom)]
    use loom::cell::UnsafeCell;
    #[cfg(not(cmwq_loom))]
    use std::cell::UnsafeCell;
    use std::marker::PhantomData;
    #[cfg(not(cmwq_loom))]
    use {
        crate::sys::atomic::plain,
        crate::sys::{clock, task},
        std::ops::{Deref, DerefMut},
    };

    const FREE: u32 = 0;
    const LOCKED: u32 = 1;
    /// Locked, and a thread may sleep for it.
    const CONTENDED: u32 = 2;

    /// How long a thread polls before it sleeps.
    #[cfg(not(cmwq_loom))]
    const POLLED_NS: u64 = 5_000;
    /// Pauses of the processor between two polls.
    #[cfg(not(cmwq_loom))]
    const PAUSES: u32 = 8;

    /// How often a thread that has released the lock yields at most: a sleeping thread needs about
    /// 50 us to wake up.
    #[cfg(not(cmwq_loom))]
    const YIELDS: usize = 100;

    /// A value of type `T` that one thread at a time may use.
    ///
    /// The word comes first: the line that a thread fetches to take the lock also holds what it uses
    /// first.
    #[repr(C)]
    pub(crate) struct Lock<T> {
        state: AtomicU32,
        /// How many threads sleep. A hint.
        #[cfg(not(cmwq_loom))]
        sleepers: plain::AtomicU32,
        value: UnsafeCell<T>,
    }

    // SAFETY: only the thread that holds the lock uses the value.
    unsafe impl<T: Send> Sync for Lock<T> {}
    // SAFETY: the lock owns the value.
    unsafe impl<T: Send> Send for Lock<T> {}

    /// The calling thread holds the lock until this is dropped.
    pub(crate) struct LockGuard<'a, T> {
        lock: &'a Lock<T>,
        /// The value as it was when the lock was taken: what the holder changes moves to its CPU.
        /// `None` outside a machine.
        #[cfg(cmwq_sim)]
        held: Option<cmwq_vm::Held>,
        _not_send: PhantomData<*const ()>,
    }

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Lock {
                state: AtomicU32::new(FREE),
                #[cfg(not(cmwq_loom))]
                sleepers: plain::AtomicU32::new(0),
                value: UnsafeCell::new(value),
            }
        }

        /// As [`lock`](Self::lock). Also returns whether another thread held it.
        #[inline]
        #[cfg_attr(cmwq_sim, track_caller)]
        pub(crate) fn lock_noting(&self) -> (LockGuard<'_, T>, bool) {
            let waits = !self.take();
            if waits {
                self.wait();
            }
            (self.guard(), waits)
        }

        #[inline]
        #[cfg_attr(cmwq_sim, track_caller)]
        fn take(&self) -> bool {
            // Acquire pairs with the Release of the holder before: what it did to the value is seen.
            self.state
                .compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        }

        #[cold]
        #[cfg_attr(cmwq_sim, track_caller)]
        fn wait(&self) {
            #[cfg(not(cmwq_loom))]
            if self.poll() {
                return;
            }
            #[cfg(all(debug_assertions, not(any(cmwq_loom, cmwq_sim))))]
            return engine_sleeps::forgiven(|| self.sleep());
            #[cfg(not(all(debug_assertions, not(any(cmwq_loom, cmwq_sim)))))]
            self.sleep();
        }

        /// Takes the lock as a thread that slept for it: others may sleep too, so its release wakes
        /// one.
        #[cfg_attr(cmwq_sim, track_caller)]
        fn sleep(&self) {
            #[cfg(not(cmwq_loom))]
            self.sleepers.fetch_add(1, Ordering::Relaxed);
            while self.state.swap(CONTENDED, Ordering::Acquire) != FREE {
                wait_on(&self.state, CONTENDED, None);
                #[cfg(not(cmwq_loom))]
                self.is_free_before(clock::now_ns() + POLLED_NS);
            }
            #[cfg(not(cmwq_loom))]
            self.sleepers.fetch_sub(1, Ordering::Relaxed);
        }

        #[cfg_attr(cmwq_sim, track_caller)]
        fn guard(&self) -> LockGuard<'_, T> {
            LockGuard {
                lock: self,
                #[cfg(cmwq_sim)]
                held: cmwq_vm::is_inside().then(|| {
                    // SAFETY: the value is there as long as the lock, and only its holder writes it.
                    let mut held =
                        unsafe { cmwq_vm::hold(self.value.get().addr(), size_of::<T>()) };
                    held.count();
                    held
                }),
                _not_send: PhantomData,
            }
        }
    }

    #[cfg(not(cmwq_loom))]
    impl<T> Lock<T> {
        #[cfg_attr(cmwq_sim, track_caller)]
        pub(crate) fn lock(&self) -> LockGuard<'_, T> {
            self.lock_noting().0
        }

        /// The calling thread has just released the lock and will take it again: it gives threads
        /// that wait for it the time to take it. A thread that sleeps for the lock takes longer to
        /// wake up than the releasing thread to come back.
        pub(crate) fn let_others(&self) {
            (0..PAUSES).for_each(|_| task::pause());
            let before = self.sleepers.load(Ordering::Relaxed);
            let none_woke = || {
                task::yield_now();
                self.sleepers.load(Ordering::Relaxed) == before
            };
            if before > 0 {
                let _ = (0..YIELDS).all(|_| none_woke());
            }
        }

        /// Waits for the lock without sleeping. Returns whether it was taken.
        #[cfg_attr(cmwq_sim, track_caller)]
        fn poll(&self) -> bool {
            let until_ns = clock::now_ns() + POLLED_NS;
            while self.is_free_before(until_ns) {
                if self.take() {
                    return true;
                }
            }
            false
        }

        /// Polls until the lock is free, or until this time. Returns whether it is free.
        #[cfg_attr(cmwq_sim, track_caller)]
        fn is_free_before(&self, until_ns: u64) -> bool {
            loop {
                (0..PAUSES).for_each(|_| task::pause());
                if self.state.load(Ordering::Relaxed) == FREE {
                    return true;
                }
                if clock::now_ns() >= until_ns {
                    return false;
                }
            }
        }
    }

    #[cfg(not(cmwq_loom))]
    impl<T> Deref for LockGuard<'_, T> {
        type Target = T;
        #[inline]
        fn deref(&self) -> &T {
            // SAFETY: this thread holds the lock.
            unsafe { &*self.lock.value.get() }
        }
    }

    #[cfg(not(cmwq_loom))]
    impl<T> DerefMut for LockGuard<'_, T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: this thread holds the lock, and lends the value once.
            unsafe { &mut *self.lock.value.get() }
        }
    }

    impl<T> Drop for LockGuard<'_, T> {
        #[inline]
        #[cfg_attr(cmwq_sim, track_caller)]
        fn drop(&mut self) {
            #[cfg(cmwq_sim)]
            if let Some(held) = self.held.take() {
                // SAFETY: the lock is there.
                unsafe { cmwq_vm::release(held) };
            }
            if self.lock.state.swap(FREE, Ordering::Release) == CONTENDED {
                wake_one(&self.lock.state);
            }
        }
    }

    #[cfg(all(test, not(any(cmwq_loom, cmwq_sim))))]
    mod tests {
        use super::*;
        use std::sync::Arc;
        use std::thread::{self, JoinHandle};
        use std::time::{Duration, Instant};

        fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
            let until = Instant::now() + Duration::from_secs(60);
            while !holds() {
                assert!(Instant::now() < until, "{what}");
                thread::yield_now();
            }
        }

        /// Another thread sleeps for the lock. It will note its turn, and return whether it waited.
        fn sleeper(lock: &Arc<Lock<Vec<u32>>>, number: u32) -> JoinHandle<bool> {
            let before = lock.sleepers.load(Ordering::Relaxed);
            let its_lock = lock.clone();
            let sleeper = thread::spawn(move || {
                let (mut guard, waited) = its_lock.lock_noting();
                guard.push(number);
                waited
            });
            eventually("it sleeps after some polls", || {
                lock.sleepers.load(Ordering::Relaxed) > before
            });
            sleeper
        }

        #[test]
        fn threads_that_sleep_for_the_lock_get_their_turns() {
            let lock = Arc::new(Lock::new(vec![]));
            let (guard, waited) = lock.lock_noting();
            let sleepers = [1, 2, 3].map(|number| sleeper(&lock, number));
            assert_ne!(lock.state.load(Ordering::Relaxed), FREE);
            drop(guard);
            eventually("each release wakes the next one", || {
                sleepers.iter().all(JoinHandle::is_finished)
            });
            let each_waited = sleepers.map(|one| one.join().expect("no panic"));
            assert_eq!((waited, each_waited), (false, [true; 3]));
            let mut turns = lock.lock().clone();
            turns.sort_unstable();
            assert_eq!(turns, [1, 2, 3]);
            assert_eq!(lock.state.load(Ordering::Relaxed), FREE);
            assert_eq!(lock.sleepers.load(Ordering::Relaxed), 0);
        }

        #[test]
        fn whoever_takes_the_lock_again_yields_while_a_thread_sleeps_for_it() {
            let lock = Lock::new(());
            let yields_beside = |sleepers| {
                lock.sleepers.store(sleepers, Ordering::Relaxed);
                let before = task::yields();
                lock.let_others();
                task::yields() - before
            };
            assert_eq!([0, 1, 2].map(yields_beside), [0, YIELDS, YIELDS]);
        }
    }

    #[cfg(all(test, cmwq_loom))]
    mod model {
        use super::*;
        use loom::thread;
        use std::sync::Arc;

        impl LockGuard<'_, u32> {
            /// The model checker reports a use that does not happen after all others.
            fn increase(&mut self) -> u32 {
                self.lock.value.with_mut(|value| {
                    // SAFETY: this thread holds the lock.
                    unsafe {
                        *value += 1;
                        *value
                    }
                })
            }
        }

        /// Two others, so that one of them may sleep while another one comes.
        #[test]
        fn one_thread_at_a_time_uses_the_value_and_each_gets_its_turn() {
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound = Some(4);
            builder.check(|| {
                let lock = Arc::new(Lock::new(0));
                let others = [0, 1].map(|_| {
                    let lock = lock.clone();
                    thread::spawn(move || {
                        lock.lock_noting().0.increase();
                    })
                });
                lock.lock_noting().0.increase();
                for other in others {
                    other.join().unwrap();
                }
                assert_eq!(lock.lock_noting().0.increase(), 4);
            });
        }
    }
}

/// The lock of the model checker.
#[cfg(cmwq_loom)]
mod modelled {
    use crate::sys::sync::{Mutex, MutexGuard};

    pub(crate) struct Lock<T>(Mutex<T>);

    pub(crate) type LockGuard<'a, T> = MutexGuard<'a, T>;

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Lock(Mutex::new(value))
        }

        pub(crate) fn lock_noting(&self) -> (LockGuard<'_, T>, bool) {
            (self.0.lock(), false)
        }

        pub(crate) fn lock(&self) -> LockGuard<'_, T> {
            self.0.lock()
        }

        pub(crate) fn let_others(&self) {}
    }
}
