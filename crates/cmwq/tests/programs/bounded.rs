//! A queue with a bound on what waits, which all issuers share: no more than that waits, what is
//! refused never runs, threads and tasks that wait for room get it, and no room is lost or made,
//! whoever gives up.

use super::bodies::{compute, linger, sleep_until};
use super::handles::Wakes;
use super::issuer::Issuer;
use super::library::types::{NotAccepted, Queued, Room};
use super::library::{Engine, JoinHandle, Refused, Work, Workqueue};
use super::model::{self, Inside};
use super::world::built;
use super::{Broken, Random, os};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A unit of room is in use from its attempt until the item begins or is removed, or until the
/// attempt or the reserved room is given up.
#[derive(Default)]
pub(crate) struct Counts {
    /// Attempts to get a unit that have begun.
    attempts: AtomicUsize,
    /// Units that are certainly free again, and attempts that got none. Whoever sees one of them
    /// over sees that its unit is free.
    over: os::Seen,
    /// Instances that were certainly accepted.
    accepted: AtomicUsize,
    begun: AtomicUsize,
    /// By a cancel or an abort.
    removed: AtomicUsize,
    /// Cancels and aborts that have begun and are not counted yet.
    removing: AtomicUsize,
    /// Closures that exist, and items that run.
    alive: AtomicUsize,
}

impl Counts {
    fn add(count: &AtomicUsize) {
        count.fetch_add(1, SeqCst);
    }

    fn is_over(&self) {
        self.over.fetch_add(1, Release);
    }

    pub(crate) fn is_settled(&self) -> bool {
        let begun = self.begun.load(SeqCst) + self.removed.load(SeqCst);
        self.alive.load(SeqCst) == 0 && self.accepted.load(SeqCst) == begun
    }

    /// What is not settled.
    pub(crate) fn open(&self) -> String {
        match self.is_settled() {
            true => String::new(),
            false => format!(
                "; bounded: {} accepted, {} begun, {} removed, {} alive",
                self.accepted.load(SeqCst),
                self.begun.load(SeqCst),
                self.removed.load(SeqCst),
                self.alive.load(SeqCst)
            ),
        }
    }
}

/// Counted among what is alive until it is dropped.
struct Alive(Arc<Counts>);

impl Alive {
    fn new(counts: &Arc<Counts>) -> Alive {
        Counts::add(&counts.alive);
        Alive(counts.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, SeqCst);
    }
}

/// The queue, and what the oracles know of it.
pub(crate) struct Bounded {
    // First: what it holds runs while the rest still stands.
    wq: Workqueue,
    counts: Arc<Counts>,
    active: Arc<model::Room>,
    most_active: usize,
    /// The greatest bound that it ever has.
    most: usize,
    /// The bound changes.
    changes: bool,
    drains: bool,
    items: Vec<Work>,
    broken: Arc<Broken>,
}

