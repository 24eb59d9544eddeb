//! An issuer queues some items at once and waits for all of them.

use crate::issuer::{Tally, is_timed, work};
use crate::run::Issuing;
use crate::{Access, Alone, Bell, Job, Load, Machine, Pause, Pool, Shape, Target};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The items of an issuer.
struct Round<M: Machine> {
    machine: M,
    load: Load,
    /// Items that are still to run.
    left: Alone<AtomicU32>,
    /// Set by the last item, which then rings.
    bell: M::Bell,
    is_over: Alone<AtomicBool>,
    /// The last item is to ring.
    rings: bool,
    /// The number of the round's first item.
    first: AtomicU64,
    /// When each item that is timed started.
    started_ns: Vec<AtomicU64>,
}

impl<M: Machine> Target for Round<M> {
    fn run(&self, index: u32) {
        let number = self.first.load(Ordering::Relaxed) + u64::from(index);
        if is_timed(self.load.item_ns, number) {
            let now = self.machine.now_ns();
            self.started_ns[index as usize].store(now, Ordering::Relaxed);
        }
        work(&self.machine, self.load.item(number));
        self.machine.touch(self.left.address(), Access::Update);
        if self.left.0.fetch_sub(1, Ordering::AcqRel) == 1 && self.rings {
            self.is_over.0.store(true, Ordering::Release);
            self.bell.ring();
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
    let round = |rings| -> &'static Round<M> {
        Box::leak(Box::new(Round {
            machine: machine.clone(),
            load: issuing.load.clone(),
            left: Alone(AtomicU32::new(0)),
            bell: M::Bell::new(),
            is_over: Alone::default(),
            rings,
            first: AtomicU64::new(0),
            started_ns: (0..count).map(|_| AtomicU64::new(0)).collect(),
        }))
    };
    let jobs = |target: &'static Round<M>| -> Vec<Job> {
        (0..count).map(|index| Job { target, index }).collect()
    };
    // By the pool's own means, if it has some: an empty round asks.
    let own = joins && issuing.pool.gather(&[]);
    let round = round(!own);
    round.bell.adopt();
    let jobs = jobs(round);
    let items: Vec<P::Item> = match own {
        true => Vec::new(),
        false => jobs.iter().map(|&job| issuing.pool.item(job)).collect(),
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
        round.first.store(first, Ordering::Relaxed);
        let before = round.left.0.swap(count, Ordering::AcqRel);
        if before != 0 {
            tally.wrong = Some(format!("of {count} items some ran twice or never"));
            break;
        }
        began = machine.now_ns();
        if own {
            issuing.pool.gather(&jobs);
        } else {
            round.is_over.0.store(false, Ordering::Relaxed);
            items.iter().for_each(|item| issuing.pool.submit(item));
            while !round.is_over.0.load(Ordering::Acquire) {
                round.bell.wait();
            }
        }
        let ended = machine.now_ns();
        tally.count(count.into(), issuing.number, &issuing.control);
        let times = tally.times();
        times.done.add(ended - began);
        for (index, started) in round.started_ns.iter().enumerate() {
            if is_timed(issuing.load.item_ns, first + index as u64) {
                let started = started.load(Ordering::Relaxed);
                times.start.add(started.saturating_sub(began));
            }
        }
        first += u64::from(count);
    }
    if round.left.0.load(Ordering::Acquire) != 0 && tally.wrong.is_none() {
        tally.wrong = Some(format!("of {count} items some ran twice or never"));
    }
    tally
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
