//! What is known of a run: which instances were accepted, begun and ended, and what must hold of them.
//!
//! All virtual threads share one OS thread: locks and counters of this file are not visible to the
//! machine, and never contended.
#![forbid(unsafe_code)]

use super::program::message;
use super::world::{PAUSE, step};
use crate::explore::os::Seen;
use cmwq_simulated::Completion;
use cmwq_simulated::types::Queued;
use cmwq_vm::{Access, Tid, os, weak};
use std::cell::RefCell;
use std::panic::catch_unwind;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What all threads know of the run.
#[derive(Default)]
pub(super) struct Facts {
    broken: Mutex<Option<String>>,
    /// Instances that were accepted for now, and have not begun.
    waiting: AtomicI64,
    /// Nothing needs to begin: all queues are frozen.
    pub(super) frozen: AtomicUsize,
    /// Calls that let all queues go on.
    pub(super) thaws: AtomicU64,
    /// All queues are frozen, and nothing is active, until there are so many of them.
    pub(super) still_until: AtomicU64,
    /// Queues refuse items, and drop timers.
    pub(super) drains: AtomicBool,
    shots: Mutex<Vec<Shot>>,
    /// Items that have begun, and wait until all that was accepted has.
    meeting: Mutex<Vec<Arc<Completion>>>,
}

/// A one-shot item.
#[derive(Default)]
struct Shot {
    lane: usize,
    /// Its queue keeps the order of the items of each thread, and this thread has made it.
    in_order_of: Option<Tid>,
    accepted: bool,
    /// A thread takes it back, or tries to.
    goes: bool,
    begun: bool,
    ended: bool,
    /// Its maker writes it, then its run, and those read it who have waited for that; `None`: it
    /// was taken back.
    memory: Option<Arc<u64>>,
}

/// The number of a one-shot item.
#[derive(Clone, Copy)]
pub(super) struct ShotId(pub(super) usize);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// Called when the run of an item, or a thread of the program, has ended. All virtual threads share it.
    static ENDS: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
}

pub(super) fn when_something_ends(call: impl Fn() + 'static) {
    ENDS.replace(Some(Rc::new(call)));
}

pub(super) fn something_ends() {
    let call = ENDS.with_borrow(Clone::clone);
    if let Some(call) = call {
        call();
    }
}

impl Facts {
    /// A promise; the first one that is broken is told.
    pub(super) fn expect(&self, kept: bool, promise: impl FnOnce() -> String) {
        if !kept {
            lock(&self.broken).get_or_insert_with(promise);
        }
    }

    /// Of memory that is not atomic. A race is told here: in an item's function the engine would
    /// catch the panic.
    fn access<T>(&self, memory: *const T, access: Access) {
        let address = memory.addr();
        let checked = catch_unwind(|| weak::access_plain(address, access));
        if let Err(panic) = checked {
            self.expect(false, || message(&*panic));
        }
    }

    /// What is broken so far.
    pub(super) fn broken(&self) -> Option<String> {
        lock(&self.broken).clone()
    }

    /// Something waits that may begin.
    pub(super) fn waits(&self) -> bool {
        self.waiting.load(Relaxed) > 0 && self.frozen.load(Relaxed) == 0
    }

    /// Nothing may begin.
    fn is_still(&self) -> bool {
        self.thaws.load(Relaxed) < self.still_until.load(Relaxed)
    }

    /// One more has begun, or was taken back.
    fn one_waits_less(&self) {
        self.waiting.fetch_sub(1, Relaxed);
        if self.waiting.load(Relaxed) <= 0 {
            // The lock is free again when another thread comes.
            let meeting = std::mem::take(&mut *lock(&self.meeting));
            meeting.iter().for_each(|all_have| all_have.complete());
        }
    }

    /// In an item that has begun: it waits until all that was accepted has begun, if its queue lets
    /// another one begin meanwhile.
    pub(super) fn meet(&self, lane: &Lane) {
        if self.waiting.load(Relaxed) <= 0 || !lane.lets_one_wait() {
            return;
        }
        let all_have = Arc::new(Completion::new());
        lock(&self.meeting).push(all_have.clone());
        all_have.wait();
        lane.waits.fetch_sub(1, Relaxed);
    }

    pub(super) fn shoot(&self, lane: &Lane) -> ShotId {
        let memory = Arc::default();
        self.access(Arc::as_ptr(&memory), Access::Write);
        let mut shots = lock(&self.shots);
        let keeps_order = lane.keeps_order.load(Relaxed);
        shots.push(Shot {
            lane: lane.number,
            in_order_of: keeps_order.then(os::current),
            memory: Some(memory),
            ..Shot::default()
        });
        ShotId(shots.len() - 1)
    }

