//! The process's timers: one wheel, and one thread that sleeps until the next expiry. The first timer starts it.
//!
//! **The timer thread calls no foreign code, and holds one entry at a time.** A [reporter](crate::trace::Reporter) of its own, started with it, drops what is left of
//! expired entries and delivers the warnings. Otherwise all timers of the process would
//! wait for a destructor or a handler, which may itself wait for an item that waits for its timer. And a thread that cancels an item searches the wheel and
//! the queues for it: if the timer thread took all due entries out of the wheel together, then whatever it calls could wait for ever for one
//! of those that it has not reached.

use super::wheel::{Key, Wheel};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU64;
use crate::sys::fork::{self, Held, ProcessLock};
use crate::sys::park::Parker;
use crate::sys::sync::Mutex;
use crate::sys::{clock, cpu, thread};
use crate::trace::foreign::dispose_elsewhere;
use crate::trace::new_reporter;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

/// One tick, as a power of two of nanoseconds: 1.05 ms. A delay is rounded up to whole ticks after the next, never down.
const TICK_SHIFT: u32 = 20;

/// An item's timer state. Written under the wheel's lock only.
#[derive(Default)]
#[repr(C)]
pub(crate) struct TimerKey {
    /// The key under which it is armed. It stays when the timer expires, since the item may be freed by then.
    key: AtomicU64,
    /// When it expires or has expired, in milliseconds of the clock. C programs read it in place.
    expires_ms: AtomicU64,
}

const NS_PER_MS: u64 = 1_000_000;

impl TimerKey {
    pub(crate) const fn new() -> Self {
        TimerKey {
            key: AtomicU64::new(0),
            expires_ms: AtomicU64::new(0),
        }
    }

    /// How long until it expires, in whole milliseconds; zero if it has expired or was stopped. A hint.
    pub(crate) fn time_left(&self) -> Duration {
        if self.key.load(Ordering::Relaxed) == 0 {
            return Duration::ZERO;
        }
        let expires_ms = self.expires_ms.load(Ordering::Relaxed);
        Duration::from_millis(expires_ms.saturating_sub(clock::now_ns() / NS_PER_MS))
    }
}

struct TimersState<T> {
    wheel: Wheel<T>,
    /// The fork generation in which the thread was started.
    started: Option<u32>,
    /// The tick that the thread sleeps until; an earlier deadline wakes it.
    sleeps_until: u64,
}

impl<T> TimersState<T> {
    fn disarm(&mut self, at: &TimerKey) -> Option<T> {
        match at.key.swap(0, Ordering::Relaxed) {
            0 => None,
            key => self.wheel.cancel(Key::unpack(key)),
        }
    }
}

/// What a timer that was to be stopped was found to be.
pub(crate) enum Disarmed<T> {
    /// It is not armed, or not any more.
    Nothing,
    /// It expires early enough, and stays armed.
    Kept,
    Taken(T),
}

/// Timers that hand a `T` to a function when they expire, which calls no foreign code. The reporter drops what the function returns.
pub(crate) struct Timers<T: Send + 'static, R: Send + 'static> {
    state: OnceLock<Mutex<TimersState<T>>>,
    parker: OnceLock<Parker>,
    expired: fn(T) -> Option<R>,
    /// Calls [`hold_during_fork`](Self::hold_during_fork) of the static that holds this.
    hold: fn() -> Held,
}

fn ns_of(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX)
}

fn expires_ms(now_ns: u64, delay_ns: u64) -> u64 {
    now_ns / NS_PER_MS + delay_ns.div_ceil(NS_PER_MS)
}

fn tick_of(ns: u64) -> u64 {
    ns >> TICK_SHIFT
}

/// The time from `now_ns` until the tick begins; at least 1 ns. A tick beyond the end of the clock never begins.
fn until(tick: u64, now_ns: u64) -> Duration {
    let begins_ns = tick.saturating_mul(1 << TICK_SHIFT);
    Duration::from_nanos(begins_ns.saturating_sub(now_ns).max(1))
}

impl<T: Send + 'static, R: Send + 'static> Timers<T, R> {
    /// For a static; `hold` calls its [`hold_during_fork`](Self::hold_during_fork).
    pub(crate) const fn new(expired: fn(T) -> Option<R>, hold: fn() -> Held) -> Self {
        Timers {
            hold,
            state: OnceLock::new(),
            parker: OnceLock::new(),
            expired,
        }
    }

    fn state(&self) -> &Mutex<TimersState<T>> {
        // Held before it is made: a thread that forks meanwhile has to wait for that, or its child would for ever.
        let initialise = || {
            fork::hold_during_forks(ProcessLock::Timers, self.hold);
            self.state.get_or_init(|| {
                Mutex::new(TimersState {
                    wheel: Wheel::new(tick_of(clock::now_ns())),
                    started: None,
                    sleeps_until: 0,
                })
            })
        };
        self.state.get().unwrap_or_else(initialise)
    }

