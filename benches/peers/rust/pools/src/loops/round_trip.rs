//! Round trip: queue one item, wait for it, again. Every seventh is timed, so that the clock costs little.

use super::{Phase, Tally, timed};
use crate::job::{Job, Joining, Pool, Target, forever};
use crate::machine::now_ns;
use crate::options::Options;
use crate::report::Report;
use crate::signal::Signal;
use std::sync::atomic::{AtomicU64, Ordering};

const TIMED_EVERY: u64 = 7;

/// An issuer's item: what it signals, and apart from that, as in the other languages, how often it ran. What the allocator puts beside either is not
/// left to chance.
#[repr(align(128))]
struct Trip<S> {
    signal: S,
    ran: Counted,
}

impl<S: Signal> Target for Trip<S> {
    fn run(&self, _: u32) {
        self.ran.count();
        self.signal.set();
    }
}

/// The item signals, the issuer waits for the signal.
pub(crate) fn signalled<S: Signal, P: Pool>(pool: &P, options: &Options) -> Result<Report, String> {
    timed(options, options.issuers, |_, phase| {
        let trip = forever(Trip {
            signal: S::new(),
            ran: Counted(AtomicU64::new(0)),
        });
        trip.signal.adopt();
        let item = pool.item(Job::new(trip, 0));
        let mut tally = trips(
            phase,
            || {
                trip.signal.reset();
                pool.submit(&item);
            },
            |()| trip.signal.wait(),
            true,
        );
        tally.ran = trip.ran.0.load(Ordering::Relaxed);
        tally
    })
}

/// An item that only counts: its handle tells. On lines of its own as well.
#[repr(align(128))]
struct Counted(AtomicU64);

impl Counted {
    fn count(&self) {
        // One item of an issuer at a time.
        self.0
            .store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

impl Target for Counted {
    fn run(&self, _: u32) {
        self.count();
    }
}

/// The issuer waits on the item's handle.
pub(crate) fn joined<P: Joining>(pool: &P, options: &Options) -> Result<Report, String> {
    timed(options, options.issuers, |_, phase| {
        let counted = forever(Counted(AtomicU64::new(0)));
        let mut tally = trips(
            phase,
            || pool.spawn(Job::new(counted, 0)),
            |handle| pool.join(handle),
            P::IN_TWO_CALLS,
        );
        tally.ran = counted.0.load(Ordering::Relaxed);
        tally
    })
}

fn trips<H>(
    phase: &Phase,
    queue: impl Fn() -> H,
    wait: impl Fn(H),
    enqueue_is_timed: bool,
) -> Tally {
    let mut tally = Tally::default();
    let mut measuring = false;
    while phase.go_on(&mut tally, &mut measuring) {
        if tally.queued.is_multiple_of(TIMED_EVERY) {
            let start = now_ns();
            let handle = queue();
            let queued = now_ns();
            wait(handle);
            tally.latency_ns.push(now_ns() - start);
            if enqueue_is_timed {
                tally.enqueue_ns.push(queued - start);
            }
        } else {
            wait(queue());
        }
        tally.queued += 1;
        tally.items += 1;
    }
    tally
}