    /// It was accepted, or not.
    pub(super) fn accept(&self, shot: ShotId, accepted: bool) {
        let mut shots = lock(&self.shots);
        let shot = &mut shots[shot.0];
        if accepted {
            shot.accepted = true;
            self.waiting.fetch_add(1, Relaxed);
        } else {
            let (begun, drains) = (shot.begun, self.drains.load(Relaxed));
            self.expect(!begun, || "an item was refused, and has run".into());
            self.expect(drains, || "an item was refused without a drain".into());
        }
    }

    /// A thread tries to take it back: it never begins if that succeeds.
    pub(super) fn take_back(&self, shot: ShotId, take: impl FnOnce() -> bool) {
        lock(&self.shots)[shot.0].goes = true;
        let taken = take();
        let mut shots = lock(&self.shots);
        let shot = &mut shots[shot.0];
        shot.goes = false;
        if !taken {
            return;
        }
        self.expect(!shot.begun, || "an item was taken back, and has run".into());
        (shot.begun, shot.ended, shot.memory) = (true, true, None);
        drop(shots);
        self.one_waits_less();
    }

    pub(super) fn has_begun(&self, shot: ShotId) -> bool {
        lock(&self.shots)[shot.0].begun
    }

    pub(super) fn begin(&self, shot: ShotId) {
        let again = std::mem::replace(&mut lock(&self.shots)[shot.0].begun, true);
        self.expect(!again, || "a one-shot item runs twice".into());
        self.expect(!self.overtakes(shot), || {
            "an item of an ordered queue overtakes one that its thread has queued before".into()
        });
        if let Some(memory) = &lock(&self.shots)[shot.0].memory {
            self.access(Arc::as_ptr(memory), Access::Write);
        }
        self.one_waits_less();
    }

    fn overtakes(&self, shot: ShotId) -> bool {
        let shots = lock(&self.shots);
        let own = &shots[shot.0];
        let mut before = shots[..shot.0].iter();
        own.in_order_of.is_some()
            && before.any(|other| {
                let same = (other.lane, other.in_order_of) == (own.lane, own.in_order_of);
                same && other.accepted && !other.begun
            })
    }

    pub(super) fn end(&self, shot: ShotId) {
        lock(&self.shots)[shot.0].ended = true;
        something_ends();
    }

    /// Those that a flush of the queue waits for.
    pub(super) fn accepted_on(&self, lane: &Lane) -> Vec<ShotId> {
        let shots = lock(&self.shots);
        let mut on = (0..shots.len()).collect::<Vec<_>>();
        on.retain(|&at| shots[at].accepted && shots[at].lane == lane.number);
        on.into_iter().map(ShotId).collect()
    }

    /// All of them have ended.
    pub(super) fn have_ended(&self, ids: &[ShotId], what: &str) {
        let shots = lock(&self.shots);
        let open = ids
            .iter()
            .filter(|id| !shots[id.0].ended && !shots[id.0].goes)
            .count();
        self.expect(open == 0, || format!("{what} has left {open} items"));
        // What they did happens before what comes after the wait for them.
        for shot in ids.iter().map(|id| &shots[id.0]) {
            if let (true, Some(memory)) = (shot.ended, &shot.memory) {
                self.access(Arc::as_ptr(memory), Access::Read);
            }
        }
    }

    /// One-shot items that were accepted and have not ended.
    pub(super) fn open_shots(&self) -> usize {
        let shots = lock(&self.shots);
        let open = shots.iter().filter(|shot| shot.accepted && !shot.ended);
        open.count()
    }

    pub(super) fn shots_settled(&self) -> bool {
        lock(&self.shots)
            .iter()
            .all(|shot| shot.ended == shot.accepted)
    }
}

/// The items of one queue that are active at the same time.
pub(super) struct Lane {
    number: usize,
    inside: AtomicUsize,
    /// Its limit: more are too many.
    pub(super) most: AtomicUsize,
    /// By so much the limit is raised for a while.
    pub(super) raised_by: AtomicUsize,
    /// Its items wait for others; always one less than its limit, so that whatever was accepted can begin.
    pub(super) meets: AtomicBool,
    waits: AtomicUsize,
    /// It can be frozen.
    pub(super) freezes: AtomicBool,
    /// It runs the items of each thread in the order in which they were queued.
    pub(super) keeps_order: AtomicBool,
    facts: Arc<Facts>,
}

