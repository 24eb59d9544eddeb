//! Batches: a worker takes several short items at once and runs them one after the other without the lock.
//!
//! A batch is a part of the worklist whose items one worker may begin without the lock. Where items
//! are short, the lock and the accounting for each cost as much as the items. So a worker takes its
//! share of what waits, as far as that is expected to be over in a few microseconds: the first items
//! of the worklist, as long as they are of one pool workqueue and no thread waits for one of them.
//!
//! Other threads need not know. [`Pool::lock`] closes all open batches first: the items that were
//! not begun are back on the worklist, in their order; those that have ended are accounted for; the
//! one that runs is in the busy table. Only the worker's own loop, and the issuer that calls a
//! worker, take the lock beside open batches ([`Pool::lock_beside_batches`]), and they read nothing
//! that a batch could hide.
//!
//! An open batch may delay the items behind one that turns out to be long. A worker that searches
//! closes overdue batches, the monitor closes all at each tick.
#![forbid(unsafe_code)]

use crate::item::{FoundInChunk, Part, Pending, ticket};
use crate::pool::lock::batches::{OVERDUE_FAR_NS, OVERDUE_NS};
use crate::pool::lock::guard::PoolGuard;
use crate::pool::queue::pwq::Ended;
use crate::pool::state::pool::{Inner, Pool};
use crate::pool::state::worker::WorkerHandle;
use crate::pool::task::busy::Executor;
use crate::pool::task::call::call_next;
use crate::pool::task::current::{self, Current};
use crate::pool::task::run::{Open, Run, Task};
use crate::sys::forced_unwind::thread_ends;
use crate::sys::{clock, probe};
use std::sync::Arc;

/// A worker takes at least as many items as run for this long: fewer are not worth the lock. At most
/// it takes as many as are expected to end before their batch is overdue.
const WORTH_NS: u64 = 6_000;

/// How many items ahead a worker prefetches.
const AHEAD: usize = 8;

/// How many items a worker takes at once, where one takes `item_ns` (0: not known) and `share` is
/// the worker's part of those that wait. At most `most`, and at most what runs in `longest_ns`.
fn size(item_ns: u64, share: usize, most: usize, longest_ns: u64) -> usize {
    // The model checker has no time.
    if cfg!(cmwq_loom) {
        return most;
    }
    if item_ns == 0 {
        return 1;
    }
    let within = |ns: u64| usize::try_from(ns / item_ns).unwrap_or(usize::MAX);
    share
        .clamp(within(WORTH_NS), within(longest_ns))
        .clamp(1, most)
}

/// How many items a worker may take at once, and how long it has run what it took last.
pub(in crate::pool) struct Claims {
    most: usize,
    /// How long a batch may take. After that it is overdue.
    longest_ns: u64,
    /// Whether the batch, or the single item with others behind it, is measured; and below, when it
    /// was begun.
    measures: bool,
    since_ns: u64,
}

impl Claims {
    pub(in crate::pool) fn up_to(most: usize) -> Self {
        Claims {
            most,
            longest_ns: OVERDUE_NS,
            measures: false,
            since_ns: 0,
        }
    }

    /// The worker takes items in a pool under its own last-level cache, or a `far` one.
    pub(super) fn in_pool(&mut self, far: bool) {
        self.longest_ns = if far { OVERDUE_FAR_NS } else { OVERDUE_NS };
    }

    /// A batch is opened. Returns when.
    fn open(&mut self) -> u64 {
        self.measures = true;
        self.since_ns = clock::now_ns();
        self.since_ns
    }

    /// A single item begins. Called after the lock was released, so that what the release has to do
    /// does not count.
    #[inline]
    pub(in crate::pool) fn begin_item(&mut self) {
        if self.measures {
            self.since_ns = clock::now_ns();
        }
    }

    /// The batch or item has ended. Returns how long it took, if that was measured.
    #[inline]
    pub(in crate::pool) fn measured_ns(&mut self) -> Option<u64> {
        let measured = std::mem::take(&mut self.measures) && !cfg!(cmwq_loom);
        measured.then(|| clock::now_ns() - self.since_ns)
    }
}

/// What a worker has to do.
pub(in crate::pool) enum Next {
    One(Task),
    Batch(Begun),
}

impl Next {
    /// The pool workqueue, and how many items.
    pub(super) fn taken(&self) -> (u32, u64) {
        match self {
            Next::One(task) => (task.run.pwq, 1),
            Next::Batch(begun) => (begun.pwq, begun.len as u64),
        }
    }
}

/// What a worker has done.
pub(in crate::pool) enum Ran {
    One {
        run: Run,
        panicked: bool,
    },
    /// A batch, to its end or until it was closed.
    Batch {
        /// Items that panicked, except the last one.
        panics: u64,
        panicked: bool,
    },
}

impl Ran {
    /// Whether any of its items panicked.
    #[inline]
    pub(super) fn panicked(&self) -> bool {
        match *self {
            Ran::One { panicked, .. } => panicked,
            Ran::Batch { panics, panicked } => panicked || panics > 0,
        }
    }
}

