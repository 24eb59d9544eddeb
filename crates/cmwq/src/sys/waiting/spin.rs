//! Waiting awake for a little while, when that has paid off lately.
//!
//! Going to sleep and being woken costs the sleeper's and the waker's system call and, across CPUs, an interrupt and an
//! idle exit: 5 us on one CPU, 70 us across two on the virtual machine of docs/lab. Waiting awake costs the CPU.
//! The classic rule is to wait awake about as long as a sleep would cost; here the allowance also adapts: it doubles when
//! what was waited for came in time and halves when it did not, down to nothing, so a process whose work is rare does
//! not burn its CPUs. A spent allowance is tried again now and then, ever more rarely while that fails.
//!
//! Between two bouts of looking the waiter yields: if the one it waits for wants the same CPU, that one runs at once.
//! How long a bout is adapts too: short where what is waited for tends to be there right after a yield (both sides share
//! a CPU), long where it comes by itself (the other side is awake on another CPU, and a yield would only delay the answer). While bouts
//! are short, one in several is long: or where several waiters share a CPU, each would find its answer after the yield to another, for ever.
//!
//! A wait with a deadline ends awake only as long as that is far: a thread that yields gets its CPU back after the time slices of all others there, but
//! one that sleeps is woken by a timer.
//!
//! What a yield takes because others that wait awake on this CPU have their [turns](super::turns) is not the waiter's time: with more such threads than CPUs each
//! one gets its answers without a switch for a whole time slice, instead of all of them sleeping and waking each other.
#![forbid(unsafe_code)]

use super::turns::Turns;
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;
use crate::sys::{clock, task};

/// The longest wait, in ns: twice what a sleep and a wake-up across CPUs cost where they are dear.
const MAX_NS: u32 = 160_000;
/// A wait that took this long, though no allowance does, was interrupted: by the host of a virtual machine, or by somebody else's
/// time slice.
const TAKEN_AWAY_NS: u64 = 1_000_000;
/// Once in a while that means nothing. Each such wait counts this much, each other one takes one off, and at the bound somebody else wants
/// the CPU all the time: who yields it gets it back after a whole time slice, and who sleeps gets it when he is woken.
const TAKEN_AWAY: u32 = 16;
const TAKEN_AWAY_OFTEN: u32 = 3 * TAKEN_AWAY;
/// So long before its deadline a wait does not yield any more: a few time slices.
const NEAR_NS: u64 = 20_000_000;
/// Below this an allowance counts as spent.
const MIN_NS: u32 = 2_000;
/// A spent allowance is tried again after this many waits at first, and after more with every failure.
const FIRST_PROBE_AFTER: u32 = 16;
const LAST_PROBE_AFTER: u32 = 256;
/// A trial that was interrupted has cost a time slice.
const LAST_PROBE_AFTER_TAKEN_AWAY: u32 = 2048;
/// A yield that took longer was no mere hand-over: somebody has had the CPU for a while.
const AWAY_NS: u64 = 20_000;
/// So many turns meanwhile, and it was others that wait, and get on.
const MANY_TURNS: u32 = 8;
/// Looks in one bout, of some 15 to 60 ns each: a pause takes 10 or 140 cycles, according to the processor.
pub(crate) const MIN_LOOKS: u32 = 2;
pub(crate) const MAX_LOOKS: u32 = 256;
/// The same for workers. One that yields because the next item comes a little late may give its CPU to several waiters, none of whom is answered before it is back.
pub(crate) const MAX_LOOKS_OF_WORKERS: u32 = 4 * MAX_LOOKS;
/// While bouts are shorter, every so many is a long one.
const LONG_BOUT_EVERY: u32 = 8;

/// How long to wait awake. Shared by threads: a lost update only delays the adapting.
pub(crate) struct Allowance {
    ns: AtomicU32,
    /// Waits refused since the last probe, and how many make the next one due.
    refused: AtomicU32,
    probe_after: AtomicU32,
    looks: AtomicU32,
    /// In the longest bout.
    max_looks: u32,
    /// Bouts shorter than the longest.
    bouts: AtomicU32,
    taken_away: AtomicU32,
}

/// Stores what nearly always is there already: then the line stays with all who read it.
#[inline]
fn set(word: &AtomicU32, value: u32) {
    if word.load(Ordering::Relaxed) != value {
        word.store(value, Ordering::Relaxed);
    }
}

/// What a wait may cost.
struct Budget {
    ns: u32,
    /// The allowance was spent: this is to find out whether it would pay again.
    probe: bool,
}

