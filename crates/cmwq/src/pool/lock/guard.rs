//! Holding the pool's lock, and releasing it: settle, unlock, wake.
//!
//! Everything that a lock holder sets in motion for other threads (wake-ups, calls to front ends,
//! requests to the service thread) is noted here and done after the unlock, on every way out.

use super::holds::most_in_a_hold;
use crate::item::{Completion, Inbox};
use crate::pool::queue::pwq::{Ended, PwqKey};
use crate::pool::state::pool::{FrontEnd, Inner, Pool, PwqState};
use crate::pool::state::worker::{WorkerHandle, WorkerSlot, WorkerState};
use crate::sys::holds::Hold;
use crate::sys::lock::LockGuard;
use crate::sys::{cpu, thread};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Idle workers that are always kept; none under the model checker, where each worker costs.
const KEPT_IDLE: usize = if cfg!(cmwq_loom) { 0 } else { 2 };

/// What to do once the lock is free.
pub(in crate::pool) enum Event {
    ColourDone(Arc<dyn FrontEnd>, u32),
    MustWait(Arc<dyn FrontEnd>, PwqKey),
    CreditsFreed(Arc<dyn FrontEnd>, usize),
    RoomFreed(Arc<dyn FrontEnd>),
    PwqGone(Arc<dyn FrontEnd>, PwqKey),
    /// The run or the pending instance that these completions stand for is over.
    Done(Vec<Arc<Completion>>),
}

/// Requests to the service thread. They are not kept as events, because events are allocated, and a
/// request must not need memory.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::pool) struct Asks {
    pub(in crate::pool) create_worker: bool,
    pub(in crate::pool) watch: bool,
    pub(in crate::pool) cull_later: bool,
    /// A slot was given back for which a pool is in line.
    pub(in crate::pool) hand_out_slots: bool,
    /// The pool is the first in line for a slot.
    pub(in crate::pool) slots: bool,
}

pub(crate) struct PoolGuard<'p> {
    pub(in crate::pool) pool: &'p Arc<Pool>,
    /// `None` only while the guard is being dropped.
    pub(in crate::pool) inner: Option<LockGuard<'p, Inner>>,
    /// Exists as long as `inner` does.
    pub(in crate::pool) hold: Hold,
    pub(in crate::pool) wake: Option<Wake>,
    pub(in crate::pool) asks: Asks,
    /// The pool workqueue whose unused credits are kept for items that this holder may take: see
    /// `CREDITS.md`.
    pub(in crate::pool) keeps: Option<u32>,
    /// The holder hands out slots itself, including those that this release gives back.
    pub(in crate::pool) hands_out_nothing: bool,
    /// How many more staged nodes this holding of the lock may turn or accept.
    pub(in crate::pool) left: usize,
    /// What only few lock holders leave to be done.
    pub(in crate::pool) rest: Option<Box<Rest>>,
    #[cfg(all(test, not(cmwq_loom)))]
    pub(in crate::pool) held: super::holds::counted::Held,
}

/// A worker to be woken once the lock is free.
pub(in crate::pool) struct Wake {
    worker: Arc<WorkerHandle>,
    id: u32,
    /// The CPU that it is bound to before: see [`placement`](crate::pool::wake::placement).
    onto: Option<usize>,
    /// The CPU of the thread that wakes it.
    from: Option<usize>,
    /// The CPU on which it will search.
    expected: Option<usize>,
}

impl Wake {
    pub(in crate::pool) fn wake(self, inbox: &Inbox) {
        // A worker that is not parked does not sleep yet, or another thread has woken it in the
        // meantime: then it has bound itself to its pod.
        if let Some(cpu) = self.onto
            && self.worker.is_parked()
        {
            // If the system refuses, the worker is woken on a CPU that the system chooses.
            let _ = thread::bind_other_to(self.worker.tid(), cpu);
        }
        self.worker.wake();
        inbox.searcher_is_woken(self.id, self.from, self.expected);
    }
}

#[derive(Default)]
pub(in crate::pool) struct Rest {
    /// Further wake-ups, where more than one worker is woken.
    pub(in crate::pool) wake_more: Vec<Wake>,
    pub(in crate::pool) events: Vec<Event>,
}

impl Deref for PoolGuard<'_> {
    type Target = Inner;

    #[inline]
    fn deref(&self) -> &Inner {
        self.inner.as_ref().expect("the lock is held")
    }
}

impl DerefMut for PoolGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Inner {
        self.inner.as_mut().expect("the lock is held")
    }
}

impl<'p> PoolGuard<'p> {
    #[inline]
    pub(in crate::pool) fn new(pool: &'p Arc<Pool>, inner: LockGuard<'p, Inner>) -> Self {
        PoolGuard {
            pool,
            inner: Some(inner),
            hold: Hold::new(),
            wake: None,
            asks: Asks::default(),
            keeps: None,
            hands_out_nothing: false,
            left: most_in_a_hold(),
            rest: None,
            #[cfg(all(test, not(cmwq_loom)))]
            held: super::holds::counted::Held::begin(),
        }
    }

    pub(in crate::pool) fn note(&mut self, event: Event) {
        self.rest.get_or_insert_default().events.push(event);
    }

    /// Notes what the end of an item set in motion.
    #[inline]
    pub(in crate::pool) fn after(&mut self, index: u32, colour: u32, ended: Ended) {
        if ended.credits_kept && self.keeps != Some(index) {
            self.give_back_kept();
            self.keeps = Some(index);
        }
        if !(ended.colour_done || ended.credits_freed || ended.gone) {
            return;
        }
        let front = self.pwqs[index].owner.front.clone();
        let node = self.pwqs[index].node;
        let key = self.key_of(index);
        if ended.gone {
            self.remove_pwq(index);
        }
        if ended.colour_done {
            self.note(Event::ColourDone(front.clone(), colour));
        }
        if ended.credits_freed {
            self.note(Event::CreditsFreed(front.clone(), node));
        }
        if ended.gone {
            self.note(Event::PwqGone(front, key));
        }
    }

