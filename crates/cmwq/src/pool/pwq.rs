//! The pool workqueue: one workqueue's share of one pool.

use super::lane::Lane;
use super::limit::NodeLimit;
use super::rescuer::Rescuer;
use super::snapshot::address;
use super::{Current, Inner, Pool, PoolStats, Together};
use crate::observe::events;
use crate::work::{List, Pending, RawWork, Seat, WorkFn};
use std::sync::Arc;

/// Flush colours, as in the kernel.
pub(crate) const COLOURS: usize = 16;

/// Names one pool workqueue of a pool, for ever: places are used again, serial numbers are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PwqKey {
    /// Its place, which is what items carry: it cannot change hands while one is in flight.
    pub(crate) place: u32,
    serial: u64,
}

/// What a pool tells the workqueue that an item belongs to. Called with no pool's lock held (locks of
/// queues may be).
pub(crate) trait FrontEnd: Send + Sync {
    /// The queue's name.
    fn name(&self) -> &str;
    /// Its kind and its flags, in words.
    fn flags(&self) -> String;
    /// Warns if the calling thread, which is about to wait for the queue or for its item of function `func`, must not depend on it.
    fn check_dependency(&self, func: Option<WorkFn>);
    /// Which other pool than `but` runs `item` for the queue.
    fn pool_that_runs(&self, item: &RawWork, but: u32) -> Option<u32>;
    /// The last item of a colour that is being flushed has ended, on one of the queue's pool workqueues.
    fn colour_done(&self, colour: u32);
    /// A pool workqueue has an inactive item and no credit: enter it among those who wait, and find it one.
    fn must_wait(&self, pool: &Arc<Pool>, pwq: PwqKey);
    /// Credits were given back on `node` while somebody waits.
    fn credits_freed(&self, node: usize);
    /// A retired pool workqueue has run its last item and is gone from its pool.
    fn pwq_gone(&self, pool: &Arc<Pool>, pwq: PwqKey);
}

/// What a workqueue's flags mean to its pools.
#[derive(Clone, Default)]
pub(crate) struct Traits {
    /// A running item's next instance may be on another pool.
    pub(crate) ordered: bool,
    /// Its running items do not count as running, on a per-CPU pool.
    pub(crate) cpu_intensive: bool,
    /// Who runs its items when no worker can be created. `Some` for queues of memory reclaim.
    pub(crate) rescuer: Option<Arc<Rescuer>>,
    /// Who waits for an item may run it.
    pub(crate) waiters_run: bool,
}

/// What one pool workqueue has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PwqStats {
    pub(crate) started: u64,
    pub(crate) completed: u64,
    /// Items that computed for too long.
    pub(crate) cpu_intensive: u64,
    /// Times another worker took over because an item blocked.
    pub(crate) cm_wakeups: u64,
    /// Calls for the rescuer, and items that it ran.
    pub(crate) mayday: u64,
    pub(crate) rescued: u64,
    /// Items run by threads that waited for them.
    pub(crate) waiter_runs: u64,
    /// Visits to the store of credits that all pods of a node share.
    pub(crate) limit_visits: u64,
    /// Items that a neighbour of the pool ran.
    pub(crate) helps: u64,
    /// Workers that were woken up and then first ran an item of it.
    pub(crate) wakeups: u64,
    /// CPU time of workers that were found running its items: see [`Pool::charge_cpu_time`].
    pub(crate) cpu_ns: u64,
}

/// Guarded by the pool's lock, all of it.
pub(crate) struct PwqState {
    pub(crate) front: Arc<dyn FrontEnd>,
    pub(super) traits: Traits,
    /// The rescuer was called and has not come yet.
    pub(super) mayday: bool,
    pub(crate) limit: Arc<NodeLimit>,
    /// The index by which the front end knows `limit`.
    pub(crate) node: usize,
    /// The colour that items are accepted under.
    colour: u32,
    /// Accepted and not finished, per colour.
    in_flight: [u32; COLOURS],
    nr_in_flight: u32,
    /// A bit for each colour whose end the front end waits for.
    flushing: u16,
    /// Items on the worklist or running.
    active: i32,
    /// Credits held; `active` of them are in use.
    credits: i32,
    /// Accepted items that have no credit yet, oldest first.
    pub(super) inactive: List,
    /// Entered among those who wait for a credit.
    waiting: bool,
    /// Takes no new items; gone when the last one has ended.
    retired: bool,
    /// Accepts items but makes none active: an older pool workqueue of an ordered queue still has some.
    plugged: bool,
    serial: u64,
    /// Where its items are published together, if they may be.
    pub(super) together: Option<Arc<Together>>,
    /// Open lanes; each holds one of the active places.
    pub(super) lanes: Vec<Arc<Lane>>,
    pub(super) stats: PwqStats,
}

