//! Spinning for a short while before parking, when that has paid off lately.
//!
//! Parking and being woken costs the sleeper's and the waker's system call and, across CPUs, an
//! interrupt and an idle exit: 5 us on one CPU, 70 us across two on the virtual machine of
//! docs/lab. Spinning costs the CPU. The classic rule is to spin about as long as a sleep would
//! cost. Here the spin budget also adapts: it doubles when the spin succeeds and halves when it
//! does not, down to nothing, so a process whose work is rare does not burn its CPUs. A spent spin
//! budget is probed again now and then, ever more rarely while that fails.
//!
//! Between two rounds of polls the waiter yields: if the thread that it waits for wants the same
//! CPU, that thread runs at once. The length of a round adapts too: short where the result tends to
//! be there right after a yield (both sides share a CPU), long where it comes by itself (the other
//! side runs on another CPU, and a yield would only delay the answer). While rounds are short, one
//! in several is long: otherwise, where several waiters share a CPU, each would find its answer
//! after the yield to another, for ever.
//!
//! A yield to a thread that computes takes that thread's whole time slice. If that happens often, the
//! next waits poll without yielding, and end after their spin budget.
//!
//! A wait with a deadline spins only as long as the deadline is far: a thread that yields gets its
//! CPU back after the time slices of all others there, but a timer wakes a thread that sleeps.
//!
//! If a yield takes long because other threads that spin on this CPU get their answers ([yield
//! epochs](super::yield_epoch)), that time does not count against the spin budget: with more such
//! threads than CPUs each gets its answers without a switch for a whole time slice, instead of all
//! of them sleeping and waking each other.
#![forbid(unsafe_code)]

use super::yield_epoch::YieldEpoch;
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;
use crate::sys::{clock, task};

/// The longest spin, in ns: about what a wake-up costs. A thread that spins for so long and then
/// parks has spent at most twice as much as the better of the two would have cost.
pub(crate) const MAX_NS: u32 = 15_000;
/// Polls in one round at most.
const MAX_POLLS: u32 = 256;
/// The same for workers. A worker that yields because the next item comes a little late may give
/// its CPU to several waiters, none of which is answered before the worker is back.
pub(crate) const MAX_POLLS_OF_WORKERS: u32 = 4 * MAX_POLLS;
/// A wait that took this long, though no spin budget is as long, was preempted: by the host of a
/// virtual machine, or by a thread that computes. A sleeper would have been woken long before.
/// Shorter bounds also refuse waits in which other waiters have their turns: with 120 us the median
/// of 50 clients was 1.4 times as long.
const PREEMPTED_NS: u64 = 250_000;
/// By how much a preempted wait raises a score that every wait that pays off lowers by one; a single
/// preemption means nothing. When the score reaches its bound, another thread wants the CPU all the
/// time.
const PREEMPTED: u32 = 16;
const PREEMPTED_OFTEN: u32 = 3 * PREEMPTED;
/// How many waits do not yield then. A thread that yields to one that computes gets the CPU back after
/// a whole time slice, a thread that sleeps gets it when it is woken.
const UNYIELDING: u32 = 1024;
/// This long before its deadline a wait no longer yields: a few time slices.
const NEAR_NS: u64 = 20_000_000;
/// Below this a spin budget counts as spent.
const MIN_NS: u32 = 2_000;
/// A spent spin budget is probed again after this many waits at first, and after more with every failure.
const FIRST_PROBE_AFTER: u32 = 16;
const LAST_PROBE_AFTER: u32 = 256;
/// If a yield took longer than this, another thread has run for a while.
const AWAY_NS: u64 = 20_000;
/// If the yield epoch advanced by at least this much meanwhile, the threads that ran were spinning
/// ones that got their answers.
const MANY_EPOCHS: u32 = 8;
/// Polls in one round, of some 15 to 60 ns each: a pause takes 10 or 140 cycles, depending on the processor.
pub(crate) const MIN_POLLS: u32 = 2;
/// While rounds are shorter, one in this many is long.
const LONG_ROUND_EVERY: u32 = 64;

/// How long to spin. Shared by threads: a lost update only delays the adaptation.
pub(crate) struct SpinBudget {
    ns: AtomicU32,
    /// Waits refused since the last probe, and how many refusals make the next probe due.
    refused: AtomicU32,
    probe_after: AtomicU32,
    polls: AtomicU32,
    /// Polls of the longest round.
    max_polls: u32,
    /// Rounds shorter than the longest.
    rounds: AtomicU32,
    /// The score of preempted waits.
    preempted: AtomicU32,
    /// How many more waits do not yield.
    unyielding: AtomicU32,
}

