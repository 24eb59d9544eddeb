//! Schedules with a guarantee: one thread at a time does one visible operation, and a plan says
//! which thread is next.
//!
//! Without a plan the CPU with the smallest clock goes on, and what may happen follows from costs.
//! With a plan costs decide nothing: each thread that is able to run may be next, wherever its
//! CPU's clock stands, as if all other CPUs were stopped meanwhile. Time still passes, by the costs
//! of what is done, one operation after the other; timers fire when their time has come, or when no
//! thread is able to run.
//!
//! A *step* is one visible operation, unless it is at a place that the plan was told to [pass
//! over](pass_over), since no other thread can notice it. The polls of a thread that spins are one
//! step as long as no other thread runs in between: nothing can have changed. A thread that spins
//! for longer than any bounded spin of the engine waits for another one, and goes behind all
//! others: the plan by priorities would never end otherwise.
#![forbid(unsafe_code)]

use crate::memory::Access;
use crate::random::Random;
use crate::sharing::Sharing;
use crate::thread::{State, Tid};
use crate::vm::{Timer, Vm, with};

/// How the next thread is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Probabilistic concurrency testing (PCT, Burckhardt and others, 2010): the thread of the
    /// highest random priority is next; at `depth - 1` random steps of the first `length` the
    /// thread that is next falls behind all others. A run finds a given bug of this depth with a
    /// probability of at least 1 / (threads * length^(depth - 1)).
    Priorities {
        /// How many orders of two steps the bug needs.
        depth: u32,
        /// Steps of a run.
        length: u64,
    },
    /// A uniform random walk (URW, Zhao and others, 2025): a thread is next with a probability that
    /// is proportional to the steps that it has still to do, so that each interleaving is about as
    /// likely as any other.
    Walk {
        /// Steps of each thread, in the order of creation, as far as they are known.
        lengths: Vec<u64>,
    },
}

/// What a run did while it was steered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steered {
    /// Steps of each thread, in the order of creation.
    pub lengths: Vec<u64>,
    /// After [`learn_sharing`]: places in the sources, by address, and whether another thread can
    /// notice what is done there.
    pub places: Vec<(usize, bool)>,
}

impl Steered {
    /// Steps of all threads.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.lengths.iter().sum()
    }

    /// Threads that did anything.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.lengths.iter().filter(|&&steps| steps > 0).count()
    }
}

/// A thread that has paused so often, without a time in which it did not, waits for another one.
/// Twice what a worker of the engine does before it sleeps.
const PATIENCE: u32 = 2_048;
/// A yield counts as so many pauses.
pub(crate) const YIELD: u32 = 512;
/// After so many operations without a pause a thread no longer spins. A loop that waits may take
/// locks between two pauses.
const QUIET: u32 = 256;

/// What the plan knows of one thread.
#[derive(Clone, Copy, Default)]
struct Known {
    /// 0: not drawn yet.
    priority: i64,
    steps: u64,
    /// It has paused since its last operation.
    polls: bool,
    /// Pauses, as long as it spins.
    spun: u32,
    /// Operations since its last pause.
    quiet: u32,
    /// No other thread can notice what it does next.
    unnoticed: bool,
}

pub(crate) struct Steer {
    plan: Plan,
    /// Apart from the machine's: costs and faults draw from that one.
    random: Random,
    /// The steps at which a thread falls behind, and its priority then, in the order of the steps.
    changes: Vec<(u64, i64)>,
    known: Vec<Known>,
    steps: u64,
    /// Operations, polls too; the run is one that hangs when `left` is 0.
    left: u64,
    /// Below all that were given.
    lowest: i64,
    last: Option<Tid>,
    chosen: Option<Tid>,
    now: u64,
    /// When a thread was able to run last.
    moved_at: u64,
    /// Those that are able to run: kept for its memory.
    able: Vec<Tid>,
    /// Places that are no steps, in their order.
    passed_over: Vec<usize>,
    learned: Option<Sharing>,
    /// Nothing that is done from now on matters.
    is_over: bool,
}

type Watch = Box<dyn FnMut(u64)>;