impl PwqState {
    pub(crate) fn new(
        front: Arc<dyn FrontEnd>,
        traits: Traits,
        limit: Arc<NodeLimit>,
        node: usize,
        colour: u32,
    ) -> Self {
        PwqState {
            front,
            traits,
            mayday: false,
            limit,
            node,
            colour,
            in_flight: [0; COLOURS],
            nr_in_flight: 0,
            flushing: 0,
            active: 0,
            credits: 0,
            inactive: List::new(Seat::Inactive),
            waiting: false,
            retired: false,
            plugged: false,
            serial: 0,
            together: None,
            lanes: Vec::new(),
            stats: PwqStats::default(),
        }
    }

    /// See [`PwqState::plugged`]; [`Inner::unplug`] ends it.
    pub(crate) fn plugged(mut self, plugged: bool) -> Self {
        self.plugged = plugged;
        self
    }

    /// Items on the worklist or running; lanes where nothing is do not count.
    pub(crate) fn nr_active(&self) -> usize {
        let idle_lanes = self.lanes.iter().filter(|lane| lane.is_idle()).count();
        usize::try_from(self.active)
            .unwrap_or(0)
            .saturating_sub(idle_lanes)
    }

    #[inline]
    pub(super) fn colour(&self) -> u32 {
        self.colour
    }

    /// Makes a lane's place out of a credit, if one is at hand and nobody waits for one.
    pub(super) fn place_for_lane(&mut self) -> bool {
        let in_demand = self.waiting || !self.inactive.is_empty() || self.limit.is_tight();
        !in_demand && !self.plugged && !self.retired && self.use_credit()
    }

    /// A lane's place is free again.
    pub(super) fn leave_place(&mut self) {
        self.active -= 1;
        if self.limit.is_tight() {
            self.give_back_unused();
        }
    }

    #[inline]
    pub(super) fn one_more_in_flight(&mut self) {
        self.in_flight[self.colour as usize] += 1;
        self.nr_in_flight += 1;
    }

    /// Items that were run in a lane that is closed now.
    pub(super) fn count_lane_runs(&mut self, runs: u64) {
        self.stats.started += runs;
        self.stats.completed += runs;
        self.stats.waiter_runs += runs;
    }

    /// What it has counted, open lanes included.
    fn stats_now(&self) -> PwqStats {
        let mut stats = self.stats;
        for lane in &self.lanes {
            let runs = lane.runs();
            stats.started += runs;
            stats.completed += runs;
            stats.waiter_runs += runs;
        }
        stats
    }

    pub(crate) fn nr_in_flight(&self) -> usize {
        let in_lanes = self.lanes.iter().filter(|lane| !lane.is_idle()).count();
        self.nr_in_flight as usize + in_lanes
    }

    /// Who the queue is, for comparing only.
    #[inline]
    pub(crate) fn front_id(&self) -> usize {
        Arc::as_ptr(&self.front).cast::<()>().addr()
    }

    /// What a thread that runs one of its items is said to run, but for the item.
    #[inline]
    pub(super) fn current(&self) -> Current {
        Current {
            front: self.front_id(),
            reclaim: self.traits.rescuer.is_some(),
            ..Current::default()
        }
    }

    /// Nothing is to happen at the end of one of its items.
    #[inline]
    pub(super) fn is_at_ease(&self) -> bool {
        self.flushing == 0 && !self.retired && !self.plugged && !self.mayday
    }

    /// Uses a credit for one more active item, fetching a portion if none is at hand.
    #[inline]
    fn use_credit(&mut self) -> bool {
        if self.active == self.credits {
            self.stats.limit_visits += 1;
            self.credits += self.limit.take_portion();
            if self.active >= self.credits {
                return false;
            }
        }
        self.active += 1;
        true
    }

    /// Whether items may become active past the worklist, and without a word to anybody.
    pub(super) fn may_take_bundles(&self) -> bool {
        self.may_batch() && self.inactive.is_empty() && !self.waiting
    }

    /// How many credits are unused, fetching portions until there are `most`, or no more are to be had.
    #[inline]
    pub(super) fn credits_at_hand(&mut self, most: usize) -> usize {
        while self.credits - self.active < most as i32 {
            self.stats.limit_visits += 1;
            match self.limit.take_portion() {
                0 => break,
                portion => self.credits += portion,
            }
        }
        usize::try_from(self.credits - self.active).map_or(0, |unused| unused.min(most))
    }

