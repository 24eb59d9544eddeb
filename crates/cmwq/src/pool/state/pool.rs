//! A worker pool, what its lock guards, and what it needs of the layers above it.
#![forbid(unsafe_code)]

use super::counts::Counts;
use super::group::{Group, SHARE};
use super::hogs::Hogs;
use super::pace::Pace;
use super::standstill::Standstill;
use super::worker::WorkerSlot;
use crate::item::{ChunkNumbers, Completion, Inbox, List, OldestBatch, RawWork, Taken, WorkFn};
use crate::pool::attrs::kind::PoolAttrs;
use crate::pool::queue::credits::NodeLimit;
use crate::pool::queue::pwq::{PoolWorkqueue, PwqKey, Traits};
use crate::pool::queue::stats::{PoolCounts, QueueStats};
use crate::pool::task::busy::{Buckets, BusyTable};
use crate::pool::task::slab::{Slab, SmallestFirst};
use crate::pool::wake::crowding::Crowding;
use crate::pool::wake::deferred::{PendingWakeups, tell_backlog};
use crate::pool::wake::placement::Occupied;
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};
use crate::sys::brief_spin::BriefSpin;
use crate::sys::clock;
use crate::sys::fork;
use crate::sys::lock::Lock;
use crate::sys::map::HashMap;
use crate::sys::spin::SpinBudget;
use crate::topology::CpuSet;
use crate::trace::Speaker;
use crossbeam_utils::CachePadded;
use std::mem::offset_of;
use std::sync::Arc;

/// What a pool tells the workqueue of an item. Called with no pool's lock held (locks of queues may be).
pub(crate) trait FrontEnd: Send + Sync {
    /// The queue's name.
    fn name(&self) -> &str;
    /// Its kind and its flags, in words.
    fn flags(&self) -> String;
    /// Whether it takes part in freezing.
    fn is_freezable(&self) -> bool {
        false
    }
    /// Warns if the calling thread, which is about to wait for the queue or for its item of
    /// function `func`, must not depend on it.
    fn check_dependency(&self, func: Option<WorkFn>);
    /// The pool that runs `item` for the queue, if there is one other than `but`.
    fn pool_that_runs(&self, item: &RawWork, but: u32) -> Option<u32>;
    /// Whether the items that the thread `tid` runs have used up a limit that also holds for the
    /// queue's items on `node`. Then no other item under that limit becomes active before one of
    /// the thread's items ends. Called with no pool's lock held.
    fn is_used_up_by(&self, _node: usize, _tid: i32) -> bool {
        false
    }
    /// The last item of a colour that is being flushed has ended, on one of the queue's pool workqueues.
    fn colour_done(&self, colour: u32);
    /// A pool workqueue has an inactive item and no credit: enters it in the line for credits, and
    /// looks for one.
    fn must_wait(&self, pool: &Arc<Pool>, pwq: PwqKey);
    /// Credits were given back on `node` while a pool workqueue waits.
    fn credits_freed(&self, node: usize);
    /// A unit of room was given back while a thread or a task waits for one.
    fn room_freed(&self) {}
    /// A retired pool workqueue has run its last item and is gone from its pool.
    fn pwq_gone(&self, pool: &Arc<Pool>, pwq: PwqKey);
}

/// What a pool may ask for. Called with no pool's lock held.
pub(crate) trait PoolService: Send + Sync {
    /// Creates one worker, which the pool already counts as being created.
    fn create_worker(&self, pool: &Arc<Pool>);
    /// The pool is saturated: samples it periodically.
    fn watch(&self, pool: &Arc<Pool>);
    /// Too many workers are idle: checks again when they have been idle for long.
    fn cull_later(&self, pool: &Arc<Pool>);
    /// A worker has started or woken up: the process is not idle.
    fn woke(&self);
    /// A pool is in line for a running slot, and no other was in line before.
    fn slots_wanted(&self) {}
    /// For a worker that is about to be started: what makes it leave its warnings to the engine's
    /// reporter.
    fn speaker(&self) -> Option<Speaker> {
        None
    }
}

/// A rescuer, which runs a pool workqueue's items when no worker can be created.
pub(crate) trait Rescue: Send + Sync {
    /// Asks it to visit the pool.
    fn call(&self, pool: Arc<Pool>, pwq: PwqKey);
}

