//! A completion: one thread says "done", others wait for it.

use crate::pool::Pool;
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::park;
use crate::sys::spin::Allowance;
use std::time::{Duration, Instant};

const OPEN: u32 = 0;
/// Somebody sleeps.
const AWAITED: u32 = 1;
/// One waiter may go on.
const ONE: u32 = 2;
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
    /// AWAITED; ALL; between them, how many may go on.
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

thread_local! {
    /// How long this thread waits awake before it sleeps.
    static ALLOWANCE: Allowance = const { Allowance::new() };
}

impl Completion {
    /// Makes it done for all, and wakes all who wait.
    #[inline]
    pub fn complete(&self) {
        self.complete_telling();
    }

    /// As [`complete`](Self::complete); `true`: somebody waited, or had it [marked](Self::mark_awaited).
    ///
    /// What it is part of must still be there afterwards if that is to be used.
    #[inline]
    pub(crate) fn complete_telling(&self) -> bool {
        // After the swap a waiter may go on and free the completion: only its address may be used for the wake-up, and a
        // wake-up of a word that is gone is harmless (a private futex is looked up by its address alone).
        let state: *const AtomicU32 = &self.state;
        let awaited = self.state.swap(ALL, Ordering::AcqRel) & AWAITED != 0;
        if awaited {
            wake_at(state);
        }
        awaited
    }

    /// Has who completes it told that somebody waits. `false`: it is done. Only for one that is completed for all.
    pub(crate) fn mark_awaited(&self) -> bool {
        // Always a write, never a mere look: so it comes before the completing exchange, which then sees it, and what was left
        // for who completes it (release); or after it, and sees that (acquire).
        self.state.fetch_or(AWAITED, Ordering::AcqRel) & ALL == 0
    }

    /// Makes it done for one more. Changes nothing when it is done for all.
    pub fn complete_one(&self) {
        let state: *const AtomicU32 = &self.state;
        // Who is woken and finds nothing left says again that he waits.
        let step = |now: u32| (now < ALL).then_some((now & !AWAITED) + ONE);
        let before = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, step);
        if before.is_ok_and(|before| before & AWAITED != 0) {
            wake_at(state);
        }
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

    /// Waits until it is done: first awake, for as long as that has paid off lately, then asleep. On a worker this counts as
    /// blocking: the pool runs another in its place.
    pub fn wait(&self) {
        self.wait_until(None);
    }

    /// As [`wait`](Completion::wait), for at most `timeout`. `false`: it is not done yet.
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.wait_until(Instant::now().checked_add(timeout))
    }

    fn wait_until(&self, deadline: Option<Instant>) -> bool {
        if self.try_wait() {
            return true;
        }
        // It may be what completes this.
        crate::pool::spawner::let_go();
        crate::pool::wait_begins();
        if crate::pool::has_backlog() {
            // Where items wait for CPUs, a thread that waits awake has one of theirs; and the system moves no thread to a CPU that is in use.
            // Who completes this may leave the wake-up to a worker of this CPU.
            if let Some(cpu) = crate::sys::cpu::current() {
                crate::pool::note_whereabouts(std::ptr::from_ref(&self.state).addr(), cpu);
            }
        } else if ALLOWANCE.with(|allowance| allowance.wait(|| self.try_wait())) {
            crate::pool::wait_ends();
            return true;
        }
        let _blocked = crate::pool::BlockGuard::enter();
        loop {
            if self.try_wait() {
                return true;
            }
            let timeout = match deadline {
                None => None,
                Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                    None => return false,
                    Some(left) => Some(left),
                },
            };
            // Relaxed: publishes nothing. Acquire: who completed before is found by the next look.
            let asleep =
                self.state
                    .compare_exchange(OPEN, AWAITED, Ordering::Relaxed, Ordering::Acquire);
            if matches!(asleep, Ok(_) | Err(AWAITED)) {
                park::wait_on(&self.state, AWAITED, timeout);
            }
        }
    }
}

/// Wakes those who sleep on `word`, now or soon.
#[cold]
fn wake_at(word: *const AtomicU32) {
    if !Pool::tell_later(word) {
        park::wake_all_at(word);
    }
}