/// Stores a value that is nearly always there already: then the line stays shared among its readers.
#[inline]
fn set(word: &AtomicU32, value: u32) {
    if word.load(Ordering::Relaxed) != value {
        word.store(value, Ordering::Relaxed);
    }
}

/// What a wait may cost.
struct PollBudget {
    ns: u32,
    /// The spin budget was spent: this wait finds out whether spinning would pay again.
    probe: bool,
}

impl SpinBudget {
    /// For a waiter that does not know where the other side runs.
    pub(crate) const fn new() -> Self {
        SpinBudget {
            ns: AtomicU32::new(MAX_NS),
            refused: AtomicU32::new(0),
            probe_after: AtomicU32::new(FIRST_PROBE_AFTER),
            polls: AtomicU32::new(MAX_POLLS),
            max_polls: MAX_POLLS,
            rounds: AtomicU32::new(0),
            preempted: AtomicU32::new(0),
            unyielding: AtomicU32::new(0),
        }
    }

    /// For a waiter whose longest rounds have `polls` polls.
    pub(crate) const fn up_to(polls: u32) -> Self {
        SpinBudget {
            polls: AtomicU32::new(polls),
            max_polls: polls,
            ..Self::new()
        }
    }

    /// Spins until `done` returns `true`; `false` when the spin budget ran out first.
    pub(crate) fn wait(&self, done: impl FnMut() -> bool) -> bool {
        self.wait_until(None, done)
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
        let (polls, after_a_yield) = self.round();
        let yields = self.yields();
        let epoch = YieldEpoch::here();
        epoch.advance();
        let mut start = clock::now_ns();
        loop {
            for _ in 0..task::polls(polls) {
                task::pause();
                if done() {
                    return self.paid_off(&budget, polls * 2);
                }
            }
            let (yielded, epoch_before) = (clock::now_ns(), epoch.number());
            if deadline_ns.is_some_and(|deadline| deadline.saturating_sub(yielded) < NEAR_NS) {
                // A wait that ends for its deadline says nothing about the spin budget.
                return false;
            }
            if yields {
                yield_now();
            }
            let now = clock::now_ns();
            let away = now - yielded;
            let theirs = away > AWAY_NS && epoch.number().wrapping_sub(epoch_before) >= MANY_EPOCHS;
            if theirs {
                start += away;
            }
            let waited = now - start;
            if waited > PREEMPTED_NS {
                self.was_preempted();
                return done();
            }
            if done() {
                // After a long yield the result may have been there for a long time, which says
                // nothing about the rounds.
                let unchanged = self.polls.load(Ordering::Relaxed);
                return self.paid_off(&budget, if theirs { unchanged } else { after_a_yield });
            }
            if waited >= u64::from(budget.ns) {
                self.ns.store(budget.ns / 2, Ordering::Relaxed);
                return false;
            }
        }
    }

    /// Whether the result is there by now says nothing.
    #[cold]
    fn was_preempted(&self) {
        let preempted = self.preempted.load(Ordering::Relaxed) + PREEMPTED;
        let often = preempted >= PREEMPTED_OFTEN;
        if often {
            self.unyielding.store(UNYIELDING, Ordering::Relaxed);
        }
        let counted = if often { 0 } else { preempted };
        self.preempted.store(counted, Ordering::Relaxed);
    }

    /// Whether this wait may yield.
    fn yields(&self) -> bool {
        let unyielding = self.unyielding.load(Ordering::Relaxed);
        if unyielding > 0 {
            self.unyielding.store(unyielding - 1, Ordering::Relaxed);
        }
        unyielding == 0
    }

    fn paid_off(&self, budget: &PollBudget, polls: u32) -> bool {
        let preempted = self.preempted.load(Ordering::Relaxed);
        if preempted > 0 {
            self.preempted.store(preempted - 1, Ordering::Relaxed);
        }
        set(&self.polls, polls.clamp(MIN_POLLS, self.max_polls));
        set(&self.ns, (budget.ns * 2).min(MAX_NS));
        let probe_after = self.probe_after.load(Ordering::Relaxed);
        let less = if budget.probe { probe_after / 2 } else { 1 };
        set(
            &self.probe_after,
            (probe_after - less).max(FIRST_PROBE_AFTER),
        );
        true
    }

    /// The polls of this round, and those of the next one if the result is there only after the yield.
    fn round(&self) -> (u32, u32) {
        let polls = self.polls.load(Ordering::Relaxed);
        if polls == self.max_polls {
            return (polls, polls / 2);
        }
        let rounds = self.rounds.load(Ordering::Relaxed).wrapping_add(1);
        self.rounds.store(rounds, Ordering::Relaxed);
        // Short rounds alone would never show that a longer one finds the result without a yield.
        match rounds.is_multiple_of(LONG_ROUND_EVERY) {
            true => (polls.max(MAX_POLLS), polls),
            false => (polls, polls / 2),
        }
    }

