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

use super::pwq::Pwq;
use crate::pool::COLOURS;
use crate::sys::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

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
        }
        while state.complete <= mine {
            state = self.changed.wait(state);
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

    /// One pool workqueue has no item of `colour` in flight any more.
    pub(crate) fn colour_done(&self, colour: u32) {
        let mut state = self.state.lock();
        self.one_done(&mut state, colour);
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
        }
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
