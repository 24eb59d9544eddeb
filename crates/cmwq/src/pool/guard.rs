//! Holding the pool's lock, and letting go of it: settle, unlock, wake.
//!
//! Everything that a lock holder sets in motion for others (wake-ups, calls to front ends, requests to the service thread)
//! is put down here and done after the lock is let go, on every way out.

use super::block::Current;
use super::busy::Executor;
use super::placing::Placing;
use super::pwq::{Accepted, Ended, FrontEnd, PwqKey};
use super::{Inner, Pool, PoolKind, WorkerHandle, WorkerState};
use crate::sys::clock;
use crate::sys::sync::MutexGuard;
use crate::work::{Completion, Pending, Started};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Idle workers that are always kept; none under the model checker, where every one costs.
const KEPT_IDLE: usize = if cfg!(cmwq_loom) { 0 } else { 2 };

/// So many arrivals are accepted in one go: a burst that is shorter is accepted whole.
const ACCEPTED_AT_ONCE: usize = if cfg!(cmwq_loom) { 2 } else { 64 };

/// An item that a worker has taken: started, not yet called.
pub(crate) struct Task {
    pub(super) started: Started,
    pub(super) run: Run,
}

/// What stays of an item while its function runs.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) busy: u32,
    pub(super) pwq: u32,
    pub(super) colour: u32,
    /// Its queue's items count as CPU intensive.
    pub(super) cpu_intensive: bool,
    /// What the item and others may ask about it while it runs.
    pub(super) current: Current,
}

/// What is to be done once the lock is free.
enum Event {
    ColourDone(Arc<dyn FrontEnd>, u32),
    MustWait(Arc<dyn FrontEnd>, PwqKey),
    CreditsFreed(Arc<dyn FrontEnd>, usize),
    PwqGone(Arc<dyn FrontEnd>, PwqKey),
    /// The run or the pending instance that these wait for is over.
    Done(Vec<Arc<Completion>>),
}

/// What the service thread is to be asked for. Not among the events: asking must not allocate.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Asks {
    create_worker: bool,
    watch: bool,
    cull_later: bool,
}

impl Asks {
    fn ask(self, pool: &Arc<Pool>) {
        if self.create_worker {
            pool.helper.create_worker(pool);
        }
        if self.watch {
            pool.helper.watch(pool);
        }
        if self.cull_later {
            pool.helper.cull_later(pool);
        }
    }
}

pub(crate) struct PoolGuard<'p> {
    pool: &'p Arc<Pool>,
    /// `None` only while the guard is being dropped.
    inner: Option<MutexGuard<'p, Inner>>,
    wake: Option<Arc<WorkerHandle>>,
    /// The holder will not go to sleep soon.
    goes_on: bool,
    asks: Asks,
    /// What hardly any holder leaves.
    rest: Option<Box<Rest>>,
}

#[derive(Default)]
struct Rest {
    /// Further wake-ups: only a shutdown and the monitor have any.
    wake_more: Vec<Arc<WorkerHandle>>,
    events: Vec<Event>,
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
    pub(super) fn new(pool: &'p Arc<Pool>, inner: MutexGuard<'p, Inner>) -> Self {
        PoolGuard {
            pool,
            inner: Some(inner),
            wake: None,
            goes_on: false,
            asks: Asks::default(),
            rest: None,
        }
    }

    fn note(&mut self, event: Event) {
        self.rest.get_or_insert_default().events.push(event);
    }

    /// The holder will not go to sleep soon.
    pub(super) fn will_go_on(&mut self) {
        self.goes_on = true;
    }

    pub(super) fn goes_on(&self) -> bool {
        self.goes_on
    }