/// A workqueue, as far as its pools know it.
pub(crate) struct Owner {
    pub(crate) front: Arc<dyn FrontEnd>,
    /// Runs its items when no worker can be created.
    pub(crate) rescuer: Option<Arc<dyn Rescue>>,
}

/// A pool workqueue of a pool.
pub(crate) type PwqState = PoolWorkqueue<Owner>;

impl PwqState {
    /// A pool workqueue of this queue. A queue with a rescuer counts as a queue of memory reclaim.
    pub(crate) fn of(
        front: Arc<dyn FrontEnd>,
        rescuer: Option<Arc<dyn Rescue>>,
        traits: Traits,
        limit: Arc<NodeLimit>,
        node: usize,
        colour: u32,
    ) -> Self {
        let front_id = Arc::as_ptr(&front).cast::<()>().addr();
        let traits = Traits {
            reclaim: rescuer.is_some(),
            ..traits
        };
        let owner = Owner { front, rescuer };
        PoolWorkqueue::new(owner, front_id, traits, limit, node, colour)
    }
}

/// The value of `nice` before a worker has reported its level.
pub(in crate::pool) const NICE_UNKNOWN: i32 = i32::MIN;

/// A worker pool: a worklist and the workers that run what is on it.
pub(crate) struct Pool {
    pub(crate) id: u32,
    /// The fork generation of the process that its workers belong to.
    pub(in crate::pool) born: u32,
    pub(crate) attrs: PoolAttrs,
    /// The nice level that the workers have, which may differ from the attribute.
    pub(in crate::pool) nice: AtomicI32,
    /// The thread that creates a worker, or was the last to try.
    pub(in crate::pool) manager: AtomicI32,
    pub(in crate::pool) inbox: CachePadded<Inbox>,
    pub(in crate::pool) inner: CachePadded<Lock<Inner>>,
    pub(in crate::pool) oldest_batch: OldestBatch,
    /// The buckets of the busy table, for issuers of items that ran here last.
    pub(in crate::pool) runs: Arc<Buckets>,
    pub(in crate::pool) chunk_numbers: ChunkNumbers,
    /// How long a worker of this pool spins before it parks.
    pub(in crate::pool) spin_budget: CachePadded<SpinBudget>,
    /// Whether it has paid lately to wait briefly for a running worker to come back. Issuers write
    /// it, so it is on another line than what workers read.
    pub(in crate::pool) returns: CachePadded<BriefSpin>,
    /// Deferred wake-ups: the threads for which what they wait for has completed, and which are
    /// woken later.
    pub(in crate::pool) pending_wakeups: CachePadded<PendingWakeups>,
    pub(in crate::pool) service: Arc<dyn PoolService>,
    pub(in crate::pool) group: Arc<Group<Pool>>,
    /// How many more items it takes before one would wait for so long that it is worth waking a
    /// worker of another pod. Lock holders write it, and issuers from other pods subtract what they
    /// will publish.
    pub(in crate::pool) room: CachePadded<AtomicU32>,
    /// When a thread that is no worker last had long items for this pod, its own.
    pub(in crate::pool) fed_ns: AtomicU64,
    /// Whether issuers deal items to other pods, because the items here are long.
    pub(in crate::pool) deals: AtomicBool,
    /// More waits here than this pod's CPUs will soon run. Lock holders and the monitor set it; idle
    /// neighbours read it.
    pub(in crate::pool) wants_thieves: Arc<AtomicBool>,
    /// Whether only pods under the same last-level cache shall steal, because the items are short.
    pub(in crate::pool) only_near: Arc<AtomicBool>,
}

/// For so long a pod counts as fed by its own threads.
const FED_NS: u64 = 4_000_000;