impl Lane {
    pub(super) fn new(number: usize, most: usize, facts: &Arc<Facts>) -> Arc<Lane> {
        Arc::new(Lane {
            number,
            inside: AtomicUsize::new(0),
            most: AtomicUsize::new(most),
            raised_by: AtomicUsize::new(0),
            meets: AtomicBool::new(false),
            waits: AtomicUsize::new(0),
            freezes: AtomicBool::new(false),
            keeps_order: AtomicBool::new(false),
            facts: facts.clone(),
        })
    }

    /// One more of its items may wait for others, and is counted.
    fn lets_one_wait(&self) -> bool {
        let waits = self.waits.load(Relaxed) + 1;
        let lets = self.meets.load(Relaxed) && waits < self.most.load(Relaxed);
        if lets {
            self.waits.store(waits, Relaxed);
        }
        lets
    }

    pub(super) fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        let inside = self.inside.fetch_add(1, Relaxed) + 1;
        let number = self.number;
        let most = self.most.load(Relaxed) + self.raised_by.load(Relaxed);
        self.facts.expect(inside <= most, || {
            format!("queue {number}: {inside} items are active, at most {most} may be")
        });
        let is_still = self.freezes.load(Relaxed) && self.facts.is_still();
        self.facts.expect(!is_still, || {
            "an item begins though all queues are frozen and nothing was active".into()
        });
        if most == 1 {
            // Each sees what the one before has done.
            self.facts.access(self, Access::Write);
        }
        let result = f();
        self.inside.fetch_sub(1, Relaxed);
        result
    }
}

/// What became of a reusable item's instances.
#[derive(Default)]
pub(super) struct Account {
    /// A thread that sees a number here knows, by the memory model too, of so many accepted
    /// instances; only then may it expect something of them.
    accepted: Seen,
    removed: AtomicU64,
    /// Threads that take an instance back, or try to.
    removing: AtomicU64,
    /// As `accepted`, of runs that have begun.
    begun: Seen,
    ended: AtomicU64,
    /// Calls of disable that have waited and were not undone.
    disabled: AtomicUsize,
    /// Calls of disable that have returned, and those whose effect is over.
    disables: (Seen, AtomicU64),
    /// Its instances wait for a timer, or may.
    is_delayed: bool,
    /// Its runs sleep, so that others may do all of theirs meanwhile.
    pub(super) lingers: AtomicBool,
    /// Raised before an instance is queued, and read by its run.
    flag: Seen,
    /// The highest that a run has seen.
    flag_seen: AtomicU64,
    /// The highest that a run must see.
    flag_owed: AtomicU64,
}

impl Account {
    pub(super) fn new(is_delayed: bool) -> Arc<Account> {
        Arc::new(Account {
            is_delayed,
            ..Account::default()
        })
    }

    /// An instance is queued. Returns the flag that a run will see: its own, or that of the
    /// instance which was pending.
    pub(super) fn queue(&self, facts: &Facts, queue: impl FnOnce() -> Queued) -> Option<u64> {
        let flag = self.raise();
        let queued = queue();
        // While queues refuse items an issuer may own one, and give it up.
        let was_pending = queued == Queued::AlreadyPending && !facts.drains.load(Relaxed);
        let is_owed = queued.is_accepted() || was_pending;
        self.owe(flag, is_owed);
        self.accept(facts, queued.is_accepted());
        is_owed.then_some(flag)
    }

    /// A run has seen this flag, if no instance was taken back.
    pub(super) fn has_run_since(&self, flag: Option<u64>, facts: &Facts) {
        let removed = self.removed.load(Relaxed) + self.removing.load(Relaxed) > 0;
        let seen = flag.is_none_or(|flag| self.flag_seen.load(Relaxed) >= flag);
        facts.expect(seen || removed, || {
            "a flush of the item has left the instance that was pending".into()
        });
    }

    /// Before an instance is queued.
    pub(super) fn raise(&self) -> u64 {
        self.flag.fetch_add(1, Relaxed) + 1
    }

    /// After it: its run sees the flag.
    pub(super) fn owe(&self, flag: u64, accepted: bool) {
        if accepted {
            self.flag_owed.fetch_max(flag, Relaxed);
        }
    }

