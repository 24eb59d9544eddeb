//! Flush generations: waiting for all items accepted before.
//!
//! Every item carries the colour that was current when it was accepted. A flush makes the next colour current on every pool workqueue of
//! the queue, and waits until no item of the old colour is in flight: one *generation*. Generations complete in order, so a flush waits for
//! all older ones too. A steady producer cannot hold it up: its items have the next colour.
//!
//! There are 16 colours, so at most 15 generations are outstanding. A flusher that finds no free colour waits for one; if another flusher
//! begins a generation after it arrived, that generation covers it as well, so many flushers share one.
//!
//! **Which items does a flush cover?** All whose `queue()` returned before: they were published, and the flusher accepts them before a generation begins
//! that covers it, so under this generation's colour or an older one. There may be many, so it does that before it takes the lock of the flush, which
//! workers that end an item need.
//!
//! A flush may also be awaited ([`Flush::poll`]). Under the same lock a task leaves its waker or finds its generation complete, so no
//! completion passes between the two. The lock holder that completes a generation takes all wakers, and its caller calls them after the
//! unlock: a waker is the program's code.

use super::pwq::Pwq;
use crate::pool::{COLOURS, Pool};
use crate::sys::sync::{Condvar, Mutex};
use crate::trace::Foreign;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

/// The wakers of tasks that may go on.
pub(crate) type Woken = Vec<Foreign<Waker>>;

#[derive(Default)]
pub(crate) struct Flush {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The colour that is current.
    colour: u32,
    /// Generations begun and complete since the queue was made. Generation number n is complete when `complete > n`.
    begun: u64,
    complete: u64,
    /// The outstanding generations, oldest first.
    outstanding: VecDeque<Generation>,
    /// The wakers of tasks that wait for the next change, each with the number of its [`Awaited`].
    tasks: BTreeMap<u64, Foreign<Waker>>,
    /// The wakers that the lock holder has to call after the unlock.
    woken: Woken,
    /// The number of the next task.
    next_task: u64,
}

/// An awaited flush.
#[derive(Default)]
pub(crate) struct Awaited {
    /// The first generation that began after this one was polled covers it; `None`: not polled yet.
    mine: Option<u64>,
    /// The number under which its waker is kept.
    task: Option<u64>,
}

struct Generation {
    colour: u32,
    /// Pool workqueues with items of the colour in flight, plus one while the generation is being begun.
    busy: usize,
}

impl Flush {
    /// Calls `f` with the current colour; no generation begins meanwhile.
    pub(crate) fn with_colour<R>(&self, f: impl FnOnce(u32) -> R) -> R {
        f(self.state.lock().colour)
    }

    /// Waits for every item that was accepted by `members()` before the call.
    pub(crate) fn run(&self, members: impl Fn() -> Vec<Arc<Pwq>>) {
        for pwq in members() {
            drop(pwq.pool.lock_accepting());
        }
        let mut state = self.state.lock();
        // The first generation that begins after this covers this caller.
        let mine = state.begun;
        while state.begun == mine && state.outstanding.len() == COLOURS - 1 {
            state = self.changed.wait(state);
        }
        if state.begun == mine {
            self.begin(&mut state, members());
            let woken = std::mem::take(&mut state.woken);
            if !woken.is_empty() {
                drop(state);
                wake(woken);
                state = self.state.lock();
            }
        }
        while state.complete <= mine {
            state = self.changed.wait(state);
        }
    }

    /// Begins an awaited flush at the first call. `true`: every item that was accepted by `members()` before that call has ended. `false`:
    /// `waker` will be woken when it is worth another call.
    ///
    /// The caller holds no lock: wakers of other tasks may be called here.
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
        // The clone and the drop of a waker are the program's code: outside of the lock.
        let mut waker = Some(Foreign::new(waker.clone()));
        let mut state = self.state.lock();
        let mine = *awaited.mine.get_or_insert(state.begun);
        if state.begun == mine && state.outstanding.len() < COLOURS - 1 {
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
        let woken = std::mem::take(&mut state.woken);
        drop(state);
        drop(own);
        wake(woken);
        complete
    }

    /// The task does not wait any more.
    pub(crate) fn forget(&self, awaited: &mut Awaited) {
        if let Some(task) = awaited.task.take() {
            let waker = self.state.lock().tasks.remove(&task);
            drop(waker);
        }
    }

    fn begin(&self, state: &mut State, members: Vec<Arc<Pwq>>) {
        let old = state.colour;
        let next = (old + 1) % COLOURS as u32;
        state.colour = next;
        state.begun += 1;
        state.outstanding.push_back(Generation {
            colour: old,
            busy: 1,
        });
        // `colour_done` for this generation has to wait for the state's lock.
        let mut busy = 0;
        for pwq in members {
            let mut guard = pwq.pool.lock();
            busy += usize::from(guard.advance_colour(pwq.key, old, next));
        }
        if let Some(generation) = state.outstanding.back_mut() {
            generation.busy += busy;
        }
        self.one_done(state, old);
    }

    /// One pool workqueue has no item of `colour` in flight any more. The caller wakes these tasks.
    #[must_use]
    pub(crate) fn colour_done(&self, colour: u32) -> Woken {
        let mut state = self.state.lock();
        self.one_done(&mut state, colour);
        std::mem::take(&mut state.woken)
    }

    fn one_done(&self, state: &mut State, colour: u32) {
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
        if state.complete != before {
            self.changed.notify_all();
            let State { tasks, woken, .. } = state;
            woken.extend(std::mem::take(tasks).into_values());
        }
    }
}

/// Wakes these tasks, by a caller that holds no lock and owns no claimed item.
pub(crate) fn wake(woken: Woken) {
    for waker in woken {
        Pool::wake_task(Box::new(waker));
    }
}

/// Whether a drain warns, after this many flushes that found more to do, that it takes long: as often as the kernel does.
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
