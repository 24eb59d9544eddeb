//! What a pool does, copied under its lock and printed without.
#![forbid(unsafe_code)]

use super::state::{self, PoolState, RunState};
use crate::item::{RawWork, WorkFn, address_of};
use crate::pool::lock::guard::PoolGuard;
use crate::pool::lock::holds::most_in_a_hold;
use crate::pool::queue::pwq::PwqKey;
use crate::pool::state::pool::Pool;
use crate::pool::state::worker::{Busy, WorkerSlot, WorkerState};
use crate::sys::atomic::Ordering;
use crate::sys::clock;
use crate::sys::map::HashMap;
use crate::sys::names;
use cmwq_trace::LatencyHistogram;
use std::sync::Arc;

/// One pool.
pub(crate) struct PoolSnapshot {
    /// The pool's state, without its runs and without what only the engine knows: how many queues
    /// use it, and whether other pools may steal from it.
    pub(crate) state: PoolState,
    /// Thread ids of idle workers, the most recently idle first.
    pub(crate) idle: Vec<i32>,
    pub(crate) runs: Vec<RunSnapshot>,
    pub(crate) pwqs: Vec<PwqSnapshot>,
}

/// One item that runs.
pub(crate) struct RunSnapshot {
    pub(crate) state: RunState,
    pub(crate) pwq: u32,
    /// Whether the description is the item's own.
    pub(crate) is_described: bool,
}

/// One pool workqueue.
pub(crate) struct PwqSnapshot {
    pub(crate) index: u32,
    pub(crate) queue: String,
    pub(crate) flags: String,
    pub(crate) active: usize,
    pub(crate) in_flight: usize,
    pub(crate) references: usize,
    pub(crate) freezable: bool,
    pub(crate) mayday: bool,
    /// On the worklist: the first [`MOST_LISTED`].
    pub(crate) pending: Vec<usize>,
    /// The first [`MOST_LISTED`].
    pub(crate) inactive: Vec<usize>,
    pub(crate) nr_inactive: usize,
    /// How many of the queue's items may be active on this node (per-CPU queues: on this CPU).
    pub(crate) admits: i32,
    /// The limit that the queue shares with others: its name, how much it admits, and how many
    /// credits are taken.
    pub(crate) group: Option<(String, i32, i32)>,
    /// Whether its items wait for those that were accepted before a change of the queue's
    /// attributes.
    pub(crate) plugged: bool,
}

/// What a pool's flags mean.
pub(crate) mod flags {
    /// Its items must not block, and run one at a time.
    pub(crate) const BH: u32 = 1;
    /// A worker is being created.
    pub(crate) const MANAGER_ACTIVE: u32 = 1 << 1;
    /// Its workers are not bound to one CPU: it is unbound, or its CPU may not be used now.
    pub(crate) const DISASSOCIATED: u32 = 1 << 2;
}

/// How many items of a list are copied at most, since the pool's lock is held meanwhile.
pub(crate) const MOST_LISTED: usize = 1000;

/// The first [`MOST_LISTED`] functions of a list.
/// The address of the function that stands for an item in reports.
fn shown_address(func: Option<WorkFn>) -> usize {
    names::shown(address_of(func))
}

fn listed(funcs: impl Iterator<Item = Option<WorkFn>>) -> Vec<usize> {
    funcs.take(MOST_LISTED).map(shown_address).collect()
}

#[cfg(all(test, not(cmwq_loom)))]
impl PoolGuard<'_> {
    /// How many items run, if no worker is about to start another one.
    pub(crate) fn items_running_if_settled(&mut self) -> Option<usize> {
        self.drain();
        let may_start = !self.worklist.is_empty() && self.running() < self.target();
        let settled = self.searching() == 0 && !self.creating && !may_start;
        settled.then(|| self.busy.iter().count())
    }
}

fn worker((id, slot): (u32, &WorkerSlot)) -> state::PoolWorker {
    state::PoolWorker {
        id,
        tid: slot.handle.tid(),
        doing: match slot.state {
            WorkerState::Starting => "starting",
            WorkerState::Idle { .. } => "idle",
            WorkerState::Searching => "searching",
            WorkerState::Busy(Busy::Running) => "running",
            WorkerState::Busy(Busy::Blocked) => "blocked",
            WorkerState::Busy(Busy::CpuIntensive) => "cpu_intensive",
            WorkerState::Away { .. } | WorkerState::Guest => "stealing",
        },
    }
}

impl PoolGuard<'_> {
    fn flags(&self) -> u32 {
        [
            (self.pool.attrs.is_bh(), flags::BH),
            (self.creating, flags::MANAGER_ACTIVE),
            (!self.associated, flags::DISASSOCIATED),
        ]
        .iter()
        .map(|&(is_set, flag)| if is_set { flag } else { 0 })
        .sum()
    }
}

