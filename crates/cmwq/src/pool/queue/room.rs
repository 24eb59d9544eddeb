//! The bound on how many items of one workqueue wait: queued and not started.
//!
//! Every item that waits holds one *unit of room*. Its issuer takes the unit before it publishes
//! the item. Under the lock of the item's pool the unit goes back when the item is started or
//! cancelled. A queue without a bound has no [`WaitingBound`].
//!
//! A thread or task that needs room enters the line. The thread that gives a unit back hands it to
//! the first waiter in the line. So a waiter has its unit when it is woken, and no later issuer
//! overtakes the line.
//!
//! **No waiter is forgotten.** The count and the mark that says "there is a line" are one word. A
//! waiter sets the mark, under the line's lock, with a compare-exchange that finds the room used
//! up. So a unit that is given back either comes before that exchange, which fails then, or finds
//! the mark, and [serves](WaitingBound::serve) the line. The mark is cleared under the line's lock,
//! when the line is empty.
//!
//! | giving back | the waiter's mark | outcome |
//! |---|---|---|
//! | before it | the exchange finds room | the waiter takes it |
//! | after it | seen | the line is served, after the unlock of the pool |
//!
//! Closing: the queue is closed first, then [the line is refused](WaitingBound::refuse_all). A
//! waiter that comes to the line's lock after that asks whether the queue is closed, and finds that
//! it is.
#![forbid(unsafe_code)]

use crate::sys::atomic::plain;
use crate::sys::atomic::{AtomicU64, Ordering};
use crate::sys::sync::Mutex;
use crate::trace::Foreign;
use std::collections::BTreeMap;
use std::task::Waker;

/// The mark in the word which says that the line is not empty.
const LINE: u64 = 1;
/// One unit of room that is taken.
const UNIT: u64 = 2;

/// The room of one workqueue.
pub(crate) struct WaitingBound {
    /// How many units are taken, in steps of [`UNIT`], and [`LINE`].
    taken: AtomicU64,
    bound: plain::AtomicU64,
    /// How many attempts to queue found no room.
    refused: plain::AtomicU64,
    line: Mutex<WaitingLine>,
}

#[derive(Default)]
struct WaitingLine {
    next: u64,
    /// The waiters by their places. It is a map because there may be many, and a waiter is looked
    /// up each time it asks again or leaves.
    waiting: BTreeMap<u64, Foreign<Waker>>,
    /// The waiters that were taken out of the line and have not asked since; `true` if they were
    /// handed a unit.
    served: BTreeMap<u64, bool>,
}

/// The place in the line of one waiter; `None`: it is in no line.
pub(crate) type Place = Option<u64>;

/// The answer to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoomAnswer {
    /// It has a unit.
    Taken,
    /// It is in the line, and will be woken.
    Waits,
    /// The queue is closed.
    Closed,
}

impl WaitingBound {
    pub(crate) fn new(bound: usize) -> Self {
        WaitingBound {
            taken: AtomicU64::new(0),
            bound: plain::AtomicU64::new(bound.max(1) as u64),
            refused: plain::AtomicU64::new(0),
            line: Mutex::new(WaitingLine::default()),
        }
    }

    pub(crate) fn bound(&self) -> usize {
        self.bound.load(Ordering::Relaxed) as usize
    }

