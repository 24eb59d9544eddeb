//! What an issuer shares with the thread that measures, and what it counts.

use crate::histogram::Histogram;
use crate::{Alone, Machine};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The window before the first that counts.
const WARMING_UP: u32 = 0;
/// After the last window.
pub(crate) const STOPPED: u32 = u32::MAX;

/// What all issuers look at before every round.
pub(crate) struct Control {
    /// The number of the time window.
    pub(crate) window: Alone<AtomicU32>,
    /// Items of each issuer so far: those of a round count as they run, others when the issuer
    /// learns of it.
    pub(crate) done: Vec<&'static Alone<AtomicU64>>,
}

impl Control {
    pub(crate) fn new(issuers: usize) -> Control {
        Control {
            window: Alone(AtomicU32::new(WARMING_UP)),
            done: (0..issuers).map(|_| &*Box::leak(Box::default())).collect(),
        }
    }

    /// Whether the run has not been stopped.
    pub(crate) fn goes_on(&self) -> bool {
        self.window.0.load(Relaxed) != STOPPED
    }

    /// Items of all issuers so far.
    pub(crate) fn total(&self) -> u64 {
        self.done.iter().map(|done| done.0.load(Relaxed)).sum()
    }
}

/// What an issuer counts.
pub(crate) struct Tally {
    windows: Vec<Times>,
    /// The window that it is in.
    window: usize,
    done: u64,
    pub(crate) held_back: u64,
    /// Why the run counts for nothing.
    pub(crate) wrong: Option<String>,
}

#[derive(Clone)]
pub(crate) struct Times {
    pub(crate) start: Histogram,
    pub(crate) done: Histogram,
    pub(crate) ended: Histogram,
    pub(crate) queue: Histogram,
}

impl Times {
    pub(crate) fn new() -> Times {
        Times {
            start: Histogram::new(),
            done: Histogram::new(),
            ended: Histogram::new(),
            queue: Histogram::new(),
        }
    }

    pub(crate) fn add_all(&mut self, other: &Times) {
        self.start.add_all(&other.start);
        self.done.add_all(&other.done);
        self.ended.add_all(&other.ended);
        self.queue.add_all(&other.queue);
    }
}

impl Tally {
    pub(crate) fn new() -> Tally {
        Tally {
            windows: vec![Times::new()],
            window: 0,
            done: 0,
            held_back: 0,
            wrong: None,
        }
    }

    /// Says which window it is; `false`: the issuer is to stop.
    pub(crate) fn go_on(&mut self, control: &Control) -> bool {
        let window = control.window.0.load(Relaxed);
        if window == STOPPED {
            return false;
        }
        self.window = window as usize;
        if self.windows.len() <= self.window {
            self.windows.resize_with(self.window + 1, Times::new);
        }
        true
    }

    /// Items have run, and the issuer knows.
    pub(crate) fn count(&mut self, items: u64, number: usize, control: &Control) {
        self.done += items;
        control.done[number].0.store(self.done, Relaxed);
    }

    /// The times of the current window.
    pub(crate) fn times(&mut self) -> &mut Times {
        &mut self.windows[self.window]
    }

    /// The times of that window, if the issuer was in it.
    pub(crate) fn of_window(&self, window: usize) -> Option<&Times> {
        self.windows.get(window)
    }
}

/// Runs an item: it sleeps and computes.
pub(crate) fn work<M: Machine>(machine: &M, (compute_ns, sleep_ns): (u64, u64)) {
    let began = machine.item_begins();
    if sleep_ns > 0 {
        machine.sleep(sleep_ns);
    }
    if compute_ns > 0 {
        machine.compute(compute_ns);
    }
    machine.item_ends(began);
}

/// Numbers that nobody foresees, the same for the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A gap between two arrivals, with this mean.
    pub(crate) fn gap(&mut self, mean_ns: f64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let unit = ((self.0 >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
        (-unit.ln() * mean_ns) as u64
    }
}
