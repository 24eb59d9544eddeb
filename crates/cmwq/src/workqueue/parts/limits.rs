//! `max_active`: how many items of a queue may be active, per NUMA node or per CPU, and which pool
//! workqueues wait for a *credit* (the right of one item to be active).

use super::attrs::{WQ_DFL_MIN_ACTIVE, WorkqueueAttrs};
use super::group::ConcurrencyGroup;
use super::kind::WorkqueueKind;
use super::node::{Node, Served, collect, is_used_up};
use super::pwq::Pwq;
use crate::engine::Engine;
use crate::pool::{NodeLimit, Pool, PoolFor, PwqKey};
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicUsize;
use crate::sys::sync::Mutex;
use crate::topology::CpuSet;
use std::sync::Arc;

/// The limits of one queue. An unbound queue has one limit for each node, and a last one for pools
/// that lie on no single node. A per-CPU queue has one limit for each CPU.
pub(crate) struct Limits {
    kind: WorkqueueKind,
    nodes: Vec<Arc<Node>>,
    numbers: Mutex<NodeNumbers>,
    /// `max_active`, for issuers.
    max_active: AtomicUsize,
    /// The group whose limit the queue shares with other workqueues.
    group: Option<ConcurrencyGroup>,
}

pub(crate) struct NodeNumbers {
    max_active: usize,
    min_active: usize,
    /// Whether the queue is frozen, so that no item may become active.
    frozen: bool,
}

/// The limit that stands for no limit.
const UNLIMITED: i32 = i32::MAX / 4;

impl Limits {
    pub(crate) fn new(
        engine: &Engine,
        kind: WorkqueueKind,
        attrs: &WorkqueueAttrs,
        max_active: usize,
        group: Option<ConcurrencyGroup>,
    ) -> Self {
        let numbers = NodeNumbers::new(max_active);
        let values = numbers.values(engine, kind, attrs);
        Self::with_values(kind, numbers, values, group)
    }

    pub(crate) fn with_values(
        kind: WorkqueueKind,
        numbers: NodeNumbers,
        values: Vec<i32>,
        group: Option<ConcurrencyGroup>,
    ) -> Self {
        let nodes = values.into_iter();
        Limits {
            kind,
            nodes: nodes
                .map(|value| Node::new(value, group.as_ref().map(ConcurrencyGroup::shared)))
                .collect(),
            max_active: AtomicUsize::new(numbers.max_active),
            numbers: Mutex::new(numbers),
            group,
        }
    }

    pub(crate) fn group(&self) -> Option<&ConcurrencyGroup> {
        self.group.as_ref()
    }

    /// Returns the index of the limit against which the items of a pool count.
    pub(crate) fn node_of(&self, engine: &Engine, pool: &Pool) -> usize {
        match pool.attrs.kind {
            PoolFor::PerCpu(cpu) | PoolFor::Bh(cpu) => cpu,
            PoolFor::Unbound => engine
                .node_index(&pool.attrs.cpus)
                .unwrap_or(self.nodes.len() - 1),
        }
    }

    pub(crate) fn of(&self, node: usize) -> Arc<NodeLimit> {
        self.nodes[node].limit.clone()
    }

    /// The number of limits.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the limits as they are now.
    pub(crate) fn values(&self) -> Vec<usize> {
        let values = self.nodes.iter().map(|node| *node.value.lock());
        values
            .map(|value| usize::try_from(value).unwrap_or(0))
            .collect()
    }

    pub(crate) fn max_active(&self) -> usize {
        self.numbers.lock().max_active
    }

    /// Whether a pool of so many CPUs can have all items active that may be. A hint.
    pub(crate) fn fits_in(&self, cpus: usize) -> bool {
        self.max_active.load(Ordering::Relaxed) <= cpus
    }

    pub(crate) fn min_active(&self) -> usize {
        self.numbers.lock().min_active
    }

