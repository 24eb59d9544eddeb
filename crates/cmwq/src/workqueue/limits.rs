//! `max_active`: how many items of a queue may be active, per NUMA node, and who waits for a place.

use super::attrs::{WQ_DFL_MIN_ACTIVE, WorkqueueAttrs};
use super::pwq::Pwq;
use crate::engine::Engine;
use crate::pool::NodeLimit;
use crate::sys::sync::Mutex;
use crate::topology::CpuSet;
use std::collections::VecDeque;
use std::sync::Arc;

/// The limits of one queue: one per node, and a last one for pools that lie on no single node.
pub(super) struct Limits {
    nodes: Vec<Node>,
    numbers: Mutex<Numbers>,
}

struct Numbers {
    max_active: usize,
    min_active: usize,
}

struct Node {
    limit: Arc<NodeLimit>,
    /// The limit as it is now.
    value: Mutex<i32>,
    /// Pool workqueues with inactive items: each in turn gets one credit (round robin, not global FIFO).
    waiting: Mutex<VecDeque<Arc<Pwq>>>,
}

impl Limits {
    pub(super) fn new(engine: &Engine, attrs: &WorkqueueAttrs, max_active: usize) -> Self {
        let numbers = Numbers {
            max_active,
            min_active: max_active.min(WQ_DFL_MIN_ACTIVE),
        };
        let nodes = node_limits(engine, attrs, &numbers)
            .map(|value| Node {
                limit: Arc::new(NodeLimit::new(value, 1)),
                value: Mutex::new(value),
                waiting: Mutex::new(VecDeque::new()),
            })
            .collect();
        Limits {
            nodes,
            numbers: Mutex::new(numbers),
        }
    }

    /// Which limit a pool of these CPUs counts against.
    pub(super) fn node_of(&self, engine: &Engine, cpus: &CpuSet) -> usize {
        engine.node_index(cpus).unwrap_or(self.nodes.len() - 1)
    }

    pub(super) fn of(&self, node: usize) -> Arc<NodeLimit> {
        self.nodes[node].limit.clone()
    }

    pub(super) fn max_active(&self) -> usize {
        self.numbers.lock().max_active
    }

    pub(super) fn set_max_active(
        &self,
        engine: &Engine,
        attrs: &WorkqueueAttrs,
        max_active: usize,
    ) {
        {
            let mut numbers = self.numbers.lock();
            numbers.max_active = max_active;
            // A lowered limit takes min_active with it; raising does not bring it back.
            numbers.min_active = numbers.min_active.min(max_active);
        }
        self.recompute(engine, attrs);
    }

    /// Computes the nodes' limits anew.
    pub(super) fn recompute(&self, engine: &Engine, attrs: &WorkqueueAttrs) {
        let numbers = self.numbers.lock();
        for (node, value) in self.nodes.iter().zip(node_limits(engine, attrs, &numbers)) {
            let mut now = node.value.lock();
            node.limit.give(value - *now);
            *now = value;
        }
    }

    /// Fits the portions of credits to the number of pool workqueues that share a limit.
    pub(super) fn share_among(&self, members: &[Arc<Pwq>]) {
        for (index, node) in self.nodes.iter().enumerate() {
            let holders = members.iter().filter(|pwq| pwq.node == index).count();
            node.limit.set_portion(*node.value.lock(), holders);
        }
    }

    /// Enters a pool workqueue among those who wait.
    pub(super) fn wait(&self, pwq: &Arc<Pwq>) {
        self.nodes[pwq.node].waiting.lock().push_back(pwq.clone());
    }

    /// Takes back all credits that are held and not used.
    pub(super) fn collect(&self, members: &[Arc<Pwq>]) {
        for pwq in members {
            pwq.pool.lock().collect_credits(pwq.key);
        }
    }

    /// Gives free credits of a node to those who wait, one each in turn.
    pub(super) fn serve(&self, node: usize) {
        let node = &self.nodes[node];
        let mut waiting = node.waiting.lock();
        while !waiting.is_empty() && node.limit.take(1) == 1 {
            let Some(pwq) = waiting.pop_front() else {
                break;
            };
            let more = pwq.pool.lock().activate_one(pwq.key);
            if more {
                waiting.push_back(pwq);
            }
        }
    }

    pub(super) fn serve_all(&self) {
        for node in 0..self.nodes.len() {
            self.serve(node);
        }
    }
}

/// each node's share of `max_active` by its CPUs, but never less than `min_active`.
fn node_limits<'a>(
    engine: &'a Engine,
    attrs: &WorkqueueAttrs,
    numbers: &Numbers,
) -> impl Iterator<Item = i32> + use<'a> {
    let effective = engine.effective_mask(attrs);
    let total = effective.len();
    let (max, min) = (numbers.max_active, numbers.min_active);
    let share = move |cpus: &CpuSet| {
        let here = cpus.intersection(&effective).len();
        if total == 0 {
            min
        } else {
            (max * here).div_ceil(total).clamp(min, max)
        }
    };
    let nodes = engine
        .topology()
        .nodes()
        .iter()
        .map(move |(_, cpus)| share(cpus));
    nodes.chain([max]).map(|limit| limit as i32)
}
