//! An issuer queues some items at once and waits for all of them.

use crate::issuer::{Tally, work};
use crate::run::Issuing;
use crate::{Access, Alone, Bell, Job, Load, Machine, Mix, Pause, Pool, Shape, Target};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The items of an issuer.
struct Round<M: Machine> {
    machine: M,
    load: Load,
    /// How many items have run, of all rounds.
    ran: &'static Alone<AtomicU64>,
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
        let timed = count.div_ceil(issuing.load.timed_every() as u32);
        Round {
            machine: issuing.machine.clone(),
            load: issuing.load.clone(),
            ran: issuing.control.done[issuing.number],
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

    /// Counts an item; says whether it is the last of its round.
    fn is_last(&self) -> bool {
        let ran = &self.ran.0;
        if self.count == 1 {
            ran.store(ran.load(Ordering::Relaxed) + 1, Ordering::Release);
            return true;
        }
        let before = ran.fetch_add(1, Ordering::AcqRel);
        before + 1 == self.first.load(Ordering::Relaxed) + u64::from(self.count)
    }

    /// Whether all items of the rounds before have run, each once.
    fn is_right(&self, first: u64) -> Result<(), String> {
        match self.ran.0.load(Ordering::Acquire) == first {
            true => Ok(()),
            false => Err(format!("of {} items some ran twice or never", self.count)),
        }
    }

    /// Waits for the last item.
    fn wait(&self) {
        let End { is_seen, bell } = &self.end.0;
        if M::Bell::COUNTS {
            return bell.wait();
        }
        while !is_seen.load(Ordering::Acquire) {
            bell.wait();
        }
        is_seen.store(false, Ordering::Relaxed);
    }
}

/// The items that are not timed.
impl<M: Machine> Target for Round<M> {
    fn run(&self, index: u32) {
        let number = match self.load.mix {
            // All are alike: what the issuer has just written need not come here.
            Mix::Even => 0,
            _ => self.first.load(Ordering::Relaxed) + u64::from(index),
        };
        work(&self.machine, self.load.item(number));
        self.machine.touch(self.ran.address(), Access::Update);
        if self.is_last() && self.rings {
            let End { is_seen, bell } = &self.end.0;
            if !M::Bell::COUNTS {
                is_seen.store(true, Ordering::Release);
            }
            bell.ring();
        }
    }
}

/// Those that are.
struct Timed<M: Machine>(&'static Round<M>);

impl<M: Machine> Target for Timed<M> {
    fn run(&self, index: u32) {
        let every = self.0.load.timed_every() as usize;
        let started = &self.0.started_ns[index as usize / every];
        started.store(self.0.machine.now_ns(), Ordering::Relaxed);
        self.0.run(index);
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
    if let Some(meet) = &issuing.meet {
        meet.adopt(issuing.number);
    }
    let [timed, untimed] = [true, false].map(|is_timed| Items::new(issuing, round, own, is_timed));
    // In so many rounds there is one that is timed.
    let every = issuing.load.timed_every().div_ceil(count.into());
    let mut tally = Tally::new();
    let (mut first, mut number) = (0_u64, 0_u64);
    let mut began = machine.now_ns();
    while go_on(issuing, &mut tally) {
        if let Some(until) = issuing.rests_until() {
            issuing.sleep_until(until);
            continue;
        }
        rest(issuing, pause, began);
        // Of single items it is enough to look at the end, which keeps the count's line where it is.
        if count > 1
            && let Err(wrong) = round.is_right(first)
        {
            tally.wrong = Some(wrong);
            break;
        }
        round.first.store(first, Ordering::Relaxed);
        if number == 0 || pause != Pause::None {
            began = machine.now_ns();
            timed.queue(issuing, round, &mut tally);
            let ended = machine.now_ns();
            // It counts for the time in which it ends.
            tally.go_on(&issuing.control);
            let times = tally.times();
            times.done.add(ended - began);
            for started in &round.started_ns {
                let started = started.load(Ordering::Relaxed);
                times.start.add(started.saturating_sub(began));
            }
        } else {
            untimed.queue(issuing, round, &mut tally);
        }
        first += u64::from(count);
        number = if number + 1 < every { number + 1 } else { 0 };
    }
    if tally.wrong.is_none() {
        tally.wrong = round.is_right(first).err();
    }
    tally
}

/// Whether there is another round. Issuers that begin together also end together.
fn go_on<M: Machine, P: Pool>(issuing: &Issuing<M, P>, tally: &mut Tally) -> bool {
    let control = &issuing.control;
    let Some(meet) = &issuing.meet else {
        return tally.go_on(control);
    };
    let go_on = meet.wait(&issuing.machine, issuing.number, || control.goes_on());
    tally.go_on(control);
    go_on
}

/// The items of a round.
enum Items<P: Pool> {
    /// The pool queues all of them and waits.
    Own(Vec<Job>),
    /// They are queued one by one. Of so many, the call is timed for one; 0: for none.
    Singly(Vec<P::Item>, usize),
}

impl<P: Pool> Items<P> {
    fn new<M: Machine>(
        issuing: &Issuing<M, P>,
        round: &'static Round<M>,
        own: bool,
        is_timed: bool,
    ) -> Items<P> {
        let every = issuing.load.timed_every() as u32;
        let timed: &'static Timed<M> = Box::leak(Box::new(Timed(round)));
        // If every round is timed there are no others.
        let count = if is_timed || round.count < every {
            round.count
        } else {
            0
        };
        let jobs = (0..count).map(|index| match is_timed && index.is_multiple_of(every) {
            true => Job::new(timed, index),
            false => Job::new(round, index),
        });
        if own {
            return Items::Own(jobs.collect());
        }
        // Also of long items only a few calls are timed: the others come as fast as they can.
        let calls = if is_timed { every.max(7) as usize } else { 0 };
        Items::Singly(jobs.map(|job| issuing.pool.item(job)).collect(), calls)
    }

    /// Queues all items and waits for the end of the last.
    fn queue<M: Machine>(&self, issuing: &Issuing<M, P>, round: &Round<M>, tally: &mut Tally) {
        let (machine, pool) = (&issuing.machine, &issuing.pool);
        let (items, every) = match self {
            Items::Own(jobs) => {
                pool.gather(jobs);
                return;
            }
            Items::Singly(items, 0) => (items.as_slice(), items.len().max(1)),
            Items::Singly(items, every) => (items.as_slice(), *every),
        };
        let is_timed = matches!(self, Items::Singly(_, 1..));
        for some in items.chunks(every) {
            let mut some = some.iter();
            if is_timed && let Some(item) = some.next() {
                let began = machine.now_ns();
                pool.submit(item);
                tally.times().queue.add(machine.now_ns() - began);
            }
            some.for_each(|item| pool.submit(item));
        }
        round.wait();
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
