//! The pool workqueue: one workqueue's share of one pool.

use super::caller_slot::CallerSlot;
use super::colours::Colours;
use super::credits::NodeLimit;
use super::held::HeldCredits;
use super::inactive::Inactive;
use super::pwq_chunks::PwqChunks;
use super::room::WaitingBound;
use super::stats::QueueStats;
use super::times::{Sampler, Times};
use crate::item::{List, Part, Pending, address_of};
use crate::pool::task::current::Current;
use crate::trace::events;
use std::sync::Arc;

/// Names one pool workqueue of a pool, for ever: indices are used again, serial numbers are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PwqKey {
    /// Its index in the pool. Items carry the index, so it is not given to another pool workqueue
    /// while one of its items is in flight.
    pub(crate) index: u32,
    pub(in crate::pool) serial: u64,
}

#[cfg(all(test, not(cmwq_loom)))]
impl PwqKey {
    /// A key that names no pool workqueue.
    pub(crate) fn none() -> Self {
        PwqKey {
            index: u32::MAX,
            serial: 0,
        }
    }
}

/// What a workqueue's flags mean to its pools.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traits {
    /// Items run one after the other, in order. While an item runs, its next instance may be on
    /// another pool, if the queue's attributes were changed meanwhile.
    pub(crate) ordered: bool,
    /// Its running items do not count as running, on a per-CPU pool.
    pub(crate) cpu_intensive: bool,
    /// A queue of memory reclaim: it has a rescuer.
    pub(crate) reclaim: bool,
    /// A thread that waits for an item may run it.
    pub(crate) waiters_run: bool,
}

/// The part of one workqueue in one pool. The pool's lock guards all fields. `O` is the workqueue,
/// as far as the pool knows it.
pub(crate) struct PoolWorkqueue<O> {
    pub(crate) owner: O,
    /// The owner's identity, for comparing only.
    front_id: usize,
    pub(in crate::pool) traits: Traits,
    /// The rescuer was called and has not come yet.
    pub(in crate::pool) mayday: bool,
    pub(crate) limit: Arc<NodeLimit>,
    /// The index by which the front end knows `limit`.
    pub(crate) node: usize,
    /// Items in flight.
    pub(in crate::pool) colours: Colours,
    /// The credits that it holds. Each active item, on the worklist or running, uses one.
    pub(in crate::pool) credits: HeldCredits,
    /// Accepted items that have no credit yet, oldest first.
    pub(in crate::pool) inactive: Inactive,
    /// Whether it is in the line for a credit.
    pub(in crate::pool) waiting: bool,
    /// How many of its items in a row became active with the credit of an item of its own that had
    /// just ended, while other pool workqueues waited for a credit.
    own_turns: i32,
    /// Whether it is retired: it takes no new items, and is removed when its last one has ended.
    pub(in crate::pool) retired: bool,
    /// Whether it accepts items but makes none active, because an older pool workqueue of the same
    /// ordered queue still has some.
    pub(in crate::pool) plugged: bool,
    pub(in crate::pool) serial: u64,
    /// How long its items wait and run.
    pub(in crate::pool) times: Times,
    /// Where an item that starts or is cancelled leaves its unit of room, if the queue is bounded.
    pub(in crate::pool) room: Option<Arc<WaitingBound>>,
    /// Its chunks, if it may have any.
    pub(in crate::pool) chunks: Option<Arc<PwqChunks>>,
    /// Open caller slots; each holds a credit.
    pub(in crate::pool) caller_slots: Vec<Arc<CallerSlot>>,
    /// Caller slots that were closed during a run which has not ended yet.
    pub(in crate::pool) closed_caller_slots: Vec<Arc<CallerSlot>>,
    pub(in crate::pool) stats: QueueStats,
}

impl<O> PoolWorkqueue<O> {
    pub(crate) fn new(
        owner: O,
        front_id: usize,
        traits: Traits,
        limit: Arc<NodeLimit>,
        node: usize,
        colour: u32,
    ) -> Self {
        PoolWorkqueue {
            owner,
            front_id,
            traits,
            mayday: false,
            limit,
            node,
            colours: Colours::new(colour),
            credits: HeldCredits::default(),
            inactive: Inactive::new(),
            waiting: false,
            own_turns: 0,
            retired: false,
            plugged: false,
            serial: 0,
            times: Times::new(Sampler::new()),
            room: None,
            chunks: None,
            caller_slots: Vec::new(),
            closed_caller_slots: Vec::new(),
            stats: QueueStats::default(),
        }
    }

    /// Sets its serial number.
    pub(in crate::pool) fn numbered(mut self, serial: u64) -> Self {
        self.serial = serial;
        self
    }

    /// Sets the field `plugged`; [`Inner::unplug`](crate::pool::state::pool::Inner::unplug) clears it.
    pub(crate) fn plugged(mut self, plugged: bool) -> Self {
        self.plugged = plugged;
        self
    }