/// From now on the plan says which thread is next. A run with more than `most` operations is one that hangs.
pub fn steer(plan: Plan, seed: u64, most: u64) {
    with(|vm| {
        for cpu in 0..vm.cpus.len() {
            vm.unschedule(cpu);
        }
        let now = vm.now();
        vm.steer = Some(Box::new(Steer::new(plan, seed, most, now)));
    });
}

/// From now on what is done at these places in the sources, given by their addresses in ascending
/// order, is no step.
///
/// # Panics
/// If there is no plan.
pub fn pass_over(places: &[usize]) {
    with(|vm| {
        let steer = vm.steer.as_mut().expect("there is a plan");
        steer.passed_over = places.to_vec();
    });
}

/// From now on the plan learns which steps another thread can notice: [`Steered::places`].
///
/// # Panics
/// If there is no plan.
pub fn learn_sharing() {
    with(|vm| {
        let steer = vm.steer.as_mut().expect("there is a plan");
        steer.learned = Some(Sharing::default());
    });
}

/// From now on there are no steps: threads go on by the plan, and none of them falls behind.
pub fn end_of_steps() {
    with(|vm| {
        if let Some(steer) = &mut vm.steer {
            steer.is_over = true;
            steer.changes.clear();
        }
    });
}

/// The running thread is about to access a word, from this place in the sources.
#[inline]
pub(crate) fn accesses(vm: &mut Vm, place: usize, address: usize, access: Access) {
    let tid = vm.tid;
    let Some(steer) = &mut vm.steer else { return };
    if let Some(learned) = &mut steer.learned {
        learned.accesses(tid, place, address, access);
    }
    let unnoticed = steer.passed_over.binary_search(&place).is_ok();
    steer.known(tid).unnoticed = unnoticed;
}

/// The running thread has taken a lock, or is about to release it.
pub(crate) fn holds(vm: &mut Vm, lock: usize, takes: bool) {
    let tid = vm.tid;
    let learned = vm.steer.as_mut().and_then(|steer| steer.learned.as_mut());
    match learned {
        Some(learned) if takes => learned.takes(tid, lock),
        Some(learned) => learned.releases(tid, lock),
        None => {}
    }
}

/// The machine's random numbers, of costs and faults, follow from this seed from now on.
pub fn reseed(seed: u64) {
    with(|vm| {
        vm.random = Random::new(seed);
        vm.draw_undisturbed();
    });
}

/// From now on costs say it again.
///
/// # Panics
/// If there is no plan.
pub fn end_steering() -> Steered {
    with(|vm| {
        let steer = vm.steer.take().expect("there is a plan");
        for cpu in 0..vm.cpus.len() {
            if vm.cpus[cpu].current.is_some() {
                vm.cpus[cpu].clock = vm.cpus[cpu].clock.max(steer.now);
                vm.schedule(cpu);
            }
        }
        steer.steered()
    })
}

/// What was done by the plan so far.
#[must_use]
pub fn steered() -> Option<Steered> {
    with(|vm| vm.steer.as_ref().map(|steer| steer.steered()))
}

/// Calls `watch` whenever no thread is able to run and a timer ends that, with the ns since one
/// was. It is called outside any thread, may observe the machine, and does nothing else. A panic of
/// it ends the run.
pub fn watch_standstills(watch: impl FnMut(u64) + 'static) {
    with(|vm| vm.standstills = Some(Box::new(watch)));
}

/// A timer is about to fire at `at`.
pub(crate) fn before_timer(at: u64) {
    let still = with(|vm| {
        let steer = vm.steer.as_mut()?;
        let still = at.saturating_sub(steer.moved_at);
        let jumps = at > steer.now;
        steer.now = steer.now.max(at);
        jumps.then_some(still)
    });
    let Some(still) = still else { return };
    if let Some(mut watch) = with(|vm| vm.standstills.take()) {
        watch(still);
        with(|vm| vm.standstills = Some(watch));
    }
}

/// The running thread pauses, or yields.
pub(crate) fn pauses(vm: &mut Vm, weight: u32) {
    let tid = vm.tid;
    if let Some(steer) = &mut vm.steer {
        steer.pauses(tid, weight);
    }
}

