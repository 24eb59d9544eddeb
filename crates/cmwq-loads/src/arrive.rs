//! Items come when they come, whatever becomes of those before them.

use crate::issuer::{Random, Tally, work};
use crate::run::Issuing;
use crate::{Access, Job, Load, Machine, Pool, Rate, Shape, Target};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Items of an issuer that may be on their way.
const MOST: usize = 4096;
/// What an arrival counts for beside its item when it is computed what the CPUs bear: the issuer
/// sleeps, wakes up and queues it, a worker takes it. Measured as 26 to 27 µs for an item of 20 µs
/// on two CPUs that were full.
const ARRIVAL_NS: f64 = 6_000.0;
/// An issuer that has to wait looks again after this time.
const LOOK_NS: u64 = 100_000;

#[repr(align(128))]
#[derive(Default)]
struct Slot {
    number: AtomicU64,
    queued_ns: AtomicU64,
    started_ns: AtomicU64,
    ended_ns: AtomicU64,
    /// How often it was queued, and how often it ran.
    queued: AtomicU32,
    ran: AtomicU32,
}

impl Slot {
    fn has_ended(&self) -> bool {
        self.ran.load(Ordering::Acquire) >= self.queued.load(Ordering::Relaxed)
    }
}

struct Slots<M: Machine> {
    machine: M,
    load: Load,
    slots: Vec<Slot>,
}

impl<M: Machine> Target for Slots<M> {
    fn run(&self, index: u32) {
        let slot = &self.slots[index as usize];
        slot.started_ns
            .store(self.machine.now_ns(), Ordering::Relaxed);
        work(
            &self.machine,
            self.load.item(slot.number.load(Ordering::Relaxed)),
        );
        self.machine
            .touch(std::ptr::from_ref(slot).addr(), Access::Write);
        slot.ended_ns
            .store(self.machine.now_ns(), Ordering::Relaxed);
        slot.ran.fetch_add(1, Ordering::Release);
    }
}

/// From one arrival to the next, all issuers together.
pub(crate) fn mean_gap_ns(load: &Load, rate: Rate, cpus: usize) -> f64 {
    match rate {
        Rate::Every(ns) => ns as f64,
        Rate::Percent(percent) => {
            let item_ns = load.mean_ns() + ARRIVAL_NS;
            item_ns * 100.0 / f64::from(percent) / cpus as f64
        }
    }
}

/// From one arrival at an issuer to the next.
struct Gaps {
    random: Random,
    rate: Rate,
    mean_ns: f64,
}

impl Gaps {
    fn of<M: Machine, P: Pool>(issuing: &Issuing<M, P>, rate: Rate) -> Gaps {
        let of_all_ns = mean_gap_ns(&issuing.load, rate, issuing.machine.cpus());
        Gaps {
            random: Random::new(issuing.number as u64 + 1),
            rate,
            mean_ns: of_all_ns * issuing.issuers as f64,
        }
    }

    fn next(&mut self) -> u64 {
        match self.rate {
            Rate::Every(_) => self.mean_ns as u64,
            Rate::Percent(_) => self.random.gap(self.mean_ns),
        }
    }
}

pub(crate) fn issue<M: Machine, P: Pool>(issuing: &Issuing<M, P>) -> Tally {
    let Shape::Arrive { rate } = issuing.load.shape else {
        unreachable!("called for this shape");
    };
    let machine = &issuing.machine;
    let slots: &'static Slots<M> = Box::leak(Box::new(Slots {
        machine: machine.clone(),
        load: issuing.load.clone(),
        slots: (0..MOST).map(|_| Slot::default()).collect(),
    }));
    let items: Vec<P::Item> = (0..MOST as u32)
        .map(|index| {
            issuing.pool.item(Job {
                target: slots,
                index,
            })
        })
        .collect();
    let mut gaps = Gaps::of(issuing, rate);
    let mut tally = Tally::new();
    // Items before `oldest` have ended, those before `next` were queued.
    let (mut oldest, mut next) = (0_u64, 0_u64);
    let mut due = machine.now_ns();
    while tally.go_on(&issuing.control) {
        oldest += collect(issuing, slots, oldest..next, &mut tally);
        if next - oldest == MOST as u64 {
            tally.held_back += 1;
            machine.sleep(LOOK_NS);
            due = machine.now_ns();
            continue;
        }
        due += gaps.next();
        issuing.sleep_until(due);
        let index = (next % MOST as u64) as usize;
        let slot = &slots.slots[index];
        slot.number.store(next, Ordering::Relaxed);
        slot.queued.fetch_add(1, Ordering::Relaxed);
        slot.queued_ns.store(machine.now_ns(), Ordering::Relaxed);
        issuing.pool.submit(&items[index]);
        next += 1;
    }
    while oldest < next {
        oldest += collect(issuing, slots, oldest..next, &mut tally);
        if oldest < next {
            machine.sleep(LOOK_NS);
        }
    }
    tally
}

/// Takes the oldest items as far as they have ended; returns how many those are.
fn collect<M: Machine, P: Pool>(
    issuing: &Issuing<M, P>,
    slots: &Slots<M>,
    on_their_way: std::ops::Range<u64>,
    tally: &mut Tally,
) -> u64 {
    let from = on_their_way.start;
    let mut taken = 0;
    for number in on_their_way {
        let slot = &slots.slots[(number % MOST as u64) as usize];
        if !slot.has_ended() {
            break;
        }
        if slot.ran.load(Ordering::Relaxed) != slot.queued.load(Ordering::Relaxed) {
            tally.wrong = Some("an item ran twice".to_owned());
        }
        let of = |time: &AtomicU64| time.load(Ordering::Relaxed);
        let queued = of(&slot.queued_ns);
        let times = tally.times();
        times.start.add(of(&slot.started_ns).saturating_sub(queued));
        let took = of(&slot.ended_ns).saturating_sub(queued);
        times.done.add(took);
        times.ended.add(took);
        taken = number + 1 - from;
    }
    if taken > 0 {
        tally.count(taken, issuing.number, &issuing.control);
    }
    taken
}