    /// Sets the samples of its queue.
    pub(crate) fn with_sampler(mut self, sampler: Arc<Sampler>) -> Self {
        self.times = Times::new(sampler);
        self
    }

    /// Sets the room of its items: the queue is bounded.
    pub(crate) fn with_room(mut self, room: Option<Arc<WaitingBound>>) -> Self {
        self.room = room;
        self
    }

    /// The caller slots in which something may run.
    pub(in crate::pool) fn caller_slots_with_runs(&self) -> impl Iterator<Item = &Arc<CallerSlot>> {
        self.caller_slots.iter().chain(&self.closed_caller_slots)
    }

    fn idle_caller_slots(&self) -> usize {
        let slots = self.caller_slots.iter();
        slots.filter(|slot| slot.item_slot.is_idle()).count()
    }

    /// Items on the worklist or running; idle caller slots do not count.
    pub(crate) fn nr_active(&self) -> usize {
        let used = usize::try_from(self.credits.used()).unwrap_or(0);
        used.saturating_sub(self.idle_caller_slots())
    }

    #[inline]
    pub(in crate::pool) fn colour(&self) -> u32 {
        self.colours.current()
    }

    /// Takes a credit for a caller slot, if one is at hand and nothing waits for one.
    pub(in crate::pool) fn take_credit_for_caller_slot(&mut self) -> bool {
        self.may_pass() && !self.limit.is_tight() && !self.retired && self.use_credit()
    }

    /// A caller slot no longer uses its credit.
    pub(in crate::pool) fn return_credit(&mut self) {
        self.credits.transition_used_to_unused(1);
        self.give_back_if_tight();
    }

    #[inline]
    pub(in crate::pool) fn one_more_in_flight(&mut self) {
        self.colours.transition_none_to_in_flight(1);
    }

    /// Its counters, including what open caller slots have counted.
    pub(in crate::pool) fn stats_now(&self) -> QueueStats {
        let mut stats = self.stats;
        for caller_slot in &self.caller_slots {
            stats.add_waiter_runs(caller_slot.runs());
        }
        stats
    }

    /// The number of references, counted as the kernel does: the queue has one until it retires
    /// this pool workqueue, and each item in flight has one.
    pub(crate) fn references(&self) -> usize {
        self.nr_in_flight() + usize::from(!self.retired)
    }

    pub(crate) fn nr_in_flight(&self) -> usize {
        let in_caller_slots = self.caller_slots.len() - self.idle_caller_slots();
        self.colours.in_flight() as usize + in_caller_slots
    }

    /// How many of its items have started, plus how many have ended.
    pub(in crate::pool) fn nr_moved(&self) -> u64 {
        let stats = self.stats_now();
        stats.started + stats.completed
    }

    /// The queue's identity, for comparing only.
    #[inline]
    pub(crate) fn front_id(&self) -> usize {
        self.front_id
    }

    /// What a thread notes while it runs one of the queue's items. The caller adds the item.
    #[inline]
    pub(in crate::pool) fn current(&self) -> Current {
        Current {
            front: self.front_id(),
            reclaim: self.traits.reclaim,
            ..Current::default()
        }
    }

    /// Whether an item that is accepted now may become active if there is a credit. It may not
    /// while older items are inactive, since no item overtakes those.
    #[inline]
    pub(in crate::pool) fn may_pass(&self) -> bool {
        self.inactive.is_empty() && !self.waiting && !self.plugged
    }

    /// Uses a credit for one more active item, and takes a portion from the store if none is at hand.
    #[inline]
    pub(in crate::pool) fn use_credit(&mut self) -> bool {
        let any = self.credits_at_hand(1) > 0;
        if any {
            self.credits.transition_unused_to_used(1);
        }
        any
    }

    /// Whether its items may run in batches: nothing but counting has to be done between one item
    /// and the next. A flush, or the end of this pool workqueue, is no reason against it: either
    /// waits for the last of the items, whose end is that of its batch.
    pub(in crate::pool) fn may_batch(&self) -> bool {
        !self.plugged
            && !self.mayday
            && !self.traits.ordered
            && !self.traits.cpu_intensive
            && self.room.is_none()
    }

    /// Whether a worker may take items of a chunk that were not on the worklist before: they become
    /// active at once, and no other thread is told.
    pub(in crate::pool) fn may_take_chunks(&self) -> bool {
        self.may_batch() && self.may_pass()
    }

    /// Accepts closures of a chunk, which have to wait. `true`: the pool workqueue begins to wait
    /// for a credit.
    pub(in crate::pool) fn accept_part(&mut self, part: Part) -> bool {
        self.colours.transition_none_to_in_flight(part.len() as u32);
        self.inactive.push_part(part, self.colours.current());
        self.begin_waiting()
    }