    /// Returns `max_active` and `min_active`, if no thread is changing the limits.
    pub(crate) fn try_numbers(&self) -> Option<[usize; 2]> {
        let numbers = self.numbers.try_lock()?;
        Some([numbers.max_active, numbers.min_active])
    }

    pub(crate) fn set_max_active(&self, max_active: usize) {
        let mut numbers = self.numbers.lock();
        numbers.max_active = max_active;
        // Relaxed: a hint.
        self.max_active.store(max_active, Ordering::Relaxed);
        // A lowered limit lowers `min_active` too. Raising the limit does not restore it.
        numbers.min_active = numbers.min_active.min(max_active);
    }

    pub(crate) fn set_min_active(&self, min_active: usize) {
        let mut numbers = self.numbers.lock();
        numbers.min_active = min_active.min(numbers.max_active);
    }

    pub(crate) fn set_frozen(&self, frozen: bool) {
        self.numbers.lock().frozen = frozen;
    }

    /// Computes the limits anew from the numbers, the CPUs and the attributes.
    pub(crate) fn recompute(&self, engine: &Engine, attrs: &WorkqueueAttrs) {
        let numbers = self.numbers.lock();
        self.set_values(numbers.values(engine, self.kind, attrs));
    }

    /// Sets the limits. The caller has to call [`settle`](Self::settle) afterwards.
    pub(crate) fn set_values(&self, values: Vec<i32>) {
        for (node, value) in self.nodes.iter().zip(values) {
            let mut now = node.value.lock();
            node.limit.change(*now, value);
            *now = value;
        }
    }

    /// Makes the pool workqueues follow changed limits. If a limit was lowered, unused credits go
    /// back at once and used ones when their items end. If it was raised, the waiters get credits.
    pub(crate) fn settle(&self, members: &[Arc<Pwq>]) {
        self.share_among(members);
        collect(members);
        self.serve_all();
    }

    /// Whether any item is active. If the limits are 0 and the answer is `false`, no item becomes
    /// active later.
    pub(crate) fn is_any_active(&self, members: &[Arc<Pwq>]) -> bool {
        // The threads that hand credits on are checked first: when they are done, their credits are
        // found in the pools.
        self.nodes.iter().any(|node| node.hands_on())
            || members.iter().any(|pwq| {
                let mut guard = pwq.pool.lock_accepting();
                guard.pwq_load(pwq.key).0 > 0
            })
    }

    /// Whether the items that the thread `tid` runs use up the limit with the index `node` (`None`:
    /// any limit), or the limit of the group. A frozen queue has no limit that could be used up.
    pub(crate) fn is_used_up_by(
        &self,
        members: &[Arc<Pwq>],
        node: Option<usize>,
        tid: i32,
    ) -> bool {
        let counts = |pwq: &&Arc<Pwq>| node.is_none_or(|node| pwq.node == node);
        let limit = node.map_or(1, |node| self.nodes[node].limit.admits());
        is_used_up(limit, members.iter().filter(counts), tid)
            || self.group().is_some_and(|group| group.is_used_up_by(tid))
    }

    /// Adapts how many credits a pool workqueue takes at a time to the number of pool workqueues
    /// that share the limit.
    pub(crate) fn share_among(&self, members: &[Arc<Pwq>]) {
        for (index, node) in self.nodes.iter().enumerate() {
            let holders = members.iter().filter(|pwq| pwq.node == index).count();
            node.limit.set_portion(*node.value.lock(), holders);
        }
    }

    /// Enters a pool workqueue that has an inactive item and no credit among the waiters, and
    /// serves the waiters.
    pub(crate) fn must_wait(&self, members: &[Arc<Pwq>], pool: &Pool, key: PwqKey) {
        let Some(pwq) = members
            .iter()
            .find(|pwq| pwq.pool.id == pool.id && pwq.key == key)
        else {
            return;
        };
        // The waiter is entered first, and then credits are collected: see `pool/queue/credits.rs`.
        self.nodes[pwq.node]
            .line
            .lock()
            .waiting
            .push_back(pwq.clone());
        // The credits of the waiting pool workqueue itself are collected as well, since one of its
        // caller slots may hold one.
        collect(members.iter().filter(|other| other.node == pwq.node));
        self.serve(pwq.node);
    }