    /// Accepts so many items, which are active at once: there are credits for them.
    #[inline]
    pub(super) fn accept_at_once(&mut self, items: usize) {
        self.active += items as i32;
        self.in_flight[self.colour as usize] += items as u32;
        self.nr_in_flight += items as u32;
    }

    /// `true`: it has inactive items, and its waiting for a credit begins now.
    fn begin_waiting(&mut self) -> bool {
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
    fn next_of_own(&mut self) -> Option<Pending> {
        if self.inactive.len() < 2 || !self.waiting || !self.limit.only_one_waits() {
            return None;
        }
        self.active += 1;
        self.inactive.pop_front()
    }

    fn give_back_unused(&mut self) -> bool {
        let unused = self.credits - self.active;
        if unused <= 0 {
            return false;
        }
        self.credits = self.active;
        self.stats.limit_visits += 1;
        self.limit.give(unused);
        true
    }
}

/// What the end of an item set in motion.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) colour_done: bool,
    pub(super) credits_freed: bool,
    pub(super) gone: bool,
}

/// What has become of an item.
#[must_use = "an active item belongs on the worklist, and who begins to wait has to be told"]
pub(super) enum Accepted {
    /// It may run, behind all that is on the worklist.
    Active(Pending),
    /// It waits, as others of its pool workqueue do.
    Inactive,
    /// It waits for a credit, and its pool workqueue begins to.
    BeginsToWait,
}

#[inline]
fn tell_activated(item: &Pending) {
    events::activated(item.address(), || address(item.func()));
}

/// The item has its place among the active ones: any worker may take it.
#[inline]
pub(super) fn make_active(worklist: &mut List, item: Pending) {
    tell_activated(&item);
    worklist.push_back(item);
}

impl Inner {
    pub(crate) fn add_pwq(&mut self, pwq: PwqState) -> PwqKey {
        self.next_serial += 1;
        let serial = self.next_serial;
        let place = self.pwqs.insert(PwqState { serial, ..pwq });
        PwqKey { place, serial }
    }

    /// Has the items of a pool workqueue published together from now on.
    pub(crate) fn allow_together(&mut self, key: PwqKey, pool: &Pool) -> Option<Arc<Together>> {
        let together = Arc::new(Together::new(pool, key.place));
        self.pwq_mut(key)?.together = Some(together.clone());
        Some(together)
    }

    pub(super) fn pwq_mut(&mut self, key: PwqKey) -> Option<&mut PwqState> {
        self.pwqs
            .get_mut(key.place)
            .filter(|pwq| pwq.serial == key.serial)
    }

    pub(super) fn key_of(&self, place: u32) -> PwqKey {
        PwqKey {
            place,
            serial: self.pwqs[place].serial,
        }
    }

    /// Accepts an item: counts it in flight, and it is active if a credit is there and nobody is before it.
    #[inline]
    pub(super) fn accept(&mut self, mut item: Pending) -> Accepted {
        let pwq = &mut self.pwqs[item.pwq()];
        item.accept(pwq.colour);
        pwq.one_more_in_flight();
        // Inactive items are never overtaken.
        if pwq.inactive.is_empty() && !pwq.waiting && !pwq.plugged && pwq.use_credit() {
            tell_activated(&item);
            return Accepted::Active(item);
        }
        pwq.inactive.push_back(item);
        match pwq.begin_waiting() {
            true => Accepted::BeginsToWait,
            false => Accepted::Inactive,
        }
    }

    /// The accounting at the end of an active item of pool workqueue `key`, accepted under `colour`.
    #[inline]
    pub(super) fn end_item(&mut self, key: u32, colour: u32) -> Ended {
        self.pwqs[key].stats.completed += 1;
        self.leave_flight(key, colour, 1, 1)
    }

    /// So many items are not in flight any more, completed or not; the `active` ones among them give their credits back.
    #[inline]
    pub(super) fn leave_flight(&mut self, key: u32, colour: u32, items: u32, active: u32) -> Ended {
        let pwq = &mut self.pwqs[key];
        pwq.active -= active as i32;
        let mut ended = Ended::default();
        pwq.nr_in_flight -= items;
        pwq.in_flight[colour as usize] -= items;
        if pwq.in_flight[colour as usize] == 0 && pwq.flushing & (1 << colour) != 0 {
            pwq.flushing &= !(1 << colour);
            ended.colour_done = true;
        }
        if pwq.limit.is_tight() {
            let mut left = active;
            while left > 0
                && let Some(item) = pwq.next_of_own()
            {
                make_active(&mut self.worklist, item);
                left -= 1;
            }
            if left > 0 || active == 0 {
                ended.credits_freed = pwq.give_back_unused();
            }
        }
        ended.gone = pwq.retired && pwq.nr_in_flight == 0;
        ended
    }