impl PoolGuard<'_> {
    fn run_snapshots(&self, now_ns: u64) -> Vec<RunSnapshot> {
        let by_workers = self.busy.iter_described().map(|(run, description)| {
            let pwq = &self.pwqs[run.pwq];
            RunSnapshot {
                pwq: run.pwq,
                is_described: description.is_some(),
                state: RunState {
                    tid: run.by.tid,
                    rescuer: run.by.rescuer,
                    queue: pwq.front_id(),
                    func: shown_address(run.func),
                    description: description
                        .unwrap_or_else(|| pwq.owner.front.name())
                        .to_owned(),
                    for_ns: now_ns.saturating_sub(run.since_ns),
                    scheduled: listed(run.scheduled.iter().map(RawWork::func)),
                },
            }
        });
        let in_caller_slots = self.pwqs.iter().flat_map(|(index, pwq)| {
            pwq.caller_slots_with_runs().filter_map(move |caller_slot| {
                let (func, tid, since_ns) = caller_slot.running()?;
                let description = caller_slot.description();
                Some(RunSnapshot {
                    pwq: index,
                    is_described: description.is_some(),
                    state: RunState {
                        tid,
                        rescuer: false,
                        queue: pwq.front_id(),
                        func,
                        description: description
                            .unwrap_or_else(|| pwq.owner.front.name().to_owned()),
                        for_ns: now_ns.saturating_sub(since_ns),
                        scheduled: Vec::new(),
                    },
                })
            })
        });
        by_workers.chain(in_caller_slots).collect()
    }

    /// The functions of the first [`MOST_LISTED`] items of the worklist, by their pool workqueues.
    fn pending(&self) -> HashMap<u32, Vec<usize>> {
        let mut pending: HashMap<u32, Vec<usize>> = HashMap::default();
        for item in self.worklist.iter().take(MOST_LISTED) {
            let own = pending.entry(item.location().pwq()).or_default();
            own.push(shown_address(item.func()));
        }
        pending
    }

    /// `pending`: its items on the worklist. `None`: the pool workqueue is gone.
    fn pwq_snapshot(&mut self, key: PwqKey, pending: Vec<usize>) -> Option<PwqSnapshot> {
        #[cfg(all(test, not(cmwq_loom)))]
        crate::item::touched::one();
        let pwq = self.pwq_mut(key)?;
        Some(PwqSnapshot {
            index: key.index,
            queue: pwq.owner.front.name().to_owned(),
            flags: pwq.owner.front.flags(),
            active: pwq.nr_active(),
            in_flight: pwq.nr_in_flight(),
            references: pwq.references(),
            freezable: pwq.owner.front.is_freezable(),
            mayday: pwq.mayday,
            pending,
            inactive: listed(pwq.inactive.funcs()),
            nr_inactive: pwq.inactive.len(),
            admits: pwq.limit.admits(),
            group: pwq.limit.shared().map(|shared| {
                let (limit, held) = shared.limit_and_held();
                (shared.name().to_owned(), limit, held)
            }),
            plugged: pwq.plugged,
        })
    }

    fn state(&mut self, effective_nice: Option<i32>) -> PoolState {
        let hung_ns = self.stands_still_ns();
        let pool = &self.pool;
        let manager = pool.manager.load(Ordering::Relaxed);
        PoolState {
            id: pool.id,
            kind: pool.attrs.kind,
            flags: self.flags(),
            manager: Some(manager).filter(|_| self.creating),
            hung_ns,
            users: 0,
            nice: pool.attrs.nice,
            effective_nice,
            pod: pool.attrs.cpus.clone(),
            cpus: pool.attrs.cpus.clone(),
            strict: pool.attrs.strict,
            node: pool.attrs.position.node,
            binding: (*self.binding).clone(),
            target: self.target() as usize,
            running: self.running() as usize,
            waiting: self.worklist.len(),
            workers: self.own_workers().map(worker).collect(),
            runs: Vec::new(),
            stats: self.stats,
        }
    }
}

impl Pool {
    pub(crate) fn snapshot(self: &Arc<Self>) -> PoolSnapshot {
        let now = clock::coarse_ns();
        let effective_nice = self.effective_nice();
        let mut guard = self.lock_accepting();
        let state = guard.state(effective_nice);
        let tid_of = |id: &u32| guard.workers[*id].handle.tid();
        let mut snapshot = PoolSnapshot {
            state,
            idle: guard.idle().iter().rev().map(tid_of).collect(),
            runs: guard.run_snapshots(now),
            pwqs: Vec::new(),
        };
        let mut pending = guard.pending();
        let keys = guard.pwqs.iter().map(|(index, _)| guard.key_of(index));
        let keys: Vec<PwqKey> = keys.collect();
        // One holding lists the inactive items of one pool workqueue.
        let (mut in_a_hold, mut has_list) = (0, false);
        for key in keys {
            if has_list || in_a_hold == most_in_a_hold() {
                guard = self.lock_again(guard);
                in_a_hold = 0;
            }
            let pending = pending.remove(&key.index).unwrap_or_default();
            if let Some(pwq) = guard.pwq_snapshot(key, pending) {
                has_list = !pwq.inactive.is_empty();
                snapshot.pwqs.push(pwq);
            }
            in_a_hold += 1;
        }
        snapshot
    }
}

