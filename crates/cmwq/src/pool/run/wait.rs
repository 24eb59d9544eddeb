//! Waiting for a completion.
#![cfg_attr(not(cmwq_loom), forbid(unsafe_code))]

use super::block::BlockGuard;
use crate::item::Completion;
use crate::pool::submit::{producer, spawn_history};
use crate::sys::local::thread_local;
use crate::sys::spin::SpinBudget;
use crate::sys::{clock, park};
use std::time::Duration;

thread_local! {
    /// How long this thread spins before it parks.
    static SPIN_BUDGET: SpinBudget = const { SpinBudget::new() };
}

impl Completion {
    /// Waits until it is done: first spins, for as long as that has paid off lately, then parks. On
    /// a worker this counts as blocking: the pool runs another in its place. A waker of a task must
    /// not wait for what items complete: its thread may be the worker that would run them.
    pub fn wait(&self) {
        self.wait_until(None);
    }

    /// As [`wait`](Completion::wait), for at most `timeout`. `false`: it is not done yet.
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        if timeout.is_zero() {
            return self.try_wait();
        }
        self.wait_until(Some(clock::deadline_after(timeout)))
    }

    fn wait_until(&self, deadline_ns: Option<u64>) -> bool {
        self.spin(deadline_ns) || self.park(deadline_ns)
    }

    /// Spins, if that has paid off lately and no backlog needs the CPU. `false`: it is not done.
    pub(super) fn spin(&self, deadline_ns: Option<u64>) -> bool {
        if self.try_wait() {
            return true;
        }
        // The last spawned item may complete this.
        spawn_history::let_go();
        producer::wait_begins();
        // If items wait for CPUs, a spinning waiter holds a CPU that they need, and the system
        // moves no thread to a CPU in use.
        let is_done = !producer::has_backlog()
            && SPIN_BUDGET
                .with(|spin_budget| spin_budget.wait_until(deadline_ns, || self.try_wait()));
        if is_done {
            producer::wait_ends();
        }
        is_done
    }

    pub(super) fn park(&self, deadline_ns: Option<u64>) -> bool {
        let _blocked = BlockGuard::enter();
        loop {
            if self.try_wait() {
                return true;
            }
            let timeout = match deadline_ns {
                None => None,
                Some(deadline) => match deadline.saturating_sub(clock::now_ns()) {
                    0 => return false,
                    left => Some(Duration::from_nanos(left)),
                },
            };
            if let Some(asleep) = self.mark_awaited() {
                park::wait_on(self.word(), asleep, timeout);
            }
        }
    }
}

#[cfg(all(test, cmwq_loom))]
mod model {
    #![allow(unsafe_code, reason = "cells that loom watches")]
    use crate::item::Completion;
    use crate::sys::atomic::{AtomicU32, Ordering};
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

    /// Several waiters: schedules with more than two preemptions are left out.
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
                    told.done.complete_polled() && asked.swap(2, Ordering::Relaxed) == 1
                }
            });
            // The second call finds the mark already set.
            assert!(told.done.mark_polled() || told.done.is_done());
            asked.store(1, Ordering::Relaxed);
            let waits = told.done.mark_polled();
            if !waits {
                // SAFETY: checked by loom.
                told.what.with(|what| assert_eq!(unsafe { *what }, 7));
            }
            assert!(teller.join().unwrap() || !waits, "nobody was told");
        });
    }

    #[test]
    fn who_completes_it_sees_what_was_left_before_the_mark() {
        loom::model(|| {
            let told = Arc::new(Told {
                what: UnsafeCell::new(0),
                done: Completion::new(),
            });
            let teller = thread::spawn({
                let told = told.clone();
                move || {
                    if told.done.complete_polled() {
                        // SAFETY: checked by loom.
                        told.what.with(|what| assert_eq!(unsafe { *what }, 7));
                    }
                }
            });
            // SAFETY: checked by loom.
            told.what.with_mut(|what| unsafe { *what = 7 });
            told.done.mark_polled();
            teller.join().unwrap();
        });
    }

    /// One has been completed already, and a thread takes that and completes one more, or all: who
    /// continues by that sees what it did.
    fn who_continues_by_a_later_call_sees_what_was_done_before_it(completes: fn(&Completion)) {
        explore(move || {
            let (done, what) = (Completion::new(), AtomicU32::new(0));
            done.complete_one();
            let shared = Arc::new((done, what));
            let other = thread::spawn({
                let shared = shared.clone();
                move || {
                    let (done, what) = &*shared;
                    let has_taken = done.try_wait();
                    if has_taken {
                        what.store(7, Ordering::Relaxed);
                        completes(done);
                    }
                    has_taken
                }
            });
            let continues = shared.0.try_wait();
            let seen = shared.1.load(Ordering::Relaxed);
            let has_taken = other.join().unwrap();
            assert!(!continues || !has_taken || seen == 7);
        });
    }

    #[test]
    fn who_takes_the_next_one_sees_what_its_completer_did() {
        who_continues_by_a_later_call_sees_what_was_done_before_it(Completion::complete_one);
    }

    #[test]
    fn who_wanted_one_and_finds_it_done_for_all_sees_what_its_completer_did() {
        who_continues_by_a_later_call_sees_what_was_done_before_it(Completion::complete);
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
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Wakes sleepers of a completion in vain, every half millisecond, until `ended`; for a minute
    /// at most. `false`: it never ended.
    fn wake_in_vain(done: &Completion, ended: &AtomicBool) -> bool {
        (0..120_000).any(|_| {
            park::wake_all_at(done.word());
            std::thread::sleep(Duration::from_micros(500));
            ended.load(Ordering::Relaxed)
        })
    }

    #[test]
    fn wake_ups_in_vain_do_not_prolong_a_wait_with_a_deadline() {
        let (done, ended) = (Completion::new(), AtomicBool::new(false));
        let in_time = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let came = done.wait_timeout(Duration::from_millis(30));
                ended.store(true, Ordering::Relaxed);
                came
            });
            let in_time = wake_in_vain(&done, &ended);
            // Whatever came of it, the waiter ends.
            done.complete();
            assert!(!(in_time && waiter.join().unwrap()), "it was not done");
            in_time
        });
        assert!(in_time, "each wake-up begins the wait anew");
    }

    #[test]
    fn what_completes_at_the_deadline_is_seen_though_the_time_is_over() {
        let done = Completion::new();
        let over = Some(clock::now_ns());
        assert!(!done.wait_until(over));
        done.complete_one();
        assert!(done.wait_until(over));
        assert!(!done.wait_until(over));
    }
}