    /// Gives free credits of a node to its waiters in turn.
    pub(crate) fn serve(&self, node: usize) {
        let node = &self.nodes[node];
        match &self.group {
            Some(group) => group.serve(Some(node)),
            None => while node.serve_one() == Served::OneOfMore {},
        }
    }

    fn serve_all(&self) {
        for node in 0..self.nodes.len() {
            self.serve(node);
        }
    }
}

impl NodeNumbers {
    pub(crate) fn new(max_active: usize) -> Self {
        NodeNumbers {
            max_active,
            min_active: max_active.min(WQ_DFL_MIN_ACTIVE),
            frozen: false,
        }
    }

    fn values(&self, engine: &Engine, kind: WorkqueueKind, attrs: &WorkqueueAttrs) -> Vec<i32> {
        let topology = engine.topology();
        let cpus = topology.max_cpu() + 1;
        let mut values = match kind {
            WorkqueueKind::Bh => vec![UNLIMITED; cpus],
            WorkqueueKind::PerCpu => vec![self.max_active as i32; cpus],
            WorkqueueKind::Unbound | WorkqueueKind::Ordered => {
                let effective = engine.effective_mask(attrs);
                let nodes = topology.nodes().iter();
                let shares = nodes.map(|(_, cpus)| self.share(cpus, &effective));
                shares.chain([self.max_active as i32]).collect()
            }
        };
        if self.frozen {
            values.fill(0);
        }
        values
    }

    /// Returns a node's share of `max_active` by its CPUs, which is at least `min_active`.
    fn share(&self, cpus: &CpuSet, effective: &CpuSet) -> i32 {
        let here = cpus.intersection(effective).len();
        let share = (self.max_active * here).div_ceil(effective.len().max(1));
        share.clamp(self.min_active, self.max_active) as i32
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::NodeNumbers;
    use crate::Engine;
    use crate::topology::CpuSet;
    use crate::types::WorkqueueAttrs;
    use std::time::{Duration, Instant};

    #[test]
    fn a_node_gets_its_share_for_those_of_its_cpus_that_the_queue_may_use() {
        let numbers = NodeNumbers {
            max_active: 20,
            min_active: 2,
            frozen: false,
        };
        let cpus = |text: &str| -> CpuSet { text.parse().expect("a list of CPUs") };
        let shares = ["0-1", "2-3", "4-5"].map(|node| numbers.share(&cpus(node), &cpus("0-2")));
        assert_eq!(shares, [14, 7, 2]);
    }

    #[test]
    fn credits_that_a_thread_hands_on_may_still_make_items_active() {
        let engine = Engine::builder().build().expect("an engine");
        let queue = engine.workqueue("q").max_active(1).build();
        let queue = queue.expect("legal");
        // One that has waited, and has gone since.
        let gone = queue.core.members().swap_remove(0);
        let attrs = WorkqueueAttrs {
            nice: 1,
            ..queue.attrs()
        };
        queue.apply_attrs(attrs).expect("legal attributes");
        let limits = &queue.core.limits;
        let node = &limits.nodes[gone.node];
        node.line.lock().waiting.push_back(gone.clone());
        let end = Instant::now() + Duration::from_secs(50);
        std::thread::scope(|threads| {
            // The thread that hands the credit on waits for this lock.
            let held = gone.pool.lock();
            threads.spawn(|| limits.serve(gone.node));
            while !limits.is_any_active(&[]) && Instant::now() < end {
                std::thread::yield_now();
            }
            let hands_on = limits.is_any_active(&[]);
            drop(held);
            assert!(
                hands_on,
                "a thread has a credit that no pool workqueue has got yet"
            );
        });
        assert!(!limits.is_any_active(&[]), "it was given back");
    }
}