impl Bounded {
    pub(crate) fn new(
        engine: &Engine,
        random: &mut Random,
        counts: &Arc<Counts>,
        broken: &Arc<Broken>,
    ) -> Bounded {
        let most = [1, 2, 3, 8][random.below(4)];
        let max_active = [1, 2, 8][random.below(3)];
        let (ordered, reclaims) = (random.one_in(4), random.one_in(4));
        let builder = || {
            let builder = engine.workqueue("bounded").max_waiting(most);
            let builder = match ordered {
                true => builder.ordered(),
                false => builder.max_active(max_active),
            };
            if reclaims {
                builder.mem_reclaim()
            } else {
                builder
            }
        };
        let nodes = engine.topology().nodes().len();
        let active = Arc::<model::Room>::default();
        let most_active = match ordered {
            true => 1,
            false => max_active * (nodes + usize::from(nodes > 1)),
        };
        let item = |_| {
            let (counts, active, broken) = (counts.clone(), active.clone(), broken.clone());
            Work::new(move || {
                let alive = Alive::new(&counts);
                let inside = begin(&counts, &active, most_active, &broken);
                compute(&mut Random::new(counts.begun.load(SeqCst) as u64));
                drop((inside, alive));
            })
        };
        Bounded {
            wq: built(builder),
            items: (0..3).map(item).collect(),
            counts: counts.clone(),
            active,
            most_active,
            most,
            changes: random.one_in(2),
            drains: random.one_in(4),
            broken: broken.clone(),
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.counts.is_settled()
    }

    /// When nothing uses it any more: there is as much room as the bound says.
    pub(crate) fn check_at_rest(&self) {
        let bound_now = || self.wq.max_waiting().expect("it was built with a bound");
        // A machine with a weak memory may show this thread late that there is room, or that a
        // drain by another thread has ended. So it waits, and asks again.
        let one = || {
            for _ in 0..1000 {
                match self.wq.room().wait_timeout(Duration::from_secs(1)) {
                    Err(Refused::Draining) => os::sleep(Duration::from_millis(1)),
                    answer => return answer.ok(),
                }
            }
            None
        };
        let mut rooms: Vec<Room> = Vec::new();
        // Nor need it have seen the last change of the bound. What it reads grows no older: it goes
        // on until the bound is the same behind its attempts as before them.
        let (mut bound, mut greatest) = (bound_now(), 0);
        loop {
            greatest = greatest.max(bound);
            let missing = bound.saturating_sub(rooms.len());
            rooms.extend(std::iter::from_fn(one).take(missing));
            rooms.extend(self.wq.try_room());
            let before = std::mem::replace(&mut bound, bound_now());
            if before == bound {
                break;
            }
        }
        let got = rooms.len();
        // It may have taken some before it saw that the bound was lowered.
        self.broken.expect((bound..=greatest).contains(&got), || {
            format!("bounded: at rest there is room for {got} items, the bound is {bound}")
        });
    }

    /// What an item does that is accepted.
    fn closure(&self, value: u64) -> impl FnOnce() -> u64 + Send + use<> {
        let alive = Alive::new(&self.counts);
        let (counts, active) = (self.counts.clone(), self.active.clone());
        let (most_active, broken) = (self.most_active, self.broken.clone());
        // Now and then it waits for room in its own queue, which is an error.
        let own = value.is_multiple_of(16).then(|| self.wq.clone());
        move || {
            let inside = begin(&counts, &active, most_active, &broken);
            let mut random = Random::new(value);
            compute(&mut random);
            if let Some(wq) = own {
                let answer = wq.room().wait().map(drop);
                broken.expect(answer == Err(Refused::OwnItem), || {
                    format!("bounded: an item waited for room in its own queue: {answer:?}")
                });
            } else if random.one_in(2) {
                linger(200, &mut random);
            }
            drop((inside, alive));
            value
        }
    }

    /// An attempt begins; the answer is how many units were certainly free again by then.
    fn begin_attempt(&self) -> usize {
        let over = self.counts.over.load(Acquire) as usize;
        Counts::add(&self.counts.attempts);
        over
    }

    /// The attempt got no room.
    fn was_refused(&self, over_before: usize, why: Refused) {
        // The others that may have had a unit at any time since.
        let others = self.counts.attempts.load(SeqCst) - over_before - 1;
        let possible = match why {
            Refused::Full => self.changes || others >= self.most,
            Refused::Draining => self.drains,
            _ => false,
        };
        self.broken.expect(possible, || {
            format!("bounded: refused as {why:?}; {others} others may have had room")
        });
        self.counts.is_over();
    }

    fn was_accepted(&self) {
        Counts::add(&self.counts.accepted);
        let counts = &self.counts;
        // Items that run, and items that are being removed, may not have been counted yet.
        let removing = counts.removing.load(SeqCst);
        let gone = counts.begun.load(SeqCst) + counts.removed.load(SeqCst);
        let waiting = counts.accepted.load(SeqCst).saturating_sub(gone);
        let most = self.most + self.most_active + removing;
        self.broken.expect(waiting <= most, || {
            format!("bounded: {waiting} wait or begin, at most {most} may")
        });
    }

    /// An item may be removed, which gives its room back before this thread can count it.
    fn remove(&self, removes: impl FnOnce() -> bool) {
        Counts::add(&self.counts.removing);
        if removes() {
            Counts::add(&self.counts.removed);
            self.counts.is_over();
        }
        self.counts.removing.fetch_sub(1, SeqCst);
    }
}

/// An item begins.
fn begin(
    counts: &Arc<Counts>,
    active: &Arc<model::Room>,
    most_active: usize,
    broken: &Broken,
) -> Inside {
    Counts::add(&counts.begun);
    counts.is_over();
    active.enter(broken, most_active, || "bounded".into())
}

impl Issuer {
    pub(crate) fn bounded(&mut self) {
        let world = self.world.clone();
        let Some(bounded) = &world.bounded else {
            return;
        };
        let value = self.random.bits();
        match self.random.below(16) {
            0..3 => {
                let over = bounded.begin_attempt();
                let spawned = bounded.wq.try_spawn(bounded.closure(value));
                self.was_spawned(bounded, over, value, spawned);
            }
            3..5 => {
                let over = bounded.begin_attempt();
                let closure = bounded.closure(value);
                let executed = bounded.wq.try_execute(move || {
                    closure();
                });
                match executed {
                    Ok(()) => bounded.was_accepted(),
                    Err(refused) => bounded.was_refused(over, refused.why),
                }
            }
            5..8 => self.wait_for_room(bounded, value),
            8..12 => self.await_room(bounded, value),
            12 => self.queue_bounded_item(bounded),
            13 => {
                let at = self.random.below(bounded.items.len());
                bounded.remove(|| bounded.items[at].cancel());
            }
            14 if bounded.changes => {
                let bound = 1 + self.random.below(bounded.most);
                bounded.wq.set_max_waiting(bound).expect("it has a bound");
            }
            _ if bounded.drains => bounded.wq.drain().expect("not from one of its items"),
            _ => bounded.wq.flush().expect("not from one of its items"),
        }
    }

