//! The timers of the process: one wheel, and one thread that sleeps until the next timer expires.
//! The first timer that is armed starts that thread.
//!
//! **The timer thread calls no code of the program, and holds one entry at a time.** A
//! [reporter](crate::trace::Reporter) thread of its own is started with it. The reporter drops what
//! is left of expired entries, and delivers the warnings. If the timer thread did that itself, all
//! timers of the process would wait for a destructor or a handler, which may itself wait for an
//! item that waits for its timer.
//!
//! A thread that cancels an item searches the wheel and the queues for it. If the timer thread took
//! all entries that are due out of the wheel together, it would have entries in hand that no other
//! thread finds. Whatever it calls meanwhile could then wait for ever for one of those.

use super::wheel::{Key, Wheel};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU64;
use crate::sys::cell;
use crate::sys::fork::{self, Held, ProcessLock};
use crate::sys::park::Parker;
use crate::sys::sync::Mutex;
use crate::sys::{clock, cpu, thread};
use crate::trace::foreign::dispose_elsewhere;
use crate::trace::new_reporter;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

/// The length of a tick as a power of two of nanoseconds: 2^20 ns, 1.05 ms. A timer expires at the
/// beginning of the tick that follows the end of its delay: never too early, and up to a tick late.
const TICK_SHIFT: u32 = 20;

/// The timer state of an item. It is written only under the lock of the wheel.
#[derive(Default)]
#[repr(C)]
pub(crate) struct TimerKey {
    /// The key under which the timer is armed. The key is not cleared when the timer expires,
    /// because the item may be freed by then.
    key: AtomicU64,
    /// When the timer expires or has expired, in milliseconds of the monotonic clock. C programs
    /// read this field directly.
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

    /// Replaces the key of its timer; returns the one before. The timers' lock is held.
    fn replace(&self, key: u64) -> u64 {
        cell::alone(&raw const self.key);
        let before = self.key.load(Ordering::Relaxed);
        self.key.store(key, Ordering::Relaxed);
        before
    }

    /// Notes a timer that was armed. The timers' lock is held.
    fn armed(&self, key: u64, expires_ms: u64) {
        self.replace(key);
        cell::alone(&raw const self.expires_ms);
        self.expires_ms.store(expires_ms, Ordering::Relaxed);
    }

    /// Returns how long it takes until the timer expires, in whole milliseconds, or zero if it has
    /// expired or was stopped. The answer may be out of date when the caller reads it.
    pub(crate) fn time_left(&self) -> Duration {
        if self.key.load(Ordering::Relaxed) == 0 {
            return Duration::ZERO;
        }
        let expires_ms = self.expires_ms.load(Ordering::Relaxed);
        Duration::from_millis(expires_ms.saturating_sub(clock::now_ns() / NS_PER_MS))
    }
}

#[cfg(cmwq_sim)]
impl Drop for TimerKey {
    fn drop(&mut self) {
        cell::used_for_something_else(&raw const self.key);
        cell::used_for_something_else(&raw const self.expires_ms);
    }
}

struct TimersState<T> {
    wheel: Wheel<T>,
    /// The fork generation in which the thread was started, if it was.
    started: Option<u32>,
    /// The tick until which the thread sleeps. A thread that arms an earlier timer wakes it.
    sleeps_until: u64,
}

impl<T> TimersState<T> {
    /// Whether the thread has to be woken for a timer that expires at this tick.
    fn sleeps_past(&self, deadline: u64) -> bool {
        deadline < self.sleeps_until
    }

    fn disarm(&mut self, at: &TimerKey) -> Option<T> {
        match at.replace(0) {
            0 => None,
            key => self.wheel.cancel(Key::unpack(key)),
        }
    }
}

/// The result of an attempt to stop a timer.
pub(crate) enum Disarmed<T> {
    /// The timer was not armed, or has expired.
    Nothing,
    /// The timer expires early enough anyway, and stays armed.
    Kept,
    Taken(T),
}