    #[inline]
    pub(super) fn pool(&self) -> &'p Arc<Pool> {
        self.pool
    }

    pub(super) fn placing(&self) -> &Placing {
        &self.pool.placing
    }

    pub(super) fn kind(&self) -> PoolKind {
        self.pool.attrs.kind
    }

    /// Accepts all that was published so far. After this every item whose `queue()` returned before is accounted for.
    #[inline]
    pub(crate) fn drain(&mut self) {
        self.collect();
        while let Some(item) = self.arrivals.pop_front() {
            self.accept_item(item);
        }
    }

    /// Fetches what was published so far, and accepts none of it yet.
    #[inline]
    pub(super) fn collect(&mut self) {
        let pool = self.pool;
        pool.inbox.take_all(&mut self.arrivals);
    }

    /// Accepts the next few that were published, and more until one may run. What is left is accepted by who needs it: in a
    /// backlog that grows, an item that is accepted early is only one more on the inactive list. What is in a bundle may be taken without
    /// being accepted one by one.
    #[inline]
    pub(super) fn accept_some(&mut self) {
        if self.arrivals.is_empty() {
            self.collect();
        }
        let mut few = 0;
        while self.worklist.is_empty()
            || few < ACCEPTED_AT_ONCE && !self.arrivals.begins_with_bundle()
        {
            let Some(item) = self.arrivals.pop_front() else {
                return;
            };
            self.accept_item(item);
            few += 1;
        }
    }

    /// Accepts one item under the lock, past the inbox: for a redirect to the pool that runs it.
    pub(crate) fn accept_item(&mut self, item: Pending) {
        if let Some(active) = self.accept_unless_it_waits(item) {
            self.worklist.push_back(active);
        }
    }

    /// Accepts one item. If it is active it is given back, and belongs at the end of the worklist.
    #[inline]
    fn accept_unless_it_waits(&mut self, item: Pending) -> Option<Pending> {
        if !self.batches.is_empty() {
            self.close_batch_of(&item);
        }
        let place = item.pwq();
        match self.accept(item) {
            Accepted::Active(item) => Some(item),
            Accepted::Inactive => None,
            Accepted::BeginsToWait => {
                let front = self.pwqs[place].front.clone();
                let key = self.key_of(place);
                self.note(Event::MustWait(front, key));
                None
            }
        }
    }

    /// The next item of the worklist; if that is empty, the next that was published and may run, which need not go there first.
    #[inline]
    fn next_active(&mut self) -> Option<Pending> {
        if self.worklist.is_empty() && self.arrivals.is_empty() {
            self.collect();
        }
        loop {
            if let Some(first) = self.worklist.pop_front() {
                return Some(first);
            }
            let item = self.arrivals.pop_front()?;
            if let Some(active) = self.accept_unless_it_waits(item) {
                if self.worklist.is_empty() {
                    return Some(active);
                }
                // A batch was closed, and what was left of it goes before.
                self.worklist.push_back(active);
            }
        }
    }

    /// Takes the next item that may run now, and starts it.
    #[inline]
    pub(super) fn next_task(&mut self, by: Executor) -> Option<Task> {
        loop {
            let item = self.next_active()?;
            if let Some(task) = self.start_or_hand_over(item, by) {
                return Some(task);
            }
        }
    }

    /// Starts an item that was taken from the worklist; `None`: another worker runs this very item, and shall run it again
    /// afterwards.
    #[inline]
    pub(super) fn start_or_hand_over(&mut self, item: Pending, by: Executor) -> Option<Task> {
        let (address, func) = (item.address(), item.func());
        let inner: &mut Inner = self;
        if let Some(run) = inner.busy.find(address, func) {
            inner.busy.get_mut(run).scheduled.push_back(item);
            return None;
        }
        let busy = inner.busy.insert(address, func, item.pwq(), by);
        Some(inner.start(item, busy))
    }

    /// The end of an item: accounting, then the next of its private list, if there is one.
    #[inline]
    pub(super) fn end_task(&mut self, run: Run, panicked: bool) -> Option<Task> {
        let item = self.end_run(run, panicked)?;
        let inner: &mut Inner = self;
        let running = inner.busy.get_mut(run.busy);
        running.pwq = item.pwq();
        running.since_ns = clock::coarse_ns();
        Some(inner.start(item, run.busy))
    }

    /// As [`end_task`](Self::end_task), for one who runs no other item: what is behind it goes back to where workers find it.
    pub(super) fn end_only_task(&mut self, run: Run, panicked: bool) {
        if let Some(next) = self.end_run(run, panicked) {
            // An item is pending once at most.
            self.busy.remove(run.busy);
            self.worklist.push_back(next);
        }
    }

    /// The accounting at the end of an item. `Some`: the item was queued again meanwhile, and its busy entry stays for that run.
    #[inline]
    fn end_run(&mut self, run: Run, panicked: bool) -> Option<Pending> {
        let inner: &mut Inner = self;
        inner.stats.completed += 1;
        inner.stats.panics += u64::from(panicked);
        // The busy entry first: the accounting may remove the pool workqueue that it names.
        let running = inner.busy.get_mut(run.busy);
        let waiters = std::mem::take(&mut running.waiters);
        let next = running.scheduled.pop_front();
        if next.is_none() {
            inner.busy.remove(run.busy);
        }
        let ended = inner.end_item(run.pwq, run.colour);
        self.after(run.pwq, run.colour, ended);
        self.all_done(waiters);
        next
    }

    /// Notes what the end of an item set in motion.
    #[inline]
    pub(super) fn after(&mut self, place: u32, colour: u32, ended: Ended) {
        if !(ended.colour_done || ended.credits_freed || ended.gone) {
            return;
        }
        let front = self.pwqs[place].front.clone();
        let node = self.pwqs[place].node;
        let key = self.key_of(place);
        if ended.gone {
            self.remove_pwq(place);
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

    /// Has these told once the lock is free.
    #[inline]
    pub(super) fn all_done(&mut self, waiters: Vec<Arc<Completion>>) {
        if !waiters.is_empty() {
            self.note(Event::Done(waiters));
        }
    }

    /// Picks an idle worker. `false`: there is none.
    pub(super) fn wake_idle(&mut self) -> bool {
        let chosen = self.choose_idle();
        if let Some(chosen) = chosen {
            self.wake_at(chosen);
        }
        chosen.is_some()
    }

    /// Picks the worker at this place of the idle list and counts it as searching: it is claimed, nobody else will pick or cull it.
    pub(super) fn wake_at(&mut self, chosen: usize) {
        let inner: &mut Inner = self;
        let id = inner.idle.remove(chosen);
        inner.searching += 1;
        inner.stats.wakeups += 1;
        let slot = &mut inner.workers[id];
        debug_assert!(
            matches!(slot.state, WorkerState::Idle { .. }),
            "a worker was picked twice"
        );
        slot.state = WorkerState::Searching;
        slot.woken = true;
        let handle = slot.handle.clone();
        if self.wake.is_none() {
            self.wake = Some(handle);
        } else {
            self.rest.get_or_insert_default().wake_more.push(handle);
        }
    }

    /// A worker has gone idle while too many are: have somebody look later.
    pub(super) fn cull_later(&mut self) {
        if !self.cull_armed && self.too_many_idle() {
            self.cull_armed = true;
            self.asks.cull_later = true;
        }
    }

    /// Makes the pool fit to be left alone: see PROTOCOL.md, "Settling".
    #[inline]
    fn settle(&mut self) {
        let target = self.target;
        if self.searching > 0 {
            if self.running < target && self.has_waiting() {
                self.pool.inbox.tell_accepted();
            }
            return;
        }
        if self.running >= target && !self.take_back_stale() {
            // Nobody is to be woken. But once something waits here the monitor has to look now and then; until then the
            // next publisher is asked to come by.
            if self.watched {
                return;
            }
            let empty = !self.has_waiting() && self.batches.is_empty();
            if !empty || !self.pool.inbox.ask_notify() {
                self.watch();
            }
            return;
        }
        if !self.has_waiting() && self.pool.inbox.ask_notify() {
            if !self.batches.is_empty() {
                // It will have ended before a sleeper is awake; and if it does not, the monitor finds out.
                self.watch();
            }
            return;
        }
        // Work is waiting, a CPU is to be had, and nobody is on the way.
        if !self.wake_idle() {
            self.want_worker();
        }
    }

    /// Has the monitor look at this pool now and then.
    pub(super) fn watch(&mut self) {
        if !self.watched {
            self.watched = true;
            self.asks.watch = true;
        }
    }

    /// Asks the service thread for one more worker, unless one is coming already.
    pub(super) fn want_worker(&mut self) {
        if !self.creating && !self.dying {
            self.creating = true;
            self.asks.create_worker = true;
        }
    }

    /// Does what was put down, without the lock.
    #[inline(never)]
    fn follow_up(&mut self) {
        if let Some(worker) = self.wake.take() {
            worker.wake(self.goes_on);
        }
        if let Some(rest) = self.rest.take() {
            rest.follow_up(self.pool);
        }
        self.asks.ask(self.pool);
    }

    /// For a helper of another pool: one item, if there is one.
    pub(super) fn task_for_helper(&mut self) -> Option<Task> {
        let task = self.next_task(Executor::worker())?;
        self.stats.helps += 1;
        self.pwqs[task.run.pwq].stats.helps += 1;
        Some(task)
    }
}

impl Pool {
    /// Non-reentrance across pools: while this pool, the last one that the item was queued on, still runs it for the queue
    /// `front_id`, the new instance goes here too, whatever pool it was meant for. The caller owns the item, so it cannot begin
    /// to run anywhere in between. Otherwise the item is given back.
    pub(crate) fn publish_if_it_runs(
        self: &Arc<Self>,
        mut item: Pending,
        front_id: usize,
    ) -> Result<(), Pending> {
        let mut guard = self.lock();
        match guard.runs_for(&item, front_id) {
            Some(place) => {
                // What was published before goes before.
                guard.drain();
                item.aim(self.id, place);
                guard.accept_item(item);
                Ok(())
            }
            None => Err(item),
        }
    }
}

impl Drop for PoolGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.settle();
        if self.pool.attrs.wake_under_lock
            && let Some(worker) = self.wake.take()
        {
            worker.wake(self.goes_on);
        }
        drop(self.inner.take());
        // Nearly always there is nothing to do.
        if self.wake.is_some() || self.rest.is_some() || self.asks != Asks::default() {
            self.follow_up();
        }
    }
}

