//! The pool workqueue: one workqueue's share of one pool.

use super::colours::Colours;
use super::credits::NodeLimit;
use super::held::HeldCredits;
use super::lane::Lane;
use super::stats::PwqStats;
use super::together::Together;
use crate::item::{List, Pending, Seat};
use crate::pool::task::current::{Current, number};
use crate::trace::events;
use std::sync::Arc;

/// Names one pool workqueue of a pool, for ever: places are used again, serial numbers are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PwqKey {
    /// Its place, which is what items carry: it cannot change hands while one is in flight.
    pub(crate) place: u32,
    pub(in crate::pool) serial: u64,
}

#[cfg(all(test, not(cmwq_loom)))]
impl PwqKey {
    /// That of no pool workqueue.
    pub(crate) fn none() -> Self {
        PwqKey {
            place: u32::MAX,
            serial: 0,
        }
    }
}

/// What a workqueue's flags mean to its pools.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traits {
    /// A running item's next instance may be on another pool.
    pub(crate) ordered: bool,
    /// Its running items do not count as running, on a per-CPU pool.
    pub(crate) cpu_intensive: bool,
    /// A queue of memory reclaim: it has a rescuer.
    pub(crate) reclaim: bool,
    /// Who waits for an item may run it.
    pub(crate) waiters_run: bool,
}

