//! What a thread remembers of its spawns: whether it tends to join at once, and the caller slots
//! that it has earned by that.
//!
//! A thread *joins at once* if it has made no other call of this library since the spawn, and joins
//! within [`AT_ONCE_NS`]. After [`EARNED`] such rounds its spawns go to a [caller
//! slot](CallerSlot). Any other call that could wait for the item, or put another one behind it,
//! publishes the item first, and the thread has to earn the caller slot again.
//!
//! A thread may change its behaviour after it has earned a slot: if it computes between spawn and
//! join, its items could run on other threads meanwhile. The monitor finds such an item in the
//! caller slot at one of its next ticks and closes the slot. From then on the time between spawn
//! and join is measured again, so the thread earns no new slot while it behaves like that.
#![forbid(unsafe_code)]

use super::producer::Issuer;
use crate::item::{Callable, Pending, RawWork, address_of};
use crate::pool::attrs::params::Params;
use crate::pool::queue::caller_slot::CallerSlot;
use crate::pool::queue::pwq::PwqKey;
use crate::pool::state::pool::Pool;
use crate::pool::task::current::Current;
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicBool;
use crate::sys::local::thread_local;
use crate::sys::{clock, cpu, fork};
use crossbeam_utils::CachePadded;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// Rounds of a spawn and its join at once before a thread gets a caller slot.
const EARNED: u32 = 16;
/// The longest time between a spawn and its join that counts as *at once*: far less than waking a
/// worker on another CPU takes.
const AT_ONCE_NS: u64 = 2_000;
/// By how much any other round lowers the score.
const LOST: u32 = 4;
/// Items that run in caller slots may spawn and join too: how many levels have caller slots of their own.
const LEVELS: usize = 8;

/// A caller slot that was granted.
pub(crate) struct Granted {
    pub(crate) caller_slot: Arc<CallerSlot>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) key: PwqKey,
    /// The queue has a rescuer.
    pub(crate) reclaim: bool,
}

/// A caller slot of the thread.
struct Own {
    caller_slot: Arc<CallerSlot>,
    pool: Weak<Pool>,
    pool_id: u32,
    params: Arc<Params>,
    key: PwqKey,
    issuer: Issuer,
    reclaim: bool,
    /// The fork generation in which the slot was granted: after a fork it belongs to the parent.
    born: u32,
}

#[derive(Default)]
struct Level {
    /// The queue of the last spawn.
    queue: usize,
    score: u32,
    /// Whether the spawn before that was joined before the thread called anything else: only then
    /// is the clock worth reading.
    joins: bool,
    /// Time of the last spawn; 0: not known.
    spawned_ns: u64,
    own: Option<Rc<Own>>,
}

#[derive(Default)]
struct SpawnHistory {
    levels: [Level; LEVELS],
    /// How many items the thread runs in caller slots, one inside the other.
    depth: usize,
    /// The last item is in the caller slot of this level.
    in_caller_slot: bool,
}

/// Whether any thread has ever spawned. In a shared library, reading thread-local memory costs as
/// much as all else that queueing does before it publishes: while no thread has spawned, none reads
/// it. Each item reads this flag, so it has a cache line of its own.
static ANY: CachePadded<AtomicBool> = CachePadded::new(AtomicBool::new(false));

thread_local! {
    /// The item that the thread has spawned last, if it has called nothing since; 0: none.
    static LAST: Cell<usize> = const { Cell::new(0) };
    static SPAWN_HISTORY: RefCell<SpawnHistory> = RefCell::default();
}

impl Own {
    /// Publishes the item in the caller slot, and gives the slot up.
    fn close(&self) {
        // In a fork's child the lock may be held for ever.
        if self.born == fork::generation()
            && let Some(pool) = self.pool.upgrade()
        {
            pool.close_caller_slot(self.key, &self.caller_slot);
        }
    }
}

impl Level {
    fn give_up(&mut self) {
        if let Some(own) = self.own.take() {
            own.close();
        }
    }

    /// Called when the last spawn, which was published, is joined: updates the score.
    fn judge(&mut self) {
        if self.spawned_ns != 0 {
            let at_once = clock::now_ns() - self.spawned_ns <= AT_ONCE_NS;
            self.score = match at_once {
                true => (self.score + 1).min(EARNED),
                false => self.score.saturating_sub(LOST),
            };
        }
        self.joins = true;
    }
}

impl Drop for SpawnHistory {
    fn drop(&mut self) {
        self.levels.iter_mut().for_each(Level::give_up);
    }
}

/// Calls `f` with the thread's history. Returns `None` if the history is in use further up the
/// stack, or if the thread is ending.
fn with<R>(f: impl FnOnce(&mut SpawnHistory) -> R) -> Option<R> {
    // Code below may call a handler of warnings, which may spawn.
    let in_use = |spawn_history: &RefCell<SpawnHistory>| {
        Some(f(&mut *spawn_history.try_borrow_mut().ok()?))
    };
    SPAWN_HISTORY.try_with(in_use).ok().flatten()
}

