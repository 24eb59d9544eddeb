//! Window: each issuer keeps 64 items in flight, and queues the next when one has run. An item
//! computes for about 20 µs; in the *block* loop every fourth first sleeps for a millisecond in a
//! system call. Every item is timed, from before it is queued to its end, and to when its issuer
//! has learned of that.

use super::{Phase, Tally, timed};
use crate::job::{Job, Joining, Pool, Target, forever};
use crate::machine::{now_ns, spin};
use crate::options::Options;
use crate::report::Report;
use crate::signal::{Finished, Signal};
use cmwq_loads::Bell;
use std::array;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const WINDOW: usize = 64;
/// How long an item of the block loop sleeps, one in four.
pub(crate) const SLEEP: Duration = Duration::from_millis(1);

/// How an item of the block loop sleeps.
pub(crate) type Sleep = fn(Duration);

/// What items do.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Every fourth item sleeps, in this way.
    pub(crate) sleep: Option<Sleep>,
}

/// Only computing.
pub(crate) const COMPUTE: Kind = Kind { sleep: None };
/// One item in four sleeps, and tells nobody.
pub(crate) const BLOCK: Kind = Kind {
    sleep: Some(std::thread::sleep),
};

/// One item in flight. A cache line, or two that are fetched together, for each.
#[repr(align(128))]
struct Slot<S> {
    queued_ns: AtomicU64,
    took_ns: AtomicU64,
    runs: AtomicU64,
    sleeps: AtomicBool,
    signal: S,
}

/// The items of an issuer.
struct Slots<S, F> {
    slots: [Slot<S>; WINDOW],
    kind: Kind,
    spin: u64,
    /// Called with the item's number at its end.
    tell: F,
}

impl<S: Sync, F: Fn(&Slot<S>, u32) + Sync> Target for Slots<S, F> {
    fn run(&self, index: u32) {
        let slot = &self.slots[index as usize];
        if let Some(sleep) = self.kind.sleep
            && slot.sleeps.load(Ordering::Relaxed)
        {
            sleep(SLEEP);
        }
        spin(self.spin);
        slot.runs
            .store(slot.runs.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let took = now_ns() - slot.queued_ns.load(Ordering::Relaxed);
        slot.took_ns.store(took, Ordering::Relaxed);
        (self.tell)(slot, index);
    }
}

impl<S, F> Slots<S, F> {
    fn new(kind: Kind, options: &Options, signal: impl Fn() -> S, tell: F) -> Slots<S, F> {
        Slots {
            slots: array::from_fn(|_| Slot {
                queued_ns: AtomicU64::new(0),
                took_ns: AtomicU64::new(0),
                runs: AtomicU64::new(0),
                sleeps: AtomicBool::new(false),
                signal: signal(),
            }),
            kind,
            spin: options.spin,
            tell,
        }
    }

    /// Before an item is queued.
    fn start(&self, index: u32, tally: &mut Tally) {
        let slot = &self.slots[index as usize];
        let sleeps = self.kind.sleep.is_some() && tally.queued.is_multiple_of(4);
        slot.sleeps.store(sleeps, Ordering::Relaxed);
        slot.queued_ns.store(now_ns(), Ordering::Relaxed);
        tally.queued += 1;
    }

    /// After an item was seen to have run.
    fn end(&self, index: u32, tally: &mut Tally) {
        let slot = &self.slots[index as usize];
        let took = slot.took_ns.load(Ordering::Relaxed);
        if slot.sleeps.load(Ordering::Relaxed) {
            tally.sleeper_ns.push(took);
        } else {
            tally.latency_ns.push(took);
            let queued_ns = slot.queued_ns.load(Ordering::Relaxed);
            tally.told_ns.push(now_ns() - queued_ns);
        }
        tally.items += 1;
    }

