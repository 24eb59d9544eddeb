//! A completion: one thread says "done", others wait for it.

use crate::sys::atomic::{AtomicU32, Ordering};

const OPEN: u32 = 0;
/// Somebody sleeps.
const AWAITED: u32 = 1;
/// A waker is registered beside the completion.
const POLLED: u32 = 2;
/// One waiter may go on.
const ONE: u32 = 4;
/// Every waiter may go on, for ever.
const ALL: u32 = 1 << 31;

/// An event that one thread signals and others wait for: the kernel's completion.
///
/// [`complete`](Completion::complete) lets every waiter go on, whether it comes before or after, until the completion is
/// [`reinit`](Completion::reinit)ialised. [`complete_one`](Completion::complete_one) lets one go on, and counts: as many waits return as it
/// was called. Neither makes a system call when nobody waits. What the completing thread did before is visible to a thread after
/// its `wait`.
///
/// All-zero memory is one that is not done: 4 bytes, aligned to 4.
#[derive(Debug)]
#[repr(transparent)]
pub struct Completion {
    /// AWAITED; POLLED; ALL; between POLLED and ALL, how many may go on.
    state: AtomicU32,
}

impl Default for Completion {
    fn default() -> Self {
        Self::new()
    }
}

impl Completion {
    /// A completion that is not done.
    pub fn new() -> Self {
        Completion {
            state: AtomicU32::new(OPEN),
        }
    }

    /// Makes it not done again. Must not be called while anybody waits.
    pub fn reinit(&self) {
        self.state.store(OPEN, Ordering::Relaxed);
    }

    /// Whether a [`wait`](Completion::wait) would return at once.
    pub fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) >= ONE
    }
}

impl Completion {
    /// Makes it done for all, and has those who sleep on its word woken by `wake`. `true`: a waker [is registered](Self::mark_polled), which the
    /// caller has to wake.
    ///
    /// What it is part of must still be there afterwards if that is to be used.
    #[inline]
    pub(crate) fn complete_by(&self, wake: impl FnOnce(*const AtomicU32)) -> bool {
        // After the swap a waiter may go on and free the completion: only its address may be used for the wake-up, and a
        // wake-up of a word that is gone is harmless (a private futex is looked up by its address alone).
        let state: *const AtomicU32 = &self.state;
        let before = self.state.swap(ALL, Ordering::AcqRel);
        // No thread sleeps on the word of one that is only polled: a wake-up would be a system call for nothing.
        if before & AWAITED != 0 {
            wake(state);
        }
        before & POLLED != 0
    }

    /// Makes it done for one more, and has those who sleep on its word woken by `wake`.
    pub(crate) fn complete_one_by(&self, wake: impl FnOnce(*const AtomicU32)) {
        let state: *const AtomicU32 = &self.state;
        // Who is woken and finds nothing left says again that he waits.
        let step = |now: u32| (now < ALL).then_some((now & !AWAITED) + ONE);
        let before = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, step);
        if before.is_ok_and(|before| before & AWAITED != 0) {
            wake(state);
        }
    }

    /// The word that threads sleep on.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.state
    }

    /// Says that a waker is registered, which the completer finds. `false`: it is done. Only for one that is completed for all.
    pub(crate) fn mark_polled(&self) -> bool {
        // Always a write, never a mere look: so it comes before the completing exchange, which then sees it, and what was left
        // for the completer (release); or after it, and sees that (acquire).
        self.state.fetch_or(POLLED, Ordering::AcqRel) & ALL == 0
    }

    /// As [`wait`](Completion::wait), if that need not wait; otherwise `false`.
    pub fn try_wait(&self) -> bool {
        // Acquire: pairs with the completers' Release, all of them that counted up, since who counts down between them only
        // carries on what they released. Done for all, it is only read: waiters share the line.
        let mut now = self.state.load(Ordering::Acquire);
        while (ONE..ALL).contains(&now) {
            let taken = self.state.compare_exchange_weak(
                now,
                now - ONE,
                Ordering::Acquire,
                Ordering::Acquire,
            );
            match taken {
                Ok(_) => return true,
                Err(changed) => now = changed,
            }
        }
        now >= ALL
    }

    /// Says that a thread sleeps, and returns the word that it sleeps on. `None`: one may go on.
    pub(crate) fn mark_awaited(&self) -> Option<u32> {
        // Relaxed: publishes nothing. Acquire: who completed before is found by the next look.
        let mark = |now: u32| (now < ONE).then_some(now | AWAITED);
        let before = self
            .state
            .fetch_update(Ordering::Relaxed, Ordering::Acquire, mark);
        before.ok().map(|before| before | AWAITED)
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_completion_lets_one_waiter_go_on() {
        let done = Completion::new();
        assert!(!done.try_wait());
        done.complete_one();
        done.complete_one();
        assert!(done.try_wait() && done.is_done() && done.try_wait());
        assert!(!done.is_done() && !done.wait_timeout(Duration::from_millis(1)));
        done.complete();
        done.complete_one();
        assert!(done.try_wait() && done.try_wait() && done.is_done());
        done.reinit();
        assert!(!done.try_wait());
    }

    #[test]
    fn all_that_sleep_are_let_go_one_by_one() {
        let done = Completion::new();
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..4).map(|_| scope.spawn(|| done.wait())).collect();
            for _ in 0..4 {
                std::thread::sleep(Duration::from_millis(3));
                done.complete_one();
            }
            for waiter in waiters {
                waiter.join().unwrap();
            }
        });
        assert!(!done.is_done());
    }
}
