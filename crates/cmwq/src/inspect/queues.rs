//! The state of a queue at one moment.

use super::state::{NodeState, PwqState, QueueState, QueueTimes, RescuerState, RoomState};
use crate::engine::epochs;
use crate::pool::{QueueStats, WaitingBound};
use crate::sys::{clock, thread};
use crate::workqueue::{ConcurrencyGroup, WqCore};
use cmwq_trace::LatencyHistogram;

impl WqCore {
    pub(super) fn state(&self, enqueue: LatencyHistogram) -> QueueState {
        let members = self.members();
        let mut stats = QueueStats::default();
        let mut times = QueueTimes {
            longest_waiting_ns: self.sampler.longest_wait_ns(clock::now_ns()),
            ..QueueTimes::default()
        };
        let mut pwqs = Vec::with_capacity(members.len());
        let mut active_of = vec![0; self.limits.len()];
        let mut counted = Vec::with_capacity(members.len());
        for pwq in &members {
            let mut guard = pwq.pool.lock_accepting();
            let own = guard.pwq_stats(pwq.key);
            let longest_ns = guard.add_times(pwq.key, &mut times.wait, &mut times.run);
            times.longest_running_ns = times.longest_running_ns.max(longest_ns);
            let (active, inactive, retired) = guard.pwq_counts(pwq.key);
            if !counted.contains(&pwq.pool.id) {
                counted.push(pwq.pool.id);
                stats.lock_waits += guard.lock_waits();
            }
            drop(guard);
            stats.add(&own);
            active_of[pwq.node] += active;
            pwqs.push(PwqState {
                pool: pwq.pool.id,
                active,
                inactive,
                retired,
            });
        }
        let room = self.room.as_deref();
        stats.refused = room.map_or(0, WaitingBound::refused);
        let unbound = self.kind.is_unbound();
        let topology = self.engine.topology();
        let nodes = topology.nodes().iter().map(|(node, _)| Some(*node));
        let nodes = nodes.chain([None]).zip(self.limits.values()).zip(active_of);
        let nodes = nodes.map(|((node, max_active), active)| NodeState {
            node,
            active,
            max_active,
        });
        let (attrs, default_pool) = self.attrs_and_default_pool();
        QueueState {
            serial: self.serial,
            name: self.name.clone(),
            kind: self.kind,
            flags: format!("{}{}", self.kind, self.flags),
            rescuer: self.rescuer_state(),
            attrs,
            max_active: self.limits.max_active(),
            min_active: self.limits.min_active(),
            room: room.map(|room| RoomState {
                waiting: room.waiting(),
                max_waiting: room.bound(),
            }),
            cpu_pool: self.cpu_pool(),
            default_pool: default_pool.filter(|_| unbound),
            nodes: if unbound { nodes.collect() } else { Vec::new() },
            pwqs,
            stats,
            group: self.limits.group().map(ConcurrencyGroup::state),
            times,
            enqueue,
        }
    }

    fn rescuer_state(&self) -> Option<RescuerState> {
        let tid = self.rescuer.as_ref()?.tid();
        let cpus = match tid {
            0 => self.engine.resting_place(),
            tid => thread::binding_of(tid).unwrap_or_default(),
        };
        Some(RescuerState { tid, cpus })
    }

    /// Returns, for each CPU number, the pool to which an item goes that is queued from that CPU. A
    /// CPU that does not exist has `None`.
    fn cpu_pool(&self) -> Vec<Option<u32>> {
        let pin = epochs().pin(0);
        let slots = self.slots.get().into_iter().flatten().enumerate();
        let exists = self.engine.topology().cpus();
        slots
            .map(|(cpu, slot)| exists.contains(cpu).then(|| slot.load(&pin).pool.id))
            .collect()
    }
}