#[cfg(all(test, cmwq_loom))]
mod model {
    use super::{AtomicU32, Completion, Ordering};
    use loom::cell::UnsafeCell;
    use loom::thread;
    use std::sync::Arc;

    struct Told {
        what: UnsafeCell<u32>,
        done: Completion,
    }

    // SAFETY: the cell is what the model is about.
    unsafe impl Sync for Told {}
    // SAFETY: nothing in it belongs to a thread.
    unsafe impl Send for Told {}

    #[test]
    fn what_was_done_before_completing_is_seen_after_waiting() {
        loom::model(|| {
            let told = Arc::new(Told {
                what: UnsafeCell::new(0),
                done: Completion::new(),
            });
            let teller = thread::spawn({
                let told = told.clone();
                move || {
                    // SAFETY: checked by loom.
                    told.what.with_mut(|what| unsafe { *what = 7 });
                    told.done.complete();
                }
            });
            told.done.wait();
            // SAFETY: checked by loom.
            told.what.with(|what| assert_eq!(unsafe { *what }, 7));
            teller.join().unwrap();
        });
    }

    /// Several waiters: what needs more than two preemptions is left out.
    fn explore(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(model);
    }

    #[test]
    fn who_marks_it_is_told_or_sees_that_it_is_done() {
        explore(|| {
            let told = Arc::new(Told {
                what: UnsafeCell::new(0),
                done: Completion::new(),
            });
            let asked = Arc::new(AtomicU32::new(0));
            let teller = thread::spawn({
                let (told, asked) = (told.clone(), asked.clone());
                move || {
                    // SAFETY: checked by loom.
                    told.what.with_mut(|what| unsafe { *what = 7 });
                    told.done.complete_telling() && asked.swap(2, Ordering::Relaxed) == 1
                }
            });
            // Asked a second time: the mark is there already.
            assert!(told.done.mark_awaited() || told.done.is_done());
            asked.store(1, Ordering::Relaxed);
            let waits = told.done.mark_awaited();
            if !waits {
                // SAFETY: checked by loom.
                told.what.with(|what| assert_eq!(unsafe { *what }, 7));
            }
            assert!(teller.join().unwrap() || !waits, "nobody was told");
        });
    }

    #[test]
    fn as_many_waits_return_as_were_completed() {
        explore(|| {
            let done = Arc::new(Completion::new());
            let waiter = thread::spawn({
                let done = done.clone();
                move || done.wait()
            });
            let teller = thread::spawn({
                let done = done.clone();
                move || {
                    done.complete_one();
                    done.complete_one();
                }
            });
            done.wait();
            waiter.join().unwrap();
            teller.join().unwrap();
            assert!(!done.try_wait(), "two were completed, two have waited");
        });
    }

    #[test]
    fn who_waited_twice_sees_what_both_did() {
        explore(|| {
            let told = Arc::new([UnsafeCell::new(0), UnsafeCell::new(0)].map(|what| Told {
                what,
                done: Completion::new(),
            }));
            let tellers = [0, 1].map(|me| {
                let told = told.clone();
                thread::spawn(move || {
                    // SAFETY: checked by loom.
                    told[me].what.with_mut(|what| unsafe { *what = 7 });
                    told[0].done.complete_one();
                })
            });
            told[0].done.wait();
            told[0].done.wait();
            for each in told.iter() {
                // SAFETY: checked by loom.
                each.what.with(|what| assert_eq!(unsafe { *what }, 7));
            }
            for teller in tellers {
                teller.join().unwrap();
            }
        });
    }

    #[test]
    fn all_go_on_whatever_was_counted_before() {
        explore(|| {
            let done = Arc::new(Completion::new());
            let waiter = thread::spawn({
                let done = done.clone();
                move || done.wait()
            });
            let counter = thread::spawn({
                let done = done.clone();
                move || done.complete_one()
            });
            done.complete();
            done.wait();
            waiter.join().unwrap();
            counter.join().unwrap();
            assert!(done.try_wait());
        });
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

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
