//! A pool is made, locked and shut down.

use super::guard::PoolGuard;
use crate::item::{ChunkNumbers, List, ListKind, OldestBatch, Taken};
use crate::pool::attrs::kind::{Binding, PoolAttrs};
use crate::pool::queue::pwq::PwqKey;
use crate::pool::queue::stats::{PoolCounts, QueueStats};
use crate::pool::state::counts::Counts;
use crate::pool::state::group::Group;
use crate::pool::state::group::SHARE;
use crate::pool::state::hogs::Hogs;
use crate::pool::state::pace::Pace;
use crate::pool::state::pool::{CpuAccounting, Holding, Inner, NICE_UNKNOWN, Pool, PoolService};
use crate::pool::state::standstill::Standstill;
use crate::pool::task::busy::BusyTable;
use crate::pool::task::slab::Slab;
use crate::pool::wake::crowding::Crowding;
use crate::pool::wake::placement::Occupied;
use crate::sys::atomic::plain::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};
use crate::sys::brief_spin::BriefSpin;
use crate::sys::fork;
use crate::sys::lock::Lock;
use crate::sys::map::HashMap;
use crate::sys::spin::{MAX_POLLS_OF_WORKERS, MIN_POLLS, SpinBudget};
use crossbeam_utils::CachePadded;
use std::sync::Arc;

impl Pool {
    pub(crate) fn new(
        id: u32,
        attrs: PoolAttrs,
        binding: Binding,
        service: Arc<dyn PoolService>,
        group: Arc<Group<Pool>>,
    ) -> Arc<Pool> {
        // In a pod of one CPU a worker must not spin for long: the issuer needs that CPU in order
        // to publish.
        let polls = if binding.cpus.len() <= 1 {
            MIN_POLLS
        } else {
            MAX_POLLS_OF_WORKERS
        };
        let slots = attrs.params.slots.first_held();
        let cpus = binding.target.max(1);
        let occupied = Occupied::of(&attrs.cpus);
        let busy = BusyTable::new();
        let runs = busy.buckets();
        let pool = Arc::new(Pool {
            id,
            born: fork::generation(),
            attrs,
            nice: AtomicI32::new(NICE_UNKNOWN),
            manager: AtomicI32::new(0),
            inbox: CachePadded::default(),
            inner: CachePadded::new(Lock::new(Inner {
                binding: Arc::new(binding.cpus),
                associated: binding.associated,
                cpus,
                slots,
                holding: Holding::default(),
                sleepers: 0,
                blockers: 0,
                hogs: Hogs::default(),
                counts: Counts::new(cpus.min(slots)),
                staged: Taken::default(),
                worklist: List::new(ListKind::Worklist),
                left_to_joiner: None,
                awaited: HashMap::default(),
                pwqs: Slab::new(),
                next_serial: 0,
                busy,
                batches: Vec::new(),
                next_batch: 0,
                workers: Slab::new(),
                leaving: 0,
                creating: false,
                pace: Pace::default(),
                occupied,
                crowding: Crowding::new(),
                guests: 0,
                watched: false,
                cull_armed: false,
                cpu_accounting: CpuAccounting::default(),
                dying: false,
                standstill: Standstill::default(),
                stats: PoolCounts::default(),
                overtook: 0,
                gone: QueueStats::default(),
            })),
            oldest_batch: OldestBatch::new(),
            runs,
            chunk_numbers: ChunkNumbers::default(),
            spin_budget: CachePadded::new(SpinBudget::up_to(polls)),
            returns: CachePadded::new(BriefSpin::new()),
            pending_wakeups: CachePadded::default(),
            service,
            group,
            fed_ns: AtomicU64::new(0),
            deals: AtomicBool::default(),
            room: CachePadded::new(AtomicU32::new(SHARE)),
            wants_thieves: Arc::default(),
            only_near: Arc::default(),
        });
        // Releasing the lock settles the pool, which sets NOTIFY: so the first issuer asks for a
        // worker.
        drop(pool.lock());
        pool
    }

    /// Takes the lock, and closes all open batches (`run/batch.rs`): what it guards is exact.
    /// Dropping the guard settles the pool, unlocks, and only then wakes.
    #[inline]
    pub(crate) fn lock(self: &Arc<Self>) -> PoolGuard<'_> {
        let mut guard = self.lock_beside_batches();
        guard.close_batches();
        guard
    }

    /// As [`lock`](Self::lock), but leaves open batches open. What the lock guards is then not
    /// exact: the items of those batches are on no list, their runs are not in the busy table, and
    /// their ends are not accounted for.
    #[inline]
    pub(crate) fn lock_beside_batches(self: &Arc<Self>) -> PoolGuard<'_> {
        let (mut inner, waited) = self.inner.lock_noting();
        inner.stats.lock_waits += u64::from(waited);
        PoolGuard::new(self, inner)
    }

    /// As [`lock_beside_batches`](Self::lock_beside_batches), for a worker that comes from an item.
    #[inline]
    pub(in crate::pool) fn lock_after_run(self: &Arc<Self>) -> PoolGuard<'_> {
        let (mut inner, waited) = self.inner.lock_noting();
        inner.stats.lock_waits += u64::from(waited);
        inner.note_coming(waited);
        PoolGuard::new(self, inner)
    }

    /// As [`lock`](Self::lock), and accepts all items that were published before the call. In a
    /// backlog the lock is released and taken again in between.
    pub(crate) fn lock_accepting(self: &Arc<Self>) -> PoolGuard<'_> {
        let mut guard = self.lock();
        let up_to = guard.reached();
        while !guard.accept_up_to(up_to) {
            guard = self.lock_again(guard);
        }
        guard
    }

    /// Whether items of `key` that were published before the call wait for a credit.
    pub(crate) fn has_inactive(self: &Arc<Self>, key: PwqKey) -> bool {
        let mut guard = self.lock();
        let up_to = guard.reached();
        loop {
            let accepted = guard.accept_up_to(up_to);
            let some_wait = guard.pwq_load(key).1 > 0;
            if accepted || some_wait {
                return some_wait;
            }
            guard = self.lock_again(guard);
        }
    }

    /// Releases the lock, gives waiting threads time to take it, and takes it again.
    pub(in crate::pool) fn lock_again<'p>(
        self: &'p Arc<Self>,
        guard: PoolGuard<'p>,
    ) -> PoolGuard<'p> {
        let mut guard = self.lock_again_beside_batches(guard);
        guard.close_batches();
        guard
    }

    /// As [`lock_again`](Self::lock_again), but leaves open batches open.
    pub(in crate::pool) fn lock_again_beside_batches<'p>(
        self: &'p Arc<Self>,
        guard: PoolGuard<'p>,
    ) -> PoolGuard<'p> {
        drop(guard);
        self.inner.let_others();
        self.lock_beside_batches()
    }

    /// Ends the workers. Called when no pool workqueue is left.
    pub(crate) fn shut_down(self: &Arc<Self>) {
        let mut guard = self.lock();
        guard.dying = true;
        while guard.wake_idle() {}
    }
}
