//! An issuer keeps some items in flight, and queues those again that have run.

use crate::issuer::{Tally, work};
use crate::run::Issuing;
use crate::{Access, Bell, Job, Load, Machine, Pool, Shape, Target};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// One item in flight.
#[repr(align(128))]
struct Slot<P: Pool> {
    /// Its number among those of its issuer.
    number: AtomicU64,
    queued_ns: AtomicU64,
    started_ns: AtomicU64,
    ended_ns: AtomicU64,
    /// Pieces of it that are still to run.
    left: AtomicU32,
    /// Its later stages.
    later: OnceLock<Weak<Later<P>>>,
}

/// The later stages of an item, which its worker queues. Its issuer owns them.
struct Later<P: Pool> {
    pool: Arc<P>,
    items: Vec<P::Item>,
}

struct Slots<M: Machine, P: Pool> {
    machine: M,
    load: Load,
    slots: Vec<Slot<P>>,
    /// A bit for each item that has run, until the issuer takes it.
    ran: Vec<Word>,
    bell: M::Bell,
}

#[repr(align(128))]
#[derive(Default)]
struct Word(AtomicU64);

impl<M: Machine, P: Pool> Target for Slots<M, P> {
    /// The piece of that number: slots first, then stages.
    fn run(&self, index: u32) {
        let (slot, stage) = (
            index as usize % self.slots.len(),
            index as usize / self.slots.len(),
        );
        let at = &self.slots[slot];
        let number = at.number.load(Ordering::Relaxed);
        let is_timed = number.is_multiple_of(self.load.timed_every());
        if stage == 0 && is_timed {
            at.started_ns
                .store(self.machine.now_ns(), Ordering::Relaxed);
        }
        work(&self.machine, self.load.item(number));
        self.machine
            .touch(std::ptr::from_ref(at).addr(), Access::Write);
        // One piece of an item runs at a time.
        let left = at.left.load(Ordering::Relaxed).wrapping_sub(1);
        if left == 0 && is_timed {
            at.ended_ns.store(self.machine.now_ns(), Ordering::Relaxed);
        }
        at.left.store(left, Ordering::Release);
        if let Some(later) = at.later.get()
            && let Some(later) = later.upgrade()
            && let Some(item) = later.items.get(stage)
        {
            return later.pool.submit(item);
        }
        let word = &self.ran[slot / 64];
        self.machine
            .touch(std::ptr::from_ref(word).addr(), Access::Update);
        // Those that end while the issuer is on its way are taken with the same wake-up.
        if word.0.fetch_or(1 << (slot % 64), Ordering::AcqRel) == 0 {
            self.bell.ring();
        }
    }
}

impl<M: Machine, P: Pool> Slots<M, P> {
    /// The slots whose items have run; waits for one.
    fn take(&self, ran: &mut Vec<u32>) {
        loop {
            for (number, word) in self.ran.iter().enumerate() {
                self.machine
                    .touch(std::ptr::from_ref(word).addr(), Access::Update);
                let mut bits = word.0.swap(0, Ordering::AcqRel);
                while bits != 0 {
                    ran.push(number as u32 * 64 + bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
            if !ran.is_empty() {
                return;
            }
            self.bell.wait();
        }
    }
}

pub(crate) fn issue<M: Machine, P: Pool>(issuing: &Issuing<M, P>) -> Tally {
    let Shape::Flow { in_flight, stages } = issuing.load.shape else {
        unreachable!("called for this shape");
    };
    let (machine, pool) = (&issuing.machine, &issuing.pool);
    let slots: &'static Slots<M, P> = Box::leak(Box::new(Slots {
        machine: machine.clone(),
        load: issuing.load.clone(),
        slots: (0..in_flight).map(|_| empty()).collect(),
        ran: (0..in_flight.div_ceil(64))
            .map(|_| Word::default())
            .collect(),
        bell: M::Bell::new(),
    }));
    slots.bell.adopt();
    let item = |slot: u32, stage: u32| {
        pool.item(Job {
            target: slots,
            index: stage * in_flight + slot,
        })
    };
    let items: Vec<P::Item> = (0..in_flight).map(|slot| item(slot, 0)).collect();
    let later: Vec<Arc<Later<P>>> = (0..in_flight)
        .filter(|_| stages > 1)
        .map(|slot| {
            let items = (1..stages).map(|stage| item(slot, stage)).collect();
            let pool = pool.clone();
            let later = Arc::new(Later { pool, items });
            let _ = slots.slots[slot as usize].later.set(Arc::downgrade(&later));
            later
        })
        .collect();

    let mut tally = Tally::new();
    let mut free: Vec<u32> = (0..in_flight).collect();
    let (mut flying, mut number) = (0, 0_u64);
    while tally.go_on(&issuing.control) {
        if let Some(until) = issuing.rests_until() {
            while flying > 0 {
                flying -= collect(issuing, slots, &mut free, &mut tally);
            }
            issuing.sleep_until(until);
            continue;
        }
        for index in free.drain(..) {
            let slot = &slots.slots[index as usize];
            slot.number.store(number, Ordering::Relaxed);
            slot.left.store(stages, Ordering::Relaxed);
            if number.is_multiple_of(issuing.load.timed_every()) {
                slot.queued_ns.store(machine.now_ns(), Ordering::Relaxed);
            }
            pool.submit(&items[index as usize]);
            number += 1;
            flying += 1;
        }
        flying -= collect(issuing, slots, &mut free, &mut tally);
    }
    while flying > 0 {
        flying -= collect(issuing, slots, &mut free, &mut tally);
    }
    drop(later);
    tally
}

fn empty<P: Pool>() -> Slot<P> {
    Slot {
        number: AtomicU64::new(0),
        queued_ns: AtomicU64::new(0),
        started_ns: AtomicU64::new(0),
        ended_ns: AtomicU64::new(0),
        left: AtomicU32::new(0),
        later: OnceLock::new(),
    }
}

/// Takes what has run; returns how many those are.
fn collect<M: Machine, P: Pool>(
    issuing: &Issuing<M, P>,
    slots: &Slots<M, P>,
    free: &mut Vec<u32>,
    tally: &mut Tally,
) -> usize {
    let before = free.len();
    slots.take(free);
    for &index in &free[before..] {
        let slot = &slots.slots[index as usize];
        if slot.left.load(Ordering::Acquire) != 0 {
            tally.wrong = Some("an item ran twice or not to its end".to_owned());
        }
        let number = slot.number.load(Ordering::Relaxed);
        if number.is_multiple_of(issuing.load.timed_every()) {
            let now = issuing.machine.now_ns();
            let of = |time: &AtomicU64| time.load(Ordering::Relaxed);
            let queued = of(&slot.queued_ns);
            let times = tally.times();
            times.start.add(of(&slot.started_ns).saturating_sub(queued));
            times.ended.add(of(&slot.ended_ns).saturating_sub(queued));
            times.done.add(now - queued);
        }
    }
    let taken = free.len() - before;
    tally.count(taken as u64, issuing.number, &issuing.control);
    taken
}
