//! The state of an engine's pools and pods at one moment.

use super::state::ScopeState;
use crate::engine::Engine;
use crate::pool::{Pool, PoolState};
use crate::topology::CpuSet;
use cmwq_topology::affinity::AffinityScope;
use std::sync::Arc;

impl Engine {
    /// Charges the CPU time of workers to the queues whose items it finds them running. One thread
    /// calls this every few milliseconds. As in the kernel this takes samples: it is right on
    /// average and costs the workers nothing. It includes the time in which workers search for
    /// work. It does not include items that rescuers run, nor those that a joining thread runs
    /// itself. The first call only starts the accounting. Returns whether anything has run since
    /// the last call.
    pub fn account_cpu_time(&self) -> bool {
        if self.is_inherited() {
            return false;
        }
        let pools = self.pools();
        pools.iter().filter(|pool| pool.account_cpu_time()).count() > 0
    }

    /// Returns the state of every pool, in the order of their numbers. In the child of a fork the
    /// list is empty.
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

    /// Returns the pods of every affinity scope.
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
    let runs = seen.runs.into_iter().map(|run| run.state);
    let mut state = seen.state;
    (state.users, state.runs) = (users, runs.collect());
    if let Some(effective) = effective {
        state.cpus = effective;
    }
    state
}
