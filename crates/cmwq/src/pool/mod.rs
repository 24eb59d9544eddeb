//! The back end: worker pools. The protocol that this room implements is written down in `PROTOCOL.md` beside this file.
#![deny(unsafe_code)]

mod batch;
mod bh;
mod block;
mod busy;
mod cancel;
mod charge;
mod guard;
mod help;
mod lane;
mod late;
mod lent;
mod limit;
mod monitor;
mod offenders;
mod params;
mod placing;
mod publish;
mod pwq;
mod rare;
mod rescuer;
mod service;
mod slab;
mod sleepers;
mod snapshot;
pub(crate) mod spawner;
mod waiter;
mod whereabouts;
mod worker;

#[cfg(all(test, cmwq_loom))]
pub(crate) mod model;

use crate::sys::atomic::plain::{AtomicBool, AtomicI32};
use crate::sys::atomic::{Ordering, plain};
use crate::sys::park::Parker;
use crate::sys::patience::Patience;
use crate::sys::spin::{self, Allowance};
use crate::sys::sync::Mutex;
use crate::sys::{fork, thread};
use crate::topology::CpuSet;
use crate::work::{Batch, Completion, Inbox, List, OldestBatch, Seat, Taken};
use batch::Open;
use busy::BusyTable;
use charge::Charging;
use crossbeam_utils::CachePadded;
use guard::Run;
use late::Untold;
use lent::Lent;
use placing::Placing;
use slab::{Slab, SmallestFirst};
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use block::{BlockGuard, Current, current, home, leave_in_child};
pub use block::{blocking, current_is_mem_reclaim, current_is_rescuer, current_work};
pub(crate) use guard::PoolGuard;
pub(crate) use help::{Callable, Group, Place};
pub(crate) use lane::Lane;
pub(crate) use limit::NodeLimit;
pub(crate) use params::Params;
// Of handles, which the model checker does not have, and of models.
#[cfg(any(test, not(cmwq_loom)))]
pub(crate) use publish::claim_and_publish_again;
pub(crate) use publish::{
    Together, floods, has_backlog, note_way, publish_begins, publish_closure_again,
    publish_item_again, publish_with_handle_again, wait_begins, wait_ends,
};
pub(crate) use pwq::{COLOURS, FrontEnd, PwqKey, PwqState, PwqStats, Traits};
pub(crate) use rescuer::Rescuer;
pub(crate) use service::{Caretaker, Helper, Service};
pub(crate) use snapshot::{MOST_LISTED, PoolSnapshot, Progress, PwqSnapshot, RunSnapshot};
pub(crate) use spawner::{Granted, Issuer};
pub(crate) use whereabouts::note as note_whereabouts;

/// The kind of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PoolKind {
    /// For a pod: as many running workers as it has CPUs.
    Unbound,
    /// For one CPU: one running worker, bound to it while it may be used.
    PerCpu(usize),
    /// For one CPU: one worker, which runs one item at a time, in order, whether it blocks or not.
    Bh(usize),
}

/// What its workers need to know of a pool, and what does not change.
#[derive(Clone)]
pub(crate) struct PoolAttrs {
    pub(crate) kind: PoolKind,
    /// Nice level of the workers, -20 to 19.
    pub(crate) nice: i32,
    /// Strict pools are neither helped nor help.
    pub(crate) strict: bool,
    /// The pod, in the CPU numbers of the topology.
    pub(crate) cpus: CpuSet,
    /// Where the pod lies, for finding the nearest pool that needs help.
    pub(crate) place: Place,
    /// Items that a worker takes at once, at most.
    pub(crate) batch: usize,
    /// The older protocol, for comparison: wake while the lock is held.
    pub(crate) wake_under_lock: bool,
    /// How long a worker may be idle before it may be culled, in ns.
    pub(crate) idle_timeout_ns: u64,
    pub(crate) params: Arc<Params>,
}

