//! What a pool is doing, copied out under its lock so that it can be printed without.
#![forbid(unsafe_code)]

use super::{Busy, Pool, PoolGuard, PoolKind, PoolStats, WorkerSlot, WorkerState};
use crate::sys::atomic::Ordering;
use crate::sys::clock;
use crate::topology::CpuSet;
use crate::work::{List, RawWork, WorkFn};
use std::collections::HashMap;
use std::sync::Arc;

/// One pool.
pub(crate) struct PoolSnapshot {
    pub(crate) id: u32,
    pub(crate) kind: PoolKind,
    pub(crate) cpus: CpuSet,
    pub(crate) node: Option<u32>,
    pub(crate) strict: bool,
    pub(crate) nice: i32,
    pub(crate) effective_nice: Option<i32>,
    pub(crate) workers: Vec<WorkerSnapshot>,
    /// Thread ids of idle workers, the most recently idle first.
    pub(crate) idle: Vec<i32>,
    pub(crate) creating: bool,
    /// The real CPUs that the workers are bound to, and how many of them may run at a time.
    pub(crate) binding: CpuSet,
    pub(crate) target: u32,
    pub(crate) running: u32,
    /// Items that are ready to run.
    pub(crate) waiting: usize,
    pub(crate) stats: PoolStats,
    pub(crate) runs: Vec<RunSnapshot>,
    pub(crate) pwqs: Vec<PwqSnapshot>,
}

/// One worker.
pub(crate) struct WorkerSnapshot {
    pub(crate) id: u32,
    /// 0: it has not begun.
    pub(crate) tid: i32,
    pub(crate) doing: &'static str,
}

/// One item in execution. Functions are addresses here and everywhere.
pub(crate) struct RunSnapshot {
    pub(crate) pwq: u32,
    /// The queue's identity.
    pub(crate) front: usize,
    pub(crate) tid: i32,
    pub(crate) rescuer: bool,
    pub(crate) func: usize,
    pub(crate) for_ns: u64,
    /// What runs right after it on the same worker.
    pub(crate) scheduled: Vec<usize>,
}

/// One pool workqueue.
pub(crate) struct PwqSnapshot {
    pub(crate) place: u32,
    pub(crate) queue: String,
    pub(crate) flags: String,
    pub(crate) active: usize,
    pub(crate) in_flight: usize,
    pub(crate) mayday: bool,
    /// On the worklist; the first [`MOST_LISTED`].
    pub(crate) pending: Vec<usize>,
    /// The first as many.
    pub(crate) inactive: Vec<usize>,
    pub(crate) nr_inactive: usize,
}

/// So many items of a list are copied out: the pool's lock is held meanwhile.
pub(crate) const MOST_LISTED: usize = 1000;

/// How far a pool has got: the same as long as nothing is started while something waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    started: u64,
    first_waiting: usize,
}

#[cfg(all(test, not(cmwq_loom)))]
impl Progress {
    pub(crate) fn for_test(started: u64) -> Self {
        Progress {
            started,
            first_waiting: 0,
        }
    }
}

pub(super) fn address(func: Option<WorkFn>) -> usize {
    func.map_or(0, |func| func as usize)
}

fn funcs(list: &List) -> Vec<usize> {
    let listed = list.iter().take(MOST_LISTED);
    listed.map(|item| address(item.func())).collect()
}

impl PoolGuard<'_> {
    /// `None`: nothing waits here that should have started: on a pod whose CPUs all compute, waiting is in order, however
    /// long the items are.
    pub(crate) fn progress(&mut self) -> Option<Progress> {
        self.drain();
        if self.kind() == PoolKind::Unbound && self.running >= self.target {
            return None;
        }
        let first_waiting = self.worklist.iter().next().map(RawWork::address)?;
        Some(Progress {
            started: self.stats.started,
            first_waiting,
        })
    }
}

