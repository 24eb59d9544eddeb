//! A completion: one thread completes it, others wait for it.

use crate::sys::atomic::{AtomicU32, Ordering};

const OPEN: u32 = 0;
/// The bit that is set while a thread sleeps on the word.
const AWAITED: u32 = 1;
/// The bit that is set if a waker is registered beside the completion.
const POLLED: u32 = 2;
/// One step of the number of waiters that may continue.
const ONE: u32 = 4;
/// The bit that is set when every waiter may continue, for ever.
const ALL: u32 = 1 << 31;

/// An event that one thread signals and others wait for: the kernel's completion.
///
/// [`complete`](Completion::complete) lets every waiter continue, whether it comes before or after,
/// until the completion is [`reinit`](Completion::reinit)ialised.
/// [`complete_one`](Completion::complete_one) lets one waiter continue, and counts: as many waits
/// return as there were calls. Up to 2^29 - 1 calls are kept that no thread has waited for; after
/// one more, every waiter may continue. Neither makes a system call when no thread waits. What the
/// completing thread did before is visible to a thread after its `wait`.
///
/// All-zero memory is a completion that is not done: 4 bytes, aligned to 4.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Completion {
    /// The bits [`AWAITED`], [`POLLED`] and [`ALL`]. The bits between the last two count how many
    /// waiters may continue.
    state: AtomicU32,
}

impl Completion {
    /// A completion that is not done.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes it not done again. Must not be called while a thread waits.
    pub fn reinit(&self) {
        self.state.store(OPEN, Ordering::Relaxed);
    }

    /// Whether a [`wait`](Completion::wait) would return at once.
    pub fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) >= ONE
    }
}

impl Completion {
    /// Makes it done for all waiters; `wake` wakes those that sleep on its word. `true`: a waker
    /// [is registered](Self::mark_polled), which the caller has to wake.
    ///
    /// A caller that uses the surrounding memory afterwards must make sure that it still exists.
    #[inline]
    pub(crate) fn complete_by(&self, wake: impl FnOnce(*const AtomicU32)) -> bool {
        // After the swap a waiter may continue and free the completion: only its address may be
        // used for the wake-up, and waking a freed word is harmless (the system looks up a private
        // futex by its address alone).
        let state: *const AtomicU32 = &self.state;
        // Release: waiters see what the caller did before. Acquire: the caller sees what was left
        // for it before the mark.
        let before = self.state.swap(ALL, Ordering::AcqRel);
        // No thread sleeps on the word of a completion that is only polled, so the system call of a
        // wake-up would be in vain.
        if before & AWAITED != 0 {
            wake(state);
        }
        before & POLLED != 0
    }

    /// Makes it done for one more waiter; `wake` wakes those that sleep on its word.
    pub(crate) fn complete_one_by(&self, wake: impl FnOnce(*const AtomicU32)) {
        let state: *const AtomicU32 = &self.state;
        // A woken thread that finds nothing left sets AWAITED again. Release: the waiter sees what
        // the caller did before. Acquire is not needed here, since the caller reads nothing that
        // others left; a waiter sees what all threads that counted up have released.
        let step = |now: u32| (now < ALL).then_some((now & !AWAITED) + ONE);
        let before = self
            .state
            .fetch_update(Ordering::Release, Ordering::Relaxed, step);
        if before.is_ok_and(|before| before & AWAITED != 0) {
            wake(state);
        }
    }

    /// The word that threads sleep on.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.state
    }

    /// Marks that a waker is registered, so that the completing thread calls it. Returns `false` if
    /// the completion is done. Only for a completion that is completed for all waiters.
    pub(crate) fn mark_polled(&self) -> bool {
        // Always a write, never a mere load: so it comes before the completing exchange, which then
        // sees it, and what was left for the completer (release); or after it, and sees that
        // (acquire).
        self.state.fetch_or(POLLED, Ordering::AcqRel) & ALL == 0
    }

    /// As [`wait`](Completion::wait), but returns `false` instead of waiting.
    pub fn try_wait(&self) -> bool {
        // Acquire: pairs with the Release of all completers that counted up, since a waiter that
        // counts down between them only passes on what they released. Acquire again: the value may
        // be the same and another completer's by now. A completion that is done for all is only
        // read: waiters share the line.
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

    /// Marks that a thread is about to sleep, and returns the value of the word to sleep on.
    /// Returns `None` if the caller may continue.
    pub(crate) fn mark_awaited(&self) -> Option<u32> {
        // Relaxed: this publishes nothing. A caller that may continue has seen the completing
        // thread's value, so its next `try_wait` finds that value or a later one, and acquires it.
        let mark = |now: u32| (now < ONE).then_some(now | AWAITED);
        let before = self
            .state
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, mark);
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
    fn threads_that_take_at_the_same_time_take_as_many_as_were_completed() {
        const MANY: usize = 200_000;
        let done = std::sync::Arc::new(Completion::new());
        (0..MANY).for_each(|_| done.complete_one());
        let (sender, taken) = std::sync::mpsc::channel();
        for _ in 0..4 {
            let (sender, done) = (sender.clone(), done.clone());
            std::thread::spawn(move || {
                let taken = std::iter::from_fn(|| done.try_wait().then_some(()));
                let _ = sender.send(taken.count());
            });
        }
        let deadline = Duration::from_secs(60);
        let each = (0..4).map(|_| taken.recv_timeout(deadline).expect("a thread hangs"));
        assert_eq!(each.sum::<usize>(), MANY);
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