/// Where a pool's workers run. It changes when CPUs come and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// CPUs that exist: what the workers are bound to.
    pub(crate) cpus: CpuSet,
    /// How many workers may run at the same time.
    pub(crate) target: u32,
}

/// No worker has said yet which nice level it has.
const NICE_UNKNOWN: i32 = i32::MIN;

/// A worker pool: a worklist and the workers that run what is on it.
pub(crate) struct Pool {
    pub(crate) id: u32,
    /// The fork generation of the process that its workers belong to.
    born: u32,
    pub(crate) attrs: PoolAttrs,
    /// The nice level that the workers have, which may be another than they should.
    nice: AtomicI32,
    inbox: CachePadded<Inbox>,
    inner: CachePadded<Mutex<Inner>>,
    oldest_batch: OldestBatch,
    /// Workers take single items, since some were long. A hint for issuers.
    singles: AtomicBool,
    /// How long a worker of this pool looks for more before it goes to sleep.
    allowance: CachePadded<Allowance>,
    /// Whether workers that run something come back in a moment.
    returns: Patience,
    placing: Placing,
    /// Who sleeps until something completes that has completed already.
    untold: CachePadded<Untold>,
    helper: Arc<dyn Helper>,
    group: Arc<Group>,
    /// More is waiting here than this pod's CPUs will get to soon: set by the monitor, read by idle neighbours.
    help_wanted: AtomicBool,
}

/// What the pool's lock guards.
pub(crate) struct Inner {
    binding: Arc<CpuSet>,
    /// How many workers may be awake at the same time: the CPUs of the pod.
    cpus: u32,
    /// How many of the running ones sleep at any time without saying so, as far as the monitor knows.
    sleepers: u32,
    /// How many others are blocked at any time, and are known to be; where nothing waits it is forgotten.
    blockers: u32,
    /// How many workers may run at the same time: as many as CPUs, and those that sleep, and a margin where many come and go.
    target: u32,
    /// Items from the inbox that are not accepted yet: to all others they are still in the inbox.
    arrivals: Taken,
    /// Active items that no worker has taken, oldest first.
    worklist: List,
    /// Who waits for the end of an item that has not started, by the item's address.
    awaited: HashMap<usize, Vec<Arc<Completion>>>,
    pwqs: Slab<PwqState>,
    next_serial: u64,
    busy: BusyTable,
    /// The open batches: each by its worker and its number.
    batches: Vec<(u32, u32)>,
    next_batch: u32,
    workers: SmallestFirst<WorkerSlot>,
    /// Ids of idle workers, the most recently idle last.
    idle: Vec<u32>,
    /// Workers that run an item and are not known to be blocked, and places lent.
    running: u32,
    lent: Lent,
    /// Workers that are awake, or were picked to be woken, and are bound to look for work before they sleep.
    searching: u32,
    /// Workers that were let go and are on their way out.
    leaving: u32,
    /// A worker is being created.
    creating: bool,
    /// The monitor looks at this pool.
    watched: bool,
    /// A look at the idle workers is due some time.
    cull_armed: bool,
    /// Where the charging of CPU time has got to.
    charging: Charging,
    /// No workqueue uses the pool any more: workers exit instead of going idle.
    dying: bool,
    stats: PoolStats,
}

/// Monotone counts of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolStats {
    pub(crate) workers_created: u64,
    pub(crate) create_failures: u64,
    pub(crate) wakeups: u64,
    pub(crate) helps: u64,
    pub(crate) started: u64,
    pub(crate) completed: u64,
    pub(crate) panics: u64,
    pub(crate) blocked_seen: u64,
    /// Times that somebody had to wait for the pool's lock.
    pub(crate) lock_waits: u64,
    /// What the pool workqueues that are gone had counted.
    pub(crate) pwqs: PwqStats,
}