    /// How many credits are unused, up to `most`; takes portions from the store until there are so
    /// many, or no more.
    #[inline]
    pub(in crate::pool) fn credits_at_hand(&mut self, most: usize) -> usize {
        let most_credits = i32::try_from(most).unwrap_or(i32::MAX);
        while self.credits.unused() < most_credits {
            self.stats.limit_visits += 1;
            let needed = most_credits - self.credits.unused();
            match self.limit.take_portion(needed) {
                0 => break,
                portion => self.credits.transition_store_to_unused(portion),
            }
        }
        usize::try_from(self.credits.unused()).map_or(0, |unused| unused.min(most))
    }

    /// Whether an item that is accepted now has to wait. If not, a credit is at hand.
    pub(in crate::pool) fn makes_wait(&mut self) -> bool {
        !self.may_pass() || self.credits_at_hand(1) == 0
    }

    /// Accepts `items` items, which become active at once. The caller has made sure that there are
    /// credits for them.
    #[inline]
    pub(in crate::pool) fn accept_at_once(&mut self, items: usize) {
        self.credits.transition_unused_to_used(items as i32);
        self.colours.transition_none_to_in_flight(items as u32);
    }

    /// Enters the line for a credit if there are inactive items. Returns `true` if it was not in
    /// the line before.
    pub(in crate::pool) fn begin_waiting(&mut self) -> bool {
        if self.waiting || self.plugged || self.inactive.is_empty() {
            return false;
        }
        self.waiting = true;
        self.limit.one_more_waits();
        true
    }

    /// Called when an item has ended while some pool workqueue waits for a credit. Returns the next
    /// inactive item of this one, which uses the free credit, if this one waits too and has
    /// [turns](crate::pool::NodeLimit::own_turns) left. The last inactive item is left for
    /// [`Inner::activate_some`](crate::pool::state::pool::Inner::activate_some), which also takes
    /// the pool workqueue out of the line.
    #[inline]
    pub(in crate::pool) fn next_of_own(&mut self) -> Option<Pending> {
        if self.inactive.len() < 2 || !self.waiting {
            return None;
        }
        if !self.has_turns(1) {
            return None;
        }
        self.credits.transition_unused_to_used(1);
        self.inactive.pop_front()
    }

    /// Called when `items` items have ended while some pool workqueue waits for a credit, and this
    /// one does not. Returns whether it keeps their credits until the lock is released: it may have
    /// items that are published and not accepted, of which the caller may take some.
    pub(in crate::pool) fn keeps_for_next(&mut self, items: u32) -> bool {
        self.may_pass() && !self.retired && self.has_turns(items as i32)
    }

    /// Whether its next items may become active with the credits of those that have ended. If so,
    /// `items` are counted as turns; a batch of them may exceed the bound once. If not, the count
    /// begins anew.
    fn has_turns(&mut self, items: i32) -> bool {
        let has = self.own_turns < self.limit.own_turns(self.waiting);
        self.own_turns = if has {
            self.own_turns.saturating_add(items)
        } else {
            0
        };
        has
    }

    /// Gives unused credits back if a pool workqueue waits for one. Returns `true` if there were
    /// some; then the caller has the store handed out.
    #[inline]
    pub(in crate::pool) fn give_back_if_tight(&mut self) -> bool {
        self.credits.unused() > 0 && self.limit.is_tight() && self.give_back_unused()
    }

    pub(in crate::pool) fn give_back_unused(&mut self) -> bool {
        let unused = self.credits.transition_unused_to_store();
        if unused == 0 {
            return false;
        }
        self.stats.limit_visits += 1;
        self.limit.give(unused);
        true
    }
}

/// What the end of an item set in motion.
#[derive(Default)]
pub(in crate::pool) struct Ended {
    pub(in crate::pool) colour_done: bool,
    pub(in crate::pool) credits_freed: bool,
    /// The pool workqueue keeps credits until the lock is released.
    pub(in crate::pool) credits_kept: bool,
    pub(in crate::pool) gone: bool,
}

/// The outcome of accepting an item.
#[must_use = "an active item belongs on the worklist, and an item that begins to wait has to be told of"]
pub(in crate::pool) enum Accepted {
    /// It has a credit and may run, after all items that are on the worklist.
    Active(Pending),
    /// It waits, as others of its pool workqueue do.
    Inactive,
    /// It waits for a credit, and its pool workqueue has just entered the line for one.
    BeginsToWait,
}

#[inline]
pub(in crate::pool) fn tell_activated(item: &Pending) {
    events::activated(item.address(), || address_of(item.func()));
}

/// The item has a credit: any worker may take it.
#[inline]
pub(in crate::pool) fn make_active(worklist: &mut List, item: Pending) {
    tell_activated(&item);
    worklist.push_back(item);
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests;