pub(crate) type Standstills = Option<Watch>;

impl Steer {
    fn new(plan: Plan, seed: u64, most: u64, now: u64) -> Steer {
        let mut random = Random::new(seed.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ 0x57ee);
        let mut changes = Vec::new();
        if let Plan::Priorities { depth, length } = plan {
            // Which of two threads that fell behind is above the other is as random as when they did.
            let count = u64::from(depth.saturating_sub(1));
            let mut ranks: Vec<i64> = (1..=count as i64).collect();
            for at in (1..ranks.len()).rev() {
                ranks.swap(at, random.below(at as u64 + 1) as usize);
            }
            changes.extend(
                ranks
                    .iter()
                    .map(|&rank| (random.below(length.max(1)), rank)),
            );
            changes.sort_unstable();
        }
        Steer {
            plan,
            random,
            changes,
            known: Vec::new(),
            steps: 0,
            left: most,
            lowest: 0,
            last: None,
            chosen: None,
            now,
            moved_at: now,
            able: Vec::new(),
            passed_over: Vec::new(),
            learned: None,
            is_over: false,
        }
    }

    fn steered(&self) -> Steered {
        Steered {
            lengths: self.known.iter().map(|known| known.steps).collect(),
            places: self.learned.as_ref().map_or(Vec::new(), Sharing::places),
        }
    }

    fn known(&mut self, tid: Tid) -> &mut Known {
        let at = tid.index();
        if self.known.len() <= at {
            self.known.resize(at + 1, Known::default());
        }
        &mut self.known[at]
    }

    fn pauses(&mut self, tid: Tid, weight: u32) {
        let known = self.known(tid);
        known.polls = true;
        known.quiet = 0;
        known.spun += weight;
        if known.spun > PATIENCE {
            known.spun = 0;
            self.lowest -= 1;
            let lowest = self.lowest;
            self.known(tid).priority = lowest;
        }
    }

    /// Which of those that are able is next.
    fn choose(&mut self) -> Option<Tid> {
        if self.able.is_empty() || self.left == 0 {
            return None;
        }
        self.left -= 1;
        let tid = match &self.plan {
            Plan::Priorities { .. } => self.highest(),
            Plan::Walk { .. } => self.drawn(),
        };
        let (stays, is_over) = (self.last == Some(tid), self.is_over);
        let known = self.known(tid);
        let is_new = !(stays && std::mem::take(&mut known.polls));
        let is_new = !std::mem::take(&mut known.unnoticed) && is_new && !is_over;
        known.polls = false;
        known.quiet += 1;
        if known.quiet > QUIET {
            known.spun = 0;
        }
        known.steps += u64::from(is_new);
        self.steps += u64::from(is_new);
        self.last = Some(tid);
        Some(tid)
    }

    fn highest(&mut self) -> Tid {
        for at in 0..self.able.len() {
            let tid = self.able[at];
            if self.known(tid).priority == 0 {
                let priority = (self.random.bits() >> 2 | 1 << 40) as i64;
                self.known(tid).priority = priority;
            }
        }
        loop {
            let priority = |tid: &Tid| self.known[tid.index()].priority;
            let tid = *self
                .able
                .iter()
                .max_by_key(|tid| priority(tid))
                .expect("one is able");
            let known = *self.known(tid);
            let polls = self.last == Some(tid) && known.polls;
            match self.changes.first() {
                Some(&(step, rank)) if step <= self.steps && !polls && !known.unnoticed => {
                    self.changes.remove(0);
                    self.known(tid).priority = rank;
                }
                _ => return tid,
            }
        }
    }