impl PwqStats {
    pub(crate) fn add(&mut self, other: &PwqStats) {
        self.started += other.started;
        self.completed += other.completed;
        self.cpu_intensive += other.cpu_intensive;
        self.cm_wakeups += other.cm_wakeups;
        self.mayday += other.mayday;
        self.rescued += other.rescued;
        self.waiter_runs += other.waiter_runs;
        self.limit_visits += other.limit_visits;
        self.helps += other.helps;
        self.wakeups += other.wakeups;
        self.cpu_ns += other.cpu_ns;
    }
}

impl PoolStats {
    pub(crate) fn add(&mut self, other: &PoolStats) {
        self.workers_created += other.workers_created;
        self.create_failures += other.create_failures;
        self.wakeups += other.wakeups;
        self.helps += other.helps;
        self.started += other.started;
        self.completed += other.completed;
        self.panics += other.panics;
        self.blocked_seen += other.blocked_seen;
        self.lock_waits += other.lock_waits;
        self.pwqs.add(&other.pwqs);
    }
}

/// What the lock's holders know of one worker.
struct WorkerSlot {
    handle: Arc<WorkerHandle>,
    state: WorkerState,
    /// Items started, to tell one item from the next.
    runs: u64,
    /// What the monitor saw last: `runs`, the thread's CPU time, and whether it counted as running.
    seen_runs: u64,
    seen_cpu_ns: u64,
    seen_counted: bool,
    /// The thread's CPU time when the monitor first saw this item, or last saw it asleep.
    since_cpu_ns: u64,
    /// The pool workqueue of the item it runs.
    pwq: u32,
    /// It was woken up and has not run an item since.
    woken: bool,
    /// How much of the thread's CPU time has been charged to queues.
    charged_cpu_ns: u64,
    die: bool,
    /// Its batch, while that is open.
    batch: Option<Open>,
    /// The item of its batch that it had begun when the batch was closed.
    interrupted: Option<Run>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerState {
    Starting,
    Idle {
        since_ns: u64,
    },
    Searching,
    Busy(Busy),
    /// Helps another pool.
    Away,
}

/// How a worker that runs an item counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Busy {
    /// It counts as running.
    Running,
    /// It said that it blocks, or was found asleep: another may run in its place.
    Blocked,
    /// It computes for long, or is of a queue whose items do: others run beside it until the item ends.
    CpuIntensive,
}

/// What a waker needs of a worker; kept alive by whoever is about to wake it.
pub(crate) struct WorkerHandle {
    parker: Parker,
    /// The kernel's thread id, 0 before the worker has started.
    tid: plain::AtomicU32,
    /// It is inside an item's function. Written by the worker alone: between items it may sleep for the pool's lock, which is not
    /// the item's sleep.
    in_item: AtomicBool,
    /// The CPU of who has woken it, or what [`placing`] has for that.
    woken_from: plain::AtomicU32,
    /// Its worker's line, but for who closes it.
    batch: CachePadded<Batch>,
}

impl Pool {
    pub(crate) fn new(
        id: u32,
        attrs: PoolAttrs,
        binding: Binding,
        helper: Arc<dyn Helper>,
        group: Arc<Group>,
    ) -> Arc<Pool> {
        // On one CPU the issuer needs that CPU in order to publish at all.
        let looks = if binding.cpus.len() <= 1 {
            spin::MIN_LOOKS
        } else {
            spin::MAX_LOOKS_OF_WORKERS
        };
        let pool = Arc::new(Pool {
            id,
            born: fork::generation(),
            attrs,
            nice: AtomicI32::new(NICE_UNKNOWN),
            inbox: CachePadded::new(Inbox::new()),
            inner: CachePadded::new(Mutex::new(Inner {
                binding: Arc::new(binding.cpus),
                cpus: binding.target.max(1),
                sleepers: 0,
                blockers: 0,
                target: binding.target.max(1),
                arrivals: Taken::default(),
                worklist: List::new(Seat::Worklist),
                awaited: HashMap::new(),
                pwqs: Slab::new(),
                next_serial: 0,
                busy: BusyTable::new(),
                batches: Vec::new(),
                next_batch: 0,
                workers: Slab::new(),
                idle: Vec::new(),
                running: 0,
                lent: Lent::default(),
                searching: 0,
                leaving: 0,
                creating: false,
                watched: false,
                cull_armed: false,
                charging: Charging::default(),
                dying: false,
                stats: PoolStats::default(),
            })),
            oldest_batch: OldestBatch::new(),
            singles: AtomicBool::new(false),
            allowance: CachePadded::new(Allowance::up_to(looks)),
            returns: Patience::new(),
            placing: Placing::new(),
            untold: CachePadded::new(Untold::new()),
            helper,
            group,
            help_wanted: AtomicBool::new(false),
        });
        // Settles: an empty pool asks the first publisher to call for a worker.
        drop(pool.lock());
        pool
    }

