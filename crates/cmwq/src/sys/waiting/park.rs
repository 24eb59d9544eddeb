//! Parking: one token for each sleeper, and a wait on a word.
//!
//! cmwq does not use `std::thread::park`: its token belongs to the user's code, which may call it
//! inside a work item.

#[cfg(not(cmwq_loom))]
pub(crate) use futex::{wait_on, wake_all_at, wake_one};
#[cfg(not(cmwq_loom))]
pub(crate) use token::Parker;

#[cfg(all(test, cmwq_loom))]
pub(crate) use modelled::wake_one;
#[cfg(cmwq_loom)]
pub(crate) use modelled::{Parker, wait_on, wake_all_at};

#[cfg(not(cmwq_loom))]
mod futex {
    use crate::sys::atomic::AtomicU32;
    #[cfg(not(cmwq_sim))]
    use rustix::thread::{Timespec, futex};
    use std::time::Duration;

    /// Sleeps while `word` holds `value`, at most `timeout`; returns at a wake-up, a change of the
    /// word seen at entry, the time-out, or spuriously.
    #[cfg(not(cmwq_sim))]
    pub(crate) fn wait_on(word: &AtomicU32, value: u32, timeout: Option<Duration>) {
        let timeout = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        // Every error (the word changed, a signal, the time-out) means "check again", which all callers do.
        let _ = futex::wait(word, futex::Flags::PRIVATE, value, timeout.as_ref());
    }

    /// Wakes every thread that sleeps on the word at this address. The word may have been freed:
    /// the system only searches sleepers by address, and a thread that sleeps on a new word there
    /// treats it as a spurious wake-up.
    #[cfg(not(cmwq_sim))]
    pub(crate) fn wake_all_at(word: *const AtomicU32) {
        // SAFETY: FUTEX_WAKE on a private futex takes the address as a number and never reads the word.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word,
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                i32::MAX,
            );
        }
    }

    /// Wakes one thread that sleeps on the word.
    #[cfg(not(cmwq_sim))]
    #[inline]
    pub(crate) fn wake_one(word: &AtomicU32) {
        let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
    }

    #[cfg(cmwq_sim)]
    pub(crate) fn wait_on(word: &AtomicU32, value: u32, timeout: Option<Duration>) {
        let address = word.as_ptr();
        let is_unchanged = || {
            // SAFETY: the word exists, and all virtual threads share one OS thread.
            let newest = unsafe { address.read() };
            cmwq_vm::weak::observe(address as usize, u64::from(newest));
            newest == value
        };
        cmwq_vm::os::futex_wait(address as usize, is_unchanged, timeout);
    }

    #[cfg(cmwq_sim)]
    pub(crate) fn wake_all_at(word: *const AtomicU32) {
        cmwq_vm::os::futex_wake(word as usize, usize::MAX);
    }

    #[cfg(cmwq_sim)]
    pub(crate) fn wake_one(word: &AtomicU32) {
        cmwq_vm::os::futex_wake(word.as_ptr() as usize, 1);
    }
}

/// The models of the layers above use a simpler parker; this one has a model of its own.
#[cfg(any(not(cmwq_loom), test))]
mod token {
    #[cfg(not(cmwq_loom))]
    use super::futex::{wait_on, wake_one};
    #[cfg(cmwq_loom)]
    use super::modelled::{wait_on, wake_one};
    use crate::sys::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    const EMPTY: u32 = 0;
    const TOKEN: u32 = 1;
    const PARKED: u32 = 2;

    /// One token for one sleeping thread.
    pub(crate) struct Parker(AtomicU32);

    impl Parker {
        pub(crate) fn new() -> Self {
            Parker(AtomicU32::new(EMPTY))
        }

        /// Sleeps until there is a token and takes it.
        pub(crate) fn park(&self) {
            self.park_for(None);
        }