    fn budget(&self) -> Option<PollBudget> {
        let ns = self.ns.load(Ordering::Relaxed);
        if ns >= MIN_NS {
            return Some(PollBudget { ns, probe: false });
        }
        let refused = self.refused.load(Ordering::Relaxed) + 1;
        let probe_after = self.probe_after.load(Ordering::Relaxed);
        if refused < probe_after {
            self.refused.store(refused, Ordering::Relaxed);
            return None;
        }
        self.refused.store(0, Ordering::Relaxed);
        set(&self.probe_after, (probe_after * 2).min(LAST_PROBE_AFTER));
        Some(PollBudget {
            ns: MAX_NS,
            probe: true,
        })
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::sys::{cpu, thread};
    use crate::topology::CpuSet;
    use std::cell::Cell;

    /// Waits refused until one is a probe.
    fn refusals(spin_budget: &SpinBudget) -> u32 {
        let mut refused = 0;
        while spin_budget.budget().is_none() {
            refused += 1;
        }
        refused
    }

    #[test]
    fn the_time_of_others_that_wait_and_get_on_is_not_the_waiters() {
        let cpu = cpu::current().unwrap_or(0);
        thread::bind_current(&CpuSet::from_iter([cpu])).expect("it runs there");
        // Yields take far longer than any spin budget, and meanwhile other threads advance the
        // yield epoch by `epochs`.
        let wait = |spin_budget: &SpinBudget, epochs: u32| {
            let yields = Cell::new(0);
            let yield_now = || {
                yields.set(yields.get() + 1);
                (0..epochs).for_each(|_| YieldEpoch::here().advance());
                let from = clock::now_ns();
                while clock::now_ns() - from <= PREEMPTED_NS {}
            };
            (
                spin_budget.wait_yielding(None, || yields.get() == 3, yield_now),
                yields.get(),
            )
        };
        // The host's preemptions and other tests on this CPU may spoil some attempts.
        let comes_out = |epochs, result, preempted| {
            (0..20).any(|_| {
                // Short rounds: without optimisation three long ones take longer than the spin may.
                let spin_budget = SpinBudget::up_to(MIN_POLLS);
                let polls = spin_budget.polls.load(Ordering::Relaxed);
                let result_now = wait(&spin_budget, epochs);
                // A result that is there after the time of others may have been there for long:
                // that says nothing about the rounds.
                assert_eq!(spin_budget.polls.load(Ordering::Relaxed), polls);
                result_now == result && spin_budget.preempted.load(Ordering::Relaxed) == preempted
            })
        };
        assert!(comes_out(MANY_EPOCHS, (true, 3), 0));
        // A thread that computes: the spin ends with the first yield.
        assert!(comes_out(MANY_EPOCHS - 1, (false, 1), PREEMPTED));
    }

    /// Other threads that spin and get their answers: without a deadline their time does not count.
    fn waits_while_others_get_on(deadline_ns: Option<u64>) -> (bool, u32) {
        const MOST: u32 = 200;
        let spin_budget = SpinBudget::new();
        let yields = Cell::new(0);
        let done = spin_budget.wait_yielding(
            deadline_ns,
            || yields.get() == MOST,
            || {
                yields.set(yields.get() + 1);
                (0..MANY_EPOCHS).for_each(|_| YieldEpoch::here().advance());
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
        // 200 times 40 us are 8 ms, if no other thread takes the CPU from the test.
        let far = NEAR_NS + 2_000_000;
        let (done, yields) = waits_while_others_get_on(Some(clock::now_ns() + far));
        assert!(!done && yields < 100, "{yields} yields");
        // A result is found though the deadline has passed, and the spin budget stays the same.
        let spin_budget = SpinBudget::new();
        assert!(spin_budget.wait_yielding(Some(0), || true, || unreachable!()));
        let polls = Cell::new(0);
        let third = || polls.replace(polls.get() + 1) == 2;
        assert!(spin_budget.wait_yielding(Some(0), third, || unreachable!()));
        assert!(!spin_budget.wait_yielding(Some(0), || false, || unreachable!()));
        assert_eq!(spin_budget.ns.load(Ordering::Relaxed), MAX_NS);
    }

    /// Short rounds end with a yield, which gives the CPU to another waiter, so the answer is
    /// always found after one: without a long round now and then they would stay short for ever.
    #[test]
    fn short_rounds_are_long_now_and_then_and_stay_long_if_that_finds_the_answer() {
        let spin_budget = SpinBudget::new();
        for polls in [256, 128, 64, 32, 16, 8, 4] {
            let (now, after_a_yield) = spin_budget.round();
            assert_eq!((now, after_a_yield), (polls, polls / 2));
            let budget = spin_budget.budget().unwrap();
            spin_budget.paid_off(&budget, after_a_yield);
        }
        let rounds: Vec<(u32, u32)> = (0..2 * LONG_ROUND_EVERY)
            .map(|_| spin_budget.round())
            .collect();
        let long = rounds
            .iter()
            .filter(|&&round| round == (MAX_POLLS, MIN_POLLS))
            .count();
        let short = rounds
            .iter()
            .filter(|&&round| round == (MIN_POLLS, MIN_POLLS / 2))
            .count();
        assert_eq!((long, short), (2, rounds.len() - 2));
        let budget = spin_budget.budget().unwrap();
        spin_budget.paid_off(&budget, MAX_POLLS * 2);
        assert_eq!(spin_budget.round(), (MAX_POLLS, MAX_POLLS / 2));
        // On one CPU all rounds are short.
        let short = SpinBudget::up_to(MIN_POLLS);
        let budget = short.budget().unwrap();
        for _ in 0..100 {
            assert_eq!(short.round().0, MIN_POLLS);
            short.paid_off(&budget, MAX_POLLS);
        }
    }

    #[test]
    fn a_worker_that_shares_its_cpu_with_its_issuer_learns_to_yield_at_once() {
        let spin_budget = SpinBudget::up_to(MAX_POLLS_OF_WORKERS);
        assert_eq!(spin_budget.round().0, MAX_POLLS_OF_WORKERS);
        let budget = spin_budget.budget().unwrap();
        for _ in 0..10 {
            let (_, after_a_yield) = spin_budget.round();
            spin_budget.paid_off(&budget, after_a_yield);
        }
        let longest = (0..LONG_ROUND_EVERY).map(|_| spin_budget.round().0).max();
        assert_eq!(
            longest,
            Some(MAX_POLLS),
            "no longer than others' now and then"
        );
        // The issuer runs elsewhere: the result comes by itself.
        for polls in [MAX_POLLS, 2 * MAX_POLLS, 4 * MAX_POLLS, 8 * MAX_POLLS] {
            spin_budget.paid_off(&budget, polls);
        }
        assert_eq!(spin_budget.round().0, MAX_POLLS_OF_WORKERS);
    }

    #[test]
    fn a_wait_that_is_interrupted_once_in_a_while_says_nothing() {
        let spin_budget = SpinBudget::new();
        for _ in 0..100 {
            spin_budget.was_preempted();
            for _ in 0..PREEMPTED {
                let budget = spin_budget.budget().expect("it waits awake");
                spin_budget.paid_off(&budget, MIN_POLLS);
            }
            assert!(spin_budget.yields());
        }
    }

    #[test]
    fn who_often_yields_to_a_thread_that_computes_does_not_yield_for_many_waits() {
        let spin_budget = SpinBudget::new();
        let yields = Cell::new(0);
        let wait = || {
            // Each wait may spin, whatever the ones before have spent.
            spin_budget.ns.store(MAX_NS, Ordering::Relaxed);
            let yield_now = || {
                yields.set(yields.get() + 1);
                let from = clock::now_ns();
                while clock::now_ns() - from <= PREEMPTED_NS {}
            };
            assert!(!spin_budget.wait_yielding(None, || false, yield_now));
            yields.get()
        };
        let often = PREEMPTED_OFTEN / PREEMPTED;
        let begins = (0..often).map(|_| wait()).collect::<Vec<u32>>();
        assert_eq!(begins, (1..=often).collect::<Vec<u32>>());
        for _ in 0..UNYIELDING {
            assert_eq!(wait(), often);
        }
        // What the host takes from this thread may prolong it.
        let ends = (0..100 * UNYIELDING).any(|_| wait() > often);
        assert!(ends, "it never yields again");
    }

    #[test]
    fn a_spent_spin_budget_is_tried_again_soon_and_comes_back_when_it_pays() {
        let spin_budget = SpinBudget::new();
        spin_budget.ns.store(0, Ordering::Relaxed);
        for _ in 0..20 {
            refusals(&spin_budget);
        }
        assert_eq!(refusals(&spin_budget) + 1, LAST_PROBE_AFTER);
        spin_budget.paid_off(
            &PollBudget {
                ns: MAX_NS,
                probe: true,
            },
            MIN_POLLS,
        );
        assert_eq!(spin_budget.budget().map(|budget| budget.ns), Some(MAX_NS));
        assert!(spin_budget.probe_after.load(Ordering::Relaxed) <= LAST_PROBE_AFTER / 2);
    }
}