/// What the pool's lock guards.
///
/// The holder of the lock fetches each cache line that it writes from the CPU of the holder before
/// it. So the fields that nearly every holder writes come first, in the line of the lock itself, and
/// those that few holders write come last.
#[repr(C)]
pub(crate) struct Inner {
    /// How long the items take.
    pub(in crate::pool) pace: Pace,
    /// How many workers the lock can serve.
    pub(in crate::pool) crowding: Crowding,
    pub(in crate::pool) next_batch: u32,
    pub(in crate::pool) stats: PoolCounts,
    /// Thieves that run items here.
    pub(in crate::pool) guests: u32,
    /// Workers that were dismissed and are on their way out.
    pub(in crate::pool) leaving: u32,
    /// Whether the monitor samples this pool.
    pub(in crate::pool) watched: bool,
    /// Whether a check of the idle workers is scheduled.
    pub(in crate::pool) cull_armed: bool,
    /// A worker is being created.
    pub(in crate::pool) creating: bool,
    pub(in crate::pool) associated: bool,
    /// No workqueue uses the pool any more: workers exit instead of going idle.
    pub(in crate::pool) dying: bool,
    /// Active items that no worker has taken, oldest first.
    pub(in crate::pool) worklist: List,
    /// Staged items: taken from the inbox, not accepted. To other threads they are still in the inbox.
    pub(in crate::pool) staged: Taken,
    /// How many workers run, search, are idle, and may run.
    pub(in crate::pool) counts: Counts,
    /// The open batches: each by its worker and its number.
    pub(in crate::pool) batches: Vec<(u32, u32)>,
    pub(in crate::pool) workers: SmallestFirst<WorkerSlot>,
    /// The address of the item at its head that was last left to a joiner.
    pub(in crate::pool) left_to_joiner: Option<usize>,
    /// Where the threads that are awake run.
    pub(in crate::pool) occupied: Occupied,
    pub(in crate::pool) holding: Holding,
    pub(in crate::pool) busy: BusyTable,
    pub(in crate::pool) pwqs: Slab<PwqState>,
    /// Completions of waiters for items that have not started, by the item's address.
    pub(in crate::pool) awaited: HashMap<usize, Vec<Arc<Completion>>>,
    pub(in crate::pool) binding: Arc<CpuSet>,
    /// How many workers may be awake at the same time: the CPUs of the pod.
    pub(in crate::pool) cpus: u32,
    /// How many of these CPUs the pool may use under the limit over all pools: see `SLOTS.md`.
    pub(in crate::pool) slots: u32,
    /// How many running workers sleep at any time without declaring it, as far as the monitor knows.
    pub(in crate::pool) sleepers: u32,
    /// How many other workers are known to be blocked at any time, and come back within a tick of
    /// the monitor. The number decays while nothing waits.
    pub(in crate::pool) blockers: u32,
    /// Workers whose items are CPU hogs, and how many others may run because of them.
    pub(in crate::pool) hogs: Hogs,
    pub(in crate::pool) next_serial: u64,
    /// Up to which point CPU time is accounted.
    pub(in crate::pool) cpu_accounting: CpuAccounting,
    /// For how long nothing has been started while something waits.
    pub(in crate::pool) standstill: Standstill,
    /// How many of the items that were started were not the oldest on the worklist: a rescuer or a
    /// waiting thread took its own items from the middle.
    pub(in crate::pool) overtook: u64,
    /// The counts of pool workqueues that were removed.
    pub(in crate::pool) gone: QueueStats,
}

/// The lock's words come first in the line.
const _: () = {
    let counted = offset_of!(Inner, stats) + offset_of!(PoolCounts, lock_waits);
    assert!(2 * size_of::<u32>() + counted + size_of::<u64>() <= 64);
};

impl Pool {
    /// Whether this is the child of a fork and the pool belongs to the parent. Then no worker runs
    /// here, and the lock may be held for ever.
    pub(crate) fn is_inherited(&self) -> bool {
        self.born != fork::generation()
    }

    /// The nice level that the workers really have, once a worker has begun.
    pub(crate) fn effective_nice(&self) -> Option<i32> {
        Some(self.nice.load(Ordering::Relaxed)).filter(|&nice| nice != NICE_UNKNOWN)
    }

    /// Whether this pool and others steal from each other.
    #[inline]
    pub(in crate::pool) fn steals(&self) -> bool {
        !self.attrs.strict && self.group.has_neighbours()
    }

    /// Whether any neighbour has a backlog: one read of a line that rarely changes.
    #[inline]
    pub(in crate::pool) fn has_victims(&self) -> bool {
        self.steals() && {
            let own = self.wants_thieves.load(Ordering::Relaxed);
            self.group.wanted.load(Ordering::Relaxed) > i32::from(own)
        }
    }

    pub(crate) fn group(&self) -> &Arc<Group<Pool>> {
        &self.group
    }

    /// Whether issuers deal items to other pods. A hint, as are those below.
    #[inline]
    pub(crate) fn deals(&self) -> bool {
        self.deals.load(Ordering::Relaxed)
    }