#[cfg(all(test, not(cmwq_loom)))]
impl PoolGuard<'_> {
    /// How many items are in execution, if nobody is about to start another one.
    pub(crate) fn items_running_if_settled(&mut self) -> Option<usize> {
        self.drain();
        let may_start = !self.worklist.is_empty() && self.running < self.target;
        let settled = self.searching == 0 && !self.creating && !may_start;
        settled.then(|| self.busy.iter().count())
    }
}

fn worker((id, slot): (u32, &WorkerSlot)) -> WorkerSnapshot {
    WorkerSnapshot {
        id,
        tid: slot.handle.tid.load(Ordering::Relaxed) as i32,
        doing: match slot.state {
            WorkerState::Starting => "starting",
            WorkerState::Idle { .. } => "idle",
            WorkerState::Searching => "searching",
            WorkerState::Busy(Busy::Running) => "running",
            WorkerState::Busy(Busy::Blocked) => "blocked",
            WorkerState::Busy(Busy::CpuIntensive) => "cpu_intensive",
            WorkerState::Away => "helping",
        },
    }
}

impl Pool {
    pub(crate) fn snapshot(self: &Arc<Self>) -> PoolSnapshot {
        let now = clock::coarse_ns();
        let effective_nice = self.effective_nice();
        let mut guard = self.lock();
        guard.drain();
        let tid_of = |id: &u32| guard.workers[*id].handle.tid.load(Ordering::Relaxed) as i32;
        let runs = guard.busy.iter().map(|run| RunSnapshot {
            pwq: run.pwq,
            front: guard.pwqs[run.pwq].front_id(),
            tid: run.by.tid,
            rescuer: run.by.rescuer,
            func: address(run.func),
            for_ns: now.saturating_sub(run.since_ns),
            scheduled: funcs(&run.scheduled),
        });
        let in_lanes = guard.pwqs.iter().flat_map(|(place, pwq)| {
            let running = pwq.lanes.iter().filter_map(|lane| lane.running());
            running.map(move |(func, tid, since_ns)| RunSnapshot {
                pwq: place,
                front: pwq.front_id(),
                tid,
                rescuer: false,
                func,
                for_ns: now.saturating_sub(since_ns),
                scheduled: Vec::new(),
            })
        });
        let runs = runs.chain(in_lanes);
        let mut pending: HashMap<u32, Vec<usize>> = HashMap::new();
        for item in guard.worklist.iter().take(MOST_LISTED) {
            let own = pending.entry(item.place().pwq()).or_default();
            own.push(address(item.func()));
        }
        let pwqs = guard.pwqs.iter().map(|(place, pwq)| PwqSnapshot {
            place,
            queue: pwq.front.name().to_owned(),
            flags: pwq.front.flags(),
            active: pwq.nr_active(),
            in_flight: pwq.nr_in_flight(),
            mayday: pwq.mayday,
            pending: pending.remove(&place).unwrap_or_default(),
            inactive: funcs(&pwq.inactive),
            nr_inactive: pwq.inactive.len(),
        });
        PoolSnapshot {
            id: self.id,
            kind: self.attrs.kind,
            cpus: self.attrs.cpus.clone(),
            node: self.attrs.place.node,
            strict: self.attrs.strict,
            nice: self.attrs.nice,
            effective_nice,
            workers: guard.workers.iter().map(worker).collect(),
            idle: guard.idle.iter().rev().map(tid_of).collect(),
            creating: guard.creating,
            binding: (*guard.binding).clone(),
            target: guard.target,
            running: guard.running,
            waiting: guard.worklist.len(),
            stats: guard.stats(),
            runs: runs.collect(),
            pwqs: pwqs.collect(),
        }
    }
}

impl PoolSnapshot {
    /// Whether a worker is not idle or something waits.
    pub(crate) fn is_busy(&self) -> bool {
        !self.runs.is_empty() || self.pwqs.iter().any(|pwq| pwq.in_flight > 0)
    }
}
