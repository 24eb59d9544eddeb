//! Flush generations: waiting for all items that were accepted before.
//!
//! Every item carries the *colour* (a number from 0 to 15) that was current when the item was
//! accepted. A flush makes the next colour current in every pool workqueue of the queue, and waits
//! until no item of the old colour is in flight. That is one *generation*. Generations complete in
//! order, so a flush also waits for all older ones. A producer that queues without pause cannot
//! hold a flush up, because its later items have the next colour.
//!
//! There are 16 colours, so at most 15 generations are outstanding. A flush that finds no free
//! colour waits for one. If another flush begins a generation meanwhile, that generation covers the
//! waiting flush as well, so many flushes share one generation.
//!
//! **Which items does a flush cover?** It covers all items whose `queue()` returned before the
//! flush was called. These items were published, and the flush accepts them before it begins or
//! joins a generation. So they have the colour of that generation or of an older one. There may be
//! many of them. Therefore the flush accepts them before it takes its lock, which workers need when
//! an item ends.
//!
//! A task may await a flush as well ([`FlushGenerations::poll`]). Under one and the same lock the
//! task either leaves its waker or finds its generation complete, so it misses no completion. The
//! thread that completes a generation takes all wakers while it holds the lock. Its caller calls
//! them after it has released the lock, because a waker is code of the program.

use super::pwq::Pwq;
use crate::pool::{COLOURS, Pool};
use crate::sys::clock;
use crate::sys::sync::{Condvar, Mutex, MutexGuard};
use crate::trace::{Foreign, warn_once};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// The wakers of tasks that can go on.
pub(crate) type Woken = Vec<Foreign<Waker>>;

#[derive(Default)]
pub(crate) struct FlushGenerations {
    state: Mutex<FlushState>,
    changed: Condvar,
}

#[derive(Default)]
struct FlushState {
    /// The colour that is current.
    colour: u32,
    /// How many generations have begun, and how many are complete, since the queue was made.
    /// Generation number n is complete when `complete > n`.
    begun: u64,
    complete: u64,
    /// The outstanding generations, oldest first.
    outstanding: VecDeque<Generation>,
    /// The wakers of tasks that wait for the next completion, each with the number of its
    /// [`Awaited`].
    tasks: BTreeMap<u64, Foreign<Waker>>,
    /// The number that the next task gets.
    next_task: u64,
}

/// When a drop that waits warns that it does, and of which queue.
pub(crate) struct Notice<'a> {
    pub(crate) due_ns: u64,
    pub(crate) queue: &'a str,
}

impl Notice<'_> {
    /// Warns, the first time in the process.
    fn say(self) {
        warn_once!(
            "the drop of workqueue {} waits for its items; shut it down with shutdown(), which can \
             be awaited and has a deadline, before the last handle is dropped",
            self.queue
        );
    }
}

/// An awaited flush.
#[derive(Default)]
pub(crate) struct Awaited {
    /// The number of the generation that covers this flush: the first one that begins after the
    /// first poll. `None`: it was not polled yet.
    mine: Option<u64>,
    /// The number under which the waker of the task is kept.
    task: Option<u64>,
}

struct Generation {
    colour: u32,
    /// How many pool workqueues have items of the colour in flight, plus one while the generation
    /// is being begun.
    busy: usize,
}

impl FlushState {
    /// Whether a generation may begin. The colour that is current then is that of no outstanding one.
    fn has_free_colour(&self) -> bool {
        self.outstanding.len() < COLOURS - 1
    }
}

impl FlushGenerations {
    /// Calls `f` with the current colour. No generation begins meanwhile.
    pub(crate) fn with_colour<R>(&self, f: impl FnOnce(u32) -> R) -> R {
        f(self.state.lock().colour)
    }

    /// Waits for every item that the pool workqueues `members()` have accepted before the call.
    pub(crate) fn run(&self, members: impl Fn() -> Vec<Arc<Pwq>>) {
        self.run_and_say(members, &mut None);
    }

    /// Waits as [`run`](Self::run) does, and says so once if that lasts.
    pub(crate) fn run_and_say(
        &self,
        members: impl Fn() -> Vec<Arc<Pwq>>,
        notice: &mut Option<Notice<'_>>,
    ) {
        for pwq in members() {
            drop(pwq.pool.lock_accepting());
        }
        let mut state = self.state.lock();
        // The first generation that begins after this point covers this caller.
        let mine = state.begun;
        while state.begun == mine && !state.has_free_colour() {
            state = self.wait_for_change(state, notice);
        }
        if state.begun == mine {
            self.begin(&mut state, members());
        }
        while state.complete <= mine {
            state = self.wait_for_change(state, notice);
        }
    }

