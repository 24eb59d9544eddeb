//! The state of an engine's pools and pods at one moment.

use super::state::{PoolCounts, PoolFor, PoolState, RunState, ScopeState, WorkerState};
use crate::affinity::AffinityScope;
use crate::engine::Engine;
use crate::pool::{Pool, PoolKind};
use crate::topology::CpuSet;
use std::sync::Arc;

impl Engine {
    /// Charges the CPU time of workers to the queues whose items they are found running. One thread calls this every few milliseconds. As
    /// in the kernel it samples: right on average, without cost for workers. It includes the time in which workers search for work, but not
    /// runs of rescuers and caller-runs joins. The first call only starts the accounting. Returns whether anything has run since the last
    /// call.
    pub fn account_cpu_time(&self) -> bool {
        if self.is_inherited() {
            return false;
        }
        let pools = self.pools();
        pools.iter().filter(|pool| pool.account_cpu_time()).count() > 0
    }

    /// The state of every pool, by number. In a fork's child: none.
    pub fn pool_states(&self) -> Vec<PoolState> {
        if self.is_inherited() {
            return Vec::new();
        }
        let states = self
            .pools_and_users()
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
    let name_of = |pwq: u32| {
        let pwq = seen.pwqs.iter().find(|own| own.place == pwq);
        pwq.map_or_else(String::new, |pwq| pwq.queue.clone())
    };
    let runs = seen.runs.iter().map(|run| RunState {
        tid: run.tid,
        rescuer: run.rescuer,
        queue: run.front,
        func: run.func,
        description: match &run.description {
            Some(description) => description.clone(),
            None => name_of(run.pwq),
        },
        for_ns: run.for_ns,
        scheduled: run.scheduled.clone(),
    });
    PoolState {
        id: seen.id,
        kind: match seen.kind {
            PoolKind::Unbound => PoolFor::Unbound,
            PoolKind::PerCpu(cpu) => PoolFor::PerCpu(cpu),
            PoolKind::Bh(cpu) => PoolFor::Bh(cpu),
        },
        flags: seen.flags,
        manager: seen.manager,
        hung_ns: seen.hung_ns,
        users,
        nice: seen.nice,
        effective_nice: seen.effective_nice,
        cpus: effective.unwrap_or_else(|| seen.cpus.clone()),
        pod: seen.cpus.clone(),
        strict: seen.strict,
        node: seen.node,
        binding: seen.binding.clone(),
        target: seen.target as usize,
        running: seen.running as usize,
        waiting: seen.waiting,
        workers: workers.collect(),
        runs: runs.collect(),
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