    /// How many items wait.
    pub(crate) fn waiting(&self) -> usize {
        (self.taken.load(Ordering::Relaxed) / UNIT) as usize
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Changes the bound. The caller [serves](Self::serve) the line.
    pub(crate) fn set_bound(&self, bound: usize) {
        self.bound.store(bound.max(1) as u64, Ordering::Relaxed);
    }

    fn has_room(&self, taken: u64) -> bool {
        taken / UNIT < self.bound.load(Ordering::Relaxed)
    }

    /// Takes a unit, unless all are taken or there is a line.
    pub(crate) fn try_take(&self) -> bool {
        let more = |taken: u64| (taken & LINE == 0 && self.has_room(taken)).then(|| taken + UNIT);
        // Relaxed: a count, which orders nothing. The waiters' lock orders what they do.
        let took = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok();
        if !took {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        took
    }

    /// Takes a unit even if all are taken. For an item whose timer has fired, which can no longer
    /// be refused.
    pub(crate) fn take_anyway(&self) {
        self.taken.fetch_add(UNIT, Ordering::Relaxed);
    }

    /// Gives a unit back. `true`: there is a line, which the caller has to [serve](Self::serve)
    /// when it holds no lock.
    #[must_use]
    pub(crate) fn give_back(&self) -> bool {
        let before = self.taken.fetch_sub(UNIT, Ordering::Relaxed);
        debug_assert!(before >= UNIT, "a unit is given back that was not taken");
        before & LINE != 0
    }

    /// Hands units to those in the line, as long as there are some. Returns the wakers to be called.
    #[must_use]
    pub(crate) fn serve(&self) -> Vec<Foreign<Waker>> {
        let mut woken = Vec::new();
        let mut line = self.line.lock();
        while !line.waiting.is_empty() && self.take_under_lock(false) {
            if let Some((place, waker)) = line.waiting.pop_first() {
                line.served.insert(place, true);
                woken.push(waker);
            }
        }
        self.unmark_if_empty(&line);
        woken
    }

    /// Takes a unit even if there is a line. If no unit is free and `marks` is set, it sets the
    /// mark, so that the thread that gives the next unit back serves the line.
    fn take_under_lock(&self, marks: bool) -> bool {
        let mut took = false;
        let step = |taken: u64| {
            took = self.has_room(taken);
            match (took, marks) {
                (true, _) => Some(taken + UNIT),
                (false, true) => Some(taken | LINE),
                (false, false) => None,
            }
        };
        let _ = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        took
    }

    fn unmark_if_empty(&self, line: &WaitingLine) {
        if line.waiting.is_empty() {
            self.taken.fetch_and(!LINE, Ordering::Relaxed);
        }
    }

    /// Called by a waiter that needs a unit, again after each wake-up, until the answer is not
    /// [`RoomAnswer::Waits`]. `is_closed` is asked under the line's lock.
    pub(crate) fn ask(
        &self,
        place: &mut Place,
        is_closed: impl FnOnce() -> bool,
        waker: &Waker,
    ) -> RoomAnswer {
        // The clone and the drop of a waker are the program's code: outside of the lock.
        let mut waker = Some(Foreign::new(waker.clone()));
        let mut line = self.line.lock();
        let asked = match *place {
            Some(own) => match line.served.remove(&own) {
                Some(true) => RoomAnswer::Taken,
                Some(false) => RoomAnswer::Closed,
                None => {
                    let in_line = line.waiting.get_mut(&own);
                    if let (Some(kept), Some(new)) = (in_line, waker.take()) {
                        waker = Some(std::mem::replace(kept, new));
                    }
                    RoomAnswer::Waits
                }
            },
            None if is_closed() => RoomAnswer::Closed,
            None if line.waiting.is_empty() && self.take_under_lock(true) => RoomAnswer::Taken,
            None => {
                let own = line.next;
                line.next += 1;
                line.waiting.extend(waker.take().map(|waker| (own, waker)));
                *place = Some(own);
                return RoomAnswer::Waits;
            }
        };
        if asked != RoomAnswer::Waits {
            *place = None;
        }
        drop(line);
        drop(waker);
        asked
    }

    /// A waiter gives up. `true`: it had been handed a unit, which the caller has to [give
    /// back](Self::give_back).
    #[must_use]
    pub(crate) fn leave(&self, place: &mut Place) -> bool {
        let Some(own) = place.take() else {
            return false;
        };
        let mut line = self.line.lock();
        let had_one = line.served.remove(&own) == Some(true);
        let waker = line.waiting.remove(&own);
        self.unmark_if_empty(&line);
        drop(line);
        drop(waker);
        had_one
    }

    /// Called after the queue was closed: empties the line, without giving units. Returns the
    /// wakers, which the caller calls.
    #[must_use]
    pub(crate) fn refuse_all(&self) -> Vec<Foreign<Waker>> {
        let mut line = self.line.lock();
        let waiting = std::mem::take(&mut line.waiting);
        let places = waiting.keys().map(|place| (*place, false));
        line.served.extend(places);
        self.unmark_if_empty(&line);
        drop(line);
        waiting.into_values().collect()
    }
}

/// Every unit comes back.
#[cfg(all(debug_assertions, not(any(test, cmwq_loom))))]
impl Drop for WaitingBound {
    fn drop(&mut self) {
        crate::sys::ends::at_the_end(|| {
            // No other thread has a reference any more, so this is the newest value.
            let taken = *self.taken.get_mut();
            assert_eq!(taken, 0, "units of room that are taken, and the line");
        });
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    fn ask(room: &WaitingBound, place: &mut Place) -> RoomAnswer {
        room.ask(place, || false, Waker::noop())
    }

    #[test]
    fn units_go_to_the_first_in_the_line_and_no_one_overtakes_it() {
        let room = WaitingBound::new(1);
        let (mut first, mut second) = (None, None);
        assert!(room.try_take() && !room.try_take());
        assert_eq!((room.waiting(), room.refused()), (1, 1));
        assert_eq!(ask(&room, &mut first), RoomAnswer::Waits);
        assert_eq!(ask(&room, &mut second), RoomAnswer::Waits);
        assert!(room.give_back(), "there is a line");
        assert!(!room.try_take(), "the line comes first");
        assert_eq!(room.serve().len(), 1);
        assert_eq!(ask(&room, &mut second), RoomAnswer::Waits);
        assert_eq!(ask(&room, &mut first), RoomAnswer::Taken);
        // The second one gives up when it has been served.
        assert!(room.give_back());
        assert_eq!(room.serve().len(), 1);
        assert!(room.leave(&mut second));
        assert!(!room.give_back(), "the line is empty");
        assert!(room.try_take());
    }

    #[test]
    fn a_higher_bound_serves_the_line_and_a_lower_one_takes_nothing_away() {
        let room = WaitingBound::new(1);
        let mut places = [None; 3];
        assert!(room.try_take());
        places
            .iter_mut()
            .for_each(|place| assert_eq!(ask(&room, place), RoomAnswer::Waits));
        room.set_bound(3);
        assert_eq!(room.serve().len(), 2);
        assert_eq!(room.waiting(), 3);
        room.set_bound(1);
        for _ in 0..2 {
            assert!(room.give_back());
            assert!(room.serve().is_empty());
        }
        assert!(room.give_back());
        assert_eq!((room.serve().len(), room.waiting()), (1, 1));
        assert_eq!(
            places.map(|mut place| ask(&room, &mut place)),
            [RoomAnswer::Taken; 3]
        );
    }

    #[test]
    fn a_closed_queue_refuses_the_line_and_those_that_come_later() {
        let room = WaitingBound::new(1);
        let (mut place, mut late) = (None, None);
        room.take_anyway();
        room.take_anyway();
        assert_eq!((room.waiting(), room.bound()), (2, 1));
        assert_eq!(ask(&room, &mut place), RoomAnswer::Waits);
        assert_eq!(room.refuse_all().len(), 1);
        assert_eq!(ask(&room, &mut place), RoomAnswer::Closed);
        assert_eq!(
            room.ask(&mut late, || true, Waker::noop()),
            RoomAnswer::Closed
        );
        assert!(!room.give_back() && !room.give_back());
    }
}

#[cfg(all(test, cmwq_loom))]
mod model {
    use super::*;
    use crate::sys::park::Parker;
    use loom::thread;
    use std::sync::Arc;
    use std::task::Wake;

    struct Unpark(Parker);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn wake(woken: Vec<Foreign<Waker>>) {
        for waker in woken {
            waker.call_once(crate::trace::Callee::Waker, Waker::wake);
        }
    }

    fn give_back(room: &WaitingBound) {
        if room.give_back() {
            wake(room.serve());
        }
    }

    /// Waits for a unit, as an executor of one thread does.
    fn take(room: &WaitingBound) {
        let unpark = Arc::new(Unpark(Parker::new()));
        let waker = Waker::from(unpark.clone());
        let mut place = None;
        while room.ask(&mut place, || false, &waker) == RoomAnswer::Waits {
            unpark.0.park();
        }
    }

    fn explore(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    #[test]
    fn of_two_that_wait_for_one_unit_each_gets_it() {
        explore(|| {
            let room = Arc::new(WaitingBound::new(1));
            assert!(room.try_take());
            let others = [0, 1].map(|_| {
                let room = room.clone();
                thread::spawn(move || {
                    take(&room);
                    give_back(&room);
                })
            });
            give_back(&room);
            for other in others {
                other.join().unwrap();
            }
            assert!(room.waiting() == 0 && room.try_take());
        });
    }

    #[test]
    fn one_that_gives_up_passes_its_unit_on() {
        explore(|| {
            let room = Arc::new(WaitingBound::new(1));
            assert!(room.try_take());
            let gives_up = thread::spawn({
                let room = room.clone();
                move || {
                    let mut place = None;
                    let asked = room.ask(&mut place, || false, Waker::noop());
                    if asked == RoomAnswer::Taken || room.leave(&mut place) {
                        give_back(&room);
                    }
                }
            });
            let waits = thread::spawn({
                let room = room.clone();
                move || take(&room)
            });
            give_back(&room);
            gives_up.join().unwrap();
            waits.join().unwrap();
            assert_eq!(room.waiting(), 1);
        });
    }

    #[test]
    fn one_that_waits_while_the_queue_is_closed_is_refused() {
        explore(|| {
            let room = Arc::new(WaitingBound::new(1));
            let closed = Arc::new(AtomicU64::new(0));
            assert!(room.try_take());
            let waits = thread::spawn({
                let (room, closed) = (room.clone(), closed.clone());
                move || {
                    let unpark = Arc::new(Unpark(Parker::new()));
                    let waker = Waker::from(unpark.clone());
                    let mut place = None;
                    let is_closed = || closed.load(Ordering::SeqCst) != 0;
                    loop {
                        match room.ask(&mut place, is_closed, &waker) {
                            RoomAnswer::Waits => unpark.0.park(),
                            RoomAnswer::Closed => return,
                            RoomAnswer::Taken => panic!("no unit was given back"),
                        }
                    }
                }
            });
            closed.store(1, Ordering::SeqCst);
            wake(room.refuse_all());
            waits.join().unwrap();
        });
    }
}