    /// Waits once, at most until the notice is due. May return without a change.
    fn wait_for_change<'a>(
        &'a self,
        state: MutexGuard<'a, FlushState>,
        notice: &mut Option<Notice<'_>>,
    ) -> MutexGuard<'a, FlushState> {
        let Some(due_ns) = notice.as_ref().map(|notice| notice.due_ns) else {
            return self.changed.wait(state);
        };
        let left_ns = due_ns.saturating_sub(clock::now_ns());
        if left_ns > 0 {
            return self.changed.wait_for(state, Duration::from_nanos(left_ns));
        }
        // The handler of warnings is code of the program, so it runs without the lock.
        drop(state);
        if let Some(notice) = notice.take() {
            notice.say();
        }
        self.state.lock()
    }

    /// Polls an awaited flush, which begins with the first call. `true`: every item that the pool
    /// workqueues `members()` had accepted before the first call has ended. `false`: `waker` will
    /// be woken when the caller should call again.
    ///
    /// The caller holds no lock, because cloning and dropping a waker is code of the program.
    pub(crate) fn poll(
        &self,
        awaited: &mut Awaited,
        members: impl Fn() -> Vec<Arc<Pwq>>,
        waker: &Waker,
    ) -> bool {
        if awaited.mine.is_none() {
            for pwq in members() {
                drop(pwq.pool.lock_accepting());
            }
        }
        let mut waker = Some(Foreign::new(waker.clone()));
        let mut state = self.state.lock();
        let mine = *awaited.mine.get_or_insert(state.begun);
        if state.begun == mine && state.has_free_colour() {
            self.begin(&mut state, members());
        }
        let complete = state.complete > mine;
        let own = awaited.task.take();
        let own = own.and_then(|task| state.tasks.remove(&task));
        if !complete && let Some(waker) = waker.take() {
            let task = state.next_task;
            state.next_task += 1;
            state.tasks.insert(task, waker);
            awaited.task = Some(task);
        }
        drop(state);
        drop(own);
        complete
    }

    /// Removes the waker of a task that does not wait any more.
    pub(crate) fn forget(&self, awaited: &mut Awaited) {
        if let Some(task) = awaited.task.take() {
            let waker = self.state.lock().tasks.remove(&task);
            drop(waker);
        }
    }

    fn begin(&self, state: &mut FlushState, members: Vec<Arc<Pwq>>) {
        let old = state.colour;
        let next = (old + 1) % COLOURS as u32;
        let in_use = |other: &Generation| other.colour == next;
        debug_assert!(
            !state.outstanding.iter().any(in_use),
            "colour {next} is in use"
        );
        state.colour = next;
        state.begun += 1;
        state.outstanding.push_back(Generation {
            colour: old,
            busy: 1,
        });
        // A worker that calls `colour_done` for this generation waits for the lock of the state, so
        // it cannot complete the generation meanwhile.
        let mut busy = 0;
        for pwq in members {
            let mut guard = pwq.pool.lock();
            busy += usize::from(guard.advance_colour(pwq.key, old, next));
        }
        if let Some(generation) = state.outstanding.back_mut() {
            generation.busy += busy;
        }
        // The new generation completes at once only if no older one is outstanding. Then no task is
        // registered, because a task waits only while a generation is outstanding.
        let woken = self.one_done(state, old);
        debug_assert!(
            woken.is_empty(),
            "a task waits though no generation is outstanding"
        );
    }

    /// Notes that one pool workqueue has no item of `colour` in flight any more. The caller wakes
    /// the returned tasks.
    #[must_use]
    pub(crate) fn colour_done(&self, colour: u32) -> Woken {
        self.one_done(&mut self.state.lock(), colour)
    }

    /// Completes the generations that are done now; returns the tasks that waited for that.
    fn one_done(&self, state: &mut FlushState, colour: u32) -> Woken {
        if let Some(generation) = state
            .outstanding
            .iter_mut()
            .find(|generation| generation.colour == colour)
        {
            generation.busy -= 1;
        }
        let before = state.complete;
        while state
            .outstanding
            .front()
            .is_some_and(|generation| generation.busy == 0)
        {
            state.outstanding.pop_front();
            state.complete += 1;
        }
        if state.complete == before {
            return Woken::new();
        }
        self.changed.notify_all();
        std::mem::take(&mut state.tasks).into_values().collect()
    }
}

/// Wakes these tasks. The caller holds no lock and owns no claimed item.
pub(crate) fn wake(woken: Woken) {
    for waker in woken {
        Pool::wake_task(Box::new(waker));
    }
}

/// Whether a drain warns that it takes long after it has flushed this many times. It warns as often
/// as the kernel does.
pub(crate) fn says_that_it_takes_long(flushes: u32) -> bool {
    flushes == 10 || (flushes.is_multiple_of(100) && flushes <= 1000)
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::says_that_it_takes_long;

    #[test]
    fn a_drain_says_that_it_takes_long_after_10_flushes_and_every_100_up_to_1000() {
        let said: Vec<u32> = (1..100_000)
            .filter(|&n| says_that_it_takes_long(n))
            .collect();
        let expected = [10, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000];
        assert_eq!(said, expected);
    }
}