/// A batch whose first item counts as begun.
pub(in crate::pool) struct Begun {
    len: usize,
    ticket: usize,
    part: Option<Part>,
    pub(in crate::pool) pwq: u32,
    /// What a thread notes for each item of the batch, without the item's address and function.
    current: Current,
}

impl PoolGuard<'_> {
    /// What the worker `id` does next: a single item, or several of one pool workqueue.
    #[inline]
    pub(in crate::pool) fn take_next(&mut self, id: u32, claims: &mut Claims) -> Option<Next> {
        if self.worklist.is_empty() && !self.staged.is_ready() {
            // This may close batches; the items that were left in them go first.
            self.collect();
        }
        let size = self.size_of_claim(claims);
        if self.worklist.is_empty() {
            if size > 1
                && let Some(begun) = self.open_chunk(id, size, claims)
            {
                return Some(Next::Batch(begun));
            }
            // A single staged item need not be put on the worklist first.
            if self.staged.len() > 1 {
                self.accept_some();
            }
        }
        if !self.leaves_some_to_joiner(size) {
            return self.take_first(id, size, claims);
        }
        let left: Vec<Pending> = (0..size).map_while(|_| self.worklist.pop_front()).collect();
        let next = self.take_first(id, size, claims);
        left.into_iter()
            .rev()
            .for_each(|item| self.worklist.push_front(item));
        next
    }

    /// How many of the items that wait a worker takes now. What waits is divided among the workers
    /// that may run and the guests.
    #[inline]
    fn size_of_claim(&self, claims: &Claims) -> usize {
        let waiting = self.waiting();
        if claims.most == 1 || waiting <= 1 {
            return 1;
        }
        let share = waiting / self.at_once() as usize;
        let item_ns = self.pace.item_ns();
        size(item_ns, share, claims.most, claims.longest_ns)
    }

    /// Whether a worker that takes up to `take` items leaves the first ones, as many, to a joiner. A
    /// thread that joins one item after the other would otherwise always wait for the item that the
    /// worker has just begun, while the other items wait. An item at the head is left once only.
    fn leaves_some_to_joiner(&mut self, take: usize) -> bool {
        let inner: &mut Inner = self;
        let leaves = inner.counts.has_joiner_in_order()
            && inner.has_one_cpu_left()
            && inner.worklist.len() > take
            && inner.worklist.head() != inner.left_to_joiner;
        if leaves {
            inner.left_to_joiner = inner.worklist.head();
        }
        leaves
    }

    /// Takes the first items that wait.
    #[inline]
    fn take_first(&mut self, id: u32, size: usize, claims: &mut Claims) -> Option<Next> {
        if claims.most > 1 && self.waiting() > 1 {
            claims.measures = true;
            if size > 1
                && let Some(begun) = self.open_worklist(id, size, claims)
            {
                return Some(Next::Batch(begun));
            }
        }
        let next = self.next_task(Executor::worker());
        if next.is_none() && !self.batches.is_empty() {
            self.close_overdue();
            return self.next_task(Executor::worker()).map(Next::One);
        }
        next.map(Next::One)
    }

    /// Opens a batch of the worker `id` with the first items of the worklist, if the first may be in one.
    fn open_worklist(&mut self, id: u32, size: usize, claims: &mut Claims) -> Option<Begun> {
        let inner: &mut Inner = self;
        let (index, colour) = inner.next_in_batch(None)?;
        if !inner.pwqs[index].may_batch() {
            return None;
        }
        let handle = inner.workers[id].handle.clone();
        let mut len = 0;
        while len < size && inner.next_in_batch(Some((index, colour))).is_some() {
            let item = inner.worklist.pop_front()?;
            let func = item.func();
            // If the first item is a sample, its wait ends here.
            let pwq = &mut inner.pwqs[index];
            let _ = pwq.times.start_in_batch(item.address(), pwq.stats.started);
            handle.batch.set(len, item, func);
            len += 1;
        }
        Some(inner.open_batch(id, &handle, (index, colour), len, None, claims))
    }

    /// Opens a batch of the worker `id` with the first staged items, if those are in a chunk and
    /// may be in a batch. They are now accepted and active, and no other thread touches them.
    fn open_chunk(&mut self, id: u32, size: usize, claims: &mut Claims) -> Option<Begun> {
        let inner: &mut Inner = self;
        let index = inner.staged.pwq_of_chunk()?;
        let pwq = &mut inner.pwqs[index];
        // A tracer is told of each item that becomes active.
        if !pwq.may_take_chunks() || probe::events_wanted() {
            return None;
        }
        let most = pwq.credits_at_hand(size);
        // An item that somebody waits for is in no chunk: it was singled out.
        let busy = &inner.busy;
        let rests = |address, func| busy.find(address, func).is_none();
        let part = inner
            .staged
            .split_chunk(most, (!busy.is_empty()).then_some(rests));
        let len = part.as_ref().map_or(0, Part::len);
        pwq.accept_at_once(len);
        let of = (index, pwq.colour());
        // The chunk may have fewer items than credits were taken for.
        if pwq.give_back_if_tight() {
            let ended = Ended {
                credits_freed: true,
                ..Ended::default()
            };
            self.after(of.0, of.1, ended);
        }
        let inner: &mut Inner = self;
        let handle = inner.workers[id].handle.clone();
        Some(inner.open_batch(id, &handle, of, len, Some(part?), claims))
    }

    /// Notes how long a batch of worker `id` took. If the batch was closed meanwhile, the worker has
    /// run only a part of it.
    pub(super) fn note_batch_time(&mut self, id: u32, (pwq, items): (u32, u64), took_ns: u64) {
        let inner: &mut Inner = self;
        let ran = match &inner.workers[id].interrupted {
            Some(interrupted) => interrupted.begun as u64,
            None => items,
        };
        if ran == items {
            inner.pwqs[pwq].times.batch(items as usize, took_ns);
        }
        inner.pace.note(took_ns / ran.max(1));
    }

    /// The accounting at the end of what worker `id` did. Returns what is scheduled behind its last item.
    #[inline]
    pub(in crate::pool) fn end_ran(&mut self, id: u32, ran: Ran) -> Option<Task> {
        match ran {
            Ran::One { run, panicked } => self.end_task(run, panicked),
            Ran::Batch { panics, panicked } => self.end_batch(id, panics, panicked),
        }
    }

    #[inline]
    fn end_batch(&mut self, id: u32, panics: u64, panicked: bool) -> Option<Task> {
        self.stats.panics += panics;
        if let Some(open) = self.workers[id].batch.take() {
            self.stats.panics += u64::from(panicked);
            self.workers[id].handle.batch.close();
            self.forget_batch(id);
            self.account(id, &open, open.len, open.len);
            return None;
        }
        let interrupted = self.workers[id].interrupted.take();
        let run = interrupted.expect("left by who closed the batch").run;
        self.end_task(run, panicked)
    }
}