    pub(super) fn accept(&self, facts: &Facts, accepted: bool) {
        self.accepted.fetch_add(u64::from(accepted), Release);
        if accepted && !self.is_delayed {
            facts.waiting.fetch_add(1, Relaxed);
        }
    }

    /// Returns what `remove` returns, and takes down whether an instance was taken back.
    pub(super) fn remove<R>(
        &self,
        facts: &Facts,
        remove: impl FnOnce() -> R,
        has_removed: impl FnOnce(&R) -> bool,
    ) -> R {
        self.removing.fetch_add(1, Relaxed);
        let result = remove();
        self.removing.fetch_sub(1, Relaxed);
        self.was_removed(facts, has_removed(&result));
        result
    }

    pub(super) fn was_removed(&self, facts: &Facts, removed: bool) {
        self.removed.fetch_add(u64::from(removed), Relaxed);
        if removed && !self.is_delayed {
            facts.one_waits_less();
        }
        something_ends();
    }

    /// It was disabled, and waited for; after `step` it may be enabled.
    pub(super) fn is_disabled_for(&self, step: impl FnOnce()) {
        self.disabled.fetch_add(1, Relaxed);
        self.disables.0.fetch_add(1, Release);
        step();
        self.disables.1.fetch_add(1, Relaxed);
        self.disabled.fetch_sub(1, Relaxed);
    }

    /// The caller knows that it is disabled: as long as nothing else is returned.
    pub(super) fn is_disabled_since(&self) -> Option<u64> {
        let over = self.disables.1.load(Relaxed);
        (self.disables.0.load(Acquire) > over).then_some(over)
    }

    pub(super) fn run(&self, lane: &Lane, facts: &Facts) {
        let (begun, ended) = (self.begun.fetch_add(1, Release), self.ended.load(Relaxed));
        facts.expect(begun == ended, || "two runs of one item overlap".into());
        facts.access(self, Access::Write);
        self.flag_seen.fetch_max(self.flag.load(Relaxed), Relaxed);
        if !self.is_delayed {
            facts.one_waits_less();
        }
        let may_run = || self.disabled.load(Relaxed) == 0;
        facts.expect(may_run(), || "a disabled item begins".into());
        lane.within(|| match self.lingers.load(Relaxed) {
            true => os::sleep(PAUSE),
            false => step(),
        });
        facts.expect(may_run(), || {
            "an item runs that was disabled, and waited for".into()
        });
        self.ended.fetch_add(1, Relaxed);
        something_ends();
    }

    /// Instances of which the caller knows that they were accepted.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Acquire)
    }

    /// All items that the library has accepted.
    pub(super) fn newest_accepted(&self) -> u64 {
        self.accepted.newest()
    }

    /// Runs of which the caller knows that they have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Acquire)
    }

    /// So many runs have ended.
    pub(super) fn has_ended(&self, runs: u64, facts: &Facts, what: &str) {
        let ended = self.ended.load(Relaxed);
        facts.expect(ended >= runs, || {
            format!("{what} has left run {runs}: {ended} have ended")
        });
    }

    /// So many instances have run, or were taken back.
    pub(super) fn are_over(&self, instances: u64, facts: &Facts, what: &str) {
        let over = self.ended.load(Relaxed) + self.removed.load(Relaxed);
        let over = over + self.removing.load(Relaxed);
        let drops = self.is_delayed && facts.drains.load(Relaxed);
        facts.expect(over >= instances || drops, || {
            format!("{what} has left an instance: {over} of {instances} are over")
        });
    }

    pub(super) fn is_settled(&self, facts: &Facts) -> bool {
        let (begun, ended) = (self.begun.newest(), self.ended.load(Relaxed));
        let over = ended + self.removed.load(Relaxed);
        let drops = self.is_delayed && facts.drains.load(Relaxed);
        let accepted = self.accepted.newest();
        begun == ended && (over == accepted || (drops && over < accepted))
    }

    /// Runs have seen what was done before they were queued: when none is left. What was taken back
    /// has seen nothing.
    pub(super) fn has_seen(&self) -> bool {
        let seen = self.flag_seen.load(Relaxed) >= self.flag_owed.load(Relaxed);
        seen || self.removed.load(Relaxed) > 0 || self.is_delayed
    }

    pub(super) fn text(&self) -> String {
        let (accepted, begun) = (self.accepted.newest(), self.begun.newest());
        let (removed, ended) = (self.removed.load(Relaxed), self.ended.load(Relaxed));
        format!("accepted {accepted}, removed {removed}, begun {begun}, ended {ended}")
    }
}