impl Pool {
    /// The runs of one pool workqueue, and how many of its items are in flight.
    pub(crate) fn busy_of(self: &Arc<Self>, key: PwqKey) -> (Vec<RunState>, usize) {
        let mut guard = self.lock();
        let Some(in_flight) = guard.pwq_mut(key).map(|pwq| pwq.nr_in_flight()) else {
            return (Vec::new(), 0);
        };
        let runs = guard.run_snapshots(clock::coarse_ns()).into_iter();
        let own = runs.filter(|run| run.pwq == key.index);
        (own.map(|run| run.state).collect(), in_flight)
    }
}

impl PoolGuard<'_> {
    /// Adds the measured waits and runs of one pool workqueue to these. Returns for how long its
    /// oldest run lasts.
    pub(crate) fn add_times(
        &mut self,
        key: PwqKey,
        wait: &mut LatencyHistogram,
        run: &mut LatencyHistogram,
    ) -> Option<u64> {
        let own = self.pwq_mut(key)?.times.histograms();
        wait.merge(own[0]);
        run.merge(own[1]);
        let runs = self.busy.iter().filter(|run| run.pwq == key.index);
        let since_ns = runs.map(|run| run.since_ns).min()?;
        Some(clock::coarse_ns().saturating_sub(since_ns))
    }
}

impl PoolSnapshot {
    /// Whether a worker is not idle or something waits.
    pub(crate) fn is_busy(&self) -> bool {
        !self.runs.is_empty() || self.pwqs.iter().any(|pwq| pwq.in_flight > 0)
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use crate::Engine;
    use crate::Work;
    use crate::engine::{Registry, epochs};
    use crate::pool::queue::pwq::Traits;
    use crate::pool::stubs;
    use crate::pool::task::busy::Executor;
    use crate::pool::task::call::call;
    use crate::pool::task::run::Task;

    #[test]
    fn the_worker_that_went_idle_last_is_the_first_of_the_idle() {
        let pool = stubs::pool(81, 0);
        for tid in [501, 502, 503] {
            let (_, handle) = stubs::idle(&pool, 7);
            handle.tid.store(tid, Ordering::Relaxed);
        }
        let seen = pool.snapshot();
        assert_eq!(seen.idle, [503, 502, 501]);
        let doing: Vec<&str> = seen
            .state
            .workers
            .iter()
            .map(|worker| worker.doing)
            .collect();
        assert_eq!(doing, ["idle"; 3]);
    }

    #[test]
    fn what_runs_says_for_how_long_and_for_which_queue() {
        let pool = stubs::pool(82, 0);
        stubs::add_pwq(&pool, Traits::default(), 10);
        let pwq = stubs::add_pwq(&pool, Traits::default(), 10);
        stubs::queue(&pool, pwq, &Work::new(|| ()));
        let Task { started, run } = pool.lock().next_task(Executor::worker()).expect("it waits");
        let seven_s = 7_000_000_000;
        pool.lock().busy.get_mut(run.busy).since_ns -= seven_s;
        let seen = pool.snapshot();
        assert_eq!((seen.runs.len(), seen.runs[0].pwq), (1, pwq.index));
        let for_ns = seen.runs[0].state.for_ns;
        assert!(for_ns >= seven_s, "{for_ns}");
        assert_eq!(
            seen.state.flags,
            flags::DISASSOCIATED | flags::MANAGER_ACTIVE
        );
        let counts = |pwq: &PwqSnapshot| (pwq.active, pwq.in_flight, pwq.references);
        let counts: Vec<_> = seen.pwqs.iter().map(counts).collect();
        assert_eq!(counts, [(0, 0, 1), (1, 1, 2)]);
        let panicked = call(started, run.current);
        assert!(pool.lock().end_task(run, panicked).is_none());
        assert!(pool.snapshot().runs.is_empty());
    }

    #[test]
    fn who_creates_a_worker_is_the_manager_while_one_is_being_created() {
        let engine = Engine::builder().build().unwrap();
        let queue = engine.workqueue("t").ordered().build().unwrap();
        queue.spawn(|| ()).join().unwrap();
        let pool = {
            let id = engine.pool_states()[0].id;
            let pin = epochs().pin(0);
            let pool = Registry::process().find(id, &pin);
            pool.expect("it is in use").clone()
        };
        // Its worker may not have put the item down, and the spare that it asked for may be on
        // its way.
        stubs::eventually(|| !engine.dump().to_string().contains("workqueue t"));
        stubs::eventually(|| !pool.lock().creating);
        let seen = pool.snapshot();
        assert_eq!(
            (seen.state.manager, seen.state.flags & flags::MANAGER_ACTIVE),
            (None, 0)
        );
        // As if another worker were being created.
        pool.lock().creating = true;
        let seen = pool.snapshot();
        let dump = engine.dump().to_string();
        pool.lock().creating = false;
        assert_eq!(
            seen.state.flags & flags::MANAGER_ACTIVE,
            flags::MANAGER_ACTIVE
        );
        let manager = seen.state.manager.expect("a worker was created");
        let name = std::fs::read_to_string(format!("/proc/self/task/{manager}/comm"));
        assert!(name.expect("it is there").starts_with("cmwq-"));
        assert!(!dump.contains("manager"), "the pool is not busy: {dump}");
    }
}