        /// As [`park`](Self::park), but gives up after `timeout`; returns whether it took a token.
        pub(crate) fn park_for(&self, timeout: Option<Duration>) -> bool {
            // Acquire pairs with unpark's Release: what the waker did before is visible here.
            if self
                .0
                .compare_exchange(EMPTY, PARKED, Ordering::Acquire, Ordering::Acquire)
                .is_err()
            {
                // A mere store is not enough: a second waker may have left its token meanwhile, and
                // what that waker did before must be visible too.
                self.0.swap(EMPTY, Ordering::Acquire);
                return true;
            }
            loop {
                wait_on(&self.0, PARKED, timeout);
                if self
                    .0
                    .compare_exchange(TOKEN, EMPTY, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
                {
                    return true;
                }
                if timeout.is_some() {
                    return self.0.swap(EMPTY, Ordering::Acquire) == TOKEN;
                }
            }
        }

        /// Whether the thread is about to sleep, or sleeps, and has no token.
        #[cfg(not(cmwq_loom))]
        pub(crate) fn is_parked(&self) -> bool {
            self.0.load(Ordering::Relaxed) == PARKED
        }

        /// Leaves a token and wakes the sleeper if it sleeps. No system call when it does not.
        pub(crate) fn unpark(&self) {
            if self.0.swap(TOKEN, Ordering::Release) == PARKED {
                wake_one(&self.0);
            }
        }
    }

    #[cfg(all(test, cmwq_loom))]
    mod model {
        use super::super::modelled::wake_all_at;
        use super::*;
        use loom::thread;
        use std::sync::Arc;

        #[test]
        fn what_two_wakers_did_is_seen_though_one_token_stands_for_both() {
            loom::model(|| {
                let shared = Arc::new((Parker::new(), [0, 0].map(AtomicU32::new)));
                let wakers = [0, 1].map(|me| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        shared.1[me].store(1, Ordering::Relaxed);
                        shared.0.unpark();
                    })
                });
                while shared
                    .1
                    .iter()
                    .any(|done| done.load(Ordering::Relaxed) == 0)
                {
                    shared.0.park();
                }
                for waker in wakers {
                    waker.join().unwrap();
                }
            });
        }

        /// The sleep ends as if its time were over, and the token comes then.
        #[test]
        fn what_the_waker_did_is_seen_though_the_time_is_over_when_it_comes() {
            loom::model(|| {
                let shared = Arc::new((Parker::new(), AtomicU32::new(0)));
                let waker = thread::spawn({
                    let shared = shared.clone();
                    move || {
                        shared.1.store(1, Ordering::Relaxed);
                        shared.0.unpark();
                    }
                });
                let time = thread::spawn(|| wake_all_at(std::ptr::null()));
                if shared.0.park_for(Some(Duration::ZERO)) {
                    assert_eq!(shared.1.load(Ordering::Relaxed), 1);
                }
                waker.join().unwrap();
                time.join().unwrap();
            });
        }
    }
}

#[cfg(cmwq_loom)]
mod modelled {
    use crate::sys::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};
    use std::time::Duration;

    loom::lazy_static! {
        /// All sleepers on all words. The lock is the kernel's: no thread wakes another between the
        /// comparison and the sleep.
        static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    /// Sleeps while `word` holds `value`; returns when any thread is woken.
    pub(crate) fn wait_on(word: &AtomicU32, value: u32, _timeout: Option<Duration>) {
        let guard = SLEEPERS.0.lock().unwrap();
        // The kernel compares the newest value, which a mere load need not return.
        if word
            .compare_exchange(value, value, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
        {
            drop(SLEEPERS.1.wait(guard).unwrap());
        }
    }

    pub(crate) fn wake_all_at(_word: *const AtomicU32) {
        drop(SLEEPERS.0.lock().unwrap());
        SLEEPERS.1.notify_all();
    }

    #[cfg(test)]
    pub(crate) fn wake_one(word: &AtomicU32) {
        wake_all_at(word);
    }

    pub(crate) struct Parker(Mutex<bool>, Condvar);

    impl Parker {
        pub(crate) fn new() -> Self {
            Parker(Mutex::new(false), Condvar::new())
        }

        pub(crate) fn park(&self) {
            let mut token = self.0.lock().unwrap();
            while !*token {
                token = self.1.wait(token).unwrap();
            }
            *token = false;
        }

        pub(crate) fn park_for(&self, _timeout: Option<Duration>) -> bool {
            self.park();
            true
        }

        pub(crate) fn is_parked(&self) -> bool {
            !*self.0.lock().unwrap()
        }

        pub(crate) fn unpark(&self) {
            *self.0.lock().unwrap() = true;
            self.1.notify_one();
        }
    }
}