impl Rest {
    #[cold]
    fn follow_up(self, pool: &Arc<Pool>) {
        for worker in self.wake_more {
            worker.wake(false);
        }
        for event in self.events {
            match event {
                Event::ColourDone(front, colour) => front.colour_done(colour),
                Event::MustWait(front, pwq) => front.must_wait(pool, pwq),
                Event::CreditsFreed(front, node) => front.credits_freed(node),
                Event::PwqGone(front, pwq) => front.pwq_gone(pool, pwq),
                Event::Done(waiters) => waiters.iter().for_each(|waiter| waiter.complete()),
            }
        }
    }
}

impl Inner {
    /// Whether items wait for a worker, or for who accepts them, apart from those in the inbox.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        !self.worklist.is_empty() || !self.arrivals.is_empty()
    }

    #[inline]
    fn start(&mut self, item: Pending, busy: u32) -> Task {
        let pwq = item.pwq();
        let colour = item.colour();
        self.stats.started += 1;
        let address = item.address();
        if !self.awaited.is_empty()
            && let Some(waiters) = self.awaited.remove(&address)
        {
            self.busy.get_mut(busy).waiters = waiters;
        }
        let state = &mut self.pwqs[pwq];
        state.stats.started += 1;
        let run = Run {
            busy,
            pwq,
            colour,
            cpu_intensive: state.traits.cpu_intensive,
            current: state.current().of(address, item.func()),
        };
        Task {
            started: item.start(),
            run,
        }
    }

    /// The run of this item, if it is in execution for the queue `front_id`: the pool workqueue that it runs under.
    fn runs_for(&self, item: &Pending, front_id: usize) -> Option<u32> {
        let run = self.busy.find(item.address(), item.func())?;
        let pwq = self.busy.get(run).pwq;
        (self.pwqs[pwq].front_id() == front_id).then_some(pwq)
    }

    /// "Too many" as in the kernel: more than two idle, and over two more than a quarter of the busy ones.
    pub(super) fn too_many_idle(&self) -> bool {
        let idle = self.idle.len();
        // Who is on the way out counts no more, or the last ones to go would make the rest seem needed.
        let busy = self.workers.len() - idle - self.leaving as usize;
        idle > KEPT_IDLE && (idle - KEPT_IDLE) * 4 >= busy
    }
}