impl Allowance {
    /// For a waiter that does not know where the other side runs.
    pub(crate) const fn new() -> Self {
        Allowance {
            ns: AtomicU32::new(MAX_NS),
            refused: AtomicU32::new(0),
            probe_after: AtomicU32::new(FIRST_PROBE_AFTER),
            looks: AtomicU32::new(MAX_LOOKS),
            max_looks: MAX_LOOKS,
            bouts: AtomicU32::new(0),
            taken_away: AtomicU32::new(0),
        }
    }

    /// For one whose longest bouts have so many `looks`.
    pub(crate) const fn up_to(looks: u32) -> Self {
        Allowance {
            looks: AtomicU32::new(looks),
            max_looks: looks,
            ..Self::new()
        }
    }

    /// Waits awake until `done` says so; `false` when the allowance ran out first.
    pub(crate) fn wait(&self, done: impl FnMut() -> bool) -> bool {
        self.wait_yielding(None, done, task::yield_now)
    }

    /// As [`wait`](Self::wait); `false` also when the deadline, by [`clock::now_ns`], is near.
    pub(crate) fn wait_until(&self, deadline_ns: Option<u64>, done: impl FnMut() -> bool) -> bool {
        self.wait_yielding(deadline_ns, done, task::yield_now)
    }

    fn wait_yielding(
        &self,
        deadline_ns: Option<u64>,
        mut done: impl FnMut() -> bool,
        mut yield_now: impl FnMut(),
    ) -> bool {
        if done() {
            return true;
        }
        if cfg!(cmwq_loom) {
            return false;
        }
        let Some(budget) = self.budget() else {
            return false;
        };
        let (looks, after_a_yield) = self.bout();
        let turns = Turns::here();
        turns.take_one();
        let mut start = clock::now_ns();
        loop {
            for _ in 0..looks {
                task::pause();
                if done() {
                    return self.paid_off(&budget, looks * 2);
                }
            }
            let (yielded, turns_before) = (clock::now_ns(), turns.number());
            if deadline_ns.is_some_and(|deadline| deadline.saturating_sub(yielded) < NEAR_NS) {
                // That says nothing of the allowance.
                return false;
            }
            yield_now();
            let now = clock::now_ns();
            let away = now - yielded;
            let theirs = away > AWAY_NS && turns.number().wrapping_sub(turns_before) >= MANY_TURNS;
            if theirs {
                start += away;
            }
            let waited = now - start;
            if waited > TAKEN_AWAY_NS {
                self.was_taken_away(&budget);
                return done();
            }
            if done() {
                // It may have been there for long.
                let unchanged = self.looks.load(Ordering::Relaxed);
                return self.paid_off(&budget, if theirs { unchanged } else { after_a_yield });
            }
            if waited >= u64::from(budget.ns) {
                self.ns.store(budget.ns / 2, Ordering::Relaxed);
                return false;
            }
        }
    }

    /// Whether what was waited for is done by now or not, says nothing.
    #[cold]
    fn was_taken_away(&self, budget: &Budget) {
        let taken_away = self.taken_away.load(Ordering::Relaxed) + TAKEN_AWAY;
        let often = taken_away >= TAKEN_AWAY_OFTEN;
        if often || budget.probe {
            self.ns.store(0, Ordering::Relaxed);
            self.probe_later(4, LAST_PROBE_AFTER_TAKEN_AWAY);
        }
        let counted = if often { 0 } else { taken_away };
        self.taken_away.store(counted, Ordering::Relaxed);
    }

    fn paid_off(&self, budget: &Budget, looks: u32) -> bool {
        let taken_away = self.taken_away.load(Ordering::Relaxed);
        if taken_away > 0 {
            self.taken_away.store(taken_away - 1, Ordering::Relaxed);
        }
        set(&self.looks, looks.clamp(MIN_LOOKS, self.max_looks));
        set(&self.ns, (budget.ns * 2).min(MAX_NS));
        // Forgotten slowly: where somebody else's work takes the CPU now and then, most waits still pay.
        let probe_after = self.probe_after.load(Ordering::Relaxed);
        let less = if budget.probe { probe_after / 2 } else { 1 };
        set(
            &self.probe_after,
            (probe_after - less).max(FIRST_PROBE_AFTER),
        );
        true
    }

    /// How many looks a bout has, and how many the next one shall have if what is waited for is there only after the yield.
    fn bout(&self) -> (u32, u32) {
        let looks = self.looks.load(Ordering::Relaxed);
        if looks == self.max_looks {
            return (looks, looks / 2);
        }
        let bouts = self.bouts.load(Ordering::Relaxed).wrapping_add(1);
        self.bouts.store(bouts, Ordering::Relaxed);
        // Short bouts never find out that a longer one would do.
        match bouts.is_multiple_of(LONG_BOUT_EVERY) {
            true => (looks.max(MAX_LOOKS), looks),
            false => (looks, looks / 2),
        }
    }