    /// A fork's child has its parent's timers too; the queues refuse them when they expire.
    pub(crate) fn hold_during_fork(&'static self) -> Held {
        // Made now, so that no thread is in the middle of making the parker during a fork.
        self.parker();
        let state = self.state().lock();
        Box::new(|_| drop(state))
    }

    fn parker(&self) -> &Parker {
        self.parker.get_or_init(Parker::new)
    }

    /// Arms `value` to expire when `delay` has passed, and notes its key. Starts the thread, and the reporter that it may need, if necessary; gives the
    /// value back if that is impossible.
    pub(crate) fn arm(&'static self, delay: Duration, at: &TimerKey, value: T) -> Result<(), T> {
        let delay_ns = ns_of(delay);
        let mut state = self.state().lock();
        if state.started != Some(fork::generation()) {
            if self.start().is_err() {
                return Err(value);
            }
            state.started = Some(fork::generation());
        }
        // The tick in which the deadline lies has passed only when the next has begun.
        let now = clock::now_ns();
        let deadline = tick_of(now.saturating_add(delay_ns)) + 1;
        let key = state.wheel.arm(deadline, value);
        at.key.store(key.pack(), Ordering::Relaxed);
        at.expires_ms
            .store(expires_ms(now, delay_ns), Ordering::Relaxed);
        let earlier = deadline < state.sleeps_until;
        drop(state);
        if earlier {
            self.parker().unpark();
        }
        Ok(())
    }

    /// Takes back what is armed under the key in `at`; `None` if nothing is any more.
    pub(crate) fn disarm(&self, at: &TimerKey) -> Option<T> {
        self.state().lock().disarm(at)
    }

    /// Stops the timer, unless it expires within `delay` anyway; then it stays armed.
    pub(crate) fn disarm_unless_within(&self, delay: Duration, at: &TimerKey) -> Disarmed<T> {
        let mut state = self.state().lock();
        let key = Key::unpack(at.key.load(Ordering::Relaxed));
        let latest_ms = expires_ms(clock::now_ns(), ns_of(delay));
        if state.wheel.is_armed(key) && at.expires_ms.load(Ordering::Relaxed) <= latest_ms {
            return Disarmed::Kept;
        }
        state.disarm(at).map_or(Disarmed::Nothing, Disarmed::Taken)
    }

    fn start(&'static self) -> io::Result<()> {
        // The timer thread must not be bound to the CPU of the issuer that arms the first timer.
        let cpus = cpu::process_cpus().ok();
        let cpus = cpus.map_or_else(thread::current_binding, Ok)?;
        let reporter = new_reporter();
        reporter.ensure_started("cmwq-t-reporter", &cpus)?;
        let speaker = reporter.speaker();
        // The reporter ends when the timer thread does, or at once if that cannot be created.
        reporter.stop();
        thread::spawn_bound("cmwq-timer", &cpus, move || {
            let _speaks = speaker.speak();
            self.run();
        })
    }

    fn run(&self) {
        loop {
            let now_ns = clock::now_ns();
            let mut any = false;
            let sleep = loop {
                match self.next(now_ns) {
                    Ok(value) => {
                        any = true;
                        if let Some(left) = (self.expired)(value) {
                            dispose_elsewhere(left);
                        }
                    }
                    Err(sleep) => break sleep,
                }
            };
            // Expiring takes time: new entries may be due.
            if !any {
                self.parker().park_for(sleep);
            }
        }
    }

    /// The next due value; otherwise how long nothing is due (`None`: nothing is armed).
    fn next(&self, now_ns: u64) -> Result<T, Option<Duration>> {
        let mut state = self.state().lock();
        if let Some(value) = state.wheel.expire(tick_of(now_ns)) {
            return Ok(value);
        }
        let next = state.wheel.next_tick();
        state.sleeps_until = next.unwrap_or(u64::MAX);
        Err(next.map(|tick| until(tick, now_ns)))
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

    #[test]
    fn the_end_of_the_clock_is_far() {
        let now_ns = 1_000 * (1 << TICK_SHIFT) + 5;
        for delay_ns in [u64::MAX, u64::MAX - now_ns, u64::MAX - (1 << TICK_SHIFT)] {
            let deadline = tick_of(now_ns.saturating_add(delay_ns)) + 1;
            assert!(until(deadline, now_ns) > 500 * YEAR, "{delay_ns}");
        }
        assert_eq!(until(1_000, now_ns), Duration::from_nanos(1));
        let tick = Duration::from_nanos(1 << TICK_SHIFT);
        assert_eq!(until(1_001, now_ns), tick - Duration::from_nanos(5));
    }
}
