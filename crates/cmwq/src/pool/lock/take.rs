//! Items are accepted, started and ended, under the pool's lock.

use super::guard::{Event, PoolGuard};
#[cfg(test)]
use super::holds::most_in_a_hold;
use crate::item::Pending;
use crate::pool::queue::pwq::Accepted;
use crate::pool::state::pool::Inner;
use crate::pool::task::busy::Executor;
use crate::pool::task::run::{Run, Task};
use crate::sys::clock;
use crate::sys::forced_unwind::thread_ends;

/// How many staged items are accepted in one go: a shorter burst is accepted whole.
const ACCEPTED_AT_ONCE: usize = if cfg!(cmwq_loom) { 2 } else { 64 };

impl PoolGuard<'_> {
    /// Accepts all that was published so far, in one holding of the lock.
    #[cfg(test)]
    pub(crate) fn drain(&mut self) {
        let up_to = self.reached();
        while !self.accept_up_to(up_to) {
            self.left = most_in_a_hold();
        }
    }

    /// Takes what was published so far out of the inbox and turns some of it, without accepting any
    /// item.
    #[inline]
    pub(in crate::pool) fn collect(&mut self) {
        let pool = self.pool;
        self.staged.take_from(&pool.inbox);
        if self.staged.is_turning() {
            self.turn_some();
        }
    }

    /// Turns as many staged nodes as this holding of the lock may.
    fn turn_some(&mut self) {
        let most = self.left;
        let turned = match self.batches.is_empty() {
            true => self.staged.turn(most, |_| ()),
            false => {
                // A published item may still run in an open batch, from which it was begun before:
                // closing that batch shows it.
                let mut staged = std::mem::take(&mut self.staged);
                let turned = staged.turn(most, |batch| self.close_batch_noted(batch));
                self.staged = staged;
                turned
            }
        };
        self.left -= turned;
    }

    /// The number of the newest chain that contains items published up to now.
    pub(in crate::pool) fn reached(&mut self) -> u64 {
        let pool = self.pool;
        self.staged.take_from(&pool.inbox);
        self.staged.reached(&pool.inbox)
    }

    /// Turns nodes of chains up to number `up_to`, as many as this holding of the lock may. Returns
    /// `true` if none are left.
    pub(in crate::pool) fn turn_up_to(&mut self, up_to: u64) -> bool {
        while !self.staged.is_turned(up_to) && self.left > 0 {
            self.collect();
        }
        self.staged.is_turned(up_to)
    }

    /// Accepts items of chains up to number `up_to`, as many as this holding of the lock may.
    /// Returns `true` if none are left.
    pub(in crate::pool) fn accept_up_to(&mut self, up_to: u64) -> bool {
        while !self.staged.is_accepted(up_to) && self.left > 0 {
            if self.staged.is_empty() {
                self.collect();
            }
            if let Some(item) = self.next_staged() {
                self.accept_item(item);
            }
        }
        self.staged.is_accepted(up_to)
    }

    /// Accepts the next few staged items, and goes on until one of them may run. The others are
    /// accepted when a thread needs them: in a growing backlog, accepting an item early would only
    /// lengthen the inactive list. The items of a chunk may be taken without being accepted one by
    /// one.
    #[inline]
    pub(in crate::pool) fn accept_some(&mut self) {
        if self.staged.is_empty() {
            self.collect();
        }
        let mut few = 0;
        while self.worklist.is_empty() || few < ACCEPTED_AT_ONCE && !self.staged.begins_with_chunk()
        {
            let Some(item) = self.next_staged() else {
                return;
            };
            self.accept_item(item);
            few += 1;
        }
    }

    /// Takes the oldest staged item. Closures that have to wait for a credit are accepted before
    /// that, a chunk at a time. Returns `None` if no item is left, or if this holding of the lock
    /// has done its share.
    #[inline]
    fn next_staged(&mut self) -> Option<Pending> {
        loop {
            if !self.staged.is_ready() && self.staged.is_turning() {
                self.turn_some();
            }
            if self.left == 0 {
                return None;
            }
            if !(self.staged.begins_with_chunk() && self.accept_closures_that_wait()) {
                break;
            }
            self.left -= 1;
        }
        let item = self.staged.pop_front()?;
        self.left -= 1;
        Some(item)
    }

    /// Accepts what is left of the oldest chunk, if it is closures that have to wait.
    fn accept_closures_that_wait(&mut self) -> bool {
        let inner: &mut Inner = self;
        let Some(index) = inner.staged.pwq_of_closures() else {
            return false;
        };
        if !inner.pwqs[index].makes_wait() {
            return false;
        }
        let Some(part) = inner.staged.take_chunk() else {
            return false;
        };
        if inner.pwqs[index].accept_part(part) {
            self.must_wait(index);
        }
        true
    }

    /// Notes that a pool workqueue has begun to wait for a credit, for its queue to be told.
    fn must_wait(&mut self, index: u32) {
        let front = self.pwqs[index].owner.front.clone();
        let key = self.key_of(index);
        self.note(Event::MustWait(front, key));
    }

    /// Accepts one item under the lock, without the inbox: for an item that is sent here because
    /// this pool runs it.
    pub(crate) fn accept_item(&mut self, item: Pending) {
        if let Some(active) = self.accept_unless_it_waits(item) {
            self.worklist.push_back(active);
        }
    }

    /// Accepts one item. Returns it if it is active; the caller puts it at the end of the worklist.
    #[inline]
    fn accept_unless_it_waits(&mut self, item: Pending) -> Option<Pending> {
        let index = item.pwq();
        match self.accept(item) {
            Accepted::Active(item) => Some(item),
            Accepted::Inactive => None,
            Accepted::BeginsToWait => {
                self.must_wait(index);
                None
            }
        }
    }

    /// Takes the next item of the worklist, or, if that is empty, the next published one that may
    /// run, which need not go onto the worklist first. If it returns `None` though items are
    /// staged, this holding of the lock has done its share.
    #[inline]
    fn next_active(&mut self) -> Option<Pending> {
        if self.worklist.is_empty() && self.staged.is_empty() {
            self.collect();
        }
        loop {
            if let Some(first) = self.worklist.pop_front() {
                return Some(first);
            }
            let item = self.next_staged()?;
            if let Some(active) = self.accept_unless_it_waits(item) {
                if self.worklist.is_empty() {
                    return Some(active);
                }
                // Turning has closed a batch, whose remaining items are on the worklist now and go
                // first.
                self.worklist.push_back(active);
            }
        }
    }

    /// Takes the next item that may run now, and starts it.
    #[inline]
    pub(in crate::pool) fn next_task(&mut self, by: Executor) -> Option<Task> {
        loop {
            let item = self.next_active()?;
            if let Some(task) = self.start_or_hand_over(item, by) {
                return Some(task);
            }
        }
    }

    /// Starts an item that was taken from the worklist. Returns `None` if another worker is running
    /// this very item; that worker will run it again afterwards.
    #[inline]
    pub(in crate::pool) fn start_or_hand_over(
        &mut self,
        item: Pending,
        by: Executor,
    ) -> Option<Task> {
        let (address, func) = (item.address(), item.func());
        let inner: &mut Inner = self;
        // A one-shot item cannot be running already. If a run has its address, that run's item was
        // freed and its memory is used again.
        if !item.is_one_shot()
            && let Some(run) = inner.busy.find(address, func)
        {
            inner.busy.get_mut(run).scheduled.push_back(item);
            return None;
        }
        let pwq = item.pwq();
        let busy = inner.busy.insert(address, func, pwq, by);
        let task = inner.start(item, busy);
        self.leave_room(pwq);
        Some(task)
    }

    /// Accounts for the end of an item, then starts the next of its private list, if there is one.
    /// If the item has ended its thread, that goes back to the worklist: another thread runs it.
    #[inline]
    pub(in crate::pool) fn end_task(&mut self, run: Run, panicked: bool) -> Option<Task> {
        if panicked && thread_ends() {
            self.end_only_task(run, panicked);
            return None;
        }
        let item = self.end_run(run, panicked)?;
        let inner: &mut Inner = self;
        let running = inner.busy.get_mut(run.busy);
        running.pwq = item.pwq();
        running.since_ns = clock::coarse_ns();
        running.by.described = false;
        let pwq = item.pwq();
        let task = inner.start(item, run.busy);
        self.leave_room(pwq);
        Some(task)
    }

    /// As [`end_task`](Self::end_task), for a thread that does not run the items of the private
    /// list: they go back to the worklist.
    pub(in crate::pool) fn end_only_task(&mut self, run: Run, panicked: bool) {
        if let Some(next) = self.end_run(run, panicked) {
            // There is at most one, because an item is pending at most once.
            self.busy.remove(run.busy);
            self.worklist.push_back(next);
        }
    }

    /// Accounts for the end of an item. Returns the item if it was queued again meanwhile; then its
    /// busy entry stays for that run.
    #[inline]
    fn end_run(&mut self, run: Run, panicked: bool) -> Option<Pending> {
        let inner: &mut Inner = self;
        inner.stats.completed += 1;
        inner.stats.panics += u64::from(panicked);
        // The busy entry is used first, because the accounting may remove the pool workqueue that
        // it names.
        let running = inner.busy.get_mut(run.busy);
        let waiters = std::mem::take(&mut running.waiters);
        let next = running.scheduled.pop_front();
        if next.is_none() {
            inner.busy.remove(run.busy);
        }
        if run.timed_ns != 0 {
            inner.pwqs[run.pwq].times.end(run.timed_ns);
        }
        let ended = inner.end_item(run.pwq, run.colour);
        self.after(run.pwq, run.colour, ended);
        self.all_done(waiters);
        next
    }
}

impl Inner {
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
        let since_ns = self.busy.get(busy).since_ns;
        let state = &mut self.pwqs[pwq];
        state.stats.started += 1;
        let timed_ns = state.times.start(address, state.stats.started, since_ns);
        let run = Run {
            busy,
            pwq,
            colour,
            timed_ns,
            current: state.current().of(address, item.func()),
        };
        Task {
            started: item.start(),
            run,
        }
    }

    /// The pool workqueue under which this item runs, if it runs for the queue `front_id`.
    pub(in crate::pool) fn runs_for(&self, item: &Pending, front_id: usize) -> Option<u32> {
        let run = self.busy.find(item.address(), item.func())?;
        let pwq = self.busy.get(run).pwq;
        (self.pwqs[pwq].front_id() == front_id).then_some(pwq)
    }
}
