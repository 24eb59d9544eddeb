//! The process's timers: one wheel, and one thread that sleeps until the next expiry and is not started before the first.

use super::wheel::{Key, Wheel};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU64;
use crate::sys::fork::{self, Held, ProcessLock};
use crate::sys::park::Parker;
use crate::sys::sync::Mutex;
use crate::sys::{clock, thread};
use crate::topology::process_cpus;
use std::sync::OnceLock;
use std::time::Duration;

/// One tick, as a power of two of nanoseconds: 1.05 ms. A delay is rounded up to whole ticks after the next, never down.
const TICK_SHIFT: u32 = 20;

/// Where an item keeps the key of its armed timer. Read and written under the wheel's lock only.
#[derive(Default)]
#[repr(transparent)]
pub(crate) struct TimerKey(AtomicU64);

impl TimerKey {
    pub(crate) const fn new() -> Self {
        TimerKey(AtomicU64::new(0))
    }
}

struct State<T> {
    wheel: Wheel<T>,
    /// The fork generation in which the thread was started.
    started: Option<u32>,
    /// The tick that the thread sleeps until; an earlier deadline wakes it.
    sleeps_until: u64,
}

/// Timers that hand a `T` to a function when they expire.
pub(crate) struct Timers<T: Send + 'static> {
    state: OnceLock<Mutex<State<T>>>,
    parker: OnceLock<Parker>,
    expired: fn(T),
    /// Calls [`hold_during_fork`](Self::hold_during_fork) of the static that it is.
    hold: fn() -> Held,
}

fn tick_of(ns: u64) -> u64 {
    ns >> TICK_SHIFT
}

impl<T: Send + 'static> Timers<T> {
    /// For a static; `hold` calls its [`hold_during_fork`](Self::hold_during_fork).
    pub(crate) const fn new(expired: fn(T), hold: fn() -> Held) -> Self {
        Timers {
            hold,
            state: OnceLock::new(),
            parker: OnceLock::new(),
            expired,
        }
    }

    fn state(&self) -> &Mutex<State<T>> {
        self.state.get_or_init(|| {
            fork::hold_during_forks(ProcessLock::Timers, self.hold);
            let wheel = Wheel::new(tick_of(clock::now_ns()));
            Mutex::new(State {
                wheel,
                started: None,
                sleeps_until: 0,
            })
        })
    }

    /// The timers of a fork's parent are the child's too; they are refused when they expire.
    pub(crate) fn hold_during_fork(&'static self) -> Held {
        // No thread is to be in the middle of making it.
        self.parker();
        let state = self.state().lock();
        Box::new(|_| drop(state))
    }

    fn parker(&self) -> &Parker {
        self.parker.get_or_init(Parker::new)
    }

    /// Arms `value` to expire when `delay` has passed, and notes its key. Starts the thread if need be; if it cannot be
    /// started, the value is given back.
    pub(crate) fn arm(&'static self, delay: Duration, at: &TimerKey, value: T) -> Result<(), T> {
        let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        let mut state = self.state().lock();
        if state.started != Some(fork::generation()) {
            if thread::spawn("cmwq-timer", move || self.run()).is_err() {
                return Err(value);
            }
            state.started = Some(fork::generation());
        }
        // The tick in which the deadline lies has passed only when the next has begun.
        let deadline = tick_of(clock::now_ns().saturating_add(delay_ns)) + 1;
        let key = state.wheel.arm(deadline, value);
        at.0.store(key.pack(), Ordering::Relaxed);
        let earlier = deadline < state.sleeps_until;
        drop(state);
        if earlier {
            self.parker().unpark();
        }
        Ok(())
    }

    /// Takes back what is armed under the key that `at` holds; `None` if nothing is any more.
    pub(crate) fn disarm(&self, at: &TimerKey) -> Option<T> {
        let mut state = self.state().lock();
        match at.0.swap(0, Ordering::Relaxed) {
            0 => None,
            key => state.wheel.cancel(Key::unpack(key)),
        }
    }

    fn run(&self) {
        // Not the one CPU of an issuer that armed the first timer.
        if let Ok(cpus) = process_cpus() {
            let _ = thread::bind_current(&cpus);
        }
        loop {
            let mut due = Vec::new();
            let now = clock::now_ns();
            let sleep = {
                let mut state = self.state().lock();
                state.wheel.advance(tick_of(now), |value| due.push(value));
                let next = state.wheel.next_tick();
                state.sleeps_until = next.unwrap_or(u64::MAX);
                next.map(|tick| {
                    Duration::from_nanos((tick << TICK_SHIFT).saturating_sub(now).max(1))
                })
            };
            if due.is_empty() {
                self.parker().park_for(sleep);
                continue;
            }
            for value in due {
                // Ours does not panic, but what it drops may be the user's.
                let expire = std::panic::AssertUnwindSafe(|| (self.expired)(value));
                let _ = std::panic::catch_unwind(expire);
            }
        }
    }
}
