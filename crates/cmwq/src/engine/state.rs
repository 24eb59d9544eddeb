//! What an engine is at one moment, and who else has one.

use super::{Engine, EngineCore};
use crate::affinity::AffinityScope;
use crate::observe::{PoolCounts, PoolFor, PoolState, RunState, ScopeState, WorkerState};
use crate::pool::{Pool, PoolKind};
use crate::sys::fork::{ProcessLock, ProcessMutex};
use crate::topology::CpuSet;
use std::sync::{Arc, Weak};

/// All engines of the process, the oldest first.
static ENGINES: ProcessMutex<Vec<Weak<EngineCore>>> =
    ProcessMutex::new(ProcessLock::Engines, Vec::new(), || ENGINES.hold());

pub(super) fn enter(core: &Arc<EngineCore>) {
    let mut engines = ENGINES.lock();
    engines.retain(|engine| engine.strong_count() > 0);
    engines.push(Arc::downgrade(core));
}

impl Engine {
    /// All engines of the process that are in use, the oldest first: the [global](Self::global) one, if it was built, and those that the
    /// program has built for itself. In a fork's child: those that it has built.
    pub fn all() -> Vec<Engine> {
        // Upgraded while the lock is held, dropped when it is not: the last handle of an engine may be among them.
        let all: Vec<Engine> = ENGINES
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .map(Engine)
            .collect();
        all.into_iter()
            .filter(|engine| !engine.is_inherited())
            .collect()
    }

    /// Unlike everything else about it, no other engine of the process has or had it.
    pub fn serial(&self) -> u64 {
        self.0.serial
    }

    /// Charges the CPU time of workers to the queues whose items they are found running: to be called every few milliseconds, by one
    /// thread. As in the kernel this is a matter of looking now and then: right on average, and free for those who run. The time in which
    /// workers look for work is in it; what rescuers run, and threads that wait for an item themselves, is not. The first call only
    /// begins. Tells whether anything has run since the last call.
    pub fn charge_cpu_time(&self) -> bool {
        if self.is_inherited() {
            return false;
        }
        let pools = self.pools();
        pools.iter().filter(|pool| pool.charge_cpu_time()).count() > 0
    }

    /// The state of every pool, by number. In a fork's child: none.
    pub fn pool_states(&self) -> Vec<PoolState> {
        if self.is_inherited() {
            return Vec::new();
        }
        let mut pools: Vec<(Arc<Pool>, Option<CpuSet>, usize)> = {
            let table = self.0.pools.lock();
            let entries = table.pools.iter();
            entries
                .map(|(key, entry)| (entry.pool.clone(), key.effective.clone(), entry.users))
                .collect()
        };
        pools.sort_by_key(|(pool, ..)| pool.id);
        let states = pools
            .into_iter()
            .map(|(pool, effective, users)| pool_state(&pool, effective, users));
        states.collect()
    }

    /// The pods of every scope.
    pub fn scope_states(&self) -> Vec<ScopeState> {
        let numbers = self.topology().max_cpu() + 1;
        let states = AffinityScope::CONCRETE.map(|scope| {
            let pods = self.pods(scope);
            ScopeState {
                scope,
                pods: pods
                    .pods()
                    .iter()
                    .map(|pod| (pod.cpus.clone(), pod.node))
                    .collect(),
                cpu_pod: (0..numbers).map(|cpu| pods.pod_of(cpu)).collect(),
            }
        });
        states.into()
    }
}

fn pool_state(pool: &Arc<Pool>, effective: Option<CpuSet>, users: usize) -> PoolState {
    let seen = pool.snapshot();
    let workers = seen.workers.iter().map(|worker| WorkerState {
        id: worker.id,
        tid: worker.tid,
        doing: worker.doing,
    });
    PoolState {
        id: seen.id,
        kind: match seen.kind {
            PoolKind::Unbound => PoolFor::Unbound,
            PoolKind::PerCpu(cpu) => PoolFor::PerCpu(cpu),
            PoolKind::Bh(cpu) => PoolFor::Bh(cpu),
        },
        users,
        nice: seen.nice,
        effective_nice: seen.effective_nice,
        cpus: effective.unwrap_or_else(|| seen.cpus.clone()),
        pod: seen.cpus,
        strict: seen.strict,
        node: seen.node,
        binding: seen.binding,
        target: seen.target as usize,
        running: seen.running as usize,
        waiting: seen.waiting,
        workers: workers.collect(),
        runs: seen
            .runs
            .into_iter()
            .map(|run| RunState {
                tid: run.tid,
                rescuer: run.rescuer,
                queue: run.front,
                func: run.func,
                for_ns: run.for_ns,
                scheduled: run.scheduled,
            })
            .collect(),
        stats: PoolCounts {
            started: seen.stats.started,
            completed: seen.stats.completed,
            wakeups: seen.stats.wakeups,
            helps: seen.stats.helps,
            lock_waits: seen.stats.lock_waits,
            workers_created: seen.stats.workers_created,
            create_failures: seen.stats.create_failures,
            blocked_seen: seen.stats.blocked_seen,
            panics: seen.stats.panics,
        },
    }
}