    fn budget(&self) -> Option<Budget> {
        let ns = self.ns.load(Ordering::Relaxed);
        if ns >= MIN_NS {
            return Some(Budget { ns, probe: false });
        }
        let refused = self.refused.load(Ordering::Relaxed) + 1;
        let probe_after = self.probe_after.load(Ordering::Relaxed);
        if refused < probe_after {
            self.refused.store(refused, Ordering::Relaxed);
            return None;
        }
        self.refused.store(0, Ordering::Relaxed);
        self.probe_later(2, LAST_PROBE_AFTER);
        Some(Budget {
            ns: MAX_NS,
            probe: true,
        })
    }

    fn probe_later(&self, times: u32, at_most: u32) {
        let probe_after = self.probe_after.load(Ordering::Relaxed);
        if probe_after < at_most {
            self.probe_after
                .store((probe_after * times).min(at_most), Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::sys::{cpu, thread};
    use crate::topology::CpuSet;
    use std::cell::Cell;

    fn taken_away(allowance: &Allowance) {
        let budget = allowance.budget().expect("it waits awake");
        allowance.was_taken_away(&budget);
    }

    fn paid_off(allowance: &Allowance) {
        let budget = allowance.budget().expect("it waits awake");
        allowance.paid_off(&budget, MIN_LOOKS);
    }

    /// Waits refused until one is a probe.
    fn refusals(allowance: &Allowance) -> u32 {
        let mut refused = 0;
        while allowance.budget().is_none() {
            refused += 1;
        }
        refused
    }

    #[test]
    fn a_wait_that_is_interrupted_once_in_a_while_says_nothing() {
        let allowance = Allowance::new();
        for _ in 0..100 {
            taken_away(&allowance);
            for _ in 0..TAKEN_AWAY {
                paid_off(&allowance);
            }
        }
    }

    #[test]
    fn the_time_of_others_that_wait_and_get_on_is_not_the_waiters() {
        let cpu = cpu::current().unwrap_or(0);
        thread::bind_current(&CpuSet::from_iter([cpu])).expect("it runs there");
        // Yields take far longer than any allowance, and others have so many turns meanwhile.
        let wait = |allowance: &Allowance, turns: u32| {
            let yields = Cell::new(0);
            let yield_now = || {
                yields.set(yields.get() + 1);
                (0..turns).for_each(|_| Turns::here().take_one());
                let from = clock::now_ns();
                while clock::now_ns() - from <= TAKEN_AWAY_NS {}
            };
            (
                allowance.wait_yielding(None, || yields.get() == 3, yield_now),
                yields.get(),
            )
        };
        // What a host takes from a look, and other tests on this CPU, may spoil some.
        let comes_out = |turns, result, taken_away| {
            (0..20).any(|_| {
                let allowance = Allowance::new();
                let result_now = wait(&allowance, turns);
                // What was there after the time of others may have been there for long: that says nothing of the bouts.
                assert_eq!(allowance.looks.load(Ordering::Relaxed), MAX_LOOKS);
                result_now == result && allowance.taken_away.load(Ordering::Relaxed) == taken_away
            })
        };
        assert!(comes_out(MANY_TURNS, (true, 3), 0));
        // Somebody who computes: it ends with the first yield.
        assert!(comes_out(MANY_TURNS - 1, (false, 1), TAKEN_AWAY));
    }

    /// By threads that wait as well, and get on: without a deadline their time does not count.
    fn waits_while_others_get_on(deadline_ns: Option<u64>) -> (bool, u32) {
        const MOST: u32 = 200;
        let allowance = Allowance::new();
        let yields = Cell::new(0);
        let done = allowance.wait_yielding(
            deadline_ns,
            || yields.get() == MOST,
            || {
                yields.set(yields.get() + 1);
                (0..MANY_TURNS).for_each(|_| Turns::here().take_one());
                let from = clock::now_ns();
                while clock::now_ns() - from <= 2 * AWAY_NS {}
            },
        );
        (done, yields.get())
    }

    #[test]
    fn who_has_a_deadline_sleeps_before_it_comes_whatever_others_do() {
        let cpu = cpu::current().unwrap_or(0);
        thread::bind_current(&CpuSet::from_iter([cpu])).expect("it runs there");
        let now = clock::now_ns();
        for near in [0, now, now + NEAR_NS / 2] {
            assert_eq!(waits_while_others_get_on(Some(near)), (false, 0));
        }
        // 200 times 40 us are 8 ms, if nobody takes the CPU from the test.
        let far = NEAR_NS + 2_000_000;
        let (done, yields) = waits_while_others_get_on(Some(clock::now_ns() + far));
        assert!(!done && yields < 100, "{yields} yields");
        // What is there is found though the deadline has passed, and the allowance is what it was.
        let allowance = Allowance::new();
        assert!(allowance.wait_yielding(Some(0), || true, || unreachable!()));
        let looks = Cell::new(0);
        let third = || looks.replace(looks.get() + 1) == 2;
        assert!(allowance.wait_yielding(Some(0), third, || unreachable!()));
        assert!(!allowance.wait_yielding(Some(0), || false, || unreachable!()));
        assert_eq!(allowance.ns.load(Ordering::Relaxed), MAX_NS);
    }

    /// Short bouts end with a yield, which gives the CPU to another waiter, so the answer is always found after one: without a long bout
    /// now and then they would stay short for ever.
    #[test]
    fn short_bouts_are_long_now_and_then_and_stay_long_if_that_finds_the_answer() {
        let allowance = Allowance::new();
        for looks in [256, 128, 64, 32, 16, 8, 4] {
            let (now, after_a_yield) = allowance.bout();
            assert_eq!((now, after_a_yield), (looks, looks / 2));
            let budget = allowance.budget().unwrap();
            allowance.paid_off(&budget, after_a_yield);
        }
        let bouts: Vec<(u32, u32)> = (0..2 * LONG_BOUT_EVERY).map(|_| allowance.bout()).collect();
        let long = bouts
            .iter()
            .filter(|&&bout| bout == (MAX_LOOKS, MIN_LOOKS))
            .count();
        let short = bouts
            .iter()
            .filter(|&&bout| bout == (MIN_LOOKS, MIN_LOOKS / 2))
            .count();
        assert_eq!((long, short), (2, bouts.len() - 2));
        let budget = allowance.budget().unwrap();
        allowance.paid_off(&budget, MAX_LOOKS * 2);
        assert_eq!(allowance.bout(), (MAX_LOOKS, MAX_LOOKS / 2));
        // On one CPU all are short.
        let short = Allowance::up_to(MIN_LOOKS);
        let budget = short.budget().unwrap();
        for _ in 0..100 {
            assert_eq!(short.bout().0, MIN_LOOKS);
            short.paid_off(&budget, MAX_LOOKS);
        }
    }

    #[test]
    fn a_worker_that_shares_its_cpu_with_its_issuer_learns_to_yield_at_once() {
        let allowance = Allowance::up_to(MAX_LOOKS_OF_WORKERS);
        assert_eq!(allowance.bout().0, MAX_LOOKS_OF_WORKERS);
        let budget = allowance.budget().unwrap();
        for _ in 0..10 {
            let (_, after_a_yield) = allowance.bout();
            allowance.paid_off(&budget, after_a_yield);
        }
        let longest = (0..LONG_BOUT_EVERY).map(|_| allowance.bout().0).max();
        assert_eq!(
            longest,
            Some(MAX_LOOKS),
            "no longer than others' now and then"
        );
        // The issuer is elsewhere: it comes by itself.
        for looks in [MAX_LOOKS, 2 * MAX_LOOKS, 4 * MAX_LOOKS, 8 * MAX_LOOKS] {
            allowance.paid_off(&budget, looks);
        }
        assert_eq!(allowance.bout().0, MAX_LOOKS_OF_WORKERS);
    }

    #[test]
    fn who_is_interrupted_all_the_time_sleeps_and_tries_ever_more_rarely() {
        let allowance = Allowance::new();
        taken_away(&allowance);
        taken_away(&allowance);
        taken_away(&allowance);
        assert!(allowance.budget().is_none());
        let mut last = refusals(&allowance);
        for _ in 0..10 {
            // The probe was interrupted too.
            allowance.was_taken_away(&Budget {
                ns: MAX_NS,
                probe: true,
            });
            let next = refusals(&allowance);
            assert!(next >= last, "{next} after {last}");
            last = next;
        }
        assert_eq!(last + 1, LAST_PROBE_AFTER_TAKEN_AWAY);
    }

    #[test]
    fn a_spent_allowance_is_tried_again_soon_and_comes_back_when_it_pays() {
        let allowance = Allowance::new();
        allowance.ns.store(0, Ordering::Relaxed);
        for _ in 0..20 {
            refusals(&allowance);
        }
        assert_eq!(refusals(&allowance) + 1, LAST_PROBE_AFTER);
        allowance.paid_off(
            &Budget {
                ns: MAX_NS,
                probe: true,
            },
            MIN_LOOKS,
        );
        assert_eq!(allowance.budget().map(|budget| budget.ns), Some(MAX_NS));
        assert!(allowance.probe_after.load(Ordering::Relaxed) <= LAST_PROBE_AFTER / 2);
    }
}
