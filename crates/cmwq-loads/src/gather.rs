//! An issuer queues some items at once and waits for all of them.

use crate::issuer::{Control, Tally, work};
use crate::run::Issuing;
use crate::{Access, Alone, Bell, Job, Load, Machine, Pause, Pool, Shape, Target};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The items of an issuer.
struct Round<M: Machine> {
    machine: M,
    load: Load,
    /// Where items count themselves as they run.
    control: Arc<Control>,
    issuer: usize,
    /// Items of a round.
    count: u32,
    end: Alone<End<M::Bell>>,
    /// The last item is to ring.
    rings: bool,
    /// The number of the round's first item.
    first: AtomicU64,
    /// When each item that is timed started.
    started_ns: Vec<AtomicU64>,
}

/// Set by the last item, which then rings.
struct End<B> {
    is_seen: AtomicBool,
    bell: B,
}

impl<M: Machine> Round<M> {
    fn new<P: Pool>(issuing: &Issuing<M, P>, count: u32, rings: bool) -> Round<M> {
        let timed = u64::from(count) / issuing.load.timed_every() + 1;
        Round {
            machine: issuing.machine.clone(),
            load: issuing.load.clone(),
            control: issuing.control.clone(),
            issuer: issuing.number,
            count,
            end: Alone(End {
                is_seen: AtomicBool::new(false),
                bell: M::Bell::new(),
            }),
            rings,
            first: AtomicU64::new(0),
            started_ns: (0..timed).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Where an item of that index notes its start, if it is timed.
    fn started(&self, first: u64, index: u32) -> Option<&AtomicU64> {
        let every = self.load.timed_every();
        let is_timed = (first + u64::from(index)).is_multiple_of(every);
        is_timed.then(|| &self.started_ns[(u64::from(index) / every) as usize])
    }

    /// How many items have run, of all rounds.
    fn ran(&self) -> &Alone<AtomicU64> {
        &self.control.done[self.issuer]
    }

    /// Counts an item; returns how many had run before.
    fn count(&self) -> u64 {
        let ran = &self.ran().0;
        if self.count > 1 {
            return ran.fetch_add(1, Ordering::AcqRel);
        }
        let before = ran.load(Ordering::Relaxed);
        ran.store(before + 1, Ordering::Release);
        before
    }

    /// Whether all items of the rounds before have run, each once.
    fn is_right(&self, first: u64) -> Result<(), String> {
        match self.ran().0.load(Ordering::Acquire) == first {
            true => Ok(()),
            false => Err(format!("of {} items some ran twice or never", self.count)),
        }
    }
}

impl<M: Machine> Target for Round<M> {
    fn run(&self, index: u32) {
        let first = self.first.load(Ordering::Relaxed);
        if let Some(started) = self.started(first, index) {
            started.store(self.machine.now_ns(), Ordering::Relaxed);
        }
        work(&self.machine, self.load.item(first + u64::from(index)));
        self.machine.touch(self.ran().address(), Access::Update);
        if self.count() + 1 == first + u64::from(self.count) && self.rings {
            self.end.0.is_seen.store(true, Ordering::Release);
            self.end.0.bell.ring();
        }
    }
}

pub(crate) fn issue<M: Machine, P: Pool>(issuing: &Issuing<M, P>) -> Tally {
    let Shape::Gather {
        items: count,
        pause,
        joins,
    } = issuing.load.shape
    else {
        unreachable!("called for this shape");
    };
    let machine = &issuing.machine;
    // By the pool's own means, if it has some: an empty round asks.
    let own = (joins || P::ONLY_GATHERS) && issuing.pool.gather(&[]);
    let round: &'static Round<M> = Box::leak(Box::new(Round::new(issuing, count, !own)));
    round.end.0.bell.adopt();
    let jobs = (0..count).map(|index| Job {
        target: round,
        index,
    });
    let (jobs, items): (Vec<Job>, Vec<P::Item>) = match own {
        true => (jobs.collect(), Vec::new()),
        false => (Vec::new(), jobs.map(|job| issuing.pool.item(job)).collect()),
    };
    let mut tally = Tally::new();
    let mut first = 0_u64;
    let mut began = machine.now_ns();
    while tally.go_on(&issuing.control) {
        if let Some(until) = issuing.rests_until() {
            issuing.sleep_until(until);
            continue;
        }
        rest(issuing, pause, began);
        if let Err(wrong) = round.is_right(first) {
            tally.wrong = Some(wrong);
            break;
        }
        round.first.store(first, Ordering::Relaxed);
        let is_timed = pause != Pause::None || is_timed(&issuing.load, first, count);
        if is_timed {
            began = machine.now_ns();
        }
        if own {
            issuing.pool.gather(&jobs);
        } else {
            queue(issuing, round, &items, &mut tally);
        }
        if is_timed {
            let ended = machine.now_ns();
            // It counts for the time in which it ends.
            tally.go_on(&issuing.control);
            times(round, first, began, ended, &mut tally);
        }
        first += u64::from(count);
    }
    if tally.wrong.is_none() {
        tally.wrong = round.is_right(first).err();
    }
    tally
}

/// Short rounds are timed seldom.
fn is_timed(load: &Load, first: u64, count: u32) -> bool {
    let every = load.timed_every();
    u64::from(count) >= every || (first / u64::from(count)).is_multiple_of(every)
}

/// Queues the items one by one and waits for the last to ring.
fn queue<M: Machine, P: Pool>(
    issuing: &Issuing<M, P>,
    round: &Round<M>,
    items: &[P::Item],
    tally: &mut Tally,
) {
    let machine = &issuing.machine;
    let first = round.first.load(Ordering::Relaxed);
    // Also of long items only a few: the others come as fast as they can.
    let every = issuing.load.timed_every().max(7);
    round.end.0.is_seen.store(false, Ordering::Relaxed);
    for (number, item) in (first..).zip(items) {
        if number.is_multiple_of(every) {
            let began = machine.now_ns();
            issuing.pool.submit(item);
            tally.times().queue.add(machine.now_ns() - began);
        } else {
            issuing.pool.submit(item);
        }
    }
    while !round.end.0.is_seen.load(Ordering::Acquire) {
        round.end.0.bell.wait();
    }
}

/// Adds the times of a round that has ended.
fn times<M: Machine>(round: &Round<M>, first: u64, began: u64, ended: u64, tally: &mut Tally) {
    let times = tally.times();
    times.done.add(ended - began);
    let every = round.load.timed_every();
    let mut index = first.next_multiple_of(every) - first;
    while index < u64::from(round.count) {
        if let Some(started) = round.started(first, index as u32) {
            let started = started.load(Ordering::Relaxed);
            times.start.add(started.saturating_sub(began));
        }
        index += every;
    }
}

/// What the issuer does between two rounds.
fn rest<M: Machine, P: Pool>(issuing: &Issuing<M, P>, pause: Pause, began: u64) {
    match pause {
        Pause::None => {}
        Pause::Sleep(ns) => issuing.machine.sleep(ns),
        Pause::Compute(ns) => issuing.machine.compute(ns),
        Pause::Every(ns) => issuing.sleep_until(began + ns),
    }
}