    /// Gives back the credits that were kept and are not used.
    pub(in crate::pool) fn give_back_kept(&mut self) {
        let Some(index) = self.keeps.take() else {
            return;
        };
        let pwq = self.pwqs.get_mut(index);
        let ended = Ended {
            credits_freed: pwq.is_some_and(PwqState::give_back_if_tight),
            ..Ended::default()
        };
        self.after(index, 0, ended);
    }

    /// Called when an item of this pool workqueue has started or was cancelled: gives its room
    /// back.
    #[inline]
    pub(in crate::pool) fn leave_room(&mut self, index: u32) {
        if self.pwqs[index].room.is_some() {
            self.give_room_back(index);
        }
    }

    #[inline(never)]
    fn give_room_back(&mut self, index: u32) {
        let pwq = &self.pwqs[index];
        if pwq.room.as_ref().is_some_and(|room| room.give_back()) {
            let front = pwq.owner.front.clone();
            self.note(Event::RoomFreed(front));
        }
    }

    /// Completes these once the lock is free.
    #[inline]
    pub(in crate::pool) fn all_done(&mut self, waiters: Vec<Arc<Completion>>) {
        if !waiters.is_empty() {
            self.note(Event::Done(waiters));
        }
    }

    /// Picks the worker at this index of the idle list and counts it as searching. That claims it:
    /// no other thread will pick or cull it.
    pub(in crate::pool) fn wake_at(&mut self, chosen: usize) {
        let pool = self.pool;
        let inner: &mut Inner = self;
        let id = inner
            .counts
            .transition_idle_to_searching(chosen, &mut inner.workers);
        inner.stats.wakeups += 1;
        let slot = &mut inner.workers[id];
        slot.woken = true;
        let here = cpu::current();
        let onto = inner.occupied.pick(&mut slot.place, here, &inner.binding);
        // Until this thread has woken it, the worker waits for the CPU of this thread.
        pool.inbox.expect_searcher(id, here);
        self.wake_worker(id, onto, here);
    }

    fn wake_worker(&mut self, id: u32, onto: Option<usize>, from: Option<usize>) {
        let slot = &self.workers[id];
        let wake = Wake {
            worker: slot.handle.clone(),
            id,
            onto,
            from,
            expected: slot.place.expected(),
        };
        if self.wake.is_none() {
            self.wake = Some(wake);
        } else {
            self.rest.get_or_insert_default().wake_more.push(wake);
        }
    }

    /// Has the worker that was woken last begin, if it waits for the CPU on which the calling thread
    /// runs: moves it to a free CPU, or wakes it, if the thread that has picked it was preempted
    /// before it could do so.
    pub(in crate::pool) fn move_searcher(&mut self) {
        let Some(here) = cpu::current() else { return };
        if let Some(id) = self.pool.inbox.searcher_on(here) {
            self.move_searcher_from(here, id);
        }
    }

    /// The same for any worker that was woken; the calling thread, which runs on the CPU `here`,
    /// shares it with a worker.
    pub(in crate::pool) fn move_any_searcher(&mut self, here: usize) {
        let waits_here = |slot: &WorkerSlot| {
            slot.state == WorkerState::Searching && slot.place.expected() == Some(here)
        };
        let found = match self.searching() {
            0 => None,
            _ => self.workers.iter().find(|(_, slot)| waits_here(slot)),
        };
        if let Some((id, _)) = found {
            self.move_searcher_from(here, id);
        }
    }

    fn move_searcher_from(&mut self, here: usize, id: u32) {
        let inner: &mut Inner = self;
        if let Some(slot) = inner.workers.get_mut(id)
            && slot.state == WorkerState::Searching
        {
            if slot.handle.is_parked() {
                let onto = slot.place.expected().filter(|_| slot.place.is_bound());
                return self.wake_worker(id, onto, Some(here));
            }
            let to = inner
                .occupied
                .move_away(&mut slot.place, here, &inner.binding);
            // No CPU is free now; the next issuer tries again.
            let Some(cpu) = to else { return };
            // The lock is still held, so the worker binds itself to the whole pod only after this.
            let _ = thread::bind_other_to(slot.handle.tid(), cpu);
        }
        // The worker is no longer searching, or was moved and will arrive.
        self.pool.inbox.no_searcher();
    }

    /// Called when a worker has gone idle while too many are idle: has the service thread check
    /// later.
    pub(in crate::pool) fn cull_later(&mut self) {
        if !self.cull_armed && self.too_many_idle() {
            self.cull_armed = true;
            self.asks.cull_later = true;
        }
    }

    /// Has the monitor sample this pool.
    pub(in crate::pool) fn watch(&mut self) {
        if !self.watched {
            self.watched = true;
            self.asks.watch = true;
        }
    }

    /// Asks the service thread for one more worker, unless one is coming already.
    pub(in crate::pool) fn want_worker(&mut self) {
        if !self.creating && !self.dying {
            self.creating = true;
            self.asks.create_worker = true;
        }
    }
}

impl Inner {
    /// "Too many" as in the kernel: more than two idle, and over two more than a quarter of the busy ones.
    pub(in crate::pool) fn too_many_idle(&self) -> bool {
        let idle = self.idle().len();
        // Workers on their way out do not count, or the last ones to go would make the rest seem needed.
        let busy = self.nr_workers() - idle - self.leaving as usize;
        idle > KEPT_IDLE && (idle - KEPT_IDLE) * 4 >= busy
    }
}