/// Timers that pass a `T` to a function when they expire. The function calls no code of the
/// program. The reporter drops what it returns.
pub(crate) struct Timers<T: Send + 'static, R: Send + 'static> {
    state: OnceLock<Mutex<TimersState<T>>>,
    parker: OnceLock<Parker>,
    expired: fn(T) -> Option<R>,
    /// Calls [`hold_during_fork`](Self::hold_during_fork) of the static variable that holds this
    /// value.
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

/// Returns the time from `now_ns` until the tick begins, at least 1 ns. A tick beyond the end of
/// the clock never begins.
fn until(tick: u64, now_ns: u64) -> Duration {
    let begins_ns = tick.saturating_mul(1 << TICK_SHIFT);
    Duration::from_nanos(begins_ns.saturating_sub(now_ns).max(1))
}

impl<T: Send + 'static, R: Send + 'static> Timers<T, R> {
    /// Makes timers for a static variable. `hold` calls its
    /// [`hold_during_fork`](Self::hold_during_fork).
    pub(crate) const fn new(expired: fn(T) -> Option<R>, hold: fn() -> Held) -> Self {
        Timers {
            hold,
            state: OnceLock::new(),
            parker: OnceLock::new(),
            expired,
        }
    }

    fn state(&self) -> &Mutex<TimersState<T>> {
        // The lock is taken before the value is made. A thread that forks meanwhile has to wait for
        // it; otherwise the value would stay half made in the child, where a thread that needs it
        // would wait for ever.
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

    /// Holds the locks during a fork. The child has its parent's timers as well. When they expire
    /// there, the queues refuse the items.
    pub(crate) fn hold_during_fork(&'static self) -> Held {
        // The parker is made here, so that no thread is in the middle of making it during a fork.
        self.parker();
        let state = self.state().lock();
        Box::new(|_| drop(state))
    }

    fn parker(&self) -> &Parker {
        self.parker.get_or_init(Parker::new)
    }

    /// Arms `value` to expire when `delay` has passed, and notes its key in `at`. If necessary it
    /// starts the thread, and the reporter that the thread may need. If that is impossible the
    /// caller gets the value back.
    pub(crate) fn arm(&'static self, delay: Duration, at: &TimerKey, value: T) -> Result<(), T> {
        let delay_ns = ns_of(delay);
        let mut state = self.state().lock();
        if state.started != Some(fork::generation()) {
            if self.start().is_err() {
                return Err(value);
            }
            state.started = Some(fork::generation());
        }
        // The deadline lies inside a tick. That tick is over only when the next one has begun.
        let now = clock::now_ns();
        let deadline = tick_of(now.saturating_add(delay_ns)) + 1;
        let key = state.wheel.arm(deadline, value);
        at.armed(key.pack(), expires_ms(now, delay_ns));
        let wakes = state.sleeps_past(deadline);
        drop(state);
        if wakes {
            self.parker().unpark();
        }
        Ok(())
    }

    /// Disarms the timer with the key in `at`, and returns its value. `None`: it is not armed any
    /// more.
    pub(crate) fn disarm(&self, at: &TimerKey) -> Option<T> {
        self.state().lock().disarm(at)
    }

    /// Stops the timer unless it expires within `delay` anyway. In that case it stays armed.
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
        // The thread gets all CPUs of the process. It must not inherit the binding of the issuer
        // that arms the first timer.
        let cpus = cpu::process_cpus().ok();
        let cpus = cpus.map_or_else(thread::current_binding, Ok)?;
        let reporter = new_reporter();
        reporter.ensure_started("cmwq-t-reporter", &cpus)?;
        let speaker = reporter.speaker();
        // The reporter ends together with the timer thread, or at once if that thread cannot be
        // created.
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
            // Handling the expired entries takes time, so further ones may be due now.
            if !any {
                self.parker().park_for(sleep);
            }
        }
    }

    /// Returns the next value that is due. Otherwise returns for how long nothing is due, with
    /// `None` if nothing is armed.
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

    #[test]
    fn the_thread_is_woken_for_a_timer_that_is_earlier_even_by_one_tick() {
        let state = TimersState::<()> {
            wheel: Wheel::new(7),
            started: None,
            sleeps_until: 100,
        };
        assert!(state.sleeps_past(8) && state.sleeps_past(99));
        assert!(!state.sleeps_past(100) && !state.sleeps_past(101));
    }

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