    /// From now on items are accepted under `next`. `true`: items of `old`, the colour before, are in flight, and
    /// [`FrontEnd::colour_done`] will be called when the last of them has ended. A pool workqueue that is gone has none.
    pub(crate) fn advance_colour(&mut self, key: PwqKey, old: u32, next: u32) -> bool {
        self.close_all_lanes(key);
        let Some(pwq) = self.pwq_mut(key) else {
            return false;
        };
        debug_assert_eq!(
            pwq.colour, old,
            "all pool workqueues of a queue have its colour"
        );
        pwq.colour = next;
        let busy = pwq.in_flight[old as usize] > 0;
        if busy {
            pwq.flushing |= 1 << old;
        }
        busy
    }

    /// Gives unused credits back to the node.
    pub(crate) fn collect_credits(&mut self, key: PwqKey) {
        self.close_all_lanes(key);
        if let Some(pwq) = self.pwq_mut(key) {
            pwq.give_back_unused();
        }
    }

    /// Uses a credit that the caller took for `key`: its oldest inactive item becomes active. Tells whether more wait. `None`:
    /// its last waiting item was cancelled and it is gone; the credit is still the caller's.
    pub(crate) fn activate_one(&mut self, key: PwqKey) -> Option<bool> {
        let pwq = self.pwq_mut(key)?;
        pwq.credits += 1;
        let item = pwq.inactive.pop_front();
        pwq.active += i32::from(item.is_some());
        let more = !pwq.inactive.is_empty();
        if !more {
            pwq.waiting = false;
            pwq.limit.one_less_waits();
            pwq.give_back_unused();
        }
        if let Some(item) = item {
            make_active(&mut self.worklist, item);
        }
        Some(more)
    }

    /// Items may become active from now on. `true`: some are there, and the pool workqueue has begun to wait for a credit.
    pub(crate) fn unplug(&mut self, key: PwqKey) -> bool {
        let Some(pwq) = self.pwq_mut(key) else {
            return false;
        };
        pwq.plugged = false;
        pwq.begin_waiting()
    }

    /// Takes no new items from now on. `true`: it had none left and is gone already.
    pub(crate) fn retire_pwq(&mut self, key: PwqKey) -> bool {
        self.close_all_lanes(key);
        let Some(pwq) = self.pwq_mut(key) else {
            return true;
        };
        pwq.retired = true;
        if pwq.nr_in_flight > 0 {
            return false;
        }
        self.remove_pwq(key.place);
        true
    }

    pub(super) fn remove_pwq(&mut self, place: u32) {
        let mut pwq = self.pwqs.remove(place);
        if pwq.waiting {
            // What it waited with was cancelled.
            pwq.limit.one_less_waits();
        }
        pwq.give_back_unused();
        self.stats.pwqs.add(&pwq.stats);
    }

    /// How many of its items have been accepted and not finished.
    pub(crate) fn in_flight(&mut self, key: PwqKey) -> u32 {
        self.close_all_lanes(key);
        self.pwq_mut(key).map_or(0, |pwq| pwq.nr_in_flight)
    }

    /// What it has counted so far.
    pub(crate) fn pwq_stats(&mut self, key: PwqKey) -> PwqStats {
        self.pwq_mut(key)
            .map_or_else(PwqStats::default, |pwq| pwq.stats_now())
    }

    /// How many of its items are active, and how many wait for a place.
    pub(crate) fn pwq_load(&mut self, key: PwqKey) -> (usize, usize) {
        self.close_all_lanes(key);
        self.pwq_mut(key)
            .map_or((0, 0), |pwq| (pwq.nr_active(), pwq.inactive.len()))
    }

    /// How many of its items are active, how many wait for a place, and whether it takes no new ones: as it looks, without
    /// closing lanes.
    pub(crate) fn look_at_pwq(&mut self, key: PwqKey) -> (usize, usize, bool) {
        let Some(pwq) = self.pwq_mut(key) else {
            return (0, 0, true);
        };
        (pwq.nr_active(), pwq.inactive.len(), pwq.retired)
    }

    pub(crate) fn stats(&self) -> PoolStats {
        let mut stats = self.stats;
        for (_, pwq) in self.pwqs.iter() {
            stats.pwqs.add(&pwq.stats_now());
        }
        stats
    }

    pub(crate) fn nr_workers(&self) -> usize {
        self.workers.len()
    }
}
