//! A completion: one thread says "done", others wait for it.

use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::park;
use crate::sys::spin::Allowance;
use std::time::{Duration, Instant};

const OPEN: u32 = 0;
/// Open, and somebody sleeps.
const AWAITED: u32 = 1;
const DONE: u32 = 2;

/// An event that happens once, until it is [`reinit`](Completion::reinit)ialised: the counterpart of the kernel's completion, as a
/// work function signals it and an issuer waits for it.
///
/// [`complete`](Completion::complete) makes no system call when nobody waits. What the completing thread did before
/// `complete` is visible to a thread after its `wait`.
///
/// Unlike the kernel's, which counts, this one stays done for every waiter once completed.
#[derive(Debug)]
pub struct Completion {
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

    /// Whether it is done.
    pub fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) == DONE
    }
}

thread_local! {
    /// How long this thread waits awake before it sleeps.
    static ALLOWANCE: Allowance = const { Allowance::new() };
}

impl Completion {
    /// Makes it done and wakes all who wait.
    pub fn complete(&self) {
        // After the swap a waiter may go on and free the completion: only its address may be used for the wake-up, and a
        // wake-up of a word that is gone is harmless (a private futex is looked up by its address alone).
        let state: *const AtomicU32 = &self.state;
        if self.state.swap(DONE, Ordering::AcqRel) == AWAITED {
            park::wake_all_at(state);
        }
    }

    /// Waits until it is done: first awake, for as long as that has paid off lately, then asleep. On a worker this counts as blocking: the pool runs another in its place.
    pub fn wait(&self) {
        self.wait_until(None);
    }

    /// As [`wait`](Completion::wait), for at most `timeout`. `false`: it is not done yet.
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.wait_until(Instant::now().checked_add(timeout))
    }

    fn wait_until(&self, deadline: Option<Instant>) -> bool {
        if self.is_done() {
            return true;
        }
        // It may be what completes this.
        crate::pool::spawner::let_go();
        if ALLOWANCE.with(|allowance| allowance.wait(|| self.is_done())) {
            return true;
        }
        let _blocked = crate::pool::BlockGuard::enter();
        loop {
            if self
                .state
                .compare_exchange(OPEN, AWAITED, Ordering::AcqRel, Ordering::Acquire)
                == Err(DONE)
            {
                return true;
            }
            let timeout = match deadline {
                None => None,
                Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                    None => return self.is_done(),
                    Some(left) => Some(left),
                },
            };
            park::wait_on(&self.state, AWAITED, timeout);
        }
    }
}

#[cfg(all(test, cmwq_loom))]
mod model {
    use super::Completion;
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
}