    fn drawn(&mut self) -> Tid {
        let Plan::Walk { lengths } = &self.plan else {
            unreachable!("the other plan draws nothing");
        };
        let mean = lengths.iter().sum::<u64>() / lengths.len().max(1) as u64;
        let known = &self.known;
        let weight = |tid: &Tid| {
            let length = lengths.get(tid.index()).copied().unwrap_or(mean);
            let known = known.get(tid.index()).copied().unwrap_or_default();
            // Polls in vain are no steps. A thread that spins for one that has done more than its
            // length would otherwise be drawn before that one until the run is given up.
            if known.polls {
                return 1;
            }
            length.saturating_sub(known.steps).max(1)
        };
        let total: u64 = self.able.iter().map(weight).sum();
        let mut at = self.random.below(total);
        for tid in &self.able {
            match at.checked_sub(weight(tid)) {
                Some(rest) => at = rest,
                None => return *tid,
            }
        }
        unreachable!("it was below the sum")
    }
}

impl Vm {
    #[inline]
    pub(crate) fn is_steered(&self) -> bool {
        self.steer.is_some()
    }

    /// Whether the plan has given up.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.steer.as_ref().is_some_and(|steer| steer.left == 0)
    }

    fn choose(&mut self) -> Option<Tid> {
        let steer = self.steer.as_mut()?;
        steer.able.clear();
        let able = self
            .threads
            .iter()
            .enumerate()
            .filter(|(_, thread)| match thread.state {
                State::Running => !self.cpus[thread.cpu].spinning,
                State::Runnable => true,
                State::Blocked | State::Exited => false,
            });
        steer.able.extend(able.map(|(at, _)| Tid(at as u32)));
        let chosen = steer.choose();
        if let Some(tid) = chosen {
            steer.moved_at = steer.now;
            self.log = (self.log ^ u64::from(tid.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        chosen
    }

    /// The running thread is about to do its next operation; `true`: at once.
    pub(crate) fn takes_its_turn(&mut self) -> bool {
        let now = self.now();
        let Some(steer) = &mut self.steer else {
            return true;
        };
        steer.now = steer.now.max(now);
        let now = steer.now;
        if self.events.next_timer_at().is_some_and(|at| at <= now) {
            return false;
        }
        let chosen = self.choose();
        if chosen == Some(self.tid) {
            return true;
        }
        if let Some(steer) = &mut self.steer {
            steer.chosen = chosen;
        }
        false
    }

    /// The thread whose turn it is runs on its CPU now, which is returned. `None`: no thread is
    /// able to run, or a timer is due.
    pub(crate) fn next_turn(&mut self) -> Option<usize> {
        let now = self.now();
        let steer = self.steer.as_mut()?;
        // The running thread may have gone to sleep, and its CPU to another one.
        steer.now = steer.now.max(now);
        let now = steer.now;
        let chosen = steer.chosen.take();
        if chosen.is_none() && self.events.next_timer_at().is_some_and(|at| at <= now) {
            return None;
        }
        let tid = chosen.or_else(|| self.choose())?;
        let cpu = self.give_cpu(tid, now);
        let core = &mut self.cpus[cpu];
        core.clock = core.clock.max(now);
        Some(cpu)
    }

    /// Whatever runs where the thread waits makes way for it.
    fn give_cpu(&mut self, tid: Tid, now: u64) -> usize {
        let cpu = self.threads[tid.index()].cpu;
        if self.cpus[cpu].current == Some(tid) {
            return cpu;
        }
        let waits = |cpu: &usize| self.cpus[*cpu].queue.contains(&tid);
        let cpu = (0..self.cpus.len())
            .find(waits)
            .expect("who is able to run waits for a CPU");
        if let Some(other) = self.cpus[cpu].current {
            self.account(cpu, now);
            let core = &mut self.cpus[cpu];
            core.current = None;
            core.queue.push(other);
            self.threads[other.index()].state = State::Runnable;
        }
        let at = self.cpus[cpu]
            .queue
            .iter()
            .position(|&waiting| waiting == tid);
        self.run_queued(cpu, at.expect("it waits there"), now);
        cpu
    }
}

/// What comes next by the plan.
pub(crate) fn next(vm: &mut Vm) -> crate::events::Next<Timer> {
    use crate::events::Next;
    if vm.is_exhausted() {
        return Next::Nothing;
    }
    match vm.next_turn() {
        Some(cpu) => Next::Cpu(cpu),
        None if vm.is_exhausted() => Next::Nothing,
        None => vm.events.next(),
    }
}