impl Inner {
    /// Opens the batch of worker `id`: `len` items of this pool workqueue and this colour, in
    /// `part`, or already in `handle`'s.
    #[inline]
    fn open_batch(
        &mut self,
        id: u32,
        handle: &WorkerHandle,
        (pwq, colour): (u32, u32),
        len: usize,
        part: Option<Part>,
        claims: &mut Claims,
    ) -> Begun {
        let since_ns = claims.open();
        let serial = self.next_batch;
        self.next_batch = serial.wrapping_add(1);
        // The list is in the order of serial numbers.
        self.batches.push((id, serial));
        handle.batch.open();
        self.pwqs[pwq].times.tick(since_ns);
        let begun = Begun {
            len,
            ticket: ticket(id, serial),
            part: part.as_ref().map(Part::share),
            pwq,
            current: self.pwqs[pwq].current(),
        };
        self.workers[id].batch = Some(Open {
            pwq,
            colour,
            len,
            due_ns: since_ns + claims.longest_ns,
            part,
        });
        begun
    }

    /// The pool workqueue and the colour of the next item, if it may be in a batch; with `of`, if
    /// it may be in a batch of that pool workqueue and colour.
    #[inline]
    fn next_in_batch(&self, of: Option<(u32, u32)>) -> Option<(u32, u32)> {
        let (next, colour) = self.worklist.front()?;
        let its_own = (next.location().pwq(), colour);
        let fits = of.is_none_or(|of| of == its_own);
        let runs = !self.busy.is_empty() && self.busy.find(next.address(), next.func()).is_some();
        // Whoever waits for a single item is told at its end, so that item runs alone.
        let is_awaited = self.awaited.contains_key(&next.address());
        (fits && !runs && !is_awaited).then_some(its_own)
    }
}

impl Pool {
    /// Runs a batch to its end, or until it is closed.
    pub(in crate::pool) fn run_batch(self: &Arc<Self>, begun: Begun, handle: &WorkerHandle) -> Ran {
        let Begun {
            len,
            ticket,
            part,
            current,
            ..
        } = begun;
        let batch = &handle.batch;
        let prefetch = |index: usize| match &part {
            Some(part) => part.prefetch(index),
            None if index < len => batch.prefetch(index),
            None => (),
        };
        let run = |mut item: Pending| {
            // The batch is noted before the item is started; after that the item may be queued
            // again.
            item.note_batch(ticket);
            call_next(item.start())
        };
        let outer = current::enter_queue(current);
        (0..AHEAD).for_each(prefetch);
        let (mut index, mut panics) = (0, 0);
        let panicked = loop {
            prefetch(index + AHEAD);
            let panicked = match &part {
                None => run(batch.take(index)),
                Some(part) => match part.take(index) {
                    FoundInChunk::Item(item) => run(item),
                    FoundInChunk::Closure(closure) => call_next(closure),
                },
            };
            index += 1;
            if panicked && thread_ends() {
                // This thread must run no further item. Taking the lock closes the batch, and the
                // items that are left of it go back to the worklist.
                drop(self.lock());
            }
            // In the child of a fork the items belong to the parent.
            if index == len || self.is_inherited() || !batch.go_on(index) {
                break panicked;
            }
            panics += u64::from(panicked);
        };
        current::leave_queue(outer);
        Ran::Batch { panics, panicked }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