    /// A thread that is no worker has long items for this pod, its own.
    pub(crate) fn feed(&self, now_ns: u64) {
        if now_ns.saturating_sub(self.fed_ns.load(Ordering::Relaxed)) > FED_NS / 4 {
            self.fed_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// Whether threads that are no workers have enough items for this pod: it takes none of others.
    pub(crate) fn is_fed(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.fed_ns.load(Ordering::Relaxed)) < FED_NS
    }

    /// How many more items it takes before one would wait for long.
    pub(crate) fn room(&self) -> u32 {
        self.room.load(Ordering::Relaxed)
    }

    /// Takes room for a [share](SHARE) of items, or less. Returns for how many; 0: there is none.
    pub(crate) fn take_room(&self) -> u32 {
        let less = |room: u32| room.checked_sub(SHARE.min(room)).filter(|_| room > 0);
        let room = self
            .room
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        room.map_or(0, |room| room.min(SHARE))
    }

    /// Whether more waits here than this pod's CPUs will soon run.
    pub(crate) fn is_overfull(&self) -> bool {
        self.wants_thieves.load(Ordering::Relaxed)
    }

    /// Whether they deal them to pods under other last-level caches, too.
    pub(crate) fn deals_far(&self) -> bool {
        !self.only_near.load(Ordering::Relaxed)
    }

    /// Whether nothing is published that no lock holder has taken.
    pub(crate) fn has_taken_all(&self) -> bool {
        self.inbox.is_empty()
    }

    /// Whether the pods are under different last-level caches.
    pub(crate) fn is_far_from(&self, other: &Pool) -> bool {
        self.attrs.position.is_far(other.attrs.position)
    }

    pub(in crate::pool) fn set_wants_thieves(&self, wanted: bool) {
        if self.wants_thieves.swap(wanted, Ordering::Relaxed) != wanted {
            self.group.count_victims(wanted);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.set_wants_thieves(false);
        let inner = self.inner.lock();
        #[cfg(all(debug_assertions, not(any(test, cmwq_loom))))]
        crate::sys::ends::at_the_end(|| inner.assert_that_nothing_is_left());
        let slots = inner.slots;
        drop(inner);
        self.attrs.params.slots.drop_held(slots);
        drop(self.pending_wakeups.forbid());
        // For the next pool that gets this number.
        tell_backlog(self.id, 0);
    }
}

/// A pool's state under the limit over all pools. The pool's lock guards it.
#[derive(Default)]
pub(in crate::pool) struct Holding {
    /// Whether the pool is in line for a slot.
    pub(in crate::pool) in_line: bool,
    /// Slots to give back as soon as a worker has left.
    pub(in crate::pool) owed: u32,
    /// When its turn began.
    pub(in crate::pool) since_ns: u64,
}

/// Up to which point a pool's CPU time is accounted.
#[derive(Default)]
pub(in crate::pool) struct CpuAccounting {
    pub(in crate::pool) begun: bool,
    /// Ticks so far.
    pub(in crate::pool) ticks: usize,
    /// Items started at the last tick.
    pub(in crate::pool) started: u64,
}

impl Inner {
    /// How many items wait for a worker, or to be accepted; without those in the inbox.
    pub(in crate::pool) fn waiting(&self) -> usize {
        self.worklist.len() + self.staged.len()
    }

    /// Whether there are any.
    #[inline]
    pub(in crate::pool) fn has_waiting(&self) -> bool {
        !self.worklist.is_empty() || !self.staged.is_empty()
    }

    /// How many items were started in turn. While this number does not change, the first item of
    /// the worklist waits.
    pub(in crate::pool) fn started_in_turn(&self) -> u64 {
        self.stats.started - self.overtook
    }

    /// Notes whether an item has started in turn since the last call.
    pub(in crate::pool) fn note_standstill(&mut self) {
        let waits = self.has_waiting();
        let started = self.started_in_turn();
        self.standstill.observe(waits, started, clock::coarse_ns());
    }

    /// For how long nothing has been started, if something waits.
    pub(in crate::pool) fn stands_still_ns(&mut self) -> Option<u64> {
        self.note_standstill();
        let since_ns = self.standstill.since_ns?;
        Some(clock::coarse_ns().saturating_sub(since_ns))
    }
}