    fn ran(&self) -> u64 {
        self.slots
            .iter()
            .map(|slot| slot.runs.load(Ordering::Relaxed))
            .sum()
    }
}

/// Items mark themselves in one word of their issuer, who takes all that have run at once.
pub(crate) fn counted<B: Bell, P: Pool>(
    pool: &P,
    options: &Options,
    kind: Kind,
) -> Result<Report, String> {
    timed(options, options.issuers, |_, phase| {
        let finished = forever(Finished::<B>::new());
        finished.adopt();
        let tell = |_: &Slot<()>, index| finished.set(index);
        let slots = forever(Slots::new(kind, options, || (), tell));
        let items: Vec<P::Item> = (0..WINDOW as u32)
            .map(|index| pool.item(Job::new(slots, index)))
            .collect();
        let mut tally = Tally::default();
        let (mut measuring, mut free, mut in_flight) = (false, u64::MAX, 0_u64);
        while phase.go_on(&mut tally, &mut measuring) {
            while free != 0 {
                let index = free.trailing_zeros();
                free &= free - 1;
                in_flight |= 1 << index;
                slots.start(index, &mut tally);
                pool.submit(&items[index as usize]);
            }
            free = finished.take();
            in_flight &= !free;
            for index in (0..64).filter(|index| free >> index & 1 == 1) {
                slots.end(index, &mut tally);
            }
        }
        while in_flight != 0 {
            in_flight &= !finished.take();
        }
        tally.ran = slots.ran();
        tally
    })
}

/// Where items deliver their numbers to an issuer that waits in an event loop.
pub(crate) trait Delivery {
    fn submit(&mut self, job: Job);
    /// Appends the numbers of items that have run; waits for one.
    fn take(&mut self, ran: &mut Vec<u32>);
}

/// The issuer takes from its delivery all that have run at once. `open` makes one for each issuer.
pub(crate) fn delivered<D: Delivery>(
    open: impl Fn() -> Result<D, String> + Sync,
    options: &Options,
    kind: Kind,
) -> Result<Report, String> {
    open()?;
    timed(options, options.issuers, |_, phase| {
        let mut delivery = open().expect("one could be opened before");
        let slots = forever(Slots::new(kind, options, || (), |_: &Slot<()>, _| ()));
        let mut tally = Tally::default();
        let (mut measuring, mut in_flight) = (false, 0);
        let mut free: Vec<u32> = (0..WINDOW as u32).collect();
        while phase.go_on(&mut tally, &mut measuring) {
            for index in free.drain(..) {
                slots.start(index, &mut tally);
                delivery.submit(Job::new(slots, index));
                in_flight += 1;
            }
            delivery.take(&mut free);
            in_flight -= free.len();
            for &index in &free {
                slots.end(index, &mut tally);
            }
        }
        while in_flight != 0 {
            free.clear();
            delivery.take(&mut free);
            in_flight -= free.len();
        }
        tally.ran = slots.ran();
        tally
    })
}

/// Each item has a signal, and the issuer waits for the oldest.
pub(crate) fn signalled<S: Signal, P: Pool>(
    pool: &P,
    options: &Options,
    kind: Kind,
) -> Result<Report, String> {
    timed(options, options.issuers, |_, phase| {
        let tell = |slot: &Slot<S>, _| slot.signal.set();
        let slots = forever(Slots::new(kind, options, S::new, tell));
        let items: Vec<P::Item> = (0..WINDOW as u32)
            .map(|index| pool.item(Job::new(slots, index)))
            .collect();
        let mut tally = in_turn(
            phase,
            |index, tally| {
                let signal = &slots.slots[index as usize].signal;
                signal.adopt();
                signal.reset();
                slots.start(index, tally);
                pool.submit(&items[index as usize]);
            },
            |index, ()| slots.slots[index as usize].signal.wait(),
            |index, tally| slots.end(index, tally),
        );
        tally.ran = slots.ran();
        tally
    })
}

/// Each item has a handle, and the issuer waits for the oldest.
pub(crate) fn joined<P: Joining>(
    pool: &P,
    options: &Options,
    kind: Kind,
) -> Result<Report, String> {
    timed(options, options.issuers, |_, phase| {
        let slots = forever(Slots::new(kind, options, || (), |_: &Slot<()>, _| ()));
        let mut tally = in_turn(
            phase,
            |index, tally| {
                slots.start(index, tally);
                pool.spawn(Job::new(slots, index))
            },
            |_, handle| pool.join(handle),
            |index, tally| slots.end(index, tally),
        );
        tally.ran = slots.ran();
        tally
    })
}

/// Fills the window, then waits for the oldest and queues it again.
fn in_turn<H>(
    phase: &Phase,
    queue: impl Fn(u32, &mut Tally) -> H,
    wait: impl Fn(u32, H),
    seen: impl Fn(u32, &mut Tally),
) -> Tally {
    let mut tally = Tally::default();
    let mut measuring = false;
    let mut in_flight: VecDeque<(u32, H)> = VecDeque::with_capacity(WINDOW);
    for index in 0..WINDOW as u32 {
        let handle = queue(index, &mut tally);
        in_flight.push_back((index, handle));
    }
    while phase.go_on(&mut tally, &mut measuring)
        && let Some((index, handle)) = in_flight.pop_front()
    {
        wait(index, handle);
        seen(index, &mut tally);
        let handle = queue(index, &mut tally);
        in_flight.push_back((index, handle));
    }
    for (index, handle) in in_flight {
        wait(index, handle);
    }
    tally
}