/// Puts a new item of `issuer` into a caller slot, if the thread has one, or has earned one and is
/// granted it. Returns the item if it is to be published.
#[inline]
pub(crate) fn spawn(
    issuer: Issuer,
    item: Pending,
    grant: impl FnOnce() -> Option<Granted>,
) -> Result<(), Pending> {
    let address = item.address();
    let mut item = Some(item);
    with(|spawn_history| {
        let depth = spawn_history.depth;
        let Some(level) = spawn_history.levels.get_mut(depth) else {
            return;
        };
        if level.queue != issuer.queue {
            level.give_up();
            (level.queue, level.score) = (issuer.queue, 0);
        }
        if level.score == EARNED
            && let Some(own) = level.caller_slot_for(issuer, grant)
            && let Some(mut mine) = item.take()
        {
            mine.set_destination(own.pool_id, own.key.index);
            item = own.caller_slot.item_slot.put(mine).err();
            spawn_history.in_caller_slot = item.is_none();
        }
        let level = &mut spawn_history.levels[depth];
        level.spawned_ns = match spawn_history.in_caller_slot || !level.joins {
            true => 0,
            false => clock::now_ns(),
        };
    });
    spawned(address);
    item.map_or(Ok(()), Err)
}

/// The thread has spawned the item at this address.
#[inline]
pub(crate) fn spawned(address: usize) {
    if !ANY.load(Ordering::Relaxed) {
        ANY.store(true, Ordering::Relaxed);
    }
    LAST.set(address);
}

impl Level {
    #[inline]
    fn caller_slot_for(
        &mut self,
        issuer: Issuer,
        grant: impl FnOnce() -> Option<Granted>,
    ) -> Option<&Own> {
        let fits = |own: &Rc<Own>| own.issuer == issuer && own.born == fork::generation();
        if !self.own.as_ref().is_some_and(fits)
            || self.own.as_ref()?.caller_slot.item_slot.is_closed()
        {
            self.give_up();
            let granted = grant()?;
            self.own = Some(Rc::new(Own {
                caller_slot: granted.caller_slot,
                pool: Arc::downgrade(&granted.pool),
                pool_id: granted.pool.id,
                params: granted.pool.attrs.params.clone(),
                key: granted.key,
                issuer,
                reclaim: granted.reclaim,
                born: fork::generation(),
            }));
        }
        self.own.as_deref()
    }
}

/// Called when the thread is about to wait for `item`. If the item is in the thread's caller slot,
/// it runs now, after `begin` has prepared it, and `true` is returned.
#[inline]
pub(crate) fn join<C: Callable>(item: &RawWork, begin: impl FnOnce(Pending) -> C) -> bool {
    if LAST.get() != item.address() {
        let_go();
        return false;
    }
    LAST.set(0);
    let taken = with(|spawn_history| {
        let in_caller_slot = std::mem::take(&mut spawn_history.in_caller_slot);
        let level = spawn_history.levels.get_mut(spawn_history.depth)?;
        if !in_caller_slot {
            level.judge();
            return None;
        }
        let own = level.own.as_ref()?;
        // On another CPU the thread may be outside the pod.
        let here = cpu::current().is_none_or(|cpu| cpu == own.issuer.cpu);
        match here.then(|| own.caller_slot.item_slot.take(item)).flatten() {
            Some(item) => {
                let own = own.clone();
                spawn_history.depth += 1;
                Some((own, item))
            }
            None => {
                // Or the slot was closed.
                level.score = 0;
                level.give_up();
                None
            }
        }
    });
    let Some(Some((own, taken))) = taken else {
        return false;
    };
    own.params.cpu_budget.keep();
    let current = Current {
        item: item.address(),
        func: address_of(item.func()),
        front: own.issuer.queue,
        reclaim: own.reclaim,
    };
    let (panicked, closed) = own.caller_slot.run(begin(taken), current);
    // Lets go of an item that this item spawned last and did not join.
    let_go();
    with(|spawn_history| {
        spawn_history.depth -= 1;
        if closed {
            spawn_history.levels[spawn_history.depth].own = None;
        }
    });
    if (closed || panicked)
        && let Some(pool) = own.pool.upgrade()
    {
        if closed {
            pool.end_caller_slot_run(own.key, &own.caller_slot);
        }
        if panicked {
            pool.count_panic();
        }
    }
    true
}

/// Called when the thread does something other than joining its last spawn: publishes that item if
/// it is still in a caller slot.
#[inline]
pub(crate) fn let_go() {
    // Relaxed: a thread that has spawned has set it itself.
    if ANY.load(Ordering::Relaxed) {
        let_go_if_any();
    }
}

// Not inlined: otherwise the compiler of a shared library would look up the thread-local memory, by
// a call, before it reads the flag.
#[inline(never)]
fn let_go_if_any() {
    if LAST.get() != 0 {
        let_go_of_last();
    }
}

/// As [`let_go`], if `item` is the last spawn.
#[inline]
pub(crate) fn let_go_of(item: &RawWork) {
    if LAST.get() == item.address() {
        let_go_of_last();
    }
}

#[cold]
fn let_go_of_last() {
    LAST.set(0);
    with(|spawn_history| {
        let Some(level) = spawn_history.levels.get_mut(spawn_history.depth) else {
            return;
        };
        (level.score, level.joins, level.spawned_ns) = (0, false, 0);
        if std::mem::take(&mut spawn_history.in_caller_slot) {
            level.give_up();
        }
    });
}

/// The calling thread has earned a caller slot in the queue where it has spawned last.
#[cfg(all(test, not(cmwq_loom)))]
pub(in crate::pool) fn earn() {
    with(|spawn_history| spawn_history.levels[spawn_history.depth].score = EARNED);
}

/// Whether the last item that the calling thread has spawned went to its caller slot, and the thread
/// has done nothing else since.
#[cfg(all(test, not(cmwq_loom)))]
pub(in crate::pool) fn keeps_one() -> bool {
    with(|spawn_history| spawn_history.in_caller_slot).unwrap_or(false)
}