    fn queue_bounded_item(&mut self, bounded: &Bounded) {
        let at = self.random.below(bounded.items.len());
        let over = bounded.begin_attempt();
        match bounded.wq.queue(&bounded.items[at]) {
            Queued::Accepted => bounded.was_accepted(),
            Queued::Refused(why) => bounded.was_refused(over, why),
            Queued::AlreadyPending | Queued::Disabled => bounded.counts.is_over(),
        }
    }

    fn was_spawned<F>(
        &mut self,
        bounded: &Bounded,
        over: usize,
        value: u64,
        spawned: Result<JoinHandle<u64>, NotAccepted<F>>,
    ) {
        match spawned {
            Ok(handle) => {
                bounded.was_accepted();
                match self.random.below(4) {
                    0 => bounded.remove(|| handle.abort()),
                    1 => drop(handle),
                    2 if self.handles.len() < 64 => self.handles.push((value, handle)),
                    _ => self.wait_for(value, handle),
                }
            }
            Err(refused) => bounded.was_refused(over, refused.why),
        }
    }

    /// In this thread, for as long as it takes or not.
    fn wait_for_room(&mut self, bounded: &Bounded, value: u64) {
        let over = bounded.begin_attempt();
        let wait = bounded.wq.room();
        let room = match self.random.below(3) {
            0 => wait.wait_timeout(Duration::from_micros(self.random.below(100) as u64)),
            _ => wait.wait(),
        };
        match room {
            Ok(room) => self.use_room(bounded, over, value, room),
            Err(why) => bounded.was_refused(over, why),
        }
    }

    /// As a task, polled with several wakers; or the wait is dropped in the middle.
    fn await_room(&mut self, bounded: &Bounded, value: u64) {
        let over = bounded.begin_attempt();
        let mut wait = Box::pin(bounded.wq.room());
        let mut newest = Arc::<Wakes>::default();
        loop {
            if self.random.one_in(4) {
                newest = Arc::default();
            }
            let before = newest.calls();
            let waker = Waker::from(newest.clone());
            match wait.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(Ok(room)) => return self.use_room(bounded, over, value, room),
                Poll::Ready(Err(why)) => return bounded.was_refused(over, why),
                Poll::Pending if self.random.one_in(6) => break,
                Poll::Pending if self.random.one_in(4) => {
                    os::sleep(Duration::from_micros(self.random.below(40) as u64));
                }
                Poll::Pending => {
                    sleep_until(Duration::from_micros(2), || newest.calls() > before);
                }
            }
        }
        // It may have got room since.
        drop(wait);
        bounded.counts.is_over();
    }

    fn use_room(&mut self, bounded: &Bounded, over: usize, value: u64, room: Room) {
        if self.random.one_in(4) {
            os::sleep(Duration::from_micros(self.random.below(60) as u64));
        }
        match self.random.below(8) {
            0 => {
                drop(room);
                bounded.counts.is_over();
            }
            1 => {
                let at = self.random.below(bounded.items.len());
                match room.queue(&bounded.items[at]) {
                    Queued::Accepted => bounded.was_accepted(),
                    Queued::Refused(why) => bounded.was_refused(over, why),
                    Queued::AlreadyPending | Queued::Disabled => {
                        bounded.counts.is_over();
                    }
                }
            }
            2 | 3 => {
                let closure = bounded.closure(value);
                match room.execute(move || {
                    closure();
                }) {
                    Ok(()) => bounded.was_accepted(),
                    Err(refused) => bounded.was_refused(over, refused.why),
                }
            }
            _ => {
                let spawned = room.spawn(bounded.closure(value));
                self.was_spawned(bounded, over, value, spawned);
            }
        }
    }
}