/// Guarded by the pool's lock, all of it. The owner is its workqueue, as far as the pool knows it.
pub(crate) struct PoolWorkqueue<O> {
    pub(crate) owner: O,
    /// Who the owner is, for comparing only.
    front_id: usize,
    pub(in crate::pool) traits: Traits,
    /// The rescuer was called and has not come yet.
    pub(in crate::pool) mayday: bool,
    pub(crate) limit: Arc<NodeLimit>,
    /// The index by which the front end knows `limit`.
    pub(crate) node: usize,
    /// Items in flight.
    pub(in crate::pool) colours: Colours,
    /// Those that are used are the active items: on the worklist or running.
    pub(in crate::pool) credits: HeldCredits,
    /// Accepted items that have no credit yet, oldest first.
    pub(in crate::pool) inactive: List,
    /// Entered among those who wait for a credit.
    pub(in crate::pool) waiting: bool,
    /// Takes no new items; gone when the last one has ended.
    pub(in crate::pool) retired: bool,
    /// Accepts items but makes none active: an older pool workqueue of an ordered queue still has some.
    pub(in crate::pool) plugged: bool,
    pub(in crate::pool) serial: u64,
    /// Where its items are published together, if they may be.
    pub(in crate::pool) together: Option<Arc<Together>>,
    /// Open lanes; each holds one of the active places.
    pub(in crate::pool) lanes: Vec<Arc<Lane>>,
    /// Lanes that were closed during a run which has not ended yet.
    pub(in crate::pool) closed_lanes: Vec<Arc<Lane>>,
    pub(in crate::pool) stats: PwqStats,
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
            inactive: List::new(Seat::Inactive),
            waiting: false,
            retired: false,
            plugged: false,
            serial: 0,
            together: None,
            lanes: Vec::new(),
            closed_lanes: Vec::new(),
            stats: PwqStats::default(),
        }
    }

    /// With its serial number.
    pub(in crate::pool) fn numbered(mut self, serial: u64) -> Self {
        self.serial = serial;
        self
    }

    /// See [`PwqState::plugged`]; [`Inner::unplug`] ends it.
    pub(crate) fn plugged(mut self, plugged: bool) -> Self {
        self.plugged = plugged;
        self
    }

    /// The lanes in which something may run.
    pub(in crate::pool) fn lanes_with_runs(&self) -> impl Iterator<Item = &Arc<Lane>> {
        self.lanes.iter().chain(&self.closed_lanes)
    }

    /// Items on the worklist or running; lanes where nothing is do not count.
    pub(crate) fn nr_active(&self) -> usize {
        let idle_lanes = self.lanes.iter().filter(|lane| lane.is_idle()).count();
        usize::try_from(self.credits.used())
            .unwrap_or(0)
            .saturating_sub(idle_lanes)
    }

    #[inline]
    pub(in crate::pool) fn colour(&self) -> u32 {
        self.colours.current()
    }

    /// Makes a lane's place out of a credit, if one is at hand and nobody waits for one.
    pub(in crate::pool) fn place_for_lane(&mut self) -> bool {
        let in_demand = self.waiting || !self.inactive.is_empty() || self.limit.is_tight();
        !in_demand && !self.plugged && !self.retired && self.use_credit()
    }

    /// A lane's place is free again.
    pub(in crate::pool) fn leave_place(&mut self) {
        self.credits.transition_used_to_unused(1);
        if self.limit.is_tight() {
            self.give_back_unused();
        }
    }

    #[inline]
    pub(in crate::pool) fn one_more_in_flight(&mut self) {
        self.colours.transition_none_to_in_flight(1);
    }

    /// Items that were run in a lane that is closed now.
    pub(in crate::pool) fn count_lane_runs(&mut self, runs: u64) {
        self.stats.started += runs;
        self.stats.completed += runs;
        self.stats.waiter_runs += runs;
    }

    /// What it has counted, open lanes included.
    pub(in crate::pool) fn stats_now(&self) -> PwqStats {
        let mut stats = self.stats;
        for lane in &self.lanes {
            let runs = lane.runs();
            stats.started += runs;
            stats.completed += runs;
            stats.waiter_runs += runs;
        }
        stats
    }

    /// What the kernel would count: one for its queue, unless that has let go of it, and one for each item in flight.
    pub(crate) fn references(&self) -> usize {
        self.nr_in_flight() + usize::from(!self.retired)
    }

    pub(crate) fn nr_in_flight(&self) -> usize {
        let in_lanes = self.lanes.iter().filter(|lane| !lane.is_idle()).count();
        self.colours.in_flight() as usize + in_lanes
    }

    /// How many of its items have been started, and how many have ended.
    pub(in crate::pool) fn nr_moved(&self) -> u64 {
        let stats = self.stats_now();
        stats.started + stats.completed
    }

    pub(in crate::pool) fn is_plugged(&self) -> bool {
        self.plugged
    }

    /// Who the queue is, for comparing only.
    #[inline]
    pub(crate) fn front_id(&self) -> usize {
        self.front_id
    }

    /// What a thread that runs one of its items is said to run, but for the item.
    #[inline]
    pub(in crate::pool) fn current(&self) -> Current {
        Current {
            front: self.front_id(),
            reclaim: self.traits.reclaim,
            ..Current::default()
        }
    }

    /// Nothing is to happen at the end of one of its items.
    #[inline]
    pub(in crate::pool) fn is_at_ease(&self) -> bool {
        !self.colours.is_flushing() && !self.retired && !self.plugged && !self.mayday
    }

    /// Uses a credit for one more active item, fetching a portion if none is at hand.
    #[inline]
    pub(in crate::pool) fn use_credit(&mut self) -> bool {
        if self.credits.unused() == 0 {
            self.stats.limit_visits += 1;
            self.credits
                .transition_store_to_unused(self.limit.take_portion());
            if self.credits.unused() == 0 {
                return false;
            }
        }
        self.credits.transition_unused_to_used(1);
        true
    }

    /// Nobody waits for the end of one of its items, nor for its place.
    pub(in crate::pool) fn may_batch(&self) -> bool {
        self.is_at_ease() && !self.traits.ordered && !self.traits.cpu_intensive
    }

    /// Whether items may become active past the worklist, and without a word to anybody.
    pub(in crate::pool) fn may_take_bundles(&self) -> bool {
        self.may_batch() && self.inactive.is_empty() && !self.waiting
    }

    /// How many credits are unused, fetching portions until there are `most`, or no more are to be had.
    #[inline]
    pub(in crate::pool) fn credits_at_hand(&mut self, most: usize) -> usize {
        while self.credits.unused() < most as i32 {
            self.stats.limit_visits += 1;
            match self.limit.take_portion() {
                0 => break,
                portion => self.credits.transition_store_to_unused(portion),
            }
        }
        usize::try_from(self.credits.unused()).map_or(0, |unused| unused.min(most))
    }

    /// Accepts so many items, which are active at once: there are credits for them.
    #[inline]
    pub(in crate::pool) fn accept_at_once(&mut self, items: usize) {
        self.credits.transition_unused_to_used(items as i32);
        self.colours.transition_none_to_in_flight(items as u32);
    }

    /// `true`: it has inactive items, and its waiting for a credit begins now.
    pub(in crate::pool) fn begin_waiting(&mut self) -> bool {
        if self.waiting || self.plugged || self.inactive.is_empty() {
            return false;
        }
        self.waiting = true;
        self.limit.one_more_waits();
        true
    }

    /// An active item has ended while somebody waits for its credit. If nobody but this pool workqueue does, its own next item has
    /// it at once. Not the last one: with that its turn among those who wait ends, which is [`Inner::activate_one`]'s business.
    #[inline]
    pub(in crate::pool) fn next_of_own(&mut self) -> Option<Pending> {
        if self.inactive.len() < 2 || !self.waiting || !self.limit.only_one_waits() {
            return None;
        }
        self.credits.transition_unused_to_used(1);
        self.inactive.pop_front()
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
    pub(in crate::pool) gone: bool,
}

/// What has become of an item.
#[must_use = "an active item belongs on the worklist, and who begins to wait has to be told"]
pub(in crate::pool) enum Accepted {
    /// It may run, behind all that is on the worklist.
    Active(Pending),
    /// It waits, as others of its pool workqueue do.
    Inactive,
    /// It waits for a credit, and its pool workqueue begins to.
    BeginsToWait,
}

#[inline]
pub(in crate::pool) fn tell_activated(item: &Pending) {
    events::activated(item.address(), || number(item.func()));
}

/// The item has its place among the active ones: any worker may take it.
#[inline]
pub(in crate::pool) fn make_active(worklist: &mut List, item: Pending) {
    tell_activated(&item);
    worklist.push_back(item);
}