    /// In a fork's child: whether it is the parent's. Then nobody runs anything here, and the lock may be held for ever.
    pub(crate) fn is_inherited(&self) -> bool {
        self.born != fork::generation()
    }

    /// Takes the lock, and closes all open [batches](batch): what it guards is exact. When the guard is dropped the pool is
    /// settled, the lock let go, and only then is anybody woken.
    #[inline]
    pub(crate) fn lock(self: &Arc<Self>) -> PoolGuard<'_> {
        let (mut inner, waited) = self.inner.lock_noting();
        inner.stats.lock_waits += u64::from(waited);
        let mut guard = PoolGuard::new(self, inner);
        guard.close_batches();
        guard
    }

    /// As [`lock`](Self::lock), but open batches stay open: their items are on no list, what they run is not in the busy table, and their
    /// ends are not accounted for.
    #[inline]
    pub(crate) fn lock_beside_batches(self: &Arc<Self>) -> PoolGuard<'_> {
        let (mut inner, waited) = self.inner.lock_noting();
        inner.stats.lock_waits += u64::from(waited);
        PoolGuard::new(self, inner)
    }

    /// CPUs have come or gone: the workers are bound anew. What they run goes on meanwhile.
    pub(crate) fn rebind(self: &Arc<Self>, binding: Binding) {
        {
            let mut guard = self.lock();
            guard.binding = Arc::new(binding.cpus);
            guard.cpus = binding.target.max(1);
            guard.allow_sleepers(0, 0);
        }
        self.recall_strays();
    }

    /// Binds those workers anew that somebody has bound elsewhere: a process is not moved to other CPUs in one step but
    /// thread by thread, and perhaps back before anybody has looked.
    pub(crate) fn recall_strays(self: &Arc<Self>) {
        let (binding, tids): (Arc<CpuSet>, Vec<i32>) = {
            let guard = self.lock();
            let workers = guard.workers.iter();
            let tids = workers.map(|(_, worker)| worker.handle.tid.load(Ordering::Relaxed) as i32);
            (guard.binding.clone(), tids.collect())
        };
        // A worker that has not begun yet binds itself. One that is gone, or may use none of them, is refused.
        for tid in tids.into_iter().filter(|&tid| tid != 0) {
            if thread::binding_of(tid).is_ok_and(|now| now != *binding) {
                let _ = thread::bind_other(tid, &binding);
            }
        }
    }

    /// The nice level that the workers really have, once one has begun.
    pub(crate) fn effective_nice(&self) -> Option<i32> {
        Some(self.nice.load(Ordering::Relaxed)).filter(|&nice| nice != NICE_UNKNOWN)
    }

    /// The workers' exit: no pool workqueue is left.
    pub(crate) fn shut_down(self: &Arc<Self>) {
        let mut guard = self.lock();
        guard.dying = true;
        while guard.wake_idle() {}
    }

    pub(crate) fn group(&self) -> &Arc<Group> {
        &self.group
    }

    fn set_help_wanted(&self, wanted: bool) {
        if self.help_wanted.swap(wanted, Ordering::Relaxed) != wanted {
            self.group.count_wanted(wanted);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.set_help_wanted(false);
        // The next pool of this number has none.
        self.untold.forbid(self.id);
    }
}
